"""Hosts with a container engine that could not be queried lately, and why."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconsole.errors import ConsoleError
from gpuconsole.session.clock import Clock

SILENT_S = 60.0
"""How long (s) a host is left out after its engine could not be queried, if no caller queries it
again."""
BELIEVED_S = 10.0
"""An engine that answers is trusted again so long after it last did not: one that takes some
calls and drops others must not get a job every few seconds."""


class Silences:
    """What is known of engines that do not answer. All who ask engines note what they met."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._noted: dict[str, tuple[float, str]] = {}

    def current(self) -> Mapping[str, str]:
        """Return why an engine could not be asked lately, by host."""
        now = self._clock.now()
        return {
            host: cause for host, (at, cause) in self._noted.items() if 0.0 <= now - at < SILENT_S
        }

    def note(self, host: str, error: Exception) -> None:
        """Note why a host's engine could not be asked: no job is placed there for a while."""
        said = error.message if isinstance(error, ConsoleError) else ""
        cause = said or f"its answer is not understood: {error!r}"
        self._noted[host] = (self._clock.now(), cause)

    def heard(self, host: str) -> None:
        """Note that a host's engine has answered."""
        if self._clock.now() - self._noted.get(host, (0.0, ""))[0] >= BELIEVED_S:
            self._noted.pop(host, None)
