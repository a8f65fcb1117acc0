"""The same session for code that is not asynchronous: a script, or a cell of a notebook.

It runs on an event loop in a thread of its own, so it works beside a loop that runs already.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from gpuconsole.api.session import LabSession, Update, open_session
from gpuconsole.api.tasks import Runnable
from gpuconsole.core.estimate import Report
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job
from gpuconsole.errors import UnreachableError, UsageError
from gpuconsole.session.aio import cancel_all
from gpuconsole.session.factory import DemoOptions
from gpuconsole.session.queue.planner import Why

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from gpuconsole.api.tasks import TaskOptions

Answer = TypeVar("Answer")
_CLOSE_S = 30.0
"""How long closing is waited for: longer than any host's last answer."""


def open_blocking(
    inventory: str | os.PathLike[str] | None = None,
    *,
    state: str | os.PathLike[str] | None = None,
    read_only: bool = False,
    demo: bool | DemoOptions = False,
    dispatch: bool = False,
) -> BlockingSession:
    """Open a session as `open_session` does, for code without `await`.

    Use it in a `with` block, or close it; the end of the program does so too.
    """
    return BlockingSession(
        lambda: open_session(
            inventory, state=state, read_only=read_only, demo=demo, dispatch=dispatch
        )
    )


class BlockingSession:
    """A lab's fleet and queue; each method is that of `LabSession`, and returns when it is done.

    An interrupt (Ctrl-C, a notebook's stop button) ends the waiting, never a job.
    """

    def __init__(self, opening: Callable[[], AbstractAsyncContextManager[LabSession]]) -> None:
        """Open the session in a thread of its own; use `open_blocking`."""
        ready: Future[LabSession] = Future()
        self._opening = opening
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="gpuconsole"))
        self._closing = asyncio.Event()
        self._ended = False
        self._thread = threading.Thread(
            target=self._serve, args=(ready,), name="gpuconsole", daemon=True
        )
        self._thread.start()
        try:
            self._lab = ready.result()
        except BaseException:
            self._end()
            raise
        _OPEN.add(self)

    def __enter__(self) -> BlockingSession:
        """Return the session itself; it is open already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Stop polling; jobs run on. Closing twice does nothing."""
        _OPEN.discard(self)
        self._end()

    @property
    def closed(self) -> bool:
        """Whether it can be used no more."""
        return self._ended or not self._thread.is_alive()

    @property
    def simulated(self) -> bool:
        """Whether this is the simulated lab."""
        return self._lab.simulated

    @property
    def read_only(self) -> bool:
        """Whether every change is refused."""
        return self._lab.read_only

    def now(self) -> float:
        """Return the session's clock, seconds since the epoch."""
        return self._lab.now()

    def snapshot(self) -> FleetSnapshot:
        """Return the fleet as it is known now; hosts may still be connecting."""
        return self._ask(self._lab.snapshot)

    def status(self, wait_s: float = 5.0) -> FleetSnapshot:
        """Return the fleet once every host has answered or failed, at most `wait_s` later."""
        return self._call(self._lab.status(wait_s))

    def preflight(
        self, what: Runnable, *, tier: str = "", **options: Unpack[TaskOptions]
    ) -> Report:
        """Predict a script's memory and hold it against every device; see `LabSession`."""
        return self._call(self._lab.preflight(what, tier=tier, **options))

    def submit(
        self,
        what: Runnable,
        *,
        force: bool = False,
        hold: bool = False,
        **options: Unpack[TaskOptions],
    ) -> Job:
        """Pack a script's project and queue it; see `LabSession`."""
        return self._call(self._lab.submit(what, force=force, hold=hold, **options))

    def jobs(self) -> tuple[Job, ...]:
        """Return every job of the queue, oldest first."""
        return self._ask(self._lab.jobs)

    def job(self, reference: str) -> Job:
        """Return one job as it stands now."""
        return self._ask(lambda: self._lab.job(reference))

    def why(self, reference: str) -> Why:
        """Say why a job stands where it does, and what would help."""
        return self._call(self._lab.why(reference))

    def logs(self, reference: str, *, follow: bool = False, rank: int = 0) -> Iterator[str]:
        """Give the log lines of a job's latest attempt; with `follow`, until the job ends."""
        return self._each(self._lab.logs(reference, follow=follow, rank=rank))

    def follow(self, reference: str) -> Iterator[Update]:
        """Give what is new of a job, state and log lines, until it has ended."""
        return self._each(self._lab.follow(reference))

    def wait(self, reference: str, *, timeout_s: float | None = None) -> Job:
        """Return a job once it has ended, however it did; TimeoutError when it has not by then."""
        return self._call(self._lab.wait(reference, timeout_s=timeout_s))

    def cancel(self, reference: str) -> Job:
        """End a job: it leaves the queue, or gets SIGTERM, a grace time, SIGKILL."""
        return self._call(self._lab.cancel(reference))

    def fetch(self, reference: str, folder: str | os.PathLike[str] = ".") -> Path:
        """Copy a job's results into `folder/<job id>`; returns that folder."""
        return self._call(self._lab.fetch(reference, Path(folder).expanduser().absolute()))

    def _serve(self, ready: Future[LabSession]) -> None:
        """Run the loop of the session, from its opening to its close."""
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(_drop_unreachable)
        try:
            self._loop.run_until_complete(self._live(ready))
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)
        finally:
            self._loop.close()

    async def _live(self, ready: Future[LabSession]) -> None:
        async with self._opening() as lab:
            ready.set_result(lab)
            await self._closing.wait()
            await cancel_all(asyncio.all_tasks() - {asyncio.current_task()})

    def _end(self) -> None:
        # From now on nothing may be asked of a loop that may never answer.
        self._ended = True
        if self._thread.is_alive() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(_CLOSE_S)

    def _call(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Do work on the session's loop; being interrupted cancels it."""
        if self.closed:
            work.close()
            raise UsageError("Session is closed", "It was closed before.", "Open another one.")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """Ask on the session's loop: its journal belongs to that thread."""

        async def asked() -> Answer:
            return question()

        return self._call(asked())

    def _each(self, items: AsyncIterator[Answer]) -> Iterator[Answer]:
        """Give what an asynchronous iterator gives; leaving early ends it."""
        steps = _Steps(items)
        try:
            while (found := self._call(steps.next())) is not None:
                yield found
        finally:
            if not self.closed:
                self._call(steps.close())


_OPEN: set[BlockingSession] = set()


def _close_all() -> None:
    """Close what the program has left open, at its end."""
    for session in tuple(_OPEN):
        session.close()


# `atexit` is too late: closing needs threads, and executors take no more work by then. What is
# registered after their own end runs before it. Python has no public word for that.
getattr(threading, "_register_atexit", atexit.register)(_close_all)


class _Steps:
    """An asynchronous iterator, taken step by step by somebody who may be interrupted."""

    def __init__(self, items: AsyncIterator[Any]) -> None:
        self._items = items
        self._step: asyncio.Future[Any] | None = None

    async def next(self) -> Any:
        """Return the next item, None at the end."""
        self._step = asyncio.ensure_future(self._take())
        return await self._step

    async def close(self) -> None:
        """End the iterator once the step in progress is over."""
        if self._step is not None:
            await cancel_all([self._step])
        await self._items.aclose()  # type: ignore[attr-defined]

    async def _take(self) -> Any:
        return await anext(self._items, None)


def _drop_unreachable(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Leave a host that cannot be reached to the picture of the fleet, which tells it."""
    if not isinstance(context.get("exception"), (UnreachableError, asyncio.CancelledError)):
        loop.default_exception_handler(context)
