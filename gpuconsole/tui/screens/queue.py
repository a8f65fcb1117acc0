"""Queue: every job, what it waits for, and the verbs for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import DataTable, Static

from gpuconsole.core.filters import Filter
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.errors import ConsoleError
from gpuconsole.tui.aside import aside
from gpuconsole.tui.picture import Picture
from gpuconsole.tui.presentation.cells import text
from gpuconsole.tui.presentation.jobs import (
    COLUMNS,
    Column,
    Why,
    in_order,
    row,
    short_why,
    why_lines,
)
from gpuconsole.tui.screens import verbs
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.whatif import WhatIfScreen
from gpuconsole.tui.widgets.bindings import bindings
from gpuconsole.tui.widgets.filterbar import FilterBar
from gpuconsole.tui.widgets.panel import Panel, name_box

NARROW = 100
"""Columns below which only the first facts of a job fit."""


class JobTable(DataTable[Text]):
    """The table of jobs, with the movement keys of every other screen."""

    BINDINGS = bindings("table")


class QueueScreen(ConsoleScreen):
    """All jobs: active, waiting, ended."""

    AREA = "queue"
    MODE = "queue"
    WIDGET_AREAS = ("table",)
    AUTO_FOCUS = "JobTable"

    def __init__(self) -> None:
        super().__init__()
        self._filter = Filter()
        self._filter_text = ""
        self._shown: dict[str, tuple[str, ...]] = {}
        self._chosen = ""
        self._columns: tuple[str, ...] = ()
        self._looking = False

    def body(self) -> ComposeResult:
        """Table above, the chosen job's reasons below."""
        with Vertical(id="queue"):
            yield JobTable(id="jobs", cursor_type="row", zebra_stripes=False)
            yield Static("", id="jobs-empty", classes="panel empty", markup=False)
            yield Panel(id="why")
        yield FilterBar(id="filter")

    def draw(self, picture: Picture) -> None:
        """Bring the table up to date, cell by cell."""
        expected = self.session.foresight.known
        jobs = in_order([job for job in picture.jobs if self._filter.job(job)], expected)
        self.set_class(not jobs, "-empty")
        self._draw_titles(len(jobs))
        if not jobs:
            self._draw_empty()
        else:
            self._draw_table(jobs)
        self._draw_why()
        if any(job.state is JobState.QUEUED for job in jobs):
            self._look_ahead()

    def restyle(self) -> None:
        """Cells carry colours of the theme."""
        self._columns = ()
        super().restyle()

    def crumbs(self) -> str:
        """The filter in force."""
        return f"filter: {self._filter_text or 'none'}"

    # -- actions ----------------------------------------------------------------------------

    def action_open(self) -> None:
        """Open the chosen job."""
        self._with_job(lambda job: self.console.open_job(job.id))

    def action_cancel(self) -> None:
        """Cancel the chosen job."""
        self._with_job(lambda job: verbs.cancel(self, job))

    def action_hold(self) -> None:
        """Hold the chosen job, or let it go."""
        self._with_job(lambda job: verbs.hold(self, job))

    def action_preempt(self) -> None:
        """Stop the chosen job; it goes on from its checkpoint later."""
        self._with_job(lambda job: verbs.preempt(self, job))

    def action_retry(self) -> None:
        """Queue the chosen job again."""
        self._with_job(lambda job: verbs.retry(self, job))

    def action_priority(self) -> None:
        """Change the chosen job's priority."""
        self._with_job(lambda job: verbs.priority(self, job))

    def action_what_if(self) -> None:
        """Ask what a change would do to the starts of waiting jobs."""
        job = self.picture.job(self._chosen)
        waits = job is not None and job.state is JobState.QUEUED
        self.app.push_screen(WhatIfScreen(job.task.name if job is not None and waits else ""))

    def action_copy(self) -> None:
        """Copy the chosen job's id."""

        def copied(job: Job) -> None:
            self.app.copy_to_clipboard(job.id)
            self.tell(f"Copied {job.id}.")

        self._with_job(copied)

    def action_why(self) -> None:
        """Show or hide the reasons."""
        self.toggle_class("-why-hidden")
        self.call_after_refresh(self._draw_why)

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one(FilterBar).open()

    def action_back(self) -> None:
        """Clear the filter, then go back."""
        if self._filter_text:
            self.query_one(FilterBar).action_leave()
        else:
            super().action_back()

    # -- messages ---------------------------------------------------------------------------

    @on(FilterBar.Changed)
    def _filter_typed(self, event: FilterBar.Changed) -> None:
        self._filter, self._filter_text = event.filter, event.text.strip()
        self.show(self.picture)
        if self._filter_text:
            self.query_one(FilterBar).note(f"{len(self._shown)} jobs match   esc clears")

    @on(FilterBar.Left)
    def _filter_left(self) -> None:
        if not self._filter_text:
            self.query_one(FilterBar).remove_class("-open")
        self.query_one(JobTable).focus()

    @on(DataTable.RowHighlighted)
    def _row_reached(self, event: DataTable.RowHighlighted) -> None:
        if event.row_key is not None and event.row_key.value:
            self._chosen = event.row_key.value
            self._draw_why()

    @on(DataTable.RowSelected)
    def _row_opened(self, event: DataTable.RowSelected) -> None:
        if event.row_key.value:
            self._chosen = event.row_key.value
            self.action_open()

    def on_resize(self, event: events.Resize) -> None:
        """Other columns fit."""
        super().on_resize(event)
        self.call_after_refresh(lambda: self.show(self.picture))

    # -- drawing ----------------------------------------------------------------------------

    def _draw_table(self, jobs: list[Job]) -> None:
        table = self.query_one(JobTable)
        width = self.size.width
        chosen = [column for column in COLUMNS if width >= NARROW or not column.spare]
        columns = tuple(column.key for column in chosen)
        if (f"{width}", *columns) != self._columns:
            self._columns = (f"{width}", *columns)
            self._shown = {}
            table.clear(columns=True)
            for column, size in _sized(chosen, width):
                title = Text(column.title, justify="right" if column.right else "left")
                table.add_column(title, key=column.key, width=size)
        cells = {
            job.id: self._cells(job, number, columns) for number, job in enumerate(jobs, start=1)
        }
        if list(cells) != list(self._shown):
            self._refill(table, cells)
        else:
            for job_id, texts in cells.items():
                for key, new, old in zip(columns, texts, self._shown[job_id], strict=True):
                    if _mark(new) != old:
                        table.update_cell(job_id, key, new)
        self._shown = {job_id: tuple(map(_mark, texts)) for job_id, texts in cells.items()}

    def _refill(self, table: DataTable[Text], cells: dict[str, list[Text]]) -> None:
        """Jobs came, went or changed places: fill anew, with the cursor on the same job."""
        chosen = self._chosen
        before = list(self._shown)
        at = before.index(chosen) if chosen in before else 0
        table.clear()
        for job_id, texts in cells.items():
            table.add_row(*texts, key=job_id)
        ids = list(cells)
        to = ids.index(chosen) if chosen in cells else min(at, len(ids) - 1)
        self._chosen = ids[to]
        table.move_cursor(row=to, animate=False)

    def _cells(self, job: Job, number: int, columns: tuple[str, ...]) -> list[Text]:
        words = short_why(job, self._why(job) if job.state is JobState.QUEUED else None)
        start = self.session.foresight.known.get(job.id)
        texts = row(self.ink, job, number, self.picture.now, words, start)
        return [text for column, text in zip(COLUMNS, texts, strict=True) if column.key in columns]

    def _draw_titles(self, shown: int) -> None:
        total = len(self.picture.jobs)
        jobs = "1 job" if total == 1 else f"{total:,} jobs"
        count = f"{shown:,} of {jobs}" if shown != total else jobs
        only = f"  /{self._filter_text}" if self._filter_text else ""
        name_box(self.query_one(JobTable), f"queue  {count}{only}", "active, waiting, ended")

    def _draw_empty(self) -> None:
        ink = self.ink
        if self._filter_text:
            words = [f"No jobs match `{self._filter_text}`.", "", "esc clears the filter."]
        else:
            words = ["No jobs yet.", "", "s opens the form to submit a script,",
                     "or run `gpuconsole submit train.py`."]  # fmt: skip
        empty = self.query_one("#jobs-empty", Static)
        empty.update(text([[(line, ink.text)] for line in words]), layout=False)

    def _draw_why(self) -> None:
        panel = self.query_one("#why", Panel)
        job = self.picture.job(self._chosen)
        if not panel.display or not panel.size.width:
            return
        if job is None:
            panel.entitle("why")
            panel.put([])
            return
        why = self._why(job)
        question = "what happened to" if job.state.ended else "why is"
        ending = "?" if job.state.ended else f" {job.state.value}?"
        panel.entitle(f"{question} {job.task.name}{ending}", "w hides")
        if why is not None:
            panel.put(why_lines(self.ink, job, why, self.picture.now, panel.inner_width))

    def _look_ahead(self) -> None:
        """Have the expected starts renewed; the next beat shows them."""
        if not self._looking:
            self._looking = True
            aside(self, self._foresee, group="foresight")

    async def _foresee(self) -> None:
        try:
            await self.session.foresight.renew()
        finally:
            self._looking = False

    # -- within -----------------------------------------------------------------------------

    def _why(self, job: Job) -> Why | None:
        try:
            return self.session.why(job.id)
        except ConsoleError:
            # The job left the journal between two beats; the next picture lacks it.
            return None

    def _with_job(self, verb: Callable[[Job], None]) -> None:
        job = self.picture.job(self._chosen)
        if job is None:
            self.tell("There is no job to choose.")
        else:
            verb(job)


def _sized(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """Return columns with their widths; the reasons, or else the names, take what is left."""
    # Two cells of padding a column, two of border, one of scroll bar.
    room = width - sum(column.width + 2 for column in columns) - 4
    grows = "why" if any(column.key == "why" for column in columns) else "name"
    return [
        (column, column.width + max(4, room) if column.key == grows else column.width)
        for column in columns
    ]


def _mark(cell: Text) -> str:
    """What tells two cells apart: words and style."""
    return f"{cell.plain}\0{cell.style}"
