"""Keeps services running: checks their replicas, begins them again, replaces and retires them.

The dispatcher asks it once a second. What it knows of a replica is in the journal, so that the
console which dispatches next goes on from there; checks that are under way begin again there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.services import (
    LEAST_DRAIN_S,
    Replica,
    after_check,
    health_words,
    is_to_restart,
    open_connections,
    replica_name,
)
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration
from gpuconsole.core.wording import msg, sentences
from gpuconsole.errors import ConsoleError, EngineError, JournalError, UnreachableError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.preemption import interrupt
from gpuconsole.session.services.checks import failure, open_tables
from gpuconsole.session.services.replicas import Groups, changes_of, services
from gpuconsole.session.submit.secrets import forget
from gpuconsole.state import JobMovedError, new_job_id

STARTING_S = 1.0
"""How often a replica is asked at most that starts: its users wait for it."""
DRAIN_LOOK_S = 1.0
QUIET_LOOKS = 2
"""Looks in a row that must find no open connection before a replica that leaves is stopped."""


class ServiceController:
    """Looks at all services once a second, while this console dispatches."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._looked: Sequence[Job] = ()
        self._groups: Groups = {}
        self._checks: dict[str, asyncio.Task[None]] = {}
        """By the name of the container that is checked."""
        self._drains: dict[str, asyncio.Task[None]] = {}
        self._reported: dict[tuple[str, str], str] = {}
        """Why replicas of a service could not be added."""

    def look(self, epoch: int) -> None:
        """Do what is due; `epoch` proves the dispatcher's role."""
        journal = self._context.journal
        jobs = journal.jobs()
        if jobs is not self._looked:
            self._looked, self._groups = jobs, services(jobs)
        live = [job for group in self._groups.values() for job in group if not job.state.ended]
        self._follow(live, epoch)
        if not live:
            return
        journal.require_role(epoch)
        for key, group in self._groups.items():
            if not all(job.state.ended for job in group):
                # A job that has moved on meanwhile is looked at again in a second.
                with contextlib.suppress(JobMovedError):
                    self._settle(key, group, epoch)

    async def close(self) -> None:
        """Leave the rest to the next dispatcher."""
        await cancel_all([*self._checks.values(), *self._drains.values()])
        self._checks.clear()
        self._drains.clear()

    def _follow(self, live: Sequence[Job], epoch: int) -> None:
        """Check what runs, and wait for the connections of what leaves."""
        checked: dict[str, Job] = {}
        leaving: dict[str, Job] = {}
        for job in live:
            attempt = job.attempt
            if job.state is not JobState.RUNNING or attempt is None or attempt.ended_by:
                continue
            kind = leaving if job.is_leaving else checked
            if not job.cancel_requested:
                kind[attempt.container_name] = job
        for running, wanted in ((self._checks, checked), (self._drains, leaving)):
            for name in [name for name, task in running.items() if task.done()]:
                del running[name]
            for name in set(running) - set(wanted):
                running.pop(name).cancel()
        for name in set(checked) - set(self._checks):
            watch = self._watch(checked[name].id, name, epoch)
            self._checks[name] = asyncio.ensure_future(watch)
        for name in set(leaving) - set(self._drains):
            drain = self._drain(leaving[name].id, name, epoch)
            self._drains[name] = asyncio.ensure_future(drain)

    def _settle(self, key: tuple[str, str], group: Sequence[Job], epoch: int) -> None:
        """Bring one service to the replicas that it is to have."""
        now = self._context.clock.now()
        for job in group:
            self._go_on(job, now, epoch)
        changes = changes_of(group, self._drained)
        for job, why in changes.leave:
            self._leave(job, why, now, epoch)
        if changes.like is None:
            return
        try:
            for _ in range(changes.add):
                self._add(changes.like, now)
            self._reported.pop(key, None)
        except (ConsoleError, OSError) as error:
            words = error.message if isinstance(error, ConsoleError) else str(error.strerror)
            if self._reported.get(key) != words:
                self._reported[key] = words
                said = f"{key[1]}: no replica can be added: {words}"
                self._context.journal.tell("job", changes.like.id, clean(said, 500), "error")

    def _go_on(self, job: Job, now: float, epoch: int) -> None:
        """Queue a replica at the end of its pause, and end one that leaves and does not run."""
        replica, journal = job.replica, self._context.journal
        if replica is None or job.state not in (JobState.QUEUED, JobState.HELD):
            return
        if replica.leaving_at is not None:
            self._cancel(job, replica.leaving_for, epoch)
        elif replica.restart_at is not None and replica.restart_at <= now:
            begun = replace(job, replica=replace(replica, restart_at=None), queued_at=now)
            journal.save(job, begun, epoch=epoch)

    def _drained(self, host: str) -> str:
        """Return why replicas leave a host: that somebody drains it, not that it is set aside."""
        entry = self._context.hosts.snapshot().host(host)
        if entry is None or not entry.drained or entry.faults:
            return ""
        return msg("{host} is drained: {why_text}.", host=host, why_text=entry.drained)

    def _leave(self, job: Job, why: str, now: float, epoch: int) -> None:
        """Have a replica leave: without new connections, and stopped once it has no old ones."""
        if not job.state.active:
            self._cancel(job, why, epoch)
            return
        leaving = replace(job.replica or Replica(), leaving_at=now, leaving_for=clean(why, 300))
        saved = self._context.journal.save(job, replace(job, replica=leaving), epoch=epoch)
        if saved.state is not JobState.RUNNING and saved.attempt and not saved.attempt.ended_by:
            interrupt(self._context.journal, saved, "retired", why, at=now)

    def _cancel(self, job: Job, why: str, epoch: int) -> None:
        ended = replace(job, state=JobState.CANCELLED, cause=why, detail="")
        forget(self._context, self._context.journal.save(job, ended, epoch=epoch))

    def _add(self, like: Job, now: float) -> None:
        """Queue one more replica, of the same task, project and secrets; held as `like` is."""
        context = self._context
        taken = (job.task.name for job in context.journal.jobs() if job.user == like.user)
        job_id = new_job_id(now)
        task = replace(like.task, name=replica_name(like.task.sweep, taken), after=())
        state = JobState.HELD if like.state is JobState.HELD else JobState.QUEUED
        job = Job(
            id=job_id, task=task, user=like.user, state=state, submitted_at=now,
            queued_at=now, estimate_mib=like.estimate_mib, estimate=like.estimate,
            run_as=like.run_as,
        )  # fmt: skip
        bundle = context.bundle(job_id)
        _copied(context.bundle(like.id), bundle)
        try:
            context.secrets.put([job_id], context.secrets.values(like.id))
            context.journal.add_all([job])
        except BaseException:
            context.secrets.discard(job_id)
            bundle.unlink(missing_ok=True)
            raise

    async def _watch(self, job_id: str, container: str, epoch: int) -> None:
        """Check one container until cancelled. The journal's troubles are the dispatcher's."""
        failed = 0
        with contextlib.suppress(JournalError):
            while (running := self._running(job_id, container)) is not None:
                job, attempt = running
                service = job.task.service
                assert service is not None
                # That the engine cannot be asked says nothing about the replica.
                with contextlib.suppress(UnreachableError, EngineError):
                    engine = await self._context.hosts.engine(attempt.host)
                    said = await failure(engine, attempt.container_id, service)
                    failed = failed + 1 if said else 0
                    self._note(job_id, container, said, failed, epoch)
                waits = job.health.health == "starting"
                pause = min(STARTING_S, service.check.interval_s) if waits else None
                await self._context.clock.sleep(pause or service.check.interval_s)

    def _running(self, job_id: str, container: str) -> tuple[Job, Attempt] | None:
        """Return a replica as long as it runs in that container."""
        job = self._context.journal.job(job_id)
        attempt = job.attempt if job is not None else None
        if job is None or job.state is not JobState.RUNNING or attempt is None:
            return None
        return (job, attempt) if attempt.container_name == container else None

    def _note(self, job_id: str, container: str, said: str, failed: int, epoch: int) -> None:
        """Write what a check has shown, and have a replica begun again that stays unhealthy."""
        running, journal = self._running(job_id, container), self._context.journal
        if running is None:
            return
        job, attempt = running
        service, now = job.task.service, self._context.clock.now()
        if service is None or attempt.ended_by or job.is_leaving:
            return
        before = job.health
        ran_s = now - (attempt.started_at or now)
        replica = after_check(before, service, said, failed, ran_s, now)
        replica = replace(replica, container=container)
        words = health_words(replica, service)
        # What others say of it stays, but for what a check before this one has said.
        said_before = job.detail == health_words(before, service)
        detail = words if words or said_before else job.detail
        if replica != job.replica or job.detail != detail:
            with contextlib.suppress(JobMovedError):
                job = journal.save(job, replace(job, replica=replica, detail=detail), epoch=epoch)
        if replica.health != before.health:
            self._tell(job, replica)
        if is_to_restart(replica, service, now):
            lasted = format_duration(now - replica.since)
            cause = sentences(msg("It was unhealthy for {time}.", time=lasted), words)
            with contextlib.suppress(JobMovedError):
                interrupt(journal, job, "unhealthy", clean(cause, 1000), at=now)

    def _tell(self, job: Job, replica: Replica) -> None:
        said = f". {replica.said}" if replica.said else ""
        words = clean(f"{job.task.name}: {replica.health}{said}", 500)
        bad = replica.health == "unhealthy"
        self._context.journal.tell("job", job.id, words, "warning" if bad else "information")

    async def _drain(self, job_id: str, container: str, epoch: int) -> None:
        """Stop a replica that leaves once it has no connections, or at the end of its time."""
        quiet = 0
        with contextlib.suppress(JournalError):
            while (running := self._running(job_id, container)) is not None:
                job, attempt = running
                service, replica = job.task.service, job.replica
                if service is None or replica is None or replica.leaving_at is None:
                    return
                passed = self._context.clock.now() - replica.leaving_at
                if passed >= LEAST_DRAIN_S:
                    free = await self._is_free(attempt, service.port)
                    quiet = quiet + 1 if free else 0
                if passed >= service.drain_s or quiet >= QUIET_LOOKS:
                    self._retire(job_id, container, epoch)
                    return
                await self._context.clock.sleep(DRAIN_LOOK_S)

    async def _is_free(self, attempt: Attempt, port: int) -> bool:
        """Tell whether nothing is connected to a port of a container; not where that is unknown."""
        try:
            engine = await self._context.hosts.engine(attempt.host)
            tables = await open_tables(engine, attempt.container_id)
        except UnreachableError:
            return False
        return tables is not None and not open_connections(tables, port)

    def _retire(self, job_id: str, container: str, epoch: int) -> None:
        self._context.journal.require_role(epoch)
        running = self._running(job_id, container)
        if running is not None and not running[1].ended_by and running[0].replica is not None:
            now, why = self._context.clock.now(), running[0].replica.leaving_for
            interrupt(self._context.journal, running[0], "retired", why, at=now)


def _copied(source: Path, target: Path) -> None:
    """Make a packed project another job's too, without its bytes where the disk can."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
