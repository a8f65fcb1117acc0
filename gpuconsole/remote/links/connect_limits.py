"""Which hosts are connected to at the same time: few, in a fair order, and no dead one for long."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

SLOW_S = 1.0
"""After so long a connection that is still being made frees its place for the next host; it goes on
until its own timeout. A host that answers does so sooner, one that is dead never."""


class ConnectGate:
    """Limits the hosts that connect at the same time to `places`.

    Hosts that have failed less often in a row come first, among equals those that came first: one
    that was never tried waits for no second try of another.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._numbers = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def turn(self, failures: int) -> AsyncIterator[None]:
        """Wait for a place, and hold it within the block, for `SLOW_S` at most."""
        await self._enter(failures)
        held = True

        def leave() -> None:
            nonlocal held
            if held:
                held = False
                self._leave()

        slow = asyncio.get_running_loop().call_later(SLOW_S, leave)
        try:
            yield
        finally:
            slow.cancel()
            leave()

    async def _enter(self, failures: int) -> None:
        if self._free > 0:
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (failures, next(self._numbers), place))
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                # It was given the place in the moment in which it was cancelled.
                self._leave()
            raise

    def _leave(self) -> None:
        while self._waiting:
            *_, place = heapq.heappop(self._waiting)
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
