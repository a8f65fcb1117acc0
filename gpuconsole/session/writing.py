"""`Writing`: what every part of a session needs that changes something."""

from __future__ import annotations

from gpuconsole.errors import ReadOnlyError


class Writing:
    """Refuses changes where the console was opened to look only."""

    read_only: bool

    def _require_writable(self, doing: str) -> None:
        if self.read_only:
            raise ReadOnlyError(
                "Read-only",
                f"{doing} was refused: this console was opened to look only.",
                "Open it again without --read-only.",
            )
