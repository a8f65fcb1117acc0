"""What requests carry, read a few at a time: what else an account sends waits in the kernel, and
takes no memory of the service."""

from __future__ import annotations

import asyncio
from collections import Counter

from aiohttp import web

from gpuconsole.core.units import MIB
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.waiting import within

ACT_BYTES = MIB // 4
"""Of an act, which may last as long as a job takes to stop: a thousand ids and some secrets."""
OPERATION_BYTES = MIB
"""Of an operation on hosts: a thousand pulls."""
AT_ONCE = 4
"""Requests of an account that are read at once."""
SLOW_S = 30.0
"""How long a request may take to come."""


class Bodies:
    """Reads the bodies of requests."""

    def __init__(self) -> None:
        self._turns: dict[int, asyncio.Semaphore] = {}
        self._present: Counter[int] = Counter()

    def waiting(self, uid: int) -> int:
        """Return how many requests of an account wait to be read."""
        return max(0, self._present[uid] - AT_ONCE)

    async def read(self, request: web.Request, uid: int, most: int) -> bytes:
        """Return the body of an account's request. UsageError for one of more than `most` bytes,
        and for one that does not come."""
        self._present[uid] += 1
        turn = self._turns.setdefault(uid, asyncio.Semaphore(AT_ONCE))
        try:
            if (request.content_length or 0) > most:
                raise _too_large(most)
            async with turn:
                body = await within(SLOW_S, _read(request, most))
        except asyncio.TimeoutError:
            raise UsageError(
                "Request is too slow", msg("It took more than {slow_s} s.", slow_s=f"{SLOW_S:g}")
            ) from None
        finally:
            self._present[uid] -= 1
            if not self._present[uid]:
                del self._present[uid], self._turns[uid]
        return body


async def _read(request: web.Request, most: int) -> bytes:
    # Not `request.read`, which keeps the body for as long as the request is answered.
    data = bytearray()
    async for chunk in request.content.iter_any():
        data += chunk
        if len(data) > most:
            raise _too_large(most)
    return bytes(data)


def _too_large(most: int) -> UsageError:
    return UsageError("Request is too large", msg("It has more than {most} bytes.", most=most))
