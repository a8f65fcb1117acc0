"""Containers' logs copied into files: while they run, and to the end after their job has ended.

The end of a job waits for no log. What is still missing then is copied in the background, and the
container stays until its log is whole: the log of an ended container that is still on its host may
be incomplete, for any console.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from gpuconsole.core.containers import LogTail
from gpuconsole.errors import ConsoleError
from gpuconsole.session.async_helpers import cancel_all, first
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt import gang
from gpuconsole.session.dispatch.attempt.gang import Part
from gpuconsole.session.dispatch.attempt.outcome import TAIL_BYTES
from gpuconsole.session.dispatch.job_record import Entry
from gpuconsole.session.logs.follow import (
    CopyMark,
    cannot_store,
    complete_log,
    follow_log,
    log_file,
)

PARALLEL_COPIES = 2
"""Logs of ended jobs copied at once from a host: they share its link with everything else, and a
host with a stalled engine delays no other."""
TAIL_WITHIN_S = 60.0
"""How long the end of a log may take, before a job ends without."""


class LogCopies:
    """The copies that this console makes for as long as it dispatches."""

    def __init__(
        self, context: Context, on_left: Callable[[str], None] = lambda host: None
    ) -> None:
        """`on_left` is called with the host of an ended container if its log could not be
        completed."""
        self._context = context
        self._on_left = on_left
        self._live: dict[str, asyncio.Task[None]] = {}
        self._rests: dict[str, asyncio.Task[None]] = {}
        self._marks: dict[str, CopyMark] = {}
        self._slots: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(PARALLEL_COPIES)
        )

    def follow(self, entry: Entry, part: Part) -> asyncio.Task[None]:
        """Return the copy of a running container's log, begun if it is not being made.

        It ends with the container's output; UnreachableError when the link breaks.
        """
        name = part.attempt.container_name
        copy = self._live.get(name)
        if copy is None or copy.done():
            self._mark(entry.job_id, part)
            copy = asyncio.ensure_future(self._copy(entry, part))
            copy.add_done_callback(_retrieved)
            self._live[name] = copy
        return copy

    async def last(self, entry: Entry, part: Part) -> LogTail:
        """Return the end of an ended container's log, as its engine has it; nothing of one that an
        engine begins to send and never ends, and of a dead container, which has none any more.
        UnreachableError or EngineError."""
        assert part.status is not None
        if part.status.state in ("created", "dead"):
            return LogTail(b"", whole=True)
        self._mark(entry.job_id, part)
        tails: list[LogTail] = []

        async def read(container: str) -> None:
            tails.append(await part.engine.log_tail(container, TAIL_BYTES))

        with gang.on_host(part.attempt.host):
            await first(read(part.status.id), self._context.clock.sleep(TAIL_WITHIN_S))
        return tails[0] if tails else LogTail(b"", whole=False)

    async def finish(self, entry: Entry, part: Part, tail: LogTail | None) -> None:
        """Make an ended container's log whole and remove the container: now where the tail is all
        there is, else in the background."""
        name = part.attempt.container_name
        if name in self._rests:
            return
        self._mark(entry.job_id, part)
        live = self._live.pop(name, None)
        rest = asyncio.ensure_future(self._rest(entry, part, tail, live))
        self._rests[name] = rest
        rest.add_done_callback(lambda _: self._over(name))
        if tail is not None and tail.whole:
            await asyncio.wait([rest])

    async def leave(self, names: Iterable[str]) -> None:
        """Stop following these containers; the rests of ended ones go on."""
        copies = {name: self._live.pop(name) for name in names if name in self._live}
        await cancel_all(copies.values())
        for name in copies:
            self._unmark(name)

    async def close(self) -> None:
        """Stop all copies. What is missing is copied by the console that dispatches next."""
        await cancel_all([*self._live.values(), *self._rests.values()])
        self._live.clear()
        for name in tuple(self._marks):
            self._unmark(name)

    async def _copy(self, entry: Entry, part: Part) -> None:
        try:
            await self._write(entry, part, follow=True)
        except OSError as error:
            entry.say(cannot_store(error))

    async def _write(self, entry: Entry, part: Part, *, follow: bool) -> None:
        assert part.status is not None
        chunks = part.engine.logs(part.status.id, follow=follow)
        with gang.on_host(part.attempt.host):
            async with contextlib.aclosing(chunks):  # type: ignore[type-var]
                await follow_log(self._path(entry.job_id, part), chunks)

    async def _rest(
        self, entry: Entry, part: Part, tail: LogTail | None, live: asyncio.Task[None] | None
    ) -> None:
        """Copy what is missing. On trouble, also with the disk here, the container stays for the
        next sweep of its host."""
        try:
            if live is not None and tail is not None and tail.whole:
                await cancel_all([live])
            await self._complete(entry, part, tail, live)
            entry.require_role()
            await gang.remove_own([part], self._context.journal.id)
        except OSError as error:
            with contextlib.suppress(ConsoleError):
                entry.say(cannot_store(error))
            self._on_left(part.attempt.host)
        except ConsoleError:
            self._on_left(part.attempt.host)
        finally:
            if live is not None:
                await cancel_all([live])

    async def _complete(
        self, entry: Entry, part: Part, tail: LogTail | None, live: asyncio.Task[None] | None
    ) -> None:
        """Make the log whole; OSError when it cannot be stored."""
        path = self._path(entry.job_id, part)
        if tail is not None and tail.whole:
            complete_log(path, tail)
            return
        async with self._slots[part.attempt.host]:
            if live is not None:
                await asyncio.wait([live])
            if tail is None or not complete_log(path, tail):
                await self._write(entry, part, follow=False)

    def _over(self, name: str) -> None:
        self._rests.pop(name, None)
        self._unmark(name)

    def _path(self, job_id: str, part: Part) -> Path:
        return log_file(self._context.state, job_id, part.attempt.number, part.rank)

    def _mark(self, job_id: str, part: Part) -> None:
        name = part.attempt.container_name
        if name not in self._marks:
            self._marks[name] = CopyMark(self._path(job_id, part))

    def _unmark(self, name: str) -> None:
        mark = self._marks.pop(name, None)
        if mark is not None:
            mark.remove()


def _retrieved(copy: asyncio.Task[None]) -> None:
    """A copy that breaks is begun again, or made whole at the end: its error is no news."""
    if not copy.cancelled():
        copy.exception()
