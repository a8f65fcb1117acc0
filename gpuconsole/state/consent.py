"""Whether the user agreed that scripts may be run on this machine to measure them."""

from __future__ import annotations

from pathlib import Path

from gpuconsole.state.filesystem import make_folder

_MARKER = "measured-here"


class LocalConsent:
    """The user's consent, kept in the state folder."""

    def __init__(self, state: Path) -> None:
        self._marker = state / _MARKER

    @property
    def given(self) -> bool:
        """Whether the user agreed, now or earlier."""
        return self._marker.exists()

    def give(self) -> None:
        """Keep the user's consent."""
        make_folder(self._marker.parent)
        self._marker.touch(mode=0o600)
