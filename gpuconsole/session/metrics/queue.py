"""Metrics of the queue: what waits and runs now, and what has happened since the journal began.

Counters are counted from the journal, so they go on where they were when a console is opened
again. Each job is looked at again only when it has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import get_args

from gpuconsole.config import PolicyName
from gpuconsole.core.jobs import ENDED, Attempt, EndedBy, Job, JobState
from gpuconsole.session.metrics.model import (
    Family,
    Metric,
    Picture,
    QueueFacts,
    Spread,
    place,
)

WAIT_BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86400.0)
RUN_BUCKETS = (10.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86400.0, 3 * 86400.0)
POLICIES: tuple[str, ...] = get_args(PolicyName)
ENDS: tuple[str, ...] = (
    *(state.value for state in JobState if state in ENDED),
    *(word for word in get_args(EndedBy) if word not in ("", "own", "oom")),
)
"""How an attempt may end: as its job does, or for a reason after which it is tried again."""
OTHER = "other"
"""Where a word is not one of those above, as a newer console may have written it."""
LIVE = tuple(state for state in JobState if state not in ENDED)

JOBS = Metric(
    "gpuconsole_jobs", "gauge", "Jobs that have not ended, by state.", ("state",), most=len(LIVE)
)
OLDEST = Metric(
    "gpuconsole_queue_oldest_wait_seconds", "gauge",
    "How long the job that waits longest has waited; 0 while none waits.",
)  # fmt: skip
WANTED = Metric(
    "gpuconsole_queue_wanted_devices", "gauge", "Devices that waiting jobs ask for together."
)
WAITS = Metric(
    "gpuconsole_queue_wait_seconds", "histogram",
    "How long jobs waited for the start of an attempt.", buckets=WAIT_BUCKETS,
)  # fmt: skip
RUNS = Metric(
    "gpuconsole_attempt_run_seconds", "histogram", "How long attempts ran.", buckets=RUN_BUCKETS
)
PLACED = Metric(
    "gpuconsole_placements_total", "counter",
    "Decisions that were carried out: attempts begun, by the policy that ranked their devices.",
    ("policy",), most=len(POLICIES) + 1,
)  # fmt: skip
ENDED_TOTAL = Metric(
    "gpuconsole_attempts_ended_total", "counter",
    "Attempts that ended, by how; `oom` ran out of device memory.", ("end",), most=len(ENDS) + 1,
)  # fmt: skip
METRICS = (JOBS, OLDEST, WANTED, WAITS, RUNS, PLACED, ENDED_TOTAL)

_Mark = tuple[str, int, float]
"""An attempt: numbers of those that never started come again."""


class Tally:
    """Counts what happened to the jobs of a journal, each thing once."""

    def __init__(self, policy: str) -> None:
        """`policy` is the lab's, for tasks that name none."""
        self._policy = policy
        self._seen: dict[str, Job] = {}
        self._begun: set[_Mark] = set()
        self._over: set[_Mark] = set()
        self._waits, self._waited = [0] * (len(WAIT_BUCKETS) + 1), 0.0
        self._runs, self._ran = [0] * (len(RUN_BUCKETS) + 1), 0.0
        self._placed: Counter[str] = Counter(dict.fromkeys(POLICIES, 0))
        self._ended: Counter[str] = Counter(dict.fromkeys(ENDS, 0))

    def facts(self, jobs: Sequence[Job], now: float) -> QueueFacts:
        """Take in what has changed, and return the figures of the queue."""
        for job in jobs:
            if self._seen.get(job.id) is not job:
                self._seen[job.id] = job
                self._take(job)
        waiting = [job for job in jobs if job.state is JobState.QUEUED]
        since = min((_since(job) for job in waiting), default=now)
        counted = Counter(job.state for job in jobs)
        return QueueFacts(
            states={state: counted[state] for state in LIVE},
            oldest_wait_s=max(0.0, now - since),
            wanted=sum(job.task.devices or 1 for job in waiting),
            waits=Spread(tuple(self._waits), self._waited),
            runs=Spread(tuple(self._runs), self._ran),
            placed=dict(self._placed),
            ended=dict(self._ended),
            on_device=Counter(
                uuid
                for job in jobs
                if job.state.active and job.attempt is not None
                for part in job.attempt.parts
                for uuid in part.device_uuids
            ),
        )

    def _take(self, job: Job) -> None:
        for attempt in job.attempts:
            mark = (job.id, attempt.number, attempt.created_at)
            # Before its start it may be taken back: another console had the device.
            if attempt.starting_at is not None and mark not in self._begun:
                self._begun.add(mark)
                self._begin(job, attempt)
            if mark in self._begun and attempt.ended_at is not None and mark not in self._over:
                self._over.add(mark)
                self._end(job, attempt)

    def _begin(self, job: Job, attempt: Attempt) -> None:
        policy = job.task.algorithm or self._policy
        self._placed[policy if policy in POLICIES else OTHER] += 1
        waited = attempt.created_at - _since(job)
        # Of an attempt before a retry it is no longer known when its wait began.
        if attempt is job.attempt and waited >= 0.0:
            self._waits[place(waited, WAIT_BUCKETS)] += 1
            self._waited += waited

    def _end(self, job: Job, attempt: Attempt) -> None:
        end = _end_of(job, attempt)
        self._ended[end if end in ENDS else OTHER] += 1
        if attempt.started_at is not None and attempt.ended_at is not None:
            ran = max(0.0, attempt.ended_at - attempt.started_at)
            self._runs[place(ran, RUN_BUCKETS)] += 1
            self._ran += ran


def families(picture: Picture) -> Iterator[Family]:
    """Give the metrics of the queue; nothing while the journal cannot be read."""
    if not picture.journal:
        return
    queue = picture.queue
    yield Family(JOBS, [((state.value,), float(n)) for state, n in queue.states.items()])
    yield Family(OLDEST, [((), queue.oldest_wait_s)])
    yield Family(WANTED, [((), float(queue.wanted))])
    yield Family(WAITS, [((), queue.waits)])
    yield Family(RUNS, [((), queue.runs)])
    yield Family(PLACED, [((policy,), float(n)) for policy, n in queue.placed.items()])
    yield Family(ENDED_TOTAL, [((end,), float(n)) for end, n in queue.ended.items()])


def _since(job: Job) -> float:
    return job.submitted_at if job.queued_at is None else job.queued_at


def _end_of(job: Job, attempt: Attempt) -> str:
    if attempt.ended_by not in ("", "own"):
        return attempt.ended_by
    if attempt is job.attempt and job.state.ended:
        return job.state.value
    return JobState.SUCCEEDED.value if attempt.exit_code == 0 else JobState.FAILED.value
