"""HTML of foreign words: what is not built here is escaped.

What the commands draw on a terminal with Rich is turned into elements, so that a notebook says the
same in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from gpuconsole.core.text import clean

COLORS = {
    "red": "#d4403a",
    "green": "#2e9e4f",
    "yellow": "#b8860b",
    "blue": "#4477cc",
    "cyan": "#2a9fb0",
    "magenta": "#a05ab4",
    "bright_black": "#808080",
    "white": "#b0b0b0",
}
"""A colour of the terminal, readable on a light and on a dark page."""


class Markup(str):
    """HTML that was built here; any other string is text."""

    __slots__ = ()


def tag(name: str, *children: str, style: str = "", title: str = "") -> Markup:
    """Return an element; children that are no Markup are cleaned and escaped."""
    said = "".join(
        f' {key}="{escape(clean(value), quote=True)}"'
        for key, value in (("style", style), ("title", title))
        if value
    )
    return Markup(f"<{name}{said}>{joined(children)}</{name}>")


def joined(children: Iterable[str]) -> Markup:
    """Return children side by side."""
    return Markup(
        "".join(child if isinstance(child, Markup) else escape(clean(child)) for child in children)
    )


def lines(children: Iterable[str]) -> Markup:
    """Return lines of a log as one block that scrolls."""
    text = "\n".join(escape(clean(child)) for child in children)
    look = "max-height:24em;overflow:auto;white-space:pre-wrap;margin:4px 0"
    return tag("pre", Markup(text), style=look)


def drawn(part: RenderableType) -> Markup:
    """Return what a command draws on a terminal, as elements."""
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Padding):
        return tag("div", drawn(part.renderable), style=f"padding-left:{part.left}ch")
    words = part if isinstance(part, Text) else Text(str(part))
    return tag("div", _spans(words), style="white-space:pre-wrap;min-height:1em")


def _table(table: Table) -> Markup:
    sides = [f"text-align:{column.justify};padding:2px 12px 2px 0" for column in table.columns]
    head = [
        tag("th", *_cell(column.header), style=side)
        for column, side in zip(table.columns, sides, strict=True)
    ]
    cells = zip(*(column.cells for column in table.columns), strict=True)
    rows = [
        tag("tr", *(tag("td", *_cell(cell), style=side) for cell, side in pairs))
        for pairs in (zip(row, sides, strict=True) for row in cells)
    ]
    body = (tag("thead", tag("tr", *head)), tag("tbody", *rows))
    return tag("table", *body, style="border-collapse:collapse;margin:4px 0")


def _cell(content: RenderableType) -> tuple[str, ...]:
    return (_spans(content),) if isinstance(content, Text) else (str(content),)


def _spans(words: Text) -> Markup:
    screen = Console(color_system=None, force_jupyter=False)
    pieces = words.render(screen, end="")
    shown = joined(
        tag("span", piece.text, style=_css(piece.style)) if piece.style else piece.text
        for piece in pieces
    )
    # Rich itself puts the style of a whole text on its parts only where there are any.
    whole = _css(screen.get_style(words.style, default=""))
    return tag("span", shown, style=whole) if whole and not words.spans else shown


def _css(style: Style) -> str:
    """Return a style of the terminal for a page."""
    said = []
    if style.color is not None:
        said.append(f"color:{COLORS.get(style.color.name, 'inherit')}")
    if style.bold:
        said.append("font-weight:bold")
    if style.dim:
        said.append("opacity:0.65")
    if style.reverse:
        said.append("outline:1px solid currentColor;padding:0 4px")
    return ";".join(said)
