"""Sessions that are idle, or near their time limit: warned, and ended.

A session is in use while a user types, or one of its devices is busy. What is unknown counts as
use: a device without figures, a host out of sight, a terminal that does not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from gpuconsole.core.engines.terminals import JUPYTER, JUPYTER_PORT, JUPYTER_TOKEN, SESSIONS, SOCKET
from gpuconsole.core.fleet import FleetSnapshot, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.submission.time_limits import time_limit
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import ConsoleError
from gpuconsole.session.async_helpers import Work, cancel_all
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.limits import ran_s
from gpuconsole.session.dispatch.preemption import interrupt
from gpuconsole.session.interactive.attached import AttachedTerminal, asked
from gpuconsole.session.interactive.notebooks import idle_s
from gpuconsole.session.submit.secrets import values_of
from gpuconsole.state import JobMovedError

ASK_EVERY_S = 30.0
"""How often a terminal is asked when something was typed last."""
LONGEST_WARNING_S = 300.0
WARNING_SHARE = 0.25
"""Of an idle time: somebody is warned no sooner than that before its end."""


@dataclass(slots=True)
class Watched:
    """What is known of one session's use. Times are of this machine's clock."""

    container: str
    used_at: float
    """When it was last used, as far as is known; when it was seen first before that."""
    asked_at: float = 0.0
    answered_at: float = 0.0
    warned: bool = False
    told_limit: bool = False


class IdleStop:
    """Looks at running sessions once a second, while this console dispatches."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._looked: Sequence[Job] = ()
        self._running: Sequence[Job] = ()
        self._watched: dict[str, Watched] = {}
        self._asking: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self, epoch: int) -> None:
        """Warn and end what is due; `epoch` proves the dispatcher's role."""
        journal = self._context.journal
        journal.require_role(epoch)
        jobs = journal.jobs()
        if jobs is not self._looked:
            self._looked = jobs
            self._running = [
                job for job in jobs
                if job.task.kind in SESSIONS and job.state is JobState.RUNNING and job.attempt
            ]  # fmt: skip
            ids = {job.id for job in self._running}
            self._watched = {key: watched for key, watched in self._watched.items() if key in ids}
        snapshot = self._context.hosts.snapshot()
        for job in self._running:
            assert job.attempt is not None
            self._look_at(job, job.attempt, snapshot)

    async def close(self) -> None:
        """Stop asking."""
        await cancel_all(list(self._tasks))

    def _look_at(self, job: Job, attempt: Attempt, snapshot: FleetSnapshot) -> None:
        now = self._context.clock.now()
        seen = self._watched.get(job.id)
        if seen is None or seen.container != attempt.container_id:
            seen = self._watched[job.id] = Watched(attempt.container_id, now)
        if attempt.warned_at is not None and not seen.told_limit:
            seen.told_limit = True
            self._aside(self._say(attempt, self._ends_soon(job, attempt, snapshot)))
        idle_stop = job.task.idle_stop_s
        if idle_stop is None or attempt.ended_by:
            return
        if may_be_used(attempt, snapshot):
            seen.used_at, seen.warned = now, False
        if now - seen.asked_at >= ASK_EVERY_S and job.id not in self._asking:
            seen.asked_at = now
            self._aside(self._ask(job, attempt, seen))
        idle = now - seen.used_at
        # Only an answer from after the idle time proves that nothing was typed in it.
        if idle >= idle_stop and seen.answered_at - seen.used_at >= idle_stop:
            words = f"Ended idle: for {format_duration(idle)} nothing was typed and no device used."
            with contextlib.suppress(JobMovedError):
                interrupt(self._context.journal, job, "idle", words, at=now)
        elif idle >= idle_stop - min(LONGEST_WARNING_S, WARNING_SHARE * idle_stop):
            self._warn(job, attempt, seen, idle_stop - idle)

    def _warn(self, job: Job, attempt: Attempt, seen: Watched, left_s: float) -> None:
        if seen.warned:
            return
        seen.warned = True
        words = (
            f"nothing is typed and no device used; it ends in {format_duration(max(left_s, 0.0))}"
            " unless it is used."
        )
        text = clean(f"{job.task.name}: {words}", 500)
        self._context.journal.tell("job", job.id, text, "warning", "idle-warning")
        self._aside(self._say(attempt, words.capitalize()))

    def _ends_soon(self, job: Job, attempt: Attempt, snapshot: FleetSnapshot) -> str:
        limit = time_limit(job.task, self._context.settings.limits.time_limit, attempt.started_at)
        ran = ran_s(attempt, snapshot, self._context.clock.now())
        if limit is None or ran is None:
            return "This session ends soon."
        return f"This session ends in {format_duration(max(0.0, limit.seconds - ran))}."

    def _aside(self, work: Work[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _idle_s(self, job: Job, attempt: Attempt) -> float | None:
        """Return how long ago somebody used a session; None where it does not say."""
        engine = await self._context.hosts.engine(attempt.host)
        if job.task.kind == JUPYTER:
            token = values_of(self._context, job).get(JUPYTER_TOKEN, "")
            port = str(JUPYTER_PORT)
            return await idle_s(await engine.connect(attempt.container_id, port), token)
        state = await asked(await engine.connect(attempt.container_id, SOCKET))
        return None if state is None else state.idle_s

    async def _ask(self, job: Job, attempt: Attempt, seen: Watched) -> None:
        """Ask a session when somebody used it last."""
        self._asking.add(job.id)
        try:
            idle = await self._idle_s(job, attempt)
        except ConsoleError:
            idle = None
        finally:
            self._asking.discard(job.id)
        now = self._context.clock.now()
        typed_at = now if idle is None else now - idle
        if typed_at > seen.used_at:
            seen.used_at, seen.warned = typed_at, False
        seen.answered_at = now

    async def _say(self, attempt: Attempt, words: str) -> None:
        """Show a sentence in a terminal, if it can be reached."""
        with contextlib.suppress(ConsoleError):
            engine = await self._context.hosts.engine(attempt.host)
            terminal = AttachedTerminal(await engine.connect(attempt.container_id, SOCKET))
            try:
                await terminal.say(words)
            finally:
                await terminal.close()


def may_be_used(attempt: Attempt, snapshot: FleetSnapshot) -> bool:
    """Return True if a device of an attempt is busy, or its load is unknown."""
    host = snapshot.host(attempt.host)
    if host is None or host.state is not HostState.UP:
        return True
    loads = {device.uuid: device.utilization for device in host.devices}
    return any(loads.get(uuid) != 0 for uuid in attempt.device_uuids)
