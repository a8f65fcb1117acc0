"""What is known around the hosts: jobs by device, failures, leases, engines that are silent.

Kept up to date at the cost of what changed: a job that is the same object as before is not looked
at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuconsole.core.containers import Lease
from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.triage.model import Failure

TERMINATED = 143
"""Exit code of a process that SIGTERM ended: 128 + 15."""
KEPT_FAILURES = 20
"""Failures that are remembered of a host."""


class Surroundings:
    """Jobs, leases and engines, by host and by device."""

    def __init__(self) -> None:
        self._all: tuple[Job, ...] | None = None
        self._seen: dict[str, Job] = {}
        self._active: dict[str, Job] = {}
        self.holders: dict[str, tuple[Job, ...]] = {}
        self.on_host: dict[str, tuple[Job, ...]] = {}
        self.failures: dict[str, tuple[Failure, ...]] = {}
        self.leases: dict[str, Mapping[str, tuple[Lease, ...]]] = {}
        self.silent: dict[str, str] = {}
        self._given: Mapping[str, tuple[Lease, ...]] = {}

    def take(
        self,
        jobs: tuple[Job, ...],
        leases: Mapping[str, tuple[Lease, ...]],
        silent: Mapping[str, str],
    ) -> set[str]:
        """Take what is known now; return the hosts for which something is new."""
        touched = self._take_jobs(jobs) if jobs is not self._all else set()
        for host in {*leases, *self._given}:
            if leases.get(host, ()) != self._given.get(host, ()):
                touched.add(host)
                self.leases[host] = _by_device(leases.get(host, ()))
        self._given = dict(leases)
        touched |= {
            host
            for host in {*silent, *self.silent}
            if silent.get(host, "") != self.silent.get(host, "")
        }
        self.silent = dict(silent)
        return touched

    def _take_jobs(self, jobs: tuple[Job, ...]) -> set[str]:
        self._all = jobs
        touched: set[str] = set()
        for job in jobs:
            before = self._seen.get(job.id)
            if before is job:
                continue
            self._seen[job.id] = job
            touched |= _hosts(before) | _hosts(job)
            self._note_failures(before, job)
            if job.state.active:
                self._active[job.id] = job
            else:
                self._active.pop(job.id, None)
        if touched:
            self._place()
        return touched

    def _note_failures(self, before: Job | None, job: Job) -> None:
        noted = _failed(before) if before is not None else set()
        for attempt in job.attempts:
            if attempt.number in _failed(job) - noted:
                for failure in _failures(job, attempt):
                    earlier = self.failures.get(failure.host, ())
                    ordered = sorted((*earlier, failure), key=lambda each: each.at)
                    self.failures[failure.host] = tuple(ordered[-KEPT_FAILURES:])

    def _place(self) -> None:
        holders: dict[str, list[Job]] = {}
        on_host: dict[str, list[Job]] = {}
        for job in self._active.values():
            for part in job.attempt.parts if job.attempt else ():
                on_host.setdefault(part.host, []).append(job)
                for uuid in part.device_uuids:
                    holders.setdefault(uuid, []).append(job)
        self.holders = {uuid: tuple(jobs) for uuid, jobs in holders.items()}
        self.on_host = {host: tuple(jobs) for host, jobs in on_host.items()}


def _by_device(leases: Iterable[Lease]) -> dict[str, tuple[Lease, ...]]:
    by_device: dict[str, tuple[Lease, ...]] = {}
    for lease in leases:
        by_device[lease.uuid] = (*by_device.get(lease.uuid, ()), lease)
    return by_device


def _hosts(job: Job | None) -> set[str]:
    attempt = job.attempt if job is not None else None
    return {part.host for part in attempt.parts} if attempt else set()


def _failed(job: Job) -> set[int]:
    """Return the numbers of the attempts that failed by themselves, not for want of memory."""
    return {attempt.number for attempt in job.attempts if _by_itself(job, attempt)}


def _by_itself(job: Job, attempt: Attempt) -> bool:
    if attempt.ended_at is None or attempt.exit_code == 0:
        return False
    if attempt is job.attempts[-1]:
        return job.state is JobState.FAILED and attempt.ended_by in ("", "own")
    # Of an attempt before the last there is only its own record; one that was asked to end did not
    # fail.
    return attempt.ended_by == "own" and attempt.exit_code != TERMINATED


def _failures(job: Job, attempt: Attempt) -> Iterable[Failure]:
    cause = clean(attempt.cause or job.cause, 200) or f"exit code {attempt.exit_code}"
    for part in attempt.parts:
        yield Failure(
            attempt.ended_at or 0.0,
            job.id,
            clean(job.task.name, 80),
            job.task.script,
            part.host,
            part.device_uuids,
            cause,
        )
