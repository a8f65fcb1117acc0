"""Jobs that come after others: after one job, or after a whole sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuconsole.core.jobs import Job, JobState
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
    """Those that have not ended well, the ones to look at first."""
    options: tuple[str, ...] = ()


class Order:
    """What each queued job must wait for, besides devices."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._by_id = {job.id: job for job in jobs}
        self._sweeps: dict[str, list[Job]] = {}
        for job in jobs:
            if job.task.sweep:
                self._sweeps.setdefault(job.task.sweep, []).append(job)
        # A thousand jobs may come after one sweep: it is looked through once.
        self._known: dict[tuple[str, ...], Why | None] = {}

    def held_back(self, job: Job) -> Why | None:
        """Return why a job may not start before others; None when it may."""
        after = tuple(job.task.after)
        if after not in self._known:
            left = [found for needed in after if (found := self._left_of(needed)) is not None]
            self._known[after] = _together(left) if left else None
        return self._known[after]

    def _left_of(self, needed: str) -> _Left | None:
        one = self._by_id.get(needed)
        if one is not None:
            return _after_job(one)
        if needed in self._sweeps:
            return _after_sweep(needed, self._sweeps[needed])
        reason = f"It comes after job {needed}, which this journal does not know."
        return _Left(reason, options=("Cancel it.",))


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
    return Why("queued", " ".join(reasons), blockers, options=tuple(options))


def _after_job(other: Job) -> _Left | None:
    if other.state is JobState.SUCCEEDED:
        return None
    options: tuple[str, ...] = ()
    if other.state.ended:
        reason = f"It comes after job {other.id} ({other.task.name}), which {_end(other)}."
        options = (f"Retry {other.id}.", "Cancel this one.")
    else:
        reason = f"It comes after job {other.id} ({other.task.name}), which is {other.state}."
        if other.state is JobState.HELD:
            options = (f"Run `gpuconsole release {other.id}`.",)
    return _Left(reason, (other,), options)


def _after_sweep(name: str, jobs: Sequence[Job]) -> _Left | None:
    left = [job for job in jobs if job.state is not JobState.SUCCEEDED]
    if not left:
        return None
    bad = [job for job in left if job.state.ended]
    done = f"{len(jobs) - len(left)} of its {len(jobs)} jobs have ended well"
    options: tuple[str, ...] = ()
    if bad:
        done += f", {len(bad)} did not: {bad[0].task.name} {_end(bad[0])}"
        options = (f"Retry {bad[0].id}.", "Cancel this one.")
    return _Left(f"It comes after sweep {name}: {done}.", tuple(bad or left), options)


def _end(job: Job) -> str:
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
