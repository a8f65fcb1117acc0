"""Reads from hosts for callers, a few at a time: an sshd allows ten sessions a connection, an
engine has a few threads, and what launches jobs there needs some of both."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError
from gpuconsole.waiting import within

OF_ACCOUNT = 2
"""Looks of one account at once."""
OF_HOST = 4
"""Looks at one host at once."""
WAIT_S = 60.0
"""How long a look waits for others to end."""


class HostReads:
    """Hands out looks at hosts."""

    def __init__(self) -> None:
        self._accounts: dict[int, asyncio.Semaphore] = {}
        self._present: Counter[int] = Counter()
        self._hosts: dict[str, asyncio.Semaphore] = {}
        self.waiting = 0
        """How many looks wait."""

    @contextlib.asynccontextmanager
    async def turn(self, uid: int, host: str) -> AsyncIterator[None]:
        """Hold a look of an account at a host, which must be one of the lab. RefusedError where
        others have not ended within `WAIT_S`."""
        account = self._accounts.setdefault(uid, asyncio.Semaphore(OF_ACCOUNT))
        there = self._hosts.setdefault(host, asyncio.Semaphore(OF_HOST))
        self._present[uid] += 1
        try:
            async with self._held(account), self._held(there):
                yield
        finally:
            self._present[uid] -= 1
            if not self._present[uid]:
                del self._present[uid], self._accounts[uid]

    @contextlib.asynccontextmanager
    async def _held(self, turns: asyncio.Semaphore) -> AsyncIterator[None]:
        self.waiting += 1
        try:
            await within(WAIT_S, turns.acquire(), lost=lambda _: turns.release())
        except asyncio.TimeoutError:
            raise RefusedError(
                "Too much is read at once",
                msg(
                    "An account has {of_account} things read from hosts at once, a host {of_host}.",
                    of_account=OF_ACCOUNT,
                    of_host=OF_HOST,
                ),
                "Wait for the others to end.",
            ) from None
        finally:
            self.waiting -= 1
        try:
            yield
        finally:
            turns.release()
