"""Usage: who holds devices idly, and device-hours, use, energy and cost of a time."""

from __future__ import annotations

from collections.abc import Mapping

from textual.app import ComposeResult
from textual.containers import Vertical

from gpuconsole.session.report.csv_sheet import csv_text
from gpuconsole.session.report.model import SPANS, Key, Query, Row, UsageReport
from gpuconsole.session.report.words import idle_sentence
from gpuconsole.tui.render.text_cells import Piece
from gpuconsole.tui.render.usage import (
    MOST_IDLE,
    Column,
    columns_for,
    heading,
    idle_lines,
    note_lines,
    row,
)
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.widgets.panel import Panel, name_box
from gpuconsole.tui.widgets.row_list import Rows

GROUPS: tuple[tuple[Key, ...], ...] = (
    ("user",),
    ("user", "month"),
    ("account",),
    ("project",),
    ("host",),
    ("model",),
    ("month",),
)
_TOTAL = "total"


class UsageScreen(ConsoleScreen):
    """A report of the journal, asked for once and again on a key: it may take a second."""

    AREA = "usage"
    MODE = "queue"
    WIDGET_AREAS = ("table",)
    AUTO_FOCUS = "Rows"

    def __init__(self) -> None:
        super().__init__()
        self._group = 0
        self._span = next(iter(SPANS))
        self._report: UsageReport | None = None
        self._rows: Mapping[str, Row] = {}
        self._keys: tuple[str, ...] = ()
        self._columns: tuple[Column, ...] = ()

    def body(self) -> ComposeResult:
        """Idle leases, the rows, and what they are of."""
        with Vertical(id="usage"):
            yield Panel(id="usage-idle")
            yield Rows(id="usage-rows")
            yield Panel(id="usage-notes")

    def on_mount(self) -> None:
        """Ask for the first report."""
        self._ask()

    def crumbs(self) -> str:
        """The time of the report."""
        return self.ink.say(self._span)

    # -- actions ----------------------------------------------------------------------------

    def action_group(self) -> None:
        """Group by the next keys."""
        self._group = (self._group + 1) % len(GROUPS)
        self._ask()

    def action_span(self) -> None:
        """Show the next time."""
        names = list(SPANS)
        self._span = names[(names.index(self._span) + 1) % len(names)]
        self.draw_frame()
        self._ask()

    def action_renew(self) -> None:
        """Ask again."""
        self._ask()

    def action_copy(self) -> None:
        """Copy the rows as CSV."""
        if self._report is not None:
            self.app.copy_to_clipboard(csv_text(self._report))
            self.tell("Copied the rows as CSV.")

    # -- drawing ----------------------------------------------------------------------------

    def restyle(self) -> None:
        """Draw in another theme."""
        self.query_one(Rows).restyle()
        self._draw_report()
        super().restyle()

    def on_resize(self, event: object) -> None:
        """Other columns fit."""
        self.draw_frame()
        self.call_after_refresh(self._draw_report)

    def _ask(self) -> None:
        query = Query(*SPANS[self._span](self.session.now()), GROUPS[self._group])
        name_box(self.query_one(Rows), "usage", "adding up …")
        self.ask_session(lambda: self.session.usage_report(query), self._take, group="report",
                         exclusive=True)  # fmt: skip

    def _take(self, usage: UsageReport) -> None:
        self._report = usage
        self._rows = {f"{number}": shown for number, shown in enumerate(usage.rows)}
        self._keys = (*self._rows, *([_TOTAL] if len(usage.rows) > 1 else []))
        self._draw_report()

    def _draw_report(self) -> None:
        usage = self._report
        if usage is None or not self.ready:
            return
        ink, rows = self.ink, self.query_one(Rows)
        idle, notes = self.query_one("#usage-idle", Panel), self.query_one("#usage-notes", Panel)
        idle.display = bool(usage.idle)
        idle.styles.height = min(len(usage.idle), MOST_IDLE + 1) + 2
        if usage.idle:
            idle.entitle(idle_sentence(usage.idle))
            idle.put(idle_lines(ink, usage.idle, self.session.now(), idle.inner_width))
        self._columns = columns_for(rows.inner_width)
        rows.put(self._keys, self._row, heading(ink, usage.query.by, self._columns,
                                                rows.inner_width))  # fmt: skip
        name_box(rows, "usage" if usage.rows else "nothing was held in that time", self._span)
        lines = note_lines(ink, usage)
        notes.styles.height = len(lines) + 2
        notes.put(lines)

    def _row(self, key: str, number: int) -> list[Piece]:
        assert self._report is not None
        width = self.query_one(Rows).inner_width
        return row(self.ink, self._report, self._rows.get(key), self._columns, width)
