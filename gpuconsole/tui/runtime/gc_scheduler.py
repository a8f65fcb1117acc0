"""When garbage is collected: while the user is idle, not whenever Python's thresholds are reached.

Nearly all objects are freed as soon as their last reference goes; reference cycles, such as those
of a failed connection, need a collection. A thousand hosts bring ten thousand new records a second,
none of them part of a cycle: Python would walk over them all ten times a minute, up to a fifth of a
second each time, while a key waits.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from enum import Enum

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.waiting import aligned_sleep

SETTLED_S = 5.0
"""How long after its start the console has loaded what it needs, which then stays."""
LOOK_S = 1.0
RECENT_EVERY_S = 60.0
ALL_EVERY_S = 3600.0
RESTED_S, LONG_RESTED_S = 4.0, 60.0
"""Seconds without a key before a collection of recent objects, and before one of all objects."""
OVERDUE = 10.0
"""A collection that is overdue by this factor runs although the user types."""
MOST_MADE = 200_000
"""With more new objects than this that were not freed a collection runs at once, even if the user
types."""
GROWN = 2
"""Once the permanent generation has grown by this factor since the last whole search, all objects
are searched at the next rest."""


class Search(Enum):
    """What is looked through for garbage."""

    RECENT = "recent"
    ALL = "all"


@dataclass(slots=True)
class Rounds:
    """When which search is due. Times are seconds of one clock that only grows."""

    recent: float
    whole: float
    frozen: int = 0
    """Objects in the permanent generation after the last whole search."""

    @classmethod
    def since(cls, now: float, frozen: int = 0) -> Rounds:
        """Begin now."""
        return cls(now, now, frozen)

    def due(self, now: float, typed: float, allocated: int = 0, frozen: int = 0) -> Search | None:
        """Return what to search now, if anything.

        `typed` is when the last key was pressed, `allocated` how many objects were created since
        the last search and not freed, `frozen` how many are in the permanent generation.
        """
        rested, passed = now - typed, now - self.whole
        wanted = passed >= ALL_EVERY_S or self.grown(frozen)
        if passed >= OVERDUE * ALL_EVERY_S or (wanted and rested >= LONG_RESTED_S):
            self.whole = self.recent = now
            return Search.ALL
        passed = now - self.recent
        overdue = passed >= OVERDUE * RECENT_EVERY_S or allocated > MOST_MADE
        if overdue or (passed >= RECENT_EVERY_S and rested >= RESTED_S):
            self.recent = now
            return Search.RECENT
        return None

    def grown(self, frozen: int) -> bool:
        """Return True if so many objects in the permanent generation ask for a whole search."""
        return frozen > GROWN * self.frozen > 0


async def collect(typed: Callable[[], float]) -> None:
    """Collect garbage when it is due, until cancelled; `typed` returns when a key was last pressed,
    by `time.monotonic`."""
    gc.disable()
    try:
        await asyncio.sleep(SETTLED_S)
        gc.freeze()
        # Python counts the frozen objects one by one, which takes as long as a search.
        frozen = gc.get_freeze_count()
        # From here on it is counted on, and again when it seems to have grown.
        rounds = Rounds.since(time.monotonic(), frozen)
        while True:
            await aligned_sleep(LOOK_S)
            search = rounds.due(time.monotonic(), typed(), gc.get_count()[0], frozen)
            if search is None:
                continue
            frozen += look_through(search)
            if search is Search.ALL or rounds.grown(frozen):
                # Of what was added much has been freed since.
                frozen = gc.get_freeze_count()
            if search is Search.ALL:
                rounds.frozen = frozen
    finally:
        gc.unfreeze()
        gc.enable()


def look_through(search: Search) -> int:
    """Drop the garbage; what is left is taken to stay, until all is searched. Returns how many
    objects were added to what stays."""
    if search is Search.ALL:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        return 0
    gc.collect(1)
    added = len(gc.get_objects(generation=2))
    gc.freeze()
    return added
