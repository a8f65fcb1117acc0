"""Measuring a script on a device that stands idle: leased like a job, for a minute at most."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuconsole.core.containers import CALIBRATION_FOLDER, Engine, Lease
from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.errors import EngineError, UnreachableError
from gpuconsole.session import measuring
from gpuconsole.session.bench import Bench
from gpuconsole.session.kinds import maker_of, runtime_of
from gpuconsole.session.measuring import NotHereError, Progress
from gpuconsole.session.spec import attempt_key, container_name, container_spec
from gpuconsole.state import new_nonce

JOB_PREFIX = "measure-"
"""How the ids of what is no job begin."""
WALL_S = 60
"""Longest time on the device."""
MEMORY_SHARE = 0.5
"""Of the device's memory the measurement may take so much: its batches are small."""


async def measure_on_device(
    bench: Bench,
    task: Task,
    host: Host,
    image: str,
    bundle: Path,
    request: Mapping[str, Any],
    progress: Progress,
) -> bytes:
    """Measure on the first idle device of a host and return the probe's document, with the card
    and its driver. Container and lease are gone afterwards.

    NotHereError where no device is idle, LeaseTakenError where another console was faster; the
    errors of `measuring.on_host`.
    """
    device = _idle(task, host)
    engine = await bench.hosts.engine(host.name)
    progress(0.0, f"taking device {device.index} of {host.name}")
    job = _job(bench, task, host, device, image)
    key = attempt_key(job.id, 1)
    lease = Lease(device.uuid, job.id, key, bench.user, bench.journal.id, bench.clock.now())
    await engine.claim([lease])
    try:
        limit = (device.memory_total_mib or 0.0) * MEMORY_SHARE
        asked = {**request, "limit_mib": int(limit)}
        found = await _run(bench, engine, job, host, bundle, asked, progress)
    finally:
        with contextlib.suppress(UnreachableError, EngineError):
            await engine.release(key, [device.uuid])
    facts = {"backend": device.backend, "card": device.model, "driver": host.facts.driver_version}
    return measuring.with_facts(found, facts)


def _idle(task: Task, host: Host) -> Device:
    """Return the first device of the task's kind that nobody uses."""
    for device in host.devices:
        used = device.processes or device.lost or device.divided
        if device.backend == task.backend and not used:
            return device
    raise NotHereError(
        "No device is idle",
        f"Every device of {host.name} is in use, or of another kind.",
        "Wait until one is idle.",
    )


def _job(bench: Bench, task: Task, host: Host, device: Device, image: str) -> Job:
    """Return what stands for the measurement where devices are given to jobs."""
    nonce = new_nonce()
    job_id = f"{JOB_PREFIX}{nonce}"
    attempt = Attempt(
        number=1,
        host=host.name,
        device_uuids=(device.uuid,),
        device_indexes=(device.index,),
        container_name=container_name(job_id, 1, nonce),
    )
    mounts = tuple(replace(mount, read_only=True) for mount in task.mounts)
    return Job(
        id=job_id,
        task=Task(name="measure", image=image, backend=device.backend, mounts=mounts),
        user=bench.user,
        state=JobState.LAUNCHING,
        submitted_at=bench.clock.now(),
        attempts=(attempt,),
    )


async def _run(
    bench: Bench,
    engine: Engine,
    job: Job,
    host: Host,
    bundle: Path,
    request: Mapping[str, Any],
    progress: Progress,
) -> bytes:
    assert job.attempt is not None
    account = await engine.prepare(CALIBRATION_FOLDER)
    spec = container_spec(
        job,
        job.attempt,
        command=measuring.command(WALL_S),
        image=job.task.image,
        account=account,
        journal=bench.journal.id,
        settings=bench.settings,
        host=host,
        runtime=await runtime_of(maker_of(job.task, job.attempt, host), engine),
    )
    spec = replace(
        spec,
        network="none",
        read_only=True,
        pids_limit=measuring.PIDS,
        memory_limit_mib=measuring.MEMORY_LIMIT_MIB,
        scratch=(measuring.SOURCE_FOLDER, measuring.PROBE_FOLDER),
        memory_folders={measuring.WORKING_DIR: measuring.WRITTEN_MIB},
    )
    return await measuring.in_container(engine, spec, bundle, request, progress)
