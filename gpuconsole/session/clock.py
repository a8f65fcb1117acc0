"""Time as an argument, so that a simulated lab and a test have their own."""

from __future__ import annotations

import time
from typing import Protocol

from gpuconsole.waiting import aligned_sleep


class Clock(Protocol):
    """Tells the time and lets time pass."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of this clock."""
        ...


class WallClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Return after about that many seconds, when others do."""
        await aligned_sleep(seconds)
