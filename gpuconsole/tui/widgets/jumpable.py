"""Places on a screen to which one can jump by a letter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, product
from typing import Any, Protocol, runtime_checkable

from textual.geometry import Offset
from textual.screen import Screen

from gpuconsole.core.util.lazy_dataclass import dataclass

LETTERS = "asdfghjklqwertyuiopzxcvbnm"
MOST = len(LETTERS) ** 2


@dataclass(frozen=True, slots=True)
class Place:
    """A cell and what is there. For a widget cells are its own, for a screen those of the
    terminal."""

    at: Offset
    go: Callable[[], object]


@runtime_checkable
class Jumpable(Protocol):
    """A widget with places of its own, such as rows."""

    def jump_places(self) -> Iterable[Place]:
        """Return the places in sight, in cells of the widget's content."""


def places_of(screen: Screen[Any]) -> list[Place]:
    """Return the places of a screen from top to bottom: rows in sight, and what takes the focus."""
    places: list[Place] = []
    for widget in screen.focus_chain:
        corner = widget.content_region.offset
        inner = list(widget.jump_places()) if isinstance(widget, Jumpable) else []
        places += [Place(corner + each.at, _both(widget.focus, each.go)) for each in inner]
        if not inner:
            places.append(Place(corner, widget.focus))
    places = [place for place in places if screen.region.contains_point(place.at)]
    return sorted(places, key=lambda place: (place.at.y, place.at.x))[:MOST]


def labels(count: int) -> Iterator[str]:
    """Give so many labels: a letter each while there are enough, else two."""
    if count <= len(LETTERS):
        return iter(LETTERS[:count])
    return islice(("".join(pair) for pair in product(LETTERS, repeat=2)), count)


def _both(focus: Callable[[], object], go: Callable[[], object]) -> Callable[[], object]:
    def run() -> None:
        focus()
        go()

    return run
