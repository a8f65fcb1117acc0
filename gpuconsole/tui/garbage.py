"""When garbage is looked for: while nobody types, not whenever it happens to be due.

A thousand hosts bring ten thousand new records a second, and none of them is garbage of the kind
that Python looks for: it would walk over them all twenty times a minute, up to a fifth of a second
each time, while a key waits.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

SETTLED_S = 5.0
"""How long after its start the console has loaded what it needs, which then stays."""
LOOK_S = 1.0
RECENT_EVERY_S = 60.0
ALL_EVERY_S = 3600.0
RESTED_S, LONG_RESTED_S = 4.0, 60.0
"""Nobody may have typed for so long, before what is recent, or all there is, is looked through."""
OVERDUE = 10.0
"""Who types without a pause is held up once for all that, after so many times as long."""


class Search(Enum):
    """What is looked through for garbage."""

    RECENT = "recent"
    ALL = "all"


@dataclass(slots=True)
class Rounds:
    """When which search is due. Times are seconds of one clock that only grows."""

    recent: float
    whole: float

    @classmethod
    def since(cls, now: float) -> Rounds:
        """Begin now."""
        return cls(now, now)

    def due(self, now: float, typed: float) -> Search | None:
        """Return what to search now, if anything; `typed` is when the last key was pressed."""
        rested = now - typed
        if _due(now - self.whole, ALL_EVERY_S, rested, LONG_RESTED_S):
            self.whole = self.recent = now
            return Search.ALL
        if _due(now - self.recent, RECENT_EVERY_S, rested, RESTED_S):
            self.recent = now
            return Search.RECENT
        return None


def _due(passed: float, every: float, rested: float, wanted: float) -> bool:
    return passed >= every and (rested >= wanted or passed >= OVERDUE * every)


async def collect(typed: Callable[[], float]) -> None:
    """Look for garbage at its times until cancelled; `typed` tells when a key was last pressed, by
    `time.monotonic`."""
    gc.disable()
    try:
        await asyncio.sleep(SETTLED_S)
        gc.freeze()
        rounds = Rounds.since(time.monotonic())
        while True:
            await asyncio.sleep(LOOK_S)
            search = rounds.due(time.monotonic(), typed())
            if search is not None:
                look_through(search)
    finally:
        gc.unfreeze()
        gc.enable()


def look_through(search: Search) -> None:
    """Drop the garbage; what is left is taken to stay, until all is searched."""
    if search is Search.ALL:
        gc.unfreeze()
        gc.collect()
    else:
        gc.collect(1)
    gc.freeze()
