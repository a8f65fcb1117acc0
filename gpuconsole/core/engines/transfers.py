"""What is taken out of containers: how much of it at most, and what was left behind."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass

MOST_NAMED = 1000
"""Things left out that are kept by name; further ones are counted."""


@dataclass(frozen=True, slots=True)
class TransferLimits:
    """The most that an archive from a host may hold."""

    size_bytes: int
    files: int
    """Files, folders and links."""
    size_from: str = "the lab's setting `transfer.size` allows"
    """What sets the size, as the end of a sentence that begins with it."""
    hint: str = "Remove what is not needed there, or raise the setting."


@dataclass(frozen=True, slots=True)
class Omission:
    """A thing that was left out, and why, as the end of a sentence; both safe to show."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Everything that was left out; of very much only the first by name."""

    named: Sequence[Omission] = ()
    count: int = 0

    def add(self, name: str, reason: str) -> LeftOut:
        """Return this with one thing more."""
        omission = Omission(clean(name, 300), clean(reason, 200))
        named = (*self.named, omission) if self.count < MOST_NAMED else self.named
        return LeftOut(named, self.count + 1)

    def joined(self, other: LeftOut, prefix: str) -> LeftOut:
        """Return this with what another has, by names with a prefix."""
        more = [Omission(prefix + omission.name, omission.reason) for omission in other.named]
        named = (*self.named, *more)[:MOST_NAMED]
        return LeftOut(named, self.count + other.count)

    def lines(self, most: int) -> list[str]:
        """Return a line for each of the first, and how many more there are."""
        lines = [f"{omission.name} {omission.reason}" for omission in self.named[:most]]
        more = self.count - len(lines)
        return [*lines, f"and {more} more"] if more > 0 else lines
