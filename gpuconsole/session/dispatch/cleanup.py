"""Cleanup of what ended attempts left: containers and leases on hosts, old logs and packed projects
here.

`sweep` clears one host after a console that had no time to; `prune_hosts` is the user's command.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import MutableSet, Sequence

from gpuconsole.core.containers import (
    CALIBRATION,
    LABEL_PREFIX,
    MEASUREMENT,
    ContainerStatus,
    Engine,
    Lease,
    PruneResult,
)
from gpuconsole.core.fleet import HostState
from gpuconsole.core.jobs import Job
from gpuconsole.errors import ConsoleError, RefusedError
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.container_spec import attempt_key
from gpuconsole.session.dispatch.attempt.gang import Part
from gpuconsole.session.dispatch.attempt.recovery import may_have_run
from gpuconsole.session.dispatch.job_record import Entry
from gpuconsole.session.estimate.measurement_on_host import clear
from gpuconsole.session.logs.copies import LogCopies
from gpuconsole.session.logs.follow import is_being_copied, log_file
from gpuconsole.session.submit.secrets import prune_values
from gpuconsole.state.files.measurement_turn import free_turn, left_on

PARALLEL = 8
"""Hosts that are pruned at the same time."""


def _in_use(job: Job, status: ContainerStatus) -> bool:
    parts = job.attempt.parts if job.attempt is not None and job.state.active else ()
    return any(part.container_name == status.name for part in parts)


def _is_over(job: Job, status: ContainerStatus) -> bool:
    """Whether a container is a leftover. A job may have gone on elsewhere since its host was lost;
    what still runs of an attempt that was given up for that must not run beside the next."""
    if status.state in ("created", "exited", "dead"):
        return not _in_use(job, status)
    return any(
        part.container_name == status.name
        for attempt in job.attempts
        if attempt.ended_by == "lost-host"
        for part in attempt.parts
    )


async def _give_back(engine: Engine, job: Job | None, status: ContainerStatus, host: str) -> None:
    """Release the devices of an attempt that was given up as lost, which only now has ended: its
    job, or another, need not wait until the claim goes stale."""
    if job is None:
        return
    for attempt in job.attempts:
        # The number of an attempt that never began is used again, by one that may live.
        if attempt.ended_by == "lost-host" and may_have_run(attempt):
            for part in attempt.parts:
                if part.container_name == status.name and part.host == host:
                    key = attempt_key(job.id, attempt.number)
                    await engine.release(key, part.device_uuids)


Devices = MutableSet[tuple[str, str]]
"""Devices by host and UUID."""


async def sweep(
    context: Context, epoch: int, copies: LogCopies, host: str, releasing: Devices
) -> bool:
    """Remove this journal's leases and containers of ended attempts from a host, each container
    once its log is here. Returns whether the engine let it; else it is to be tried again.

    A running container is only touched when its attempt was given up as lost. `releasing` are the
    devices with leases that are being removed: no job may be placed on them meanwhile.
    """
    try:
        engine = await context.hosts.engine(host)
        containers = await engine.own(context.journal.id)
        await _clear_measurements(context, host, containers)
        await _release_left(context, engine, host, containers, releasing)
        # Read after the listing: an attempt begun in between is in the journal by now.
        jobs = {job.id: job for job in context.journal.jobs()}
        settled = True
        for status in containers:
            name = status.labels.get(LABEL_PREFIX + "job", "")
            job = jobs.get(name)
            part = None if job is None else _part_of(job, status, engine, host)
            if status.state == "removing":
                # Somebody's removal may fail, and leaves it dead then.
                settled = False
                continue
            if job is not None and not _is_over(job, status):
                continue
            # Of a dead container, of which a removal has failed, no log can be read.
            if part is not None and status.state not in ("created", "dead"):
                if part.live:
                    await engine.stop(status.id, context.settings.stop_grace)
                entry = Entry(context, epoch, name)
                await copies.finish(entry, part, await copies.last(entry, part))
            elif job is not None or _is_old_calibration(name, status):
                await engine.remove(status.id)
            await _give_back(engine, job, status, host)
    except ConsoleError:
        return False
    return settled


async def _release_left(
    context: Context,
    engine: Engine,
    host: str,
    containers: Sequence[ContainerStatus],
    releasing: Devices,
) -> None:
    """Release the devices that this journal's jobs hold here for no attempt: an engine that stopped
    responding in a launch keeps a lease without a job."""
    leases = await engine.leases()
    jobs = {job.id: job for job in context.journal.jobs()}
    present = {status.labels.get(LABEL_PREFIX + "attempt", "") for status in containers}
    for lease in leases:
        job = jobs.get(lease.job) if lease.journal == context.journal.id else None
        if job is None or lease.attempt in present or _holds(job, lease, host):
            continue
        device = (host, lease.uuid)
        releasing.add(device)
        try:
            await engine.release(lease.attempt, [lease.uuid])
        finally:
            releasing.discard(device)


def _holds(job: Job, lease: Lease, host: str) -> bool:
    """Whether a lease is that of a job's present attempt."""
    attempt = job.attempt
    if attempt is None or not job.state.active:
        return False
    return lease.attempt == attempt_key(job.id, attempt.number) and any(
        part.host == host and lease.uuid in part.device_uuids for part in attempt.parts
    )


def _part_of(job: Job, status: ContainerStatus, engine: Engine, host: str) -> Part | None:
    """Return the part of a job's attempt that has this container; None if no attempt has it."""
    return next(
        (
            Part(rank, part, engine, status)
            for attempt in job.attempts
            for rank, part in enumerate(attempt.parts)
            if part.container_name == status.name and part.host == host
        ),
        None,
    )


def _is_old_calibration(name: str, status: ContainerStatus) -> bool:
    """Tell whether a container is left of a calibration, which is no job. One that has not started
    may be another console's."""
    return name.startswith(CALIBRATION) and status.state in ("exited", "dead")


async def _clear_measurements(
    context: Context, host: str, containers: Sequence[ContainerStatus]
) -> None:
    """Remove what a console that was killed left of a measurement. Whether one of this journal's
    consoles measures now, the lock tells that its process holds."""
    names = (status.labels.get(LABEL_PREFIX + "job", "") for status in containers)
    if left_on(context.state) != host and not any(name.startswith(MEASUREMENT) for name in names):
        return
    with free_turn(context.state) as turn:
        await clear(context, host, alone=turn is not None)
        if turn is not None and turn.left_on == host:
            turn.note("")


async def prune_ended(context: Context, user: str = "") -> dict[str, PruneResult]:
    """Prune every reachable host, as `prune_hosts` does. RefusedError after a restoration of the
    journal while some hosts were not queried: what is left there shows what the journal lost."""
    if context.journal.restoration() is not None:
        raise RefusedError(
            "Hosts were not all asked",
            "The journal was restored; what ended jobs left tells what it does not know.",
            "Run `gpuconsole journal adopt` first.",
        )
    return await prune_hosts(context, user)


async def prune_hosts(context: Context, user: str = "") -> dict[str, PruneResult]:
    """Prune every reachable host, and here the packed projects and logs of jobs that ended longer
    ago than the lab keeps them. With a `user` only what that one's jobs left on hosts, and what
    belongs to no job of the journal.

    Results folders stay. A host that cannot be asked is not in the answer; EngineError and
    UnreachableError of one never keep another from being pruned.
    """
    keep = frozenset(
        job.id
        for job in context.journal.jobs()
        if _is_needed(context, job) or user not in ("", job.user)
    )
    hosts = [host for host in context.hosts.snapshot().hosts if not host.node]
    names = [host.name for host in hosts if host.state is not HostState.DOWN]
    slots = asyncio.Semaphore(PARALLEL)
    done: dict[str, PruneResult] = {}

    async def one(name: str) -> None:
        async with slots:
            try:
                engine = await context.hosts.engine(name)
                done[name] = await engine.prune(keep, context.journal.id)
            except ConsoleError as error:
                context.journal.tell("host", name, f"Not pruned. {error.message}", "warning")

    await asyncio.gather(*(one(name) for name in names))
    if not user:
        prune_values(context)
        _remove_old_files(context)
    return {name: done[name] for name in names if name in done}


def _is_needed(context: Context, job: Job) -> bool:
    """Whether a job goes on, or the log of an attempt is still being copied."""
    return not job.state.ended or any(
        is_being_copied(log_file(context.state, job.id, attempt.number, rank))
        for attempt in job.attempts
        for rank in range(len(attempt.parts))
    )


def _remove_old_files(context: Context) -> None:
    oldest = context.clock.now() - context.settings.retention.jobs
    for job in context.journal.jobs():
        if job.state.ended and (job.ended_at or job.submitted_at) < oldest:
            context.bundle(job.id).unlink(missing_ok=True)
            shutil.rmtree(log_file(context.state, job.id, 1).parent, ignore_errors=True)
