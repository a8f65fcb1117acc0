"""Copies of the journal, made now and then by the console that dispatches."""

from __future__ import annotations

import asyncio
import contextlib

from gpuconsole.errors import JournalError
from gpuconsole.session.context import Context
from gpuconsole.state.backup.backups import Backup, backups, make_backup

EVERY_S = 3600.0
"""How old the latest copy may be. Of each day only the latest is kept, so that a lost journal is an
hour old and not a day."""
AGAIN_S = 600.0
"""Rest after a copy that could not be made."""


class Backing:
    """Makes a copy when the latest is old enough."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._making: asyncio.Task[Backup] | None = None
        self._next_at: float | None = None

    def look(self) -> None:
        """Do what is to be done now; called each second while this console dispatches."""
        now, folder = self._context.clock.now(), self._context.state
        if self._making is not None:
            self._reap(now)
        elif self._next_at is None:
            latest = next((backup.made_at for backup in backups(folder)), 0.0)
            # One from the future was made by a clock that has been set since.
            self._next_at = latest + EVERY_S if latest <= now else now
        elif now >= self._next_at:
            self._making = asyncio.ensure_future(asyncio.to_thread(make_backup, folder, now))

    async def close(self) -> None:
        """Wait for a copy under way: a thread cannot be stopped, and leaves nothing unfinished."""
        making, self._making = self._making, None
        if making is not None:
            await asyncio.gather(making, return_exceptions=True)

    def _reap(self, now: float) -> None:
        assert self._making is not None
        if not self._making.done():
            return
        making, self._making = self._making, None
        try:
            making.result()
            self._next_at = now + EVERY_S
        except JournalError as error:
            self._next_at = now + AGAIN_S
            with contextlib.suppress(JournalError):
                words = f"{error.title}. {error.message}"
                self._context.journal.tell("error", "journal", words, "warning")
