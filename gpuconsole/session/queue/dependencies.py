"""Jobs that come after others: after one job, or after a whole sweep, however that must end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuconsole.core.jobs import Job, JobState, is_due
from gpuconsole.core.submission.after_conditions import Condition
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg, sentences
from gpuconsole.session.queue.planner import Why

SHOWN = 5
"""How many of those that a job waits for are named."""

_ENDED = {
    JobState.OOM: "ran out of memory",
    JobState.CANCELLED: "was cancelled",
    JobState.SUCCEEDED: "ended well",
}


@dataclass(frozen=True, slots=True)
class _Left:
    """What is left of one thing that a job comes after."""

    reason: str
    jobs: tuple[Job, ...] = ()
    """Those that have not ended as they must, the ones to look at first."""
    options: tuple[str, ...] = ()
    never: bool = False
    """Whether it cannot come true any more unless somebody retries a job."""


class Order:
    """What each queued job must wait for, besides devices."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._by_id = {job.id: job for job in jobs}
        self._sweeps: dict[str, list[Job]] = {}
        for job in jobs:
            if job.task.sweep:
                self._sweeps.setdefault(job.task.sweep, []).append(job)
        # A thousand jobs may come after one sweep: it is looked through once.
        self._known: dict[tuple[str, ...], tuple[_Left, ...]] = {}
        self._answers: dict[tuple[str, ...], Why | None] = {}

    def held_back(self, job: Job) -> Why | None:
        """Return why a job may not start before others; None when it may."""
        after = tuple(job.task.after)
        if after not in self._answers:
            left = self._left(after)
            self._answers[after] = _together(left) if left else None
        return self._answers[after]

    def never(self, job: Job) -> str:
        """Return why a job cannot start any more unless somebody retries another, as a sentence;
        "" while it still can."""
        return next((left.reason for left in self._left(tuple(job.task.after)) if left.never), "")

    def _left(self, after: tuple[str, ...]) -> tuple[_Left, ...]:
        if after not in self._known:
            reasons = (self._left_of(needed) for needed in after)
            self._known[after] = tuple(left for left in reasons if left is not None)
        return self._known[after]

    def _left_of(self, text: str) -> _Left | None:
        try:
            condition = Condition.of(text)
        except ValueError:
            reason = f"What it comes after cannot be read: {clean(text, 80)}."
            return _Left(reason, options=("Cancel it.",), never=True)
        needed = condition.needed
        job = self._by_id.get(needed)
        if job is not None:
            return _after_job(condition, job)
        if needed in self._sweeps:
            return _after_sweep(condition, self._sweeps[needed])
        reason = f"It comes after job {needed}, which this journal does not know."
        return _Left(reason, options=("Cancel it.",), never=True)


def _together(left: Sequence[_Left]) -> Why:
    """Return one reason of all that is left; the jobs that it does not name are counted."""
    # A job may be given by itself and with its sweep.
    jobs = list({job.id: job for each in left for job in each.jobs}.values())
    shown = left[:SHOWN]
    reasons = [each.reason for each in shown]
    if len(jobs) > SHOWN:
        reasons.append(f"It waits for the {SHOWN} jobs named here and {len(jobs) - SHOWN} more.")
    options = dict.fromkeys(option for each in shown for option in each.options)
    blockers = tuple(_blocker(job) for job in jobs[:SHOWN])
    return Why("queued", sentences(*reasons), blockers, options=tuple(options))


def _over(job: Job) -> bool:
    """Whether a job has ended and is not about to be tried again by itself."""
    return job.state.ended and not is_due(job)


def _after_job(condition: Condition, other: Job) -> _Left | None:
    kind, well = condition.kind, other.state is JobState.SUCCEEDED
    if _over(other) and (kind == "afterany" or well == (kind == "afterok")):
        return None
    named = {"id": other.id, "name": other.task.name}
    if kind == "afternotok":
        start = "It starts only if job {id} ({name}) ends without success"
        ended = msg(f"{start}, and that {_end(other)}.", **named)
    else:
        start = "It comes after job {id} ({name})"
        ended = msg(f"{start}, which {_end(other)}.", **named)
    if _over(other):
        retry = () if well else (msg("Retry {job}.", job=other.id),)
        return _Left(ended, (other,), (*retry, "Cancel this one."), never=True)
    options = (f"Run `gpuconsole release {other.id}`.",) if other.state is JobState.HELD else ()
    word = "; it" if kind == "afternotok" else ", which"
    template = f"{start}{word} is {{state_word}}."
    return _Left(msg(template, **named, state_word=str(other.state)), (other,), options)


def _after_sweep(condition: Condition, jobs: Sequence[Job]) -> _Left | None:
    if condition.kind == "afterok":
        return _after_good_sweep(condition.needed, jobs)
    group, members = _words_for(jobs)
    left = tuple(job for job in jobs if not _over(job))
    if left:
        done = f"{len(jobs) - len(left)} of its {len(jobs)} {members} have ended"
        if condition.kind == "afterany":
            return _Left(f"It comes after {group} {condition.needed}: {done}.", left)
        start = f"It starts only if a job of {group} {condition.needed} ends without success"
        return _Left(f"{start}: {done}.", left)
    if condition.kind == "afterany" or any(job.state is not JobState.SUCCEEDED for job in jobs):
        return None
    reason = f"It starts only if a job of {group} {condition.needed} fails, and all ended well."
    return _Left(reason, options=("Cancel this one.",), never=True)


def _after_good_sweep(name: str, jobs: Sequence[Job]) -> _Left | None:
    left = [job for job in jobs if job.state is not JobState.SUCCEEDED]
    if not left:
        return None
    bad = [job for job in left if _over(job)]
    group, members = _words_for(jobs)
    done = f"{len(jobs) - len(left)} of its {len(jobs)} {members} have ended well"
    options: tuple[str, ...] = ()
    if bad:
        done += f", {len(bad)} did not: {bad[0].task.name} {_end(bad[0])}"
        options = (msg("Retry {job}.", job=bad[0].id), "Cancel this one.")
    return _Left(f"It comes after {group} {name}: {done}.", tuple(bad or left), options, bool(bad))


def _words_for(jobs: Sequence[Job]) -> tuple[str, str]:
    """Return what a group of jobs is called, and what its members are."""
    return ("sweep", "jobs") if jobs[0].task.service is None else ("service", "replicas")


def _end(job: Job) -> str:
    attempt = job.attempt
    if job.state is JobState.FAILED and attempt is not None and attempt.ended_by == "time-limit":
        return "reached its time limit"
    return _ENDED.get(job.state, "failed")


def _blocker(other: Job) -> Mapping[str, str]:
    return {
        "job": other.id,
        "name": other.task.name,
        "user": other.user,
        "host": other.attempt.host if other.attempt else "",
        "uuid": "",
        "text": f"job {other.id} ({other.task.name}), {other.state}",
    }
