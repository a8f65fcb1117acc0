"""Jobs that come after others: after one job, or after a whole sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.session.placing import Why

_ENDED = {
    JobState.OOM: "ran out of memory",
    JobState.CANCELLED: "was cancelled",
    JobState.SUCCEEDED: "ended well",
}


class Order:
    """What each queued job must wait for, besides devices."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._by_id = {job.id: job for job in jobs}
        self._sweeps: dict[str, list[Job]] = {}
        for job in jobs:
            if job.task.sweep:
                self._sweeps.setdefault(job.task.sweep, []).append(job)
        # A thousand jobs may come after one sweep: it is looked through once.
        self._known: dict[str, Why | None] = {}

    def held_back(self, job: Job) -> Why | None:
        """Return why a job may not start before others; None when it may."""
        for needed in job.task.after:
            if needed not in self._known:
                self._known[needed] = self._unfinished(needed)
            found = self._known[needed]
            if found is not None:
                return found
        return None

    def _unfinished(self, needed: str) -> Why | None:
        one = self._by_id.get(needed)
        if one is not None:
            return _after_job(one)
        if needed in self._sweeps:
            return _after_sweep(needed, self._sweeps[needed])
        reason = f"It comes after job {needed}, which this journal does not know."
        return Why("queued", reason, options=("Cancel it.",))


def _after_job(other: Job) -> Why | None:
    if other.state is JobState.SUCCEEDED:
        return None
    options: tuple[str, ...] = ()
    if other.state.ended:
        reason = f"It comes after job {other.id} ({other.task.name}), which {_end(other)}."
        options = (f"Retry {other.id}.", "Cancel this one.")
    else:
        reason = f"It comes after job {other.id} ({other.task.name}), which is {other.state}."
        if other.state is JobState.HELD:
            options = (f"Release {other.id}.",)
    return Why("queued", reason, (_blocker(other),), options=options)


def _after_sweep(name: str, jobs: Sequence[Job]) -> Why | None:
    left = [job for job in jobs if job.state is not JobState.SUCCEEDED]
    if not left:
        return None
    bad = [job for job in left if job.state.ended]
    done = f"{len(jobs) - len(left)} of its {len(jobs)} jobs have ended well"
    options: tuple[str, ...] = ()
    if bad:
        done += f", {len(bad)} did not: {bad[0].task.name} {_end(bad[0])}"
        options = (f"Retry {bad[0].id}.", "Cancel this one.")
    shown = tuple(_blocker(job) for job in (bad or left)[:5])
    return Why("queued", f"It comes after sweep {name}: {done}.", shown, options=options)


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
