"""Tables drawn with lines, as most vendors' tools print them, read by the words of their header.

A device takes as many lines as the header has. Its first line begins with its number. A cell may
hold several figures: they belong to the words of the header's cell in their order, and only where
there are as many. Lines that are no part of the table (a warning, in any language) are passed by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field

from gpuconsole.core.fleet import DeviceProcess
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.remote.vendors import table_cells as figures
from gpuconsole.remote.vendors.model import process

_RULE = re.compile(r"[\s+=|*\-]*")
_WIDE = re.compile(r"\s{2,}")
_SLASH = re.compile(r"(?<=\S)\s*/ ?(?=[0-9]|N/A|-(?:\s|$))")
_HALF = re.compile(r"/\s*[0-9]")
_UNIT = re.compile(r"\(([^()]*)\)$")
_MOST_LINES = 20_000
_MOST_WIDTH = 1024
"""Characters of a line: what is longer is no table, and must not cost time."""
_MOST_HEADER = 4

_Label = tuple[str, str]
"""A word of a header, and the unit behind it."""


@dataclass(frozen=True, slots=True)
class Row:
    """What the table says of one device, or of one process; found by words of the header."""

    _cells: dict[str, tuple[str, str]]

    def get(self, *names: str) -> str | None:
        """Return the cell under the first of these words that the header has, or None."""
        cell = next((self._cells[name] for name in names if name in self._cells), None)
        return None if cell is None else cell[0]

    def unit(self, *names: str) -> str:
        """Return the unit behind that word in the header, or ""."""
        return next((self._cells[name][1] for name in names if name in self._cells), "")

    def word(self, *names: str) -> str:
        """Return the first word of a cell, or ""."""
        parts = (self.get(*names) or "").split()
        return parts[0] if parts else ""


@dataclass(slots=True)
class Table:
    """A table's header words (in lower case, without blanks and units) and its rows."""

    labels: frozenset[str]
    rows: list[Row] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Lines that begin a row which is not whole."""


def lines_of(text: str) -> list[str]:
    """Return the lines of a tool's output, bounded; one without an end is half a line."""
    return [line[:_MOST_WIDTH] for line in text.split("\n", _MOST_LINES)[:_MOST_LINES][:-1]]


def find(text: str, anchors: Sequence[str], height: int | None = None) -> Table | None:
    """Return the first table with all these words in one line of its header, or None.

    `height` is how many lines a row takes; as many as the header by default.
    """
    lines = lines_of(text)
    wanted = set(anchors)
    for number, line in enumerate(lines):
        if wanted <= set(_names(line, _framed(line))):
            header = _header(lines[number : number + _MOST_HEADER])
            rest = lines[number + len(header) :]
            return _read(rest, header, height or len(header), wanted, _framed(line))
    return None


def processes(text: str, device: str, name: str, memory: str) -> dict[int, list[DeviceProcess]]:
    """Return the processes of each device's number, from the table with PID and these words in its
    header; none if there is no such table."""
    held: dict[int, list[DeviceProcess]] = {}
    table = find(text, (device, "pid"), height=1)
    for row in table.rows if table is not None else ():
        number = figures.count(row.word(device))
        used = figures.mib(row.get(memory), row.unit(memory))
        row_process = process(row.get("pid"), used, row.get(name) or "")
        if number is not None and row_process is not None:
            held.setdefault(number, []).append(row_process)
    return held


def after(text: str, label: str) -> str:
    """Return the word that follows a label near the top of the output, or ""."""
    _, separator, rest = text[:4096].partition(label)
    word = (rest.split(maxsplit=1) or [""])[0] if separator else ""
    return word[:64] if any(letter.isdigit() for letter in word) else ""


def _header(lines: Sequence[str]) -> list[list[list[_Label]]]:
    """Return the words and units of the header's lines by cell."""
    framed = _framed(lines[0])
    cells = [[_labels(cell) for cell in _split(lines[0], framed)]]
    for line in lines[1:]:
        if _RULE.fullmatch(line) or _starts_row(line, framed):
            break
        cells.append([_labels(cell) for cell in _split(line, framed)])
    return cells


def _read(
    lines: Iterable[str],
    header: list[list[list[_Label]]],
    height: int,
    wanted: set[str],
    framed: bool,
) -> Table:
    table = Table(frozenset(name for line in header for cell in line for name, _ in cell))
    first = header[0][0][0][0] if header[0] and header[0][0] else ""
    wide = len(header[0])
    pending: list[list[str]] = []
    begun = ""
    for line in lines:
        cells = _split(line, framed)
        rule = _RULE.fullmatch(line) is not None
        if pending and (rule or len(cells) != len(header[len(pending)])):
            table.broken.append(begun)
            pending = []
        if rule:
            continue
        if not pending:
            names = _names(line, framed)
            if wanted <= set(names):
                continue
            if (names and names[0] == first) or "pid" in names or "processid" in names:
                # Another table begins.
                break
            if not _starts_row(line, framed):
                continue
            begun = " ".join(line.split())[:60]
            if len(cells) != wide:
                table.broken.append(begun)
                continue
        pending.append(cells)
        if len(pending) == height:
            table.rows.append(_row(header, pending))
            pending = []
    if pending:
        table.broken.append(begun)
    return table


def _row(header: list[list[list[_Label]]], lines: list[list[str]]) -> Row:
    values: dict[str, tuple[str, str]] = {}
    for labels_of_line, cells in zip(header, lines, strict=False):
        for labels, cell in zip(labels_of_line, cells, strict=False):
            for (name, unit), value in zip(labels, _values(cell, labels), strict=False):
                values.setdefault(name, (value, unit))
    return Row(values)


def _values(cell: str, labels: list[_Label]) -> list[str]:
    """Return a cell's figures, or nothing when there are not as many as the header has words."""
    text = cell.strip()
    # `15   / 15` is one figure, `/` alone is one too, and a path may follow a number.
    joined = _SLASH.sub("/", text)
    if len(labels) < 2:
        return [joined] if labels else []
    for parts in (_WIDE.split(text), _WIDE.split(joined), joined.split()):
        if any(_HALF.match(part) for part in parts):
            continue
        if len(parts) == len(labels):
            return parts
        if len(parts) == len(labels) + 1 and "/" in labels[-1][1]:
            # `Pwr(Usage/Cap)` over two figures with no slash between them.
            return [*parts[:-2], "/".join(parts[-2:])]
    return []


def _framed(line: str) -> bool:
    """Tell whether a table draws its outer frame; without one a first cell may be blank."""
    return line.lstrip()[:1] in ("|", "*")


def _split(line: str, framed: bool) -> list[str]:
    text = line.strip()
    if framed:
        text = text[1:] if text[:1] in ("|", "*") else text
        text = text[:-1] if text[-1:] in ("|", "*") else text
        return text.split("|")
    return line.split("|")


def _starts_row(line: str, framed: bool) -> bool:
    words = _split(line, framed)[0].split()
    return bool(words) and words[0].isascii() and words[0].isdigit()


def _names(line: str, framed: bool) -> list[str]:
    return [name for cell in _split(line, framed) for name, _ in _labels(cell)]


def _labels(cell: str) -> list[_Label]:
    return [_label(word) for word in _WIDE.split(cell.strip()) if word]


def _label(word: str) -> _Label:
    unit = _UNIT.search(word)
    bare = word[: unit.start()] if unit is not None else word
    return "".join(bare.lower().split()), unit.group(1) if unit is not None else ""
