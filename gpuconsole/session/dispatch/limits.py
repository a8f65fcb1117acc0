"""Jobs that are ended without anybody asking: at their time limit, or because they do nothing.

The clock of a time limit is the attempt's start as its host's engine tells it, so it runs on while
no console dispatches. What is decided is written into the attempt first; whichever console
dispatches by then carries it out: SIGTERM, the lab's grace, SIGKILL.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import ContainerStatus
from gpuconsole.core.fleet import FleetSnapshot, HostState
from gpuconsole.core.incidents import Incident, IncidentState
from gpuconsole.core.jobs import STOPPED_FOR_GOOD, Attempt, Job, JobState
from gpuconsole.core.submission.time_limits import TimeLimit, time_limit
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.preemption import interrupt
from gpuconsole.state import JobMovedError

CLOCK_S = 1.0
"""How exactly the clocks of a host and of this machine are known against each other."""
LEAST_GRACE_S = 5.0
"""What is left of the grace at least where a console takes over from another: that one may not
have come to send SIGTERM."""
FRESH_S = 120.0
"""An incident that was not seen to hold for so long is no proof any more."""
IDLE_RULE = "idle-job"


class Limits:
    """Looks at running jobs once a second, while this console dispatches."""

    def __init__(self, context: Context, incidents: Callable[[], Iterable[Incident]]) -> None:
        """`incidents` returns those that triage has found, in their current state."""
        self._context = context
        self._incidents = incidents
        self._looked: Sequence[Job] = ()
        self._running: Sequence[Job] = ()

    def look(self, epoch: int) -> None:
        """Warn and end what is due; `epoch` proves the dispatcher's role."""
        journal, settings = self._context.journal, self._context.settings.limits
        journal.require_role(epoch)
        jobs = journal.jobs()
        if jobs is not self._looked:
            self._looked, self._running = jobs, [job for job in jobs if _may_be_ended(job)]
        for job in self._running:
            started = job.attempt.started_at if job.attempt is not None else None
            limit = time_limit(job.task, settings.time_limit, started)
            if limit is not None:
                with contextlib.suppress(JobMovedError):
                    self._hold_to(job, limit, epoch)
        if settings.idle is not None:
            self._end_idle(settings.idle)

    def _hold_to(self, job: Job, limit: TimeLimit, epoch: int) -> None:
        """Warn a job of its time limit, or end it there."""
        attempt, journal = job.attempt, self._context.journal
        assert attempt is not None
        now = self._context.clock.now()
        ran = ran_s(attempt, self._context.hosts.snapshot(), now)
        if ran is None:
            return
        if ran >= limit.seconds:
            cause = f"Time limit: it ran {format_duration(ran)}, and {limit.words} was over."
            interrupt(journal, job, "time-limit", cause, at=now)
        elif ran >= limit.warns_at(self._context.settings.limits.warning):
            if attempt.warned_at is not None:
                return
            warned = replace(attempt, warned_at=now)
            journal.save(job, replace(job, attempts=(*job.attempts[:-1], warned)), epoch=epoch)
            left = format_duration(limit.seconds - ran)
            words = f"{job.task.name}: {limit.words} ends it in {left}."
            journal.tell("job", job.id, clean(words, 500), "warning", "time-warning")

    def _end_idle(self, idle_s: float) -> None:
        """End the jobs of which an incident has proved for long enough that they do nothing."""
        now, snapshot = self._context.clock.now(), self._context.hosts.snapshot()
        for incident in self._incidents():
            if not _is_proof(incident, now, idle_s, snapshot):
                continue
            job = self._context.journal.job(incident.jobs[0])
            if job is None or job.state is not JobState.RUNNING or not _may_be_ended(job):
                continue
            assert job.attempt is not None
            if (job.attempt.started_at or now) > incident.since:
                # What was seen is of a try before this one.
                continue
            lasted = format_duration(now - incident.since)
            cause = f"Ended idle: for {lasted} {clean(incident.reason, 300)}."
            with contextlib.suppress(JobMovedError):
                interrupt(self._context.journal, job, "idle", cause, at=now)


def ran_s(attempt: Attempt, snapshot: FleetSnapshot, now: float) -> float | None:
    """Return how long an attempt has run (s) by the clock of its host; None before its start."""
    if attempt.started_at is None:
        return None
    return now + _skew(attempt, snapshot) - attempt.started_at


def ended_before(attempt: Attempt, status: ContainerStatus | None, snapshot: FleetSnapshot) -> bool:
    """Tell whether a container ended by itself before it was to be stopped for good."""
    stopping_at = attempt.stopping_at
    if attempt.ended_by not in STOPPED_FOR_GOOD or stopping_at is None or status is None:
        return False
    return (
        status.ended_at is not None
        and status.ended_at < stopping_at + _skew(attempt, snapshot) - CLOCK_S
    )


def grace_s(job: Job, settings: LabSettings, now: float) -> float:
    """Return the time between SIGTERM and SIGKILL for a job that is stopped now: of one that is
    ended for good what is left of it, whichever console began."""
    attempt = job.attempt
    if job.cancel_requested or attempt is None or attempt.ended_by not in STOPPED_FOR_GOOD:
        return settings.stop_grace
    if attempt.ended_by in ("rule", "retired"):
        # It is cancelled, by the wish of its own task or service.
        return settings.stop_grace
    grace = settings.limits.grace
    if attempt.stopping_at is None:
        return grace
    left = grace - max(0.0, now - attempt.stopping_at)
    return max(left, min(grace, LEAST_GRACE_S))


def _skew(attempt: Attempt, snapshot: FleetSnapshot) -> float:
    host = snapshot.host(attempt.host)
    return (host.clock_skew_s or 0.0) if host is not None else 0.0


def _may_be_ended(job: Job) -> bool:
    state, attempt = job.state, job.attempts[-1] if job.attempts else None
    runs = state is JobState.RUNNING or state is JobState.UNKNOWN
    return runs and attempt is not None and not attempt.ended_by and not job.cancel_requested


def _is_proof(incident: Incident, now: float, idle_s: float, snapshot: FleetSnapshot) -> bool:
    """Whether an open incident proves that its job has done nothing for so long, and no person has
    marked it otherwise."""
    host = snapshot.host(incident.host)
    return (
        incident.rule == IDLE_RULE
        and incident.ended_at is None
        and incident.confidence == "high"
        and incident.state(now) in (IncidentState.OPEN, IncidentState.ACKNOWLEDGED)
        and bool(incident.jobs)
        and now - incident.since >= idle_s
        and now - incident.last_seen <= FRESH_S
        and host is not None
        and host.state is HostState.UP
    )
