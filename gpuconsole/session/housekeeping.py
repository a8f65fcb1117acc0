"""What a session does beside launching jobs, while it is the one that dispatches."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.errors import JournalError
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.limits import Limits
from gpuconsole.session.dispatch.oom_retry import Retrying
from gpuconsole.session.dispatch.stop_rules import StopRules
from gpuconsole.session.dispatch.tuning import Tuning
from gpuconsole.session.interactive.idle_stop import IdleStop
from gpuconsole.session.messages.service import Messages
from gpuconsole.session.queue.dependencies import Order
from gpuconsole.session.report.use_meter import UseMeter
from gpuconsole.session.services.controller import ServiceController
from gpuconsole.session.submit.secrets import Forgetting, forget
from gpuconsole.state import JobMovedError
from gpuconsole.state.backup.backups import Backup, backups, make_backup

if TYPE_CHECKING:
    from gpuconsole.session.elastic.autoscaler import ElasticHosts, Waking

BACKUP_EVERY_S = 3600.0
"""How old the journal's latest copy may be. Of each day only the latest is kept, so that a lost
journal is an hour old and not a day."""
BACKUP_AGAIN_S = 600.0
"""Rest after a copy that could not be made."""


class Housekeeping:
    """Backups, messages, limits, sweeps, services and the rest of the dispatcher's housekeeping."""

    def __init__(
        self,
        context: Context,
        retrying: Retrying,
        waking: Waking | None,
        incidents: Callable[[], Collection[Incident]],
    ) -> None:
        self.messages = Messages(context)
        self._retrying = retrying
        self._waking = waking
        self._idle_stop = IdleStop(context)
        self._forgetting = Forgetting(context)
        self._limits = Limits(context, incidents)
        self._stop_rules = StopRules(context)
        self._tuning = Tuning(context, retrying.preflight)
        self._services = ServiceController(context)
        self._dependants = Dependants(context)
        self._backups = JournalBackups(context)
        self._meter = UseMeter(context)

    def look(self, epoch: int) -> None:
        """Begin what is due; called about once a second. `epoch` is the dispatcher's."""
        self._backups.look()
        self._retrying.look(epoch)
        self._forgetting.look()
        self.messages.look()
        self._limits.look(epoch)
        self._idle_stop.look(epoch)
        self._stop_rules.look(epoch)
        self._tuning.look(epoch)
        self._services.look(epoch)
        self._dependants.look(epoch)
        if self._waking is not None:
            self._waking.look()
        self._meter.look(epoch)

    async def close(self) -> None:
        """End what is under way."""
        await self._idle_stop.close()
        self._meter.close()
        await self._backups.close()
        if self._waking is not None:
            await self._waking.close()
        await self.messages.close()
        await self._retrying.close()
        await self._stop_rules.close()
        await self._tuning.close()
        await self._services.close()


class Dependants:
    """Cancels queued jobs of tasks with `cancel_if_failed` after a failure."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._looked: Sequence[Job] = ()

    def look(self, epoch: int) -> None:
        """Cancel what can never start; called by the dispatcher; `epoch` proves its role."""
        journal = self._context.journal
        jobs = journal.jobs()
        if jobs is self._looked:
            return
        self._looked = jobs
        asking = [
            job
            for job in jobs
            if job.state is JobState.QUEUED and job.task.cancel_if_failed and job.task.after
        ]
        order = Order(jobs) if asking else None
        for job in asking:
            assert order is not None
            reason = order.never(job)
            if reason:
                cause = clean(f"Cancelled before it started: {reason}", 1000)
                cancelled = replace(job, state=JobState.CANCELLED, cause=cause, detail="")
                with contextlib.suppress(JobMovedError):
                    forget(self._context, journal.save(job, cancelled, epoch=epoch))


class JournalBackups:
    """Copies the journal when its latest copy is old enough."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._making: asyncio.Task[Backup] | None = None
        self._next_at: float | None = None

    def look(self) -> None:
        """Do what is to be done now; called each second while this console dispatches."""
        now, folder = self._context.clock.now(), self._context.state
        if self._making is not None:
            self._reap(now)
        elif self._next_at is None:
            latest = next((backup.made_at for backup in backups(folder)), 0.0)
            # One from the future was made by a clock that has been set since.
            self._next_at = latest + BACKUP_EVERY_S if latest <= now else now
        elif now >= self._next_at:
            self._making = asyncio.ensure_future(asyncio.to_thread(make_backup, folder, now))

    async def close(self) -> None:
        """Wait for a copy under way: a thread cannot be stopped, and leaves nothing unfinished."""
        making, self._making = self._making, None
        if making is not None:
            await asyncio.gather(making, return_exceptions=True)

    def _reap(self, now: float) -> None:
        assert self._making is not None
        if not self._making.done():
            return
        making, self._making = self._making, None
        try:
            making.result()
            self._next_at = now + BACKUP_EVERY_S
        except JournalError as error:
            self._next_at = now + BACKUP_AGAIN_S
            with contextlib.suppress(JournalError):
                words = f"{error.title}. {error.message}"
                self._context.journal.tell("error", "journal", words, "warning")


def elastic_hosts(context: Context) -> ElasticHosts | None:
    """Return what follows the hosts that sleep and wake; None where the inventory has none."""
    if not context.power.hosts:
        return None
    # Few labs have such hosts: this room is loaded for them alone.
    from gpuconsole.session.elastic.autoscaler import ElasticHosts

    return ElasticHosts(context)
