"""Waking many readers together instead of one by one."""

from __future__ import annotations

import asyncio


class Wakeups:
    """Readers for whom something came are woken together, at most `within_s` seconds after the
    first of them could have been.

    A thousand hosts bring a line a millisecond. Turned to for each of them, the event loop would
    ask the kernel twice as often as there are lines, and find what it works with gone cold.
    """

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._waiting: list[asyncio.Future[None]] = []

    def wake(self, reader: asyncio.Future[None]) -> None:
        """Wake this reader with the next ones."""
        self._waiting.append(reader)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_later(self._within_s, self._ring)

    def _ring(self) -> None:
        waiting, self._waiting = self._waiting, []
        for reader in waiting:
            if not reader.done():
                reader.set_result(None)
