"""What was chosen in the palette, for the next time it opens."""

from __future__ import annotations

MOST_RECENT = 8


class Recent:
    """What was chosen in the palette, the last one first."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def add(self, id_: str) -> None:
        """Remember a choice."""
        self.ids = [id_, *(old for old in self.ids if old != id_)][:MOST_RECENT]
