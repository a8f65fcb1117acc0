"""Asking about scripts beside an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from gpuconsole.session.reading.process import Limits
from gpuconsole.session.reading.questions import Question
from gpuconsole.session.reading.reader import Reader, Ticket

if TYPE_CHECKING:
    import asyncio

Answer = TypeVar("Answer")

GRACE_S = 0.3
"""An answer that is no longer wanted may still take so long before its process is ended."""


class AsyncReader(Reader):
    """A reader with awaitable, cancellable questions."""

    def __init__(self, limits: Limits | None = None, *, copied: bool = False) -> None:
        super().__init__(limits, copied=copied)
        self._line: asyncio.Lock | None = None

    async def asked(self, question: Question[Answer]) -> Answer:
        """Answer a question beside the event loop. Cancelling ends the work."""
        # Commands that only read never come here, and asyncio takes long to load.
        import asyncio

        ticket = Ticket()
        self._line = self._line or asyncio.Lock()
        # Those that wait hold no thread.
        async with self._line:
            work = asyncio.ensure_future(asyncio.to_thread(self.answer, question, ticket))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                work.add_done_callback(_forget)
                # What is nearly there is let through: another process takes longer than that.
                asyncio.get_running_loop().call_later(GRACE_S, self.stop, ticket)
                raise


def _forget(work: asyncio.Future[Any]) -> None:
    """Retrieve the result of work that is no longer awaited."""
    if not work.cancelled():
        work.exception()
