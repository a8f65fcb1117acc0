"""A line of a log as it is drawn: coloured by what it says, with what a search found marked."""

from __future__ import annotations

import re

from rich.style import Style

from gpuconsole.tui.render.text_cells import Piece
from gpuconsole.tui.style.styles import Ink

_BAD = re.compile(r"\b(?:ERROR|FATAL|CRITICAL)\b|\b\w*(?:Error|Exception)\b|Traceback \(|\berror:")
_DOUBTFUL = re.compile(r"\bWARN(?:ING)?\b|\b\w*Warning\b|\bwarning:")
_LOOKED_AT = 400
"""Characters of a line that are searched for signs of an error."""


def marked(
    ink: Ink, words: str, line: str, ground: Style, pattern: re.Pattern[str] | None
) -> list[Piece]:
    """Return a line, or the words of it that are in sight, as pieces on a ground."""
    base = ink.text
    start = line[:_LOOKED_AT]
    if _BAD.search(start):
        base = ink.bad
    elif _DOUBTFUL.search(start):
        base = ink.warn
    if ground is not ink.text:
        base = base + Style(bgcolor=ground.bgcolor)
    pieces: list[Piece] = []
    position = 0
    for match in pattern.finditer(words) if pattern is not None else ():
        pieces += [(words[position : match.start()], base), (match.group(), ink.match)]
        position = match.end()
    return [*pieces, (words[position:], base)]
