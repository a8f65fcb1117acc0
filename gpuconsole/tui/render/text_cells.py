"""Text fitted to terminal cells: cleaned, cut with an ellipsis, padded, wide characters counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol, TypeVar

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.cache import FIFOCache
from textual.strip import Strip

from gpuconsole.core.text import clean
from gpuconsole.tui.style.styles import Ink

Align = Literal["left", "right"]
_WIDE = "[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]"
_CLOSING = r"[，。、；：？！）》」』…,.;:!?)]"
_UNITS = re.compile(rf" +|[（《「『]*(?:{_WIDE}|(?:(?!{_WIDE})[^ ])+){_CLOSING}*")
"""What stays on one line where wide characters are: one of them, a run of others, blanks."""
Piece = tuple[str, Style]
"""Text and its style."""


class Ranked(Protocol):
    """A column of a table, as far as it matters which one is left out."""

    @property
    def rank(self) -> int:
        """Where room is short, the highest goes first; those of rank 0 stay."""
        ...


AnyColumn = TypeVar("AnyColumn", bound=Ranked)


def fitting_columns(
    columns: Iterable[AnyColumn], needed: Callable[[Sequence[AnyColumn]], int], width: int
) -> list[AnyColumn]:
    """Return the columns that fit in `width` cells; `needed` returns how many some of them take."""
    chosen = list(columns)
    while needed(chosen) > width:
        worst = max(chosen, key=lambda column: column.rank)
        if worst.rank == 0:
            break
        chosen.remove(worst)
    return chosen


def cells(text: str) -> int:
    """Return how many cells a text takes; of nearly every one the answer is its length."""
    return len(text) if text.isascii() and text.isprintable() else cell_len(text)


def fit(text: str, width: int, align: Align = "left") -> str:
    """Return foreign text as exactly `width` cells."""
    if width <= 0:
        return ""
    length = len(text)
    if length <= width and type(text) is str and text.isascii() and text.isprintable():
        # Nothing in it is to be cleaned or cut: nearly every figure.
        return text.rjust(width) if align == "right" else text.ljust(width)
    plain = clean(text, limit=max(width * 2, 64))
    length = cell_len(plain)
    if length > width:
        head = set_cell_size(plain, width - 1)
        # Half of a wide character is a blank: it is placed behind, not before.
        return head + "…" if plain.startswith(head) else head[:-1] + "… "
    padding = " " * (width - length)
    return padding + plain if align == "right" else plain + padding


class _NoCache(FIFOCache[object, object]):
    """Holds nothing."""

    __slots__ = ()

    def set(self, key: object, value: object) -> None:
        """Forget it."""

    __setitem__ = set


_NO_CACHE = _NoCache(0)


class WholeStrip(Strip):
    """A strip that is drawn as it is, made in a third of the time.

    Textual makes seven caches for each strip, of what it is cut into. One that is not cut is its
    own only part: it would refer to itself, and stay until garbage is searched for.
    """

    __slots__ = ()

    def __init__(self, segments: list[Segment], cell_length: int) -> None:
        """`segments` must not be changed any more."""
        self._segments = segments
        self._cell_length = cell_length
        # It holds nothing, so nothing of the wrong kind.
        self._divide_cache = self._crop_cache = _NO_CACHE  # type: ignore[assignment]
        self._style_cache = self._filter_cache = _NO_CACHE  # type: ignore[assignment]
        self._line_length_cache = self._crop_extend_cache = _NO_CACHE  # type: ignore[assignment]
        self._offsets_cache = _NO_CACHE  # type: ignore[assignment]
        self._render_cache = self._link_ids = self._cell_count = None


def strip(pieces: Iterable[Piece], width: int, blank: Style) -> Strip:
    """Return pieces as a strip of exactly `width` cells; every segment has a style."""
    segments = joined_pieces(pieces)
    taken = sum([cells(text) for text, _, _ in segments])
    if taken > width:
        return Strip(segments, taken).adjust_cell_length(width, blank)
    if taken < width:
        segments.append(Segment(" " * (width - taken), blank))
    return WholeStrip(segments, width)


def whole_strip(pieces: Iterable[Piece], width: int) -> Strip:
    """Return pieces that are known to be of `width` cells as a strip."""
    # As `Segment(text, style)`, in half its time.
    segments = [tuple.__new__(Segment, (text, style, None)) for text, style in pieces if text]
    return WholeStrip(segments, width)


def joined_pieces(pieces: Iterable[Piece]) -> list[Segment]:
    """Return pieces as segments; neighbours in one style are one, which is written once."""
    segments: list[Segment] = []
    words, last = "", None
    for text, style in pieces:
        if style is last:
            words += text
            continue
        if words:
            segments.append(Segment(words, last))
        words, last = text, style
    if words:
        segments.append(Segment(words, last))
    return segments


def text(lines: Iterable[Iterable[Piece]]) -> Text:
    """Return lines of pieces as one text; nothing in it is read as markup."""
    result = Text(no_wrap=False, end="")
    for number, line in enumerate(lines):
        if number:
            result.append("\n")
        for part, style in line:
            result.append(part, style)
    return result


def bar(ink: Ink, percent: float | None, width: int, style: Style) -> list[Piece]:
    """Return a bar of `width` cells filled to `percent`."""
    filled = 0 if percent is None else round(min(100.0, max(0.0, percent)) * width / 100.0)
    if percent is not None and percent >= 1.0 and filled == 0:
        filled = 1
    return [(ink.glyphs.bar * filled, style), (ink.glyphs.bar_rest * (width - filled), ink.rule)]


def wrapped(sentence: str, width: int) -> list[str]:
    """Break a sentence into lines of at most `width` cells: at blanks where there are any, and
    between the characters of a language that has none."""
    plain = clean(sentence)
    if not plain.isascii() and re.search(_WIDE, plain):
        return _wrapped_wide(plain, width)
    lines: list[str] = []
    line = ""
    for word in plain.split(" "):
        while cell_len(word) > width:
            room = width - cell_len(line) - (1 if line else 0)
            if room < 4:
                lines.append(line)
                line, room = "", width
            head = set_cell_size(word, room).rstrip(" ")
            word = word[len(head) :]
            lines.append(f"{line} {head}" if line else head)
            line = ""
        if not line:
            line = word
        elif cell_len(line) + 1 + cell_len(word) <= width:
            line = f"{line} {word}"
        else:
            lines.append(line)
            line = word
    return [*lines, line] if line or not lines else lines


def _wrapped_wide(sentence: str, width: int) -> list[str]:
    lines: list[str] = []
    line = ""
    for unit in _UNITS.findall(sentence):
        if cell_len(line) + cell_len(unit) > width and line:
            lines.append(line.rstrip(" "))
            line = ""
            unit = unit.lstrip(" ")
        pieces = chop_cells(unit, width) if cell_len(unit) > width else [unit]
        lines += pieces[:-1]
        line += pieces[-1] if pieces else ""
    return [*lines, line]


def labelled(
    ink: Ink, label: str, value: str, width: int, label_width: int = 10
) -> list[list[Piece]]:
    """Return `label  value` lines, the value wrapped beside its label."""
    room = max(8, width - label_width)
    # One word may be somebody's name, which is in no language.
    parts = wrapped(ink.say(value) if " " in value else value, room)
    label = ink.say(label)
    return [
        [(fit(label if number == 0 else "", label_width), ink.muted), (part, ink.text)]
        for number, part in enumerate(parts)
    ]


def bullets(ink: Ink, sentences: Sequence[str], width: int) -> list[list[Piece]]:
    """Return sentences as a list, the lines after the first under its beginning."""
    return [
        [("    " if at else "  " + ink.glyphs.dot + " ", ink.rule), (part, ink.text)]
        for sentence in sentences
        for at, part in enumerate(wrapped(ink.say(sentence), width - 4))
    ]
