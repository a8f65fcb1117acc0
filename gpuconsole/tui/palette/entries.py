"""What the palette is made of: groups of items to search, and entries that do something."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from gpuconsole.core.util.lazy_dataclass import dataclass

Run = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that can be chosen."""

    id: str
    """Known by this among the recently used."""
    name: str
    note: str
    """The key that does the same, or a state."""
    run: Run


@dataclass(frozen=True, slots=True)
class Item:
    """Something to search: its text in lower case, and its entry for when it is shown."""

    id: str
    text: str
    entry: Callable[[], Entry]


class Source(Protocol):
    """A group of the palette."""

    @property
    def group(self) -> str:
        """What the group is called, and what one types with a colon to ask for it alone."""

    @property
    def shown_at_once(self) -> bool:
        """Whether it is offered before anything is typed."""

    def items(self) -> Iterable[Item]:
        """Give everything of the group; called once while the palette is open."""
