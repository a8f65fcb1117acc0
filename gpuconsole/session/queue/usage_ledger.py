"""What the journal tells about use, run times and waits; followed change by change."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from statistics import median

from gpuconsole.config import LabSettings
from gpuconsole.core.devices.run_history import Observation
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import ADOPTED, Attempt, Job, JobState
from gpuconsole.core.submission.time_limits import time_limit
from gpuconsole.placement.forecast.runtimes import PastRun, Prediction, RunTimes
from gpuconsole.placement.rules.quotas import Use
from gpuconsole.placement.rules.rules import usage_of
from gpuconsole.session.dispatch.attempt.observation import Watch

KEPT_WAITS = 200
"""Number of latest starts from which the usual wait is computed."""
ENOUGH_WAITS = 5

_WENT_ON = ("preempted", "crowded-out", "lost-host", "gang", "time-limit")
"""Ends after which a job that keeps checkpoints goes on where it was."""

_Mark = tuple[str, int, float]
"""A try: job, number, and when it was begun; numbers of tries that never started come again."""


def devices_by_host(attempt: Attempt) -> dict[str, int]:
    """Return how many devices an attempt holds on each of its hosts."""
    held = {attempt.host: len(attempt.device_uuids)}
    for member in attempt.members:
        held[member.host] = held.get(member.host, 0) + len(member.device_uuids)
    return held


def _has_own_end(job: Job) -> bool:
    """Return True where runs of its like tell how long a job runs: not of a service, which is kept
    running, nor of a job that was found on a host and is not known."""
    return job.task.service is None and job.task.kind != ADOPTED


class Ledger:
    """Follows the jobs of a journal: each is looked at again only when it has changed."""

    def __init__(self, settings: LabSettings) -> None:
        self.usage = usage_of(settings)
        self._longest_s = settings.limits.time_limit
        self.use = Use()
        self.runs = RunTimes()
        self._models: dict[tuple[str, int], str] = {}
        self._seen: dict[str, Job] = {}
        self._followed: Sequence[Job] | None = None
        self._picture: FleetSnapshot | None = None
        self._over: set[_Mark] = set()
        self._waits: deque[float] = deque(maxlen=KEPT_WAITS)
        self._busy: dict[tuple[str, str, tuple[str, ...] | None], float] = {}
        """By user, script and arguments; None means any."""
        self._watches: dict[str, Watch] = {}
        # Between two ends of runs every answer stays the same.
        self._taught = 0
        self._foretold: dict[tuple[str, int, int, str], Prediction | None] = {}

    def remember(self, seen: Iterable[Observation]) -> None:
        """Take in what was seen of runs before this console was opened."""
        for observation in seen:
            self._models[observation.job, observation.attempt] = observation.device
            if observation.utilization is not None:
                self._keep("", observation.script, observation.args, observation.utilization)

    def follow(self, jobs: Sequence[Job], snapshot: FleetSnapshot) -> None:
        """Take in what has changed."""
        if jobs is not self._followed:
            self._followed = jobs
            self._take_in([job for job in jobs if self._seen.get(job.id) is not job], snapshot)
        if snapshot is not self._picture:
            self._picture = snapshot
            self._measure(jobs, snapshot)

    def _take_in(self, changed: Sequence[Job], snapshot: FleetSnapshot) -> None:
        moments: list[tuple[float, int, Callable[[], None]]] = []
        for job in changed:
            self._seen[job.id] = job
            for attempt in job.attempts:
                self._note(job, attempt, snapshot, moments)
        # Use decays and periods change: events are applied in order of time.
        for _, _, happen in sorted(moments, key=itemgetter(0, 1)):
            happen()

    def prediction(self, job: Job, devices: int, model: str = "") -> Prediction | None:
        """Return how long a job should run, by those before it."""
        if not job.id:
            return self._predict(job, devices, model)
        if self._taught != self.runs.count:
            self._taught, self._foretold = self.runs.count, {}
        key = (job.id, job.revision, devices, model)
        if key not in self._foretold:
            self._foretold[key] = self._predict(job, devices, model)
        return self._foretold[key]

    def _predict(self, job: Job, devices: int, model: str) -> Prediction | None:
        if not _has_own_end(job):
            return None
        digest = str((job.estimate or {}).get("digest") or "")
        task = job.task
        return self.runs.predict(job.user, task.script, task.args, devices, model, digest)

    def run_time_s(self, job: Job, devices: int) -> float | None:
        """Return how long a job should still run once it starts: as its task says, else by those
        before it, else as long as its task lets it; no longer than its time limit."""
        task, limit = job.task, time_limit(job.task, self._longest_s)
        if task.run_time_s is not None:
            expected: float | None = task.run_time_s
        else:
            prediction = self.prediction(job, devices)
            expected = task.time_limit_s if prediction is None else prediction.left_s(worked_s(job))
        if expected is None or limit is None:
            return expected
        return min(expected, limit.seconds)

    def ends_at(self, job: Job, attempt: Attempt, now: float) -> float | None:
        """Return when an active job should end, and keep it in mind for quotas."""
        ends_at = self._ends_at(job, attempt, now)
        self.use.expect(_key(job, attempt), ends_at)
        return ends_at

    def _ends_at(self, job: Job, attempt: Attempt, now: float) -> float | None:
        since = attempt.started_at or attempt.created_at
        limit = time_limit(job.task, self._longest_s)
        ends_at = self._expected_end(job, attempt, since, now)
        if limit is None:
            return ends_at
        at_limit = since + limit.seconds
        if ends_at is None:
            return None if limit.lab else at_limit
        return min(ends_at, max(now, at_limit))

    def _expected_end(self, job: Job, attempt: Attempt, since: float, now: float) -> float | None:
        """Return when an attempt that began at `since` should end by itself."""
        if job.task.run_time_s is not None:
            return since + job.task.run_time_s
        devices = sum(devices_by_host(attempt).values())
        model = self._models.get((job.id, attempt.number), "")
        prediction = self.prediction(job, devices, model)
        # Without a start nothing is worked off yet, and the time is from now.
        ran = max(0.0, now - since) if attempt.started_at is not None else 0.0
        return (
            None
            if prediction is None
            else now + prediction.left_s(worked_s(job, before=attempt) + ran)
        )

    def limit_left_s(self, job: Job, now: float) -> float | None:
        """Return how long its time limit lets a job run, from its start, or from now where it
        runs; None without a limit."""
        limit, attempt = time_limit(job.task, self._longest_s), job.attempt
        if limit is None or not job.state.active or attempt is None or attempt.started_at is None:
            return None if limit is None else limit.seconds
        return attempt.started_at + limit.seconds - now

    def utilization(self, job: Job) -> float | None:
        """Return the percent of a device that a job keeps busy: as measured on it, else as its
        like did."""
        watch = self._watches.get(job.id)
        if watch is not None and watch.utilization is not None:
            return watch.utilization
        task = job.task
        # For any user; with other arguments it says less, but more than nothing.
        for args in (task.args, None):
            for user in (job.user, ""):
                load = self._busy.get((user, task.script, args))
                if load is not None:
                    return load
        return None

    def usual_wait(self) -> tuple[float, int] | None:
        """Return the median wait of the latest starts, and how many they are."""
        if len(self._waits) < ENOUGH_WAITS:
            return None
        return median(self._waits), len(self._waits)

    def _note(
        self,
        job: Job,
        attempt: Attempt,
        snapshot: FleetSnapshot,
        moments: list[tuple[float, int, Callable[[], None]]],
    ) -> None:
        mark = (job.id, attempt.number, attempt.created_at)
        if mark in self._over:
            return
        key = _key(job, attempt)
        account = job.task.account
        count = sum(devices_by_host(attempt).values())

        def begin() -> None:
            # By job, so that who looks ahead can end it.
            self.usage.begin(job.id, job.user, account, count, attempt.created_at)
            self.use.begin(key, job.user, account, count, attempt.created_at)

        def end() -> None:
            assert attempt.ended_at is not None
            self.usage.end(job.id, attempt.ended_at)
            self.use.end(key, attempt.ended_at)
            self._learn(job, attempt, count)

        if attempt.ended_at is None:
            if job.state.active:
                moments.append((attempt.created_at, 1, begin))
                self._model(job, attempt, snapshot)
            return
        self._over.add(mark)
        if attempt.starting_at is not None:
            # One that ended in the same moment began before.
            moments.append((attempt.created_at, 1, begin))
        moments.append((max(attempt.created_at, attempt.ended_at), 2, end))

    def _learn(self, job: Job, attempt: Attempt, count: int) -> None:
        """Take from an ended attempt what it teaches about the next."""
        watch = self._watches.pop(job.id, None)
        if watch is not None and watch.readings:
            self._keep(job.user, job.task.script, job.task.args, watch.busy)
        if attempt.number == 1 and attempt.starting_at is not None:
            since = job.submitted_at if job.queued_at is None else job.queued_at
            if since <= attempt.created_at:
                self._waits.append(attempt.created_at - since)
        well = job.state is JobState.SUCCEEDED and attempt is job.attempt
        # Beside another it took longer than it would alone.
        if not well or attempt.started_at is None or attempt.shared or not _has_own_end(job):
            return
        self.runs.add(
            PastRun(
                user=job.user,
                script=job.task.script,
                args=job.task.args,
                devices=count,
                model=self._models.get((job.id, attempt.number), ""),
                run_time_s=worked_s(job),
                digest=str((job.estimate or {}).get("digest") or ""),
            )
        )

    def _model(self, job: Job, attempt: Attempt, snapshot: FleetSnapshot) -> None:
        if not self._models.get((job.id, attempt.number)):
            host = snapshot.host(attempt.host)
            models = [
                device.model
                for device in (host.devices if host is not None else ())
                if device.uuid in attempt.device_uuids
            ]
            self._models[job.id, attempt.number] = models[0] if models else ""

    def _measure(self, jobs: Sequence[Job], snapshot: FleetSnapshot) -> None:
        """Take one reading of how busy each running job keeps its device."""
        running = [job for job in jobs if job.state is JobState.RUNNING]
        if not running:
            return
        devices = {device.uuid: device for host in snapshot.hosts for device in host.devices}
        for job in running:
            if job.attempt is None:
                continue
            uuids = (uuid for part in job.attempt.parts for uuid in part.device_uuids)
            own = [devices[uuid] for uuid in uuids if uuid in devices]
            watch = self._watches.setdefault(job.id, Watch())
            watch.see_busy(own, job.attempt)
            if watch.utilization is not None:
                self._keep(job.user, job.task.script, job.task.args, watch.utilization)

    def _keep(self, user: str, script: str, args: tuple[str, ...], mean: float) -> None:
        """Keep how busy a job made its device, for those like it."""
        self._busy[user, script, args] = self._busy[user, script, None] = mean


def _key(job: Job, attempt: Attempt) -> str:
    return f"{job.id}/{attempt.number}/{attempt.created_at}"


def worked_s(job: Job, before: Attempt | None = None) -> float:
    """Return how long a job has worked: its last attempt, and those with checkpoints from which it
    went on; with `before` only the latter."""
    resumes = bool(job.task.checkpoint_dir)
    return sum(
        max(0.0, attempt.ended_at - attempt.started_at)
        for attempt in job.attempts
        if attempt.ended_at is not None
        and attempt.started_at is not None
        and attempt is not before
        and (
            (resumes and attempt.ended_by in _WENT_ON)
            or (attempt is job.attempt and job.state.ended)
        )
    )
