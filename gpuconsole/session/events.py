"""Events for subscribers: what any console wrote into the journal, and what hosts do."""

from __future__ import annotations

import logging
from collections.abc import Callable

from gpuconsole.core.containers import Hosts
from gpuconsole.core.events import Event, Severity
from gpuconsole.core.fleet import FleetSnapshot, HostState
from gpuconsole.core.roll import Roll, roll_of
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError
from gpuconsole.session.clock import Clock
from gpuconsole.state import Journal

LOOK_EVERY_S = 0.5
_LOG = logging.getLogger(__name__)


class News:
    """Looks for events now and then and tells each once."""

    def __init__(self, hosts: Hosts, journal: Journal, clock: Clock) -> None:
        self._hosts = hosts
        self._journal = journal
        self._clock = clock
        self._listeners: dict[int, Callable[[Event], None]] = {}
        self._next = 0
        self._last: int | None = None
        self._states: dict[str, HostState] = {}
        self._seen: FleetSnapshot | None = None
        """The snapshot that was looked at last."""
        self._roll: Roll = roll_of(())
        self._trouble = ""

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` for each event from now on; the result unsubscribes."""
        key, self._next = self._next, self._next + 1
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(LOOK_EVERY_S)

    def look(self) -> None:
        """Tell what is new."""
        self._look_at_hosts()
        try:
            self._journal.require_intact()
            if self._last is None:
                self._last = self._journal.last_event()
            for number, event in self._journal.events_after(self._last):
                self._last = number
                self.tell(event)
            self._trouble = ""
        except JournalError as error:
            if self._trouble != error.message:
                self._trouble = error.message
                words = f"{error.message} {error.hint}".strip()
                self.tell(Event("error", "journal", words, self._clock.now(), "error"))

    def _look_at_hosts(self) -> None:
        snapshot, states = self._hosts.snapshot(), self._states
        if snapshot is self._seen:
            return
        self._seen = snapshot
        roll = roll_of(snapshot.hosts)
        seen, self._roll = self._roll, roll
        if roll.states == seen.states and roll.names == seen.names:
            return
        for host in snapshot.hosts:
            before = states.get(host.name)
            if before is host.state:
                continue
            states[host.name] = host.state
            if before is None:
                continue
            severity: Severity = "information"
            if host.state is HostState.DOWN and host.power:
                message = f"{host.name} sleeps."
            elif host.state is HostState.DOWN:
                message, severity = f"{host.name} is down. {clean(host.error, 300)}", "error"
            elif host.state is HostState.UP and before is not HostState.STALE:
                message = msg("{host} is up.", host=host.name)
            else:
                continue
            self.tell(Event("host", host.name, message.strip(), self._clock.now(), severity))

    def tell(self, event: Event) -> None:
        """Call every listener here with an event that is in no journal."""
        _LOG.info("%s %s: %s", event.kind, event.subject, event.message)
        for listener in tuple(self._listeners.values()):
            listener(event)
