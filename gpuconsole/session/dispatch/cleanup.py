"""Cleanup of what ended attempts left: containers and leases on hosts, old logs and packed projects
here.

`Sweeping` clears hosts after a console that had no time to; `prune_hosts` is the user's command.
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
from gpuconsole.core.engines.device_requests import DEVICES_LABEL
from gpuconsole.core.fleet import HostState
from gpuconsole.core.jobs import Job
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, EngineError, RefusedError
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
REFUSED_S = 30.0
"""How long an engine may fail to remove a container before that is reported: once is common."""


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


class Refusals:
    """The containers of ended attempts that engines do not remove. Each is reported once, with what
    its engine says and what an administrator can do, and once more when it is gone."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._since: dict[tuple[str, str], float] = {}
        self._reported: set[tuple[str, str]] = set()

    def note(self, host: str, container: str, said: str) -> None:
        """Note that a container is still there, and why; report it if it has been for long."""
        key, now = (host, container), self._context.clock.now()
        if now - self._since.setdefault(key, now) < REFUSED_S or key in self._reported:
            return
        self._reported.add(key)
        words = msg(
            "The engine of {host} does not remove {container}: {why_text}. Its job has ended and "
            "holds no device. An administrator can restart Docker there (`sudo systemctl restart "
            "docker`). If it still refuses: stop Docker, unmount what is mounted below its folder "
            "(`grep /var/lib/docker /proc/mounts`), start it again.",
            host=host,
            container=container,
            why_text=clean(said, 400).rstrip("."),
        )
        self._context.journal.tell("host", host, words, "warning")

    def there(self, host: str, containers: Sequence[ContainerStatus]) -> None:
        """Forget, and report, what is not on a host any more."""
        names = {status.name for status in containers}
        for name, container in list(self._since):
            if name == host and container not in names:
                self.gone(host, container)

    def gone(self, host: str, container: str) -> None:
        """Forget a container that has been removed; report that if it was reported."""
        self._since.pop((host, container), None)
        if (host, container) in self._reported:
            self._reported.remove((host, container))
            words = msg("{container} is removed from {host}.", container=container, host=host)
            self._context.journal.tell("host", host, words, "information")

    def lasting(self, host: str) -> bool:
        """Return whether a container was reported that is still on this host."""
        return any(name == host for name, _ in self._reported)


@dataclass(frozen=True, slots=True)
class Sweeping:
    """What sweeps of a console have in common. `releasing` are the devices with leases that are
    being removed: no job may be placed on them meanwhile."""

    context: Context
    epoch: int
    copies: LogCopies
    releasing: Devices
    refusals: Refusals

    async def sweep(self, host: str) -> bool:
        """Remove this journal's leases and containers of ended attempts from a host, each container
        once its log is here. Returns whether the engine let it; else it is to be tried again.

        A running container is only touched when its attempt was given up as lost. One that the
        engine does not remove keeps no other from being removed.
        """
        context = self.context
        try:
            engine = await context.hosts.engine(host)
            containers = await engine.own(context.journal.id)
            self.refusals.there(host, containers)
            await _clear_measurements(context, host, containers)
            await _release_left(context, engine, host, containers, self.releasing)
            # Read after the listing: an attempt begun in between is in the journal by now.
            jobs = {job.id: job for job in context.journal.jobs()}
            settled = True
            for status in containers:
                job = jobs.get(status.labels.get(LABEL_PREFIX + "job", ""))
                settled = await self._swept(engine, host, job, status) and settled
        except ConsoleError:
            return False
        return settled

    async def _swept(
        self, engine: Engine, host: str, job: Job | None, status: ContainerStatus
    ) -> bool:
        """Remove one container if it is a leftover; False where it is still to go."""
        if status.state == "removing":
            # Somebody's removal may fail, and leaves it dead then.
            if job is not None and not _in_use(job, status):
                self.refusals.note(host, status.name, "its removal does not end")
            return False
        if job is not None and not _is_over(job, status):
            return True
        try:
            await self._remove(engine, host, job, status)
        except EngineError as error:
            if status.state == "dead":
                self.refusals.note(host, status.name, error.message)
            return False
        return True

    async def _remove(
        self, engine: Engine, host: str, job: Job | None, status: ContainerStatus
    ) -> None:
        name = status.labels.get(LABEL_PREFIX + "job", "")
        part = None if job is None else _part_of(job, status, engine, host)
        if status.state == "dead":
            # It holds no device, whether the engine removes it or not.
            await _give_back(engine, job, status, host)
        # Of a dead container, of which a removal has failed, no log can be read.
        if part is not None and status.state not in ("created", "dead"):
            if part.live:
                await engine.stop(status.id, self.context.settings.stop_grace)
            entry = Entry(self.context, self.epoch, name)
            await self.copies.finish(entry, part, await self.copies.last(entry, part))
        elif job is not None or _is_old_calibration(name, status):
            await engine.remove(status.id)
            self.refusals.gone(host, status.name)
        await _give_back(engine, job, status, host)


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
    for lease in leases:
        job = jobs.get(lease.job) if lease.journal == context.journal.id else None
        used = any(_has_device(status, lease) for status in containers)
        if job is None or used or _holds(job, lease, host):
            continue
        device = (host, lease.uuid)
        releasing.add(device)
        try:
            await engine.release(lease.attempt, [lease.uuid])
        finally:
            releasing.discard(device)


def _has_device(status: ContainerStatus, lease: Lease) -> bool:
    """Return whether a container has a lease's device. An attempt that an engine broke off before
    its container was made is made again under the same number, perhaps on another device."""
    devices = status.labels.get(DEVICES_LABEL, "")
    same = status.labels.get(LABEL_PREFIX + "attempt") == lease.attempt
    return same and (not devices or lease.uuid in devices.split(","))


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
