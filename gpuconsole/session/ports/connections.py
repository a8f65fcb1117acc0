"""Connections of forwards, and the pauses between their requests."""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.core.containers import ByteStream
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.session.clock import Clock

PAUSE_LOOK_S = 0.25
"""How often a connection is looked at whether its far end is to leave."""


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection into a container."""

    stream: ByteStream
    ended: Callable[[], None] = _nothing
    """Called once it has ended."""
    pause_s: Callable[[], float | None] = _nothing
    """Returns how long a pause must be in which it is closed, as its far end is to leave; None
    while that stays."""


class Pauses:
    """Tells when a connection is between two requests: the far end has spoken last, or none has."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.now()
        self._is_asked = False

    def asked(self) -> None:
        """Note that this machine has said something, which may want an answer."""
        self._is_asked = True

    def answered(self) -> None:
        """Note that the far end has said something."""
        self._is_asked, self._since = False, self._clock.now()

    async def until(self, pause_s: Callable[[], float | None]) -> None:
        """Return in a pause of so many seconds."""
        while True:
            await self._clock.sleep(PAUSE_LOOK_S)
            least = pause_s()
            if least is None or self._is_asked:
                continue
            if self._clock.now() - self._since >= least:
                return
