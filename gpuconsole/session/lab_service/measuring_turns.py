"""The order of measurements: a host runs one at a time, and no account takes them all."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import field

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import HostBusyError
from gpuconsole.waiting import within

LONGEST_S = 1800.0
"""How long a measurement waits for those of others."""


@dataclass(slots=True, eq=False)
class _Ticket:
    uid: int
    host: str
    granted: asyncio.Event = field(default_factory=asyncio.Event)


class MeasuringTurns:
    """Hands out the hosts that measure, one measurement each.

    Users take turns: a free host goes to the waiting user with the oldest last turn, and within a
    user to the request that came first. While another user waits, for any host, no user begins a
    second measurement beside a running one.
    """

    def __init__(self) -> None:
        self._waiting: list[_Ticket] = []
        self._running: dict[str, int] = {}
        """The account of the measurement that a host runs."""
        self._last: dict[int, int] = {}
        """When an account had its last turn, counted in turns."""
        self._turns = 0

    @contextlib.asynccontextmanager
    async def turn(
        self,
        uid: int,
        host: str,
        *,
        patient: bool = True,
        on_wait: Callable[[], object] = lambda: None,
    ) -> AsyncIterator[None]:
        """Hold a host for a measurement of an account; `on_wait` is called once it has to wait.

        HostBusyError where it is not `patient` and would wait, or has waited for `LONGEST_S`.
        """
        ticket = _Ticket(uid, host)
        self._waiting.append(ticket)
        try:
            self._grant()
            if not ticket.granted.is_set():
                if not patient:
                    raise _busy(host)
                on_wait()
                try:
                    await within(LONGEST_S, ticket.granted.wait())
                except asyncio.TimeoutError:
                    raise _busy(host) from None
            yield
        finally:
            if ticket.granted.is_set():
                del self._running[host]
            else:
                self._waiting.remove(ticket)
            self._grant()

    def _grant(self) -> None:
        """Assign each free host to the next in turn."""
        while (ticket := self._next()) is not None:
            self._waiting.remove(ticket)
            self._running[ticket.host] = ticket.uid
            self._turns += 1
            self._last[ticket.uid] = self._turns
            ticket.granted.set()
        present = {ticket.uid for ticket in self._waiting} | set(self._running.values())
        if not present:
            # No turns are owed any more.
            self._last.clear()

    def _next(self) -> _Ticket | None:
        running = Counter(self._running.values())
        users = {ticket.uid for ticket in self._waiting}
        able = [
            ticket
            for ticket in self._waiting
            if ticket.host not in self._running
            and (not running[ticket.uid] or users == {ticket.uid})
        ]
        # The first of those who had no turn for the longest time: `min` keeps their order.
        return min(able, key=lambda ticket: self._last.get(ticket.uid, 0), default=None)


def _busy(host: str) -> HostBusyError:
    return HostBusyError(
        "The host measures already",
        msg("{host} runs a measurement, or others have waited longer.", host=host),
        "Ask again in a minute, or name another host (--host).",
    )
