"""A report of device-hours as rows, and who holds devices idly as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuconsole.core.units import format_duration
from gpuconsole.session.report.model import IdleLease, Key, Row, Sums, UsageReport
from gpuconsole.session.report.words import cells, notes, word_of
from gpuconsole.tui.render.job import Lines
from gpuconsole.tui.render.text_cells import Align, Piece, fit, fitting_columns
from gpuconsole.tui.style.styles import Ink

GAP = 1
MOST_IDLE = 6
"""Idle leases that are shown; the longest come first."""


class Column(NamedTuple):
    """A figure of a row: dropped when room is short, the highest `rank` first."""

    title: str
    width: int
    rank: int
    place: int
    """Its place among the cells of a row."""


FIGURES: tuple[Column, ...] = (
    Column("jobs", 6, 3, 0),
    Column("gpu-hours", 9, 0, 1),
    Column("used", 8, 5, 2),
    Column("wasted", 8, 0, 3),
    Column("unknown", 8, 2, 4),
    Column("use", 5, 1, 5),
    Column("kWh", 8, 4, 6),
    Column("cost", 16, 0, 7),
)
LEAST_NAME = 14
"""Cells of the column with the words of a group."""
MOST_NAME, LEAST_BAR = 28, 12
"""Cells of that column beside bars, and of a bar: fewer show no bars."""
_WASTED = 3
_USED_MARK, _WASTED_MARK, _UNKNOWN_MARK = "█", "▒", "░"


def columns_for(width: int) -> tuple[Column, ...]:
    """Return the figures that fit in `width` cells beside the names."""
    return tuple(fitting_columns(FIGURES, _needed, width))


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.width + GAP for column in columns) + LEAST_NAME


def heading(ink: Ink, by: Sequence[Key], columns: Sequence[Column], width: int) -> list[Piece]:
    """Return the line above the rows."""
    title = ", ".join(ink.say(key) for key in by)
    name, bar = _name_and_bar(columns, width)
    pieces: list[Piece] = [(fit(title, name), ink.muted)]
    if bar:
        marks = (("used", _USED_MARK), ("wasted", _WASTED_MARK), ("unknown", _UNKNOWN_MARK))
        legend = "  ".join(f"{mark} {ink.say(word)}" for word, mark in marks)
        pieces += [(" " * GAP, ink.text), (fit(legend, bar), ink.muted)]
    for column in columns:
        pieces += [(" " * GAP, ink.text), (_right(ink.say(column.title), column), ink.muted)]
    return pieces


def row(
    ink: Ink, usage: UsageReport, shown: Row | None, columns: Sequence[Column], width: int
) -> list[Piece]:
    """Return a group as a line; None is the total."""
    if shown is None:
        name, sums, style = ink.say("total"), usage.total, ink.strong
    else:
        by = usage.query.by
        words = (word_of(key, word) for key, word in zip(by, shown.words, strict=True))
        name, sums, style = "  ".join(map(ink.say, words)), shown.sums, ink.text
    figures = cells(sums, usage.currency)
    name_width, bar = _name_and_bar(columns, width)
    pieces: list[Piece] = [(fit(name, name_width), style)]
    if bar:
        pieces.append((" " * GAP, ink.text))
        pieces += _bar(ink, usage, sums, bar) if shown is not None else [(" " * bar, ink.text)]
    for column in columns:
        wasteful = column.place == _WASTED and _mostly_wasted(sums)
        figure = _right(figures[column.place], column)
        pieces += [(" " * GAP, ink.text), (figure, ink.warn if wasteful else style)]
    return pieces


def idle_lines(ink: Ink, idle: Sequence[IdleLease], now: float, width: int) -> Lines:
    """Return who holds devices without using them, a line each."""
    lines: Lines = []
    for lease in idle[:MOST_IDLE]:
        since = format_duration(now - lease.since)
        devices = "1 device" if lease.devices == 1 else f"{lease.devices} devices"
        head = f"{fit(since, 6, 'right')}  {fit(lease.user, 9)} {fit(ink.say(devices), 10)} "
        rest = f"{lease.name}  {lease.host}  {lease.model}"
        lines.append([(head, ink.warn), (fit(rest, max(1, width - len(head))), ink.text)])
    if len(idle) > MOST_IDLE:
        lines.append([(ink.say(f"and {len(idle) - MOST_IDLE} more"), ink.muted)])
    return lines


def note_lines(ink: Ink, usage: UsageReport) -> Lines:
    """Return of which time and jobs a report is, and which share of it was measured."""
    return [[(ink.say(line), ink.muted)] for line in notes(usage)]


def _mostly_wasted(sums: Sums) -> bool:
    return sums.use is not None and sums.use < 50.0


def _name_and_bar(columns: Sequence[Column], width: int) -> tuple[int, int]:
    """Return the cells of the names, and those of a bar beside them; 0 where none has room."""
    left = max(1, width - sum(column.width + GAP for column in columns))
    bar = left - MOST_NAME - GAP
    return (MOST_NAME, bar) if bar >= LEAST_BAR else (left, 0)


def _bar(ink: Ink, usage: UsageReport, sums: Sums, width: int) -> list[Piece]:
    """Return what a group held against the largest: used, wasted, and without measured use."""
    most = max((row.sums.held_s for row in usage.rows), default=0.0)
    ends, so_far = [], 0.0
    for seconds in (sums.used_s, sums.wasted_s or 0.0, sums.unknown_s):
        so_far += seconds
        ends.append(round(width * min(1.0, so_far / most)) if most > 0.0 else 0)
    used, wasted, unknown = ends[0], ends[1] - ends[0], ends[2] - ends[1]
    return [
        (_USED_MARK * used, ink.running),
        (_WASTED_MARK * wasted, ink.warn),
        (_UNKNOWN_MARK * unknown, ink.muted),
        (" " * (width - ends[2]), ink.text),
    ]


def _right(words: str, column: Column) -> str:
    align: Align = "right"
    return fit(words, column.width, align)
