"""Whether the user agreed that scripts may be run on this machine to measure them."""

from __future__ import annotations

from pathlib import Path

from gpuconsole.core.estimate import Isolation
from gpuconsole.state.filesystem import make_folder

_MARKER = "measured-here"
_MOST_BYTES = 1000


class LocalConsent:
    """The user's consent, stored in the state folder with what the user agreed to."""

    def __init__(self, state: Path) -> None:
        self._marker = state / _MARKER

    def covers(self, isolation: Isolation) -> bool:
        """Whether the user agreed, now or earlier, to scripts that no more than this holds."""
        try:
            with open(self._marker, "rb") as marker:
                given = marker.read(_MOST_BYTES).split()
        except OSError:
            return False
        # An earlier version stored no isolation: no more is read into it than the strictest.
        return isolation == "bubblewrap" or isolation.encode() in given

    def give(self, isolation: Isolation) -> None:
        """Store the user's consent to an isolation, and to stricter ones."""
        make_folder(self._marker.parent)
        self._marker.touch(mode=0o600)
        if not self.covers(isolation):
            with open(self._marker, "a") as marker:
                marker.write(f"{isolation}\n")
