"""Plain ASCII on the terminal, whatever draws: one filter over everything that is shown.

Borders, scroll bars, trees and cut texts are Textual's; a filter at the end is the one place that
sees them all. Letters of any script are what a host or a person wrote, and stay as they are.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.filter import LineFilter

from gpuconsole.errors import ConsoleError

if TYPE_CHECKING:
    from textual.color import Color

_SAME = {
    "…": "~", "·": ".", "•": "*", "▸": ">", "▶": ">", "▼": "v", "✓": "+", "✗": "x", "✔": "+",
    "±": "~", "×": "x", "µ": "u", "–": "-", "—": "-", "“": '"', "”": '"', "‘": "'", "’": "'",
    "●": "*", "○": "o", "◌": "o", "◆": "$", "◐": "o", "‖": "=", "→": ">", "←": "<",
    "≥": ">", "░": ".", "▒": ":", "▓": "%", "█": "#", "▌": "|", "▐": "|",
}  # fmt: skip
_BOXES = range(0x2500, 0x2580)
_BLOCKS = range(0x2580, 0x25A0)
_LINES = "─━═╌╍┄┅┈┉╴╶╸╺╼╾"
_COLUMNS = "│┃║╎╏┆┇┊┋╵╷╹╻╽╿"


def _table() -> dict[int, str]:
    # Whatever of the boxes is no line is a corner.
    table = dict.fromkeys(_BOXES, "+") | dict.fromkeys(_BLOCKS, " ")
    table |= dict.fromkeys(map(ord, _LINES), "-") | dict.fromkeys(map(ord, _COLUMNS), "|")
    return table | {ord(drawn): plain for drawn, plain in _SAME.items()}


_TABLE = _table()


@lru_cache(4096)
def plain(text: str) -> str:
    """Return text with each drawing character as an ASCII one of the same width."""
    return text if text.isascii() else text.translate(_TABLE)


class PlainSymbols(LineFilter):
    """Replaces drawing characters; styles and widths stay."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments in ASCII as far as they are drawings."""
        return [Segment(plain(text), style, control) for text, style, control in segments]


def farewell(error: ConsoleError) -> str:
    """Return an error for the terminal after the console has closed; not markup."""
    text = f"{error.title}: {error.message}" + (f"\n{error.hint}" if error.hint else "")
    return text.replace("[", "\\[")
