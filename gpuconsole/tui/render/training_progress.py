"""The speed of a job's training, from the times at which its log reported progress."""

from __future__ import annotations

from collections import deque

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.training.log import Progress

WINDOW_S = 120.0
"""The pace is that of the last so many seconds."""
_LEAST_S = 2.0
"""A pace of a shorter time would jump about."""
_LEAST_AVERAGED_S = 60.0
"""Imports and the device's context take a large part of a shorter run: its average says little."""


class Pace:
    """Seconds per step, from when steps were seen."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()
        self._of: tuple[object, ...] = ()

    def note(self, key: object, progress: Progress | None, now: float) -> None:
        """Take note of how far a job is; another `key` begins again."""
        if progress is None:
            return
        of = (key, progress.word, progress.end, progress.epochs)
        done = progress.done
        if of != self._of or (self._seen and done < self._seen[-1][1]):
            self._of = of
            self._seen.clear()
        if self._seen and done == self._seen[-1][1]:
            return
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] < now - WINDOW_S:
            self._seen.popleft()

    def seconds(self, job: Job, progress: Progress | None, now: float) -> float | None:
        """Return how long a step takes lately; else on average since the job started, where it has
        run for long enough."""
        if progress is None or not progress.done:
            return None
        steps = progress.end * max(1, progress.epochs)
        if len(self._seen) > 1:
            (begun, before), (seen, after) = self._seen[0], self._seen[-1]
            if seen - begun >= _LEAST_S:
                return (seen - begun) / ((after - before) * steps)
        if job.started_at is None:
            return None
        ran_s = (job.ended_at or now) - job.started_at
        return ran_s / (progress.done * steps) if ran_s >= _LEAST_AVERAGED_S else None


def left_s(job: Job, progress: Progress | None, step_s: float | None) -> float | None:
    """Return in how many seconds a running job should be done."""
    if job.state is not JobState.RUNNING or progress is None or step_s is None or not progress.left:
        return None
    return progress.left * step_s


def foreseen_step_s(job: Job, model: str) -> tuple[float, float] | None:
    """Return how long a step should take as preflight estimated it for a device: least and most.
    None of a service, which makes no steps."""
    if job.task.service is not None:
        return None
    for verdict in (job.estimate or {}).get("verdicts") or ():
        span = verdict.get("step_s")
        if span and (not model or verdict.get("device") == model):
            return float(span[0]), float(span[1])
    return None
