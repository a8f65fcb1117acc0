"""Measuring a script in a container on a host, in the job's own image.

The container has no network and no rights. It can read the project, the probe and the job's own
folders, and write to folders in memory alone. What is found comes back by its output. A host takes
one measurement at a time, whichever console asks for it.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gpuconsole.core.containers import (
    CALIBRATION_FOLDER,
    LABEL_PREFIX,
    MEASUREMENT,
    TIME_LIMIT_LABEL,
    ContainerSpec,
    Engine,
    HostAccount,
    Lease,
)
from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import (
    EngineError,
    HostBusyError,
    NotHereError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from gpuconsole.session.async_helpers import Work, first, to_its_end
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.container_spec import (
    RESULTS_DIR,
    WORKING_DIR,
    container_spec,
)
from gpuconsole.session.dispatch.attempt.launch_heartbeat import shown
from gpuconsole.session.dispatch.attempt.vendor_runtime import maker_of, runtime_of
from gpuconsole.session.estimate.measurement_run import Progress, followed, pack_probe
from gpuconsole.state import new_nonce

NAME = "gpuconsole-measuring"
"""All measurements of a host have this name there: of two its engine refuses the second."""
PROBE_FOLDER = "/gpuconsole-probe"
SOURCE_FOLDER = "/gpuconsole-project"

WALL_S = 600.0
"""Longest time of a measurement without a device, once it has started."""
PREPARING_S = 300.0
"""Longest time for making the container and putting the project in."""
ENDING_S = 15.0
"""A container without its console ends by itself so long (s) after its time is over."""
BUSY_S = 1800.0
"""Longest wait for the measurements of others."""
BUSY_AGAIN_S = 2.0
FINISH_S = 5.0
"""How long a measurement that is called off waits for the step that it is in."""
CLEARING_S = 60.0
"""How long it waits until its container is removed."""

MEMORY_MIB = 16_384.0
MEMORY_SHARE = 0.5
"""Of the host's free memory a measurement may take so much."""
LEAST_MEMORY_MIB = 2048.0
"""Paddle and a small script need about so much."""
CPUS = 2.0
PIDS = 512
SHARED_MIB = 256.0
LOG_MIB = 256.0
"""On the host's disk; a console reads a quarter of it at most."""
WRITTEN_MIB = {WORKING_DIR: 1024.0, RESULTS_DIR: 256.0, "/tmp": 256.0}
"""Folders in memory that a measured script may write to; they count as its memory."""
_NOBODY = 65_534
"""The account of a measurement that needs no rights of the job's; it owns nothing on the host."""

_JOB, _ATTEMPT, _NONCE = (LABEL_PREFIX + word for word in ("job", "attempt", "nonce"))

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be measured on a host."""

    task: Task
    image: str
    bundle: Path
    """The packed project."""
    request: Mapping[str, object]
    """What the probe is asked."""
    progress: Progress
    patient: bool = True
    """Whether to wait while the host measures for others; else HostBusyError."""
    note: Callable[[str], None] = lambda host: None
    """Hears the host on which a container is made, and "" once that is gone."""
    user: str = ""
    """For whom it is; "" for the session's own user."""
    run_as: str = ""
    """The `uid:gid` of its container; "" for the account, or an unprivileged one if nothing is
    mounted."""


async def measure_on_host(context: Context, host: Host, asked: Asked) -> bytes:
    """Measure without a device and return the probe's document; the container is gone afterwards.

    EngineError, ImageError or UnreachableError of the engine, NotHereError where the host has no
    room for it, RefusedError with what the script or Paddle said where it cannot be measured.
    """
    engine = await ready_engine(context, host, asked)
    job = measuring_job(context, asked, host)

    async def measure() -> bytes:
        spec = await shut_spec(context, engine, host, job, asked, WALL_S)
        return await in_container(context, engine, host, spec, asked, WALL_S)

    return await in_turn(context, host, asked, measure)


async def ready_engine(context: Context, host: Host, asked: Asked) -> Engine:
    """Return the engine of a host that has room for a measurement, and the image."""
    memory_limit_mib(host)
    engine = await context.hosts.engine(host.name)
    asked.progress(0.0, "looking for the image")
    await engine.ensure_image(asked.image, lambda words: asked.progress(0.0, clean(words, 80)))
    return engine


async def in_turn(
    context: Context, host: Host, asked: Asked, measure: Callable[[], Awaitable[T]]
) -> T:
    """Measure once the host measures nothing else; HostBusyError where that takes too long."""
    until = context.clock.now() + (BUSY_S if asked.patient else 0.0)
    while True:
        try:
            return await measure()
        except HostBusyError:
            if context.clock.now() >= until:
                raise
        asked.progress(0.0, msg("waiting for another measurement on {host}", host=host.name))
        await context.clock.sleep(BUSY_AGAIN_S)


def memory_limit_mib(host: Host) -> float:
    """Return how much of a host's memory a measurement may take; NotHereError where that is too
    little to measure with."""
    total, used = host.facts.memory_total_mib, host.facts.memory_used_mib
    if total is None or used is None:
        return LEAST_MEMORY_MIB
    limit = min(MEMORY_MIB, MEMORY_SHARE * (total - used))
    if limit < LEAST_MEMORY_MIB:
        raise NotHereError(
            "Too little memory is free",
            msg(
                "{name} has {value} MiB of memory free. A measurement takes {memory_share} of "
                "that at most, and needs {least_memory_mib} MiB.",
                name=host.name,
                value=f"{max(0.0, total - used):.0f}",
                memory_share=f"{MEMORY_SHARE:.0%}",
                least_memory_mib=f"{LEAST_MEMORY_MIB:.0f}",
            ),
            "Wait until more is free, or measure on another host (--host).",
        )
    return limit


def measuring_job(context: Context, asked: Asked, host: Host, device: Device | None = None) -> Job:
    """Return the job that represents a measurement where containers and devices belong to jobs."""
    job_id = f"{MEASUREMENT}{new_nonce()}"
    attempt = Attempt(
        number=1,
        host=host.name,
        device_uuids=() if device is None else (device.uuid,),
        device_indexes=() if device is None else (device.index,),
        container_name=f"{NAME}-{new_nonce()}",
    )
    mounts = tuple(replace(mount, read_only=True) for mount in asked.task.mounts)
    backend = "cpu" if device is None else device.backend
    env = {"CUDA_VISIBLE_DEVICES": ""} if device is None else {}
    return Job(
        id=job_id,
        task=Task("measure", image=asked.image, backend=backend, mounts=mounts, env=env),
        user=asked.user or context.user,
        state=JobState.LAUNCHING,
        submitted_at=context.clock.now(),
        attempts=(attempt,),
        run_as=asked.run_as,
    )


async def shut_spec(
    context: Context, engine: Engine, host: Host, job: Job, asked: Asked, wall_s: float
) -> ContainerSpec:
    """Return the container of a measurement, which shuts its script in.

    UsageError for a device that only a privileged container can use.
    """
    assert job.attempt is not None
    maker = maker_of(job.task, job.attempt, host)
    if maker is not None and maker.privileged:
        raise UsageError(
            "Not in a shut container",
            msg(
                "Devices of {title} work in privileged containers alone, "
                "and nothing is measured in one.",
                title=maker.title,
            ),
            "Measure by another tier: `--tier traced` needs no device.",
        )
    spec = container_spec(
        job,
        job.attempt,
        command=_command(wall_s),
        image=job.task.image,
        account=await _account(engine, job),
        journal=context.journal.id,
        settings=context.settings,
        host=host,
        runtime=await runtime_of(maker, engine),
    )
    limit_s = PREPARING_S + wall_s + 2 * ENDING_S
    cores = host.facts.cpu_count
    return replace(
        spec,
        name=NAME,
        labels={**spec.labels, TIME_LIMIT_LABEL: f"{limit_s:.0f}"},
        mounts=job.task.mounts,
        network="none",
        read_only=True,
        input_folders=(SOURCE_FOLDER, PROBE_FOLDER),
        memory_folders=WRITTEN_MIB,
        memory_limit_mib=memory_limit_mib(host),
        shm_size_mib=SHARED_MIB,
        pids_limit=PIDS,
        log_mib=LOG_MIB,
        cpus=CPUS if not cores else min(CPUS, float(cores)),
    )


def _command(wall_s: float) -> tuple[str, ...]:
    """Return the command of a measurement's container, which ends by itself where its console is
    gone."""
    limit, probe = f"{wall_s + ENDING_S:.0f}", f"{PROBE_FOLDER}/probe.py"
    return ("timeout", "-k", "5", limit, "python", probe, f"{PROBE_FOLDER}/request.json")


async def _account(engine: Engine, job: Job) -> HostAccount:
    """Return the account for the container: with mounts or devices that of the job itself, which
    may use what it will use then; never root."""
    unprivileged = HostAccount(_NOBODY, _NOBODY, "")
    if not job.task.mounts and job.task.backend == "cpu":
        return unprivileged
    if job.run_as:
        uid, gid = map(int, job.run_as.split(":"))
        return HostAccount(uid, gid, "")
    account = await engine.prepare(CALIBRATION_FOLDER)
    return replace(account, uid=_NOBODY, gid=_NOBODY) if account.uid == 0 else account


async def in_container(
    context: Context,
    engine: Engine,
    host: Host,
    spec: ContainerSpec,
    asked: Asked,
    wall_s: float,
    lease: Lease | None = None,
) -> bytes:
    """Measure in a container that is made for it, with a device that is leased for it. Both are
    given back afterwards, whatever the script does."""
    asked.note(host.name)
    clock = context.clock
    try:
        if lease is not None:
            await to_its_end(engine.claim([lease]), lambda: clock.sleep(FINISH_S))
        container = await to_its_end(engine.create(spec), lambda: clock.sleep(FINISH_S))
        async with shown(context, (engine,)):
            filling = _filled(engine, container, asked)
            await _limited(context, PREPARING_S, filling, f"{host.name} could not begin with it in")
        narrow = (spec.memory_limit_mib or 0.0) < MEMORY_MIB
        log = engine.logs(container, follow=True)
        answer = followed(log, asked.progress, narrow=narrow)
        return await _limited(context, wall_s, answer, f"On {host.name} it did not end in")
    finally:
        with contextlib.suppress(UnreachableError, EngineError):
            await first(_cleared(engine, spec, asked, lease), clock.sleep(CLEARING_S))


async def _cleared(engine: Engine, spec: ContainerSpec, asked: Asked, lease: Lease | None) -> None:
    """Remove the container, however far it came, and give the device back."""
    status = await engine.inspect(spec.name)
    if status is not None and status.labels.get(_NONCE) == spec.labels[_NONCE]:
        await engine.remove(status.id)
    if lease is not None:
        await engine.release(lease.attempt, [lease.uuid])
    asked.note("")


async def clear(context: Context, host: str, *, alone: bool) -> None:
    """Remove what consoles of this journal left of measurements on a host, and give their devices
    back.

    `alone` says that no console of the journal measures now; else only what is overdue goes.
    ConsoleError of the host.
    """
    engine = await context.hosts.engine(host)
    removed = set()
    for status in await engine.own(context.journal.id):
        mine = status.labels.get(_JOB, "").startswith(MEASUREMENT)
        if mine and (alone or status.overdue):
            await engine.remove(status.id)
            removed.add(status.labels.get(_ATTEMPT, ""))
    for lease in await engine.leases():
        mine = lease.journal == context.journal.id and lease.job.startswith(MEASUREMENT)
        if mine and (alone or lease.attempt in removed):
            await engine.release(lease.attempt, [lease.uuid])


async def _filled(engine: Engine, container: str, asked: Asked) -> None:
    """Put the probe and the project in, and start."""
    # The image has the versions of libraries that the job will have.
    places = {"root": WORKING_DIR, "source": SOURCE_FOLDER, "image": True}
    request = {**asked.request, **places}
    with tempfile.TemporaryDirectory(prefix="gpuconsole-") as folder:
        packed = Path(folder) / "probe.tar"
        pack_probe(packed, request)
        await engine.put(container, packed, PROBE_FOLDER)
    await engine.put(container, asked.bundle, SOURCE_FOLDER)
    await engine.start(container)


async def _limited(context: Context, seconds: float, work: Work[T], words: str) -> T:
    """Return the result of work; raises RefusedError, and cancels the work, if it takes longer."""
    results: list[T] = []

    async def doing() -> None:
        results.append(await work)

    if 0 not in await first(doing(), context.clock.sleep(seconds)):
        raise RefusedError(
            "The measurement took too long",
            msg("{words} {seconds} s.", words=words, seconds=f"{seconds:.0f}"),
            "The static tier answers without running the script.",
        )
    return results[0]
