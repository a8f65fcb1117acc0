"""Trying again after device memory ran out, with the batch size that should fit.

Only jobs that ask for it (`auto_batch`), never more often than their `retries`, and never as they
were: the same batch would run out again. The job says what was changed and why.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace

from gpuconsole.core.estimate import Report
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Attempt, Job, JobState, Task, is_due
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, JournalError, RefusedError
from gpuconsole.preflight.suggestion_edits import Change, applied
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.estimate.service import Preflight
from gpuconsole.session.submit.validate import pack_task, refuse_hopeless

_OF_A_BATCH = (
    "memory", "verdicts", "suggestions", "flops_per_step", "bytes_per_step", "kernels_per_step",
)  # fmt: skip
"""What preflight's document says of one batch size alone."""


def times_out_of_memory(job: Job) -> int:
    """Return how often a job has run out of device memory."""
    return sum(attempt.ended_by == "oom" for attempt in job.attempts)


@dataclass(frozen=True, slots=True)
class Offer:
    """How a job that ran out of memory could be tried again."""

    job: Job
    """As it ended."""
    task: Task
    report: Report
    batch: int
    was: int
    why: str
    """Why this batch size, as the end of a sentence."""
    costs: str = ""
    """What it costs, in words; "" where preflight does not say."""


class Retrying:
    """Looks for jobs that ran out of memory and puts them back with a smaller batch."""

    def __init__(self, context: Context, preflight: Preflight) -> None:
        self._context = context
        self.preflight = preflight
        self._looked: Sequence[Job] = ()
        self._working: dict[str, asyncio.Task[None]] = {}

    def look(self, epoch: int) -> None:
        """Begin with what is due; called by the dispatcher; `epoch` proves its role."""
        jobs = self._context.journal.jobs()
        if jobs is self._looked:
            return
        self._looked = jobs
        self._working = {job: task for job, task in self._working.items() if not task.done()}
        for job in jobs:
            if is_due(job) and job.id not in self._working:
                self._working[job.id] = asyncio.ensure_future(self._again(job, epoch))

    async def close(self) -> None:
        """Leave the rest to the next dispatcher."""
        await cancel_all(self._working.values())

    async def _again(self, job: Job, epoch: int) -> None:
        """Put one job back, or say why not."""
        try:
            if times_out_of_memory(job) > job.task.retries:
                times = "once" if job.task.retries == 1 else f"{job.task.retries} times"
                raise RefusedError(
                    "Tried often enough", msg("It may be tried again {times} at most.", times=times)
                )
            if job.task.smaller:
                # Who sent it has worked that out: what a client names is not read here.
                changed = _next_smaller(job, self._context.clock.now())
            else:
                changed = await self._prepared(await self.offer(job))
        except Exception as error:
            # Whatever goes wrong, the job must not stay undecided: somebody may wait for it.
            why = error.message if isinstance(error, ConsoleError) else repr(error)
            changed = replace(
                job, detail=clean(msg("Not tried again: {why_text}", why_text=why), 500)
            )
        # The process that moved the job on, or took over, decides.
        with contextlib.suppress(JournalError):
            self._context.journal.save(job, changed, epoch=epoch)

    async def offer(self, job: Job) -> Offer:
        """Return how a job could be tried again with less. ConsoleError says why it cannot."""
        attempt, task = job.attempt, job.task
        if attempt is None:
            raise RefusedError("It has not run", "It has not run.")
        report = await self.preflight.report(task, empty=True, fleet=self._where(attempt))
        batch = report.estimate.batch_size
        if report.estimate.digest != str((job.estimate or {}).get("digest") or ""):
            raise RefusedError("The script has changed", "its script has changed since.")
        if batch is None:
            raise RefusedError("No batch size", "its batch size is unknown.")
        size, why = _smaller(report, batch)
        change = await self.preflight.rebatched(task, size)
        if change.args is None and not change.edits:
            raise RefusedError("Batch is out of reach", "its batch size cannot be set from here.")
        smaller = with_batch(task, change, size)
        fresh = await self.preflight.report(smaller, empty=True)
        if fresh.estimate.batch_size != size:
            raise RefusedError("Batch is out of reach", "its batch size comes from elsewhere.")
        if report.estimate.memory is not None and fresh.estimate.memory is None:
            # For example, the number occurs in several places, and one of them was changed.
            raise RefusedError("Batch is out of reach", "its batch size cannot be set from here.")
        refuse_hopeless(smaller, fresh)
        kinds = (
            suggestion.costs for suggestion in report.suggestions if suggestion.kind == "batch-size"
        )
        return Offer(job, smaller, fresh, size, batch, why, next(kinds, ""))

    async def accept(self, offer: Offer) -> Job:
        """Queue the job again as offered. ConsoleError when it has moved on since."""
        return self._context.journal.save(offer.job, await self._prepared(offer))

    async def _prepared(self, offer: Offer) -> Job:
        """Return the job as it goes back into the queue, with what it ships made ready."""
        job = offer.job
        if offer.task.edits != job.task.edits:
            await asyncio.to_thread(self._pack_anew, job, offer.task)
        return _queued(offer, self._context.clock.now())

    def _where(self, attempt: Attempt) -> FleetSnapshot:
        """Return the devices on which an attempt ran, or the fleet where they are not seen."""
        snapshot = self._context.hosts.snapshot()
        host = snapshot.host(attempt.host)
        own = tuple(
            device
            for device in (host.devices if host is not None else ())
            if device.uuid in attempt.device_uuids
        )
        if host is None or not own:
            return snapshot
        return replace(snapshot, hosts=(replace(host, devices=own),))

    def _pack_anew(self, job: Job, task: Task) -> None:
        bundle = self._context.bundle(job.id)
        fresh = bundle.with_suffix(".new")
        try:
            pack_task(task, fresh, self._context.settings.code_size_limit, self._context.pack)
            os.replace(fresh, bundle)
        finally:
            fresh.unlink(missing_ok=True)


def _smaller(report: Report, batch: int) -> tuple[int, str]:
    """Return a smaller batch size, and why this one."""
    verdict = report.verdicts[0] if report.verdicts else None
    largest = (verdict.max_batch_size if verdict is not None else None) or 0
    if verdict is not None and 0 < largest < batch:
        from gpuconsole.preflight.verdicts import rounded_batch

        return rounded_batch(largest), msg(
            "the largest that should fit on {device}", device=verdict.device
        )
    if batch == 1:
        raise RefusedError("Nothing smaller", "its batch size is 1 already.")
    return batch // 2, "half of it, as the estimate had found room for more"


def with_batch(task: Task, change: Change, size: int) -> Task:
    """Return a task with another batch size put in by a change of arguments or lines."""
    return applied(task, replace(change, batch=size))


def _queued(offer: Offer, now: float) -> Job:
    report = offer.report
    memory = report.estimate.memory
    return replace(
        _tried_again(offer.job, offer.task, now, (offer.was, offer.batch, offer.why)),
        estimate_mib=None if memory is None else memory.high_mib,
        estimate=report.as_json(),
    )


def _next_smaller(job: Job, now: float) -> Job:
    """Return a job as it goes back into the queue with the next of the smaller batches that it came
    with; with the last of them for the last time."""
    choice, rest = job.task.smaller[0], job.task.smaller[1:]
    asked = None if job.task.batch_size is None else choice.size
    task = replace(
        job.task, args=choice.args, batch_size=asked, smaller=rest, auto_batch=bool(rest)
    )
    estimate = job.estimate
    if estimate is not None:
        stale = (*_OF_A_BATCH, "batch_size")
        remaining = {name: value for name, value in estimate.items() if name not in stale}
        estimate = {**remaining, "batch_size": choice.size}
    why = "which its console had worked out"
    return replace(
        _tried_again(job, task, now, (choice.was, choice.size, why)),
        estimate_mib=choice.estimate_mib,
        estimate=estimate,
    )


def _tried_again(job: Job, task: Task, now: float, said: tuple[int, int, str]) -> Job:
    """Return a job as it is queued again, with the batch sizes and the reason in words."""
    was, size, why = said
    sentence = msg(
        "Ran out of memory with batch size {n}; tried again with {low}, {why_text}.",
        n=was,
        low=size,
        why_text=why,
    )
    attempt = job.attempts[-1]
    ended = replace(attempt, cause=f"{attempt.cause} {sentence}".strip())
    return replace(
        job,
        state=JobState.QUEUED,
        queued_at=now,
        task=task,
        attempts=(*job.attempts[:-1], ended),
        cause="",
        detail=sentence,
    )
