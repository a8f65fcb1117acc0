"""After a restore: every host is asked what it has of this journal, before anything waiting starts.

A job that the backup has as waiting may have been started since, so the restore has held it. What
runs is looked after as soon as its host was asked; what was not found on any joins the queue again
when all were.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable
from dataclasses import replace

from gpuconsole.core.fleet import FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, UsageError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.logs.follow import log_file
from gpuconsole.session.restore.jobs_from_containers import (
    FOUND,
    Found,
    adopted,
    found_on,
    is_held,
    started_unseen,
)
from gpuconsole.state.backup.restoration import Restoration

ASK_AGAIN_S = 5.0
"""Seconds before a host is queried again if its engine did not answer."""
LOOK_EVERY_S = 0.2
_LOG = re.compile(r"(\d{1,6})\.log")


class Adoption:
    """Asks the hosts while this console dispatches."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._over = False
        self._present: Restoration | None = None
        self._asking: dict[str, asyncio.Task[list[Found]]] = {}
        self._rest_until: dict[str, float] = {}
        self._found: dict[str, list[Found]] = {}

    def look(self, epoch: int) -> None:
        """Do what is to be done now; called each second while this console dispatches."""
        if self._over:
            return
        self._present = self._context.journal.restoration()
        if self._present is None:
            self._over = True
            return
        answered = self._reap()
        if answered:
            self._take(answered, epoch)
        for name in self.unqueried:
            self._ask(name)
        if self._present is not None and not self.unqueried and self._hosts():
            self._finish(epoch)

    async def close(self) -> None:
        """Stop asking; what was learned is in the journal."""
        asking, self._asking = self._asking, {}
        await cancel_all(asking.values())
        self._over, self._present = False, None

    @property
    def unqueried(self) -> frozenset[str]:
        """Hosts that have not been asked since the restore."""
        present = self._present
        return frozenset(self._hosts()) - present.asked if present is not None else frozenset()

    def _hosts(self) -> dict[str, Host]:
        hosts = self._context.hosts.snapshot().hosts
        return {host.name: host for host in hosts if not host.node}

    def _ask(self, name: str) -> None:
        host = self._hosts()[name]
        resting = self._context.clock.now() < self._rest_until.get(name, 0.0)
        if host.state is HostState.UP and name not in self._asking and not resting:
            self._asking[name] = asyncio.ensure_future(self._answer(host))

    async def _answer(self, host: Host) -> list[Found]:
        engine = await self._context.hosts.engine(host.name)
        own = await engine.own(self._context.journal.id)
        return found_on(host, own, await engine.leases())

    def _reap(self) -> list[str]:
        """Return the hosts that have answered; one that did not is asked again after a rest."""
        answered = []
        for name, task in list(self._asking.items()):
            if not task.done():
                continue
            del self._asking[name]
            try:
                self._found[name] = task.result()
                answered.append(name)
            except ConsoleError:
                self._rest_until[name] = self._context.clock.now() + ASK_AGAIN_S
        return answered

    def _take(self, names: Iterable[str], epoch: int) -> None:
        """Write what hosts have reported. A gang's parts are reported by several: all so far
        count."""
        journal, now = self._context.journal, self._context.clock.now()
        jobs = {job.id: job for job in journal.jobs()}
        by_job: dict[str, list[Found]] = {}
        for found_here in self._found.values():
            for entry in found_here:
                by_job.setdefault(entry.job, []).append(entry)
        changed = [
            adopted(jobs.get(job_id), containers_of_job, now)
            for job_id, containers_of_job in by_job.items()
        ]
        journal.adopt([job for job in changed if job is not None], names, epoch=epoch)
        self._present = journal.restoration()

    def _finish(self, epoch: int) -> None:
        """All hosts have been asked: what ran and is gone from them is known by its log here, what
        is left goes back into the queue."""
        journal = self._context.journal
        held = [job for job in journal.jobs() if is_held(job)]
        ended = [job for job in map(self._started_unseen, held) if job is not None]
        waiting = {job.id: job for job in held}
        for job in ended:
            del waiting[job.id]
        queued = [replace(job, state=JobState.QUEUED, cause="") for job in waiting.values()]
        journal.adopt((*ended, *queued), (), epoch=epoch)
        journal.end_restoration(epoch=epoch)
        self._over, self._present = True, None
        words = "All hosts were asked after the restore; the queue goes on."
        journal.tell("journal", "", words, "information")

    def _started_unseen(self, job: Job) -> Job | None:
        folder = log_file(self._context.state, job.id, 1).parent
        logs = {}
        if folder.is_dir():
            for path in folder.iterdir():
                named = _LOG.fullmatch(path.name)
                if named:
                    logs[int(named[1])] = path.stat().st_mtime
        return started_unseen(job, logs, max(logs.values(), default=0.0))


@dataclass(frozen=True, slots=True)
class Settled:
    """What came of asking hosts after a restore."""

    adopted: tuple[Job, ...]
    """Jobs of which a host knew an attempt that the backup does not have."""
    unreached: tuple[str, ...]
    """Hosts that could not be asked; what was submitted before the restore waits for them."""
    missing: tuple[str, ...]
    """Jobs that were submitted after the backup and are on no host: their packed projects are
    here."""


def begin_adopting(context: Context, without: Collection[str]) -> None:
    """Let the dispatcher ask hosts what they know; those of `without` are taken as asked.

    ReadOnlyError; UsageError where one of them is not in the inventory.
    """
    context.require_writable("Adopting")
    _require_hosts(context.hosts.snapshot(), without)
    context.journal.adopt((), without)


def _require_hosts(snapshot: FleetSnapshot, names: Collection[str]) -> None:
    """Raise UsageError where one of the names is that of no host."""
    unknown = set(names) - {host.name for host in snapshot.hosts}
    if unknown:
        raise UsageError(
            "No such host",
            msg("{name} is not in the inventory.", name=", ".join(sorted(unknown))),
            "",
        )


async def settle(context: Context, wait_s: float) -> Settled:
    """Wait until all hosts have been asked, or those that can be reached; at most `wait_s`.

    Some console must dispatch meanwhile: it does the asking.
    """
    journal, clock = context.journal, context.clock
    deadline = clock.now() + wait_s
    while (present := journal.restoration()) is not None and clock.now() < deadline:
        hosts = [host for host in context.hosts.snapshot().hosts if not host.node]
        waited = [host for host in hosts if host.name not in present.asked]
        if waited and all(host.state is HostState.DOWN for host in waited):
            break
        await clock.sleep(LOOK_EVERY_S)
    names = {host.name for host in context.hosts.snapshot().hosts if not host.node}
    jobs = journal.jobs()
    ids = {job.id for job in jobs}
    bundles = context.bundle("x").parent.glob("*.tar.gz")
    return Settled(
        adopted=tuple(
            job for job in jobs if job.attempt and FOUND in job.attempt.placement_reasons
        ),
        unreached=tuple(sorted(names - present.asked)) if present is not None else (),
        missing=tuple(sorted({path.name.partition(".")[0] for path in bundles} - ids)),
    )
