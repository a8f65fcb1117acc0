"""Jobs that are ended because what they report breaks a rule of their task: `stop_if: loss is nan`.

The log is read as it is copied, from its beginning by each console that comes to dispatch, so that
what a rule has seen is in no memory. Where it does not report the metric of a rule, the host is
asked for VisualDL's scalars now and then. What is decided is written into the attempt first;
whichever console dispatches by then carries it out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.training.log import Template
from gpuconsole.core.training.stop_rules import Broken, Rule, Watch, parse_rule
from gpuconsole.core.training.visualdl import reports_of
from gpuconsole.errors import JournalError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.preemption import interrupt
from gpuconsole.session.logs.follow import log_file
from gpuconsole.session.logs.records import ASK_EVERY_S, fetched, records_of
from gpuconsole.session.logs.training import TrainingLog

_MOST_PARTS = 16
"""Parts of each log that one look reads; a part is a MiB."""
_Key = tuple[str, int, str]
"""A job, an attempt, and its container: numbers of attempts that never started come again."""


class StopRules:
    """Holds the logs of running jobs against their rules, while this console dispatches."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._looked: Sequence[Job] = ()
        self._watched: dict[_Key, TrainingLog] = {}
        self._reading: asyncio.Task[None] | None = None
        """Logs are read one after another, beside the event loop."""
        self._asking: asyncio.Task[None] | None = None
        """Hosts are asked for scalars one after another: one that is slow holds up no log."""
        self._asked_at: dict[_Key, float] = {}

    def look(self, epoch: int) -> None:
        """Begin to read what is new in the logs; `epoch` proves the dispatcher's role."""
        jobs = self._context.journal.jobs()
        if jobs is not self._looked:
            self._looked = jobs
            watched = {_key(job): job for job in jobs if _is_watched(job)}
            self._watched = {
                key: self._watched.get(key) or self._log(job) for key, job in watched.items()
            }
            self._asked_at = {key: at for key, at in self._asked_at.items() if key in self._watched}
        if self._watched and (self._reading is None or self._reading.done()):
            self._reading = asyncio.ensure_future(self._read(epoch))
        if self._watched and (self._asking is None or self._asking.done()):
            self._asking = asyncio.ensure_future(self._ask(epoch))

    async def close(self) -> None:
        """Read no more."""
        await cancel_all([task for task in (self._reading, self._asking) if task is not None])

    def _log(self, job: Job) -> TrainingLog:
        attempt = job.attempt
        assert attempt is not None
        path = log_file(self._context.state, job.id, attempt.number)
        templates = [Template(text) for text in self._context.settings.metrics.patterns]
        return TrainingLog(path, templates, [parse_rule(text) for text in job.task.stop_if])

    async def _read(self, epoch: int) -> None:
        """Read on, a part of each log in turn: a script may write faster than its log is read, and
        the others have rules too. What is left then is for the next look."""
        for _ in range(_MOST_PARTS):
            more = False
            for key, log in tuple(self._watched.items()):
                if log.broken is None:
                    # A log that cannot be read now breaks no rule; the next look tries again.
                    with contextlib.suppress(OSError):
                        more |= await asyncio.to_thread(log.read_on)
                if log.broken is not None and self._watched.get(key) is log:
                    # Another console has taken over, or the job has moved on: theirs to decide.
                    with contextlib.suppress(JournalError):
                        self._stop(key, log.broken.cause, epoch)
            if not more:
                return

    async def _ask(self, epoch: int) -> None:
        """Hold VisualDL's scalars against the rules on metrics that the log does not report."""
        for key, log in tuple(self._watched.items()):
            rules = [rule for rule in log.rules if rule.metric not in log.curves.curves]
            now = self._context.clock.now()
            begun = key not in self._asked_at
            if begun:
                # What has only begun has reported nothing; its log may be on its way.
                self._asked_at[key] = now
            if begun or not rules or log.broken or now - self._asked_at[key] < ASK_EVERY_S:
                continue
            self._asked_at[key] = now
            job = self._context.journal.job(key[0])
            source = await records_of(self._context.hosts, job, 0) if job is not None else None
            files = await fetched(source, key[0]) if source is not None else None
            broken = await asyncio.to_thread(broken_by, files, rules) if files else None
            if broken is not None and self._watched.get(key) is log:
                with contextlib.suppress(JournalError):
                    self._stop(key, broken.cause, epoch)

    def _stop(self, key: _Key, cause: str, epoch: int) -> None:
        journal = self._context.journal
        journal.require_role(epoch)
        job = journal.job(key[0])
        if job is not None and _is_watched(job) and _key(job) == key:
            now = self._context.clock.now()
            interrupt(journal, job, "rule", clean(cause, 1000), at=now)


def broken_by(files: Mapping[str, bytes], rules: Sequence[Rule]) -> Broken | None:
    """Return the first of the rules that the scalars of record files break. They count steps and no
    epochs."""
    watches = [Watch(rule) for rule in rules]
    for step, values in reports_of(files):
        for watch in watches:
            if (broken := watch.take(values, float(step), None)) is not None:
                return broken
    return None


def _key(job: Job) -> _Key:
    attempt = job.attempt
    assert attempt is not None
    return job.id, attempt.number, attempt.container_name


def _is_watched(job: Job) -> bool:
    attempt = job.attempt
    return (
        job.state is JobState.RUNNING
        and bool(job.task.stop_if)
        and attempt is not None
        and not attempt.ended_by
        and not job.cancel_requested
    )
