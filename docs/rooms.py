"""Draws `images/rooms.svg`: the rooms of the package and which of them import which.

`python docs/rooms.py` writes it from the imports themselves. An import that a longer way of
imports implies is not drawn, so that few lines are left.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import grimp

TARGET = Path(__file__).parent / "images" / "rooms.svg"
PACKAGE = "gpuconsole"
NOT_DRAWN = frozenset({"__main__", "data", "errors", "waiting", "language"})
"""Modules of the root that everybody may import, the source models, and what starts the program."""
WIDE, HIGH, GAP, RISE = 120, 34, 24, 62
"""Size of a box, and the gaps beside and below it, in pixels."""

Rooms = Mapping[str, frozenset[str]]


def rooms() -> dict[str, frozenset[str]]:
    """Return the rooms, each with those that it imports when it runs."""
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=True, cache_dir=None)
    imports: dict[str, set[str]] = {}
    for module in graph.modules - {PACKAGE}:
        mine = imports.setdefault(_room(module), set())
        mine |= {_room(name) for name in graph.find_modules_directly_imported_by(module)}
    drawn = imports.keys() - NOT_DRAWN - {PACKAGE}
    return {name: frozenset(imports[name] & drawn - {name}) for name in sorted(drawn)}


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def layers(imports: Rooms) -> list[list[str]]:
    """Return the rooms from top to bottom: each below all that import it. ValueError for a circle.

    A room is as high as the longest way from it down to a room that imports none.
    """
    height: dict[str, int] = {}

    def of(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            raise ValueError(f"a circle of imports: {' → '.join((*above, name))}")
        if name not in height:
            below = (of(other, (*above, name)) for other in sorted(imports[name]))
            height[name] = 1 + max(below, default=-1)
        return height[name]

    for name in imports:
        of(name)
    top = max(height.values(), default=0)
    return [
        sorted(name for name in height if height[name] == level) for level in range(top, -1, -1)
    ]


def direct(imports: Rooms) -> list[tuple[str, str]]:
    """Return the imports that no longer way of imports implies."""

    def reached(name: str) -> set[str]:
        return {far for other in imports[name] for far in ({other} | reached(other))}

    return [
        (name, other)
        for name in sorted(imports)
        for other in sorted(imports[name])
        if not any(other in reached(between) for between in imports[name] - {other})
    ]


def drawing(imports: Rooms) -> str:
    """Return the drawing as SVG: a box a room, an arrow down to each room that it imports."""
    found = layers(imports)
    width = max(len(level) for level in found) * (WIDE + GAP) + GAP
    place: dict[str, tuple[float, float]] = {}
    for row, level in enumerate(found):
        begin = (width - len(level) * (WIDE + GAP) + GAP) / 2
        for column, name in enumerate(level):
            place[name] = (begin + column * (WIDE + GAP), GAP + row * (HIGH + RISE))
    height = GAP * 2 + HIGH + (len(found) - 1) * (HIGH + RISE)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="monospace" font-size="13" role="img">',
        "<title>The rooms of gpuconsole and their imports</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#5b6b7b"/></marker>',
    ]
    for name, other in direct(imports):
        (x, y), (below_x, below_y) = place[name], place[other]
        lines.append(
            f'<line x1="{x + WIDE / 2:g}" y1="{y + HIGH:g}" x2="{below_x + WIDE / 2:g}" '
            f'y2="{below_y:g}" stroke="#5b6b7b" marker-end="url(#a)"/>'
        )
    for name, (x, y) in place.items():
        lines.append(
            f'<rect x="{x:g}" y="{y:g}" width="{WIDE}" height="{HIGH}" rx="4" fill="#e8eef4" '
            'stroke="#2d4a66"/>'
        )
        lines.append(
            f'<text x="{x + WIDE / 2:g}" y="{y + HIGH / 2 + 4:g}" text-anchor="middle" '
            f'fill="#16283a">{name}</text>'
        )
    return "\n".join((*lines, "</svg>")) + "\n"


if __name__ == "__main__":
    TARGET.write_text(drawing(rooms()), encoding="utf-8")
