"""When garbage is looked for: while nobody types, not whenever it happens to be due.

Nearly everything goes by itself as soon as nobody refers to it any more; what refers to itself in
a circle, such as a connection that failed, has to be looked for. A thousand hosts bring ten
thousand new records a second, none of them such a circle: Python would walk over them all ten
times a minute, up to a fifth of a second each time, while a key waits.
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
MOST_MADE = 200_000
"""So many new things that did not go by themselves are searched at once, whoever types."""
GROWN = 2
"""Once so many times as much is taken to stay as after the last whole search, all is searched at
the next rest."""


class Search(Enum):
    """What is looked through for garbage."""

    RECENT = "recent"
    ALL = "all"


@dataclass(slots=True)
class Rounds:
    """When which search is due. Times are seconds of one clock that only grows."""

    recent: float
    whole: float
    kept: int = 0
    """How much was taken to stay after the last whole search."""

    @classmethod
    def since(cls, now: float, kept: int = 0) -> Rounds:
        """Begin now."""
        return cls(now, now, kept)

    def due(self, now: float, typed: float, made: int = 0, kept: int = 0) -> Search | None:
        """Return what to search now, if anything.

        `typed` is when the last key was pressed, `made` how many things came to be since the last
        search and are still there, `kept` how many are taken to stay.
        """
        rested, passed = now - typed, now - self.whole
        wanted = passed >= ALL_EVERY_S or kept > GROWN * self.kept > 0
        if passed >= OVERDUE * ALL_EVERY_S or (wanted and rested >= LONG_RESTED_S):
            self.whole = self.recent = now
            return Search.ALL
        passed = now - self.recent
        overdue = passed >= OVERDUE * RECENT_EVERY_S or made > MOST_MADE
        if overdue or (passed >= RECENT_EVERY_S and rested >= RESTED_S):
            self.recent = now
            return Search.RECENT
        return None


async def collect(typed: Callable[[], float]) -> None:
    """Look for garbage at its times until cancelled; `typed` tells when a key was last pressed, by
    `time.monotonic`."""
    gc.disable()
    try:
        await asyncio.sleep(SETTLED_S)
        gc.freeze()
        # Python counts them one by one: as long as a search takes, so only beside one.
        kept = gc.get_freeze_count()
        rounds = Rounds.since(time.monotonic(), kept)
        while True:
            await asyncio.sleep(LOOK_S)
            search = rounds.due(time.monotonic(), typed(), gc.get_count()[0], kept)
            if search is not None:
                look_through(search)
                kept = gc.get_freeze_count()
            if search is Search.ALL:
                rounds.kept = kept
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
