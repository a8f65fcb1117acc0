"""Compare: the jobs of a sweep, or those that are marked, by what their logs report."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from gpuconsole.core.jobs import Job
from gpuconsole.core.training.curves import Compared, Written, chosen_metric, csv_text, ranked
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.tui.render.compare import (
    Columns,
    columns_for,
    heading,
    plot_lines,
    row,
    with_metric,
)
from gpuconsole.tui.render.text_cells import Piece
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.widgets.panel import Name, SizedPanel, name_box
from gpuconsole.tui.widgets.row_list import BOX, Rows

FOLLOW_S = 2.0
"""How often (s) what jobs that run have written is read on."""


class CompareScreen(ConsoleScreen):
    """Jobs side by side, followed while they run."""

    AREA = "compare"
    MODE = "queue"
    WIDGET_AREAS = ("table",)
    AUTO_FOCUS = "Rows"

    def __init__(self, title: str, jobs: Sequence[str]) -> None:
        """`jobs` are ids, or the name of a sweep alone."""
        super().__init__()
        self._named = title
        self._asked = tuple(jobs)
        self._found: tuple[Compared, ...] = ()
        self._metric = ""
        self._rows: dict[str, Compared] = {}
        self._columns = Columns((), (), 0)
        self._jobs_seen: tuple[Job, ...] = ()
        """All jobs of the picture that was looked at last."""
        self._followed: tuple[Job, ...] = ()
        """Those of them that are compared."""
        self._stale = False
        """Whether a job has changed since the logs were read."""
        self._read_at = 0.0
        self._reading = False

    def body(self) -> ComposeResult:
        """The plot, and below it the rows."""
        with Vertical(id="compare"):
            yield SizedPanel(id="compare-plot")
            yield Rows(id="compare-rows")

    def on_mount(self) -> None:
        """Read the logs."""
        self._ask()

    def crumbs(self) -> str:
        """Queue > what is compared."""
        return f"{self.ink.say('Queue')} > {self._named}"

    # -- actions ----------------------------------------------------------------------------

    def action_metric(self) -> None:
        """Compare by the next metric."""
        names = list(dict.fromkeys(name for job in self._found for name in job.curves.main()))
        if names:
            at = names.index(self._metric) if self._metric in names else -1
            self._metric = names[(at + 1) % len(names)]
            self._draw_found()

    def action_open(self) -> None:
        """Open the chosen job."""
        if self._rows.get(self.query_one(Rows).current) is not None:
            self.console.open_job(self.query_one(Rows).current)

    def action_renew(self) -> None:
        """Read the logs again."""
        self._ask()

    def action_copy(self) -> None:
        """Copy the points of the metric as CSV."""
        written = (
            Written(row.job.id, row.job.task.name, row.curves) for row in self._rows.values()
        )
        self.app.copy_to_clipboard(csv_text(written, (self._metric,)))
        self.tell(msg("Copied the points of {name} as CSV.", name=self._metric))

    # -- messages ---------------------------------------------------------------------------

    @on(Rows.Opened)
    def _row_opened(self) -> None:
        self.action_open()

    @on(SizedPanel.Sized)
    def _sized(self) -> None:
        self._draw_found()

    # -- drawing ----------------------------------------------------------------------------

    def draw(self, picture: Picture) -> None:
        """Read on what jobs have written that run, or that have changed."""
        if picture.jobs is not self._jobs_seen:
            self._jobs_seen = picture.jobs
            asked = self._asked
            ours = tuple(j for j in picture.jobs if j.id in asked or j.task.sweep in asked)
            self._stale = self._stale or ours != self._followed
            self._followed = ours
        wanted = self._stale or any(job.state.active for job in self._followed)
        rested = abs(picture.now - self._read_at) >= FOLLOW_S
        if wanted and rested and self._found and not self._reading:
            self._reading, self._stale, self._read_at = True, False, picture.now
            aside(self, self._read_on, group="follow")

    async def _read_on(self) -> None:
        try:
            compared = await self.session.compare(self._asked)
        except ConsoleError:
            # What was read stays in sight; it is tried again, and the key that asks tells why.
            return
        finally:
            self._reading = False
        self._take(compared)

    def restyle(self) -> None:
        """Draw in another theme."""
        self.query_one(Rows).restyle()
        self._draw_found()
        super().restyle()

    def _ask(self) -> None:
        name_box(self.query_one(Rows), Name(self._named), "reading logs …")
        self.ask_session(lambda: self.session.compare(self._asked), self._take, group="compare",
                         exclusive=True)  # fmt: skip

    def _take(self, compared: tuple[Compared, ...]) -> None:
        self._found = compared
        self._metric = self._metric or chosen_metric(compared)
        self._draw_found()

    def _draw_found(self) -> None:
        if not self._found or not self.ready:
            return
        ink, rows = self.ink, self.query_one(Rows)
        plot = self.query_one("#compare-plot", SizedPanel)
        order = ranked(self._found, self._metric)
        self._rows = {compared.job.id: compared for compared in order}
        self._columns = columns_for(order, rows.inner_width)
        keys = tuple(self._rows)
        # Of the same rows only those that look different are drawn again.
        rows.put(rows.keys if keys == rows.keys else keys, self._row, heading(ink, self._columns))
        rows.styles.height = len(order) + BOX
        name_box(rows, Name(self._named), msg("{n} jobs", n=len(order)))
        plot.entitle(Name(self._metric) if self._metric else "", "m next")
        plot.put(plot_lines(ink, order, self._metric, plot.inner_width, plot.size.height))

    def _row(self, key: str, number: int) -> list[Piece]:
        compared = self._rows[key]
        plotted = with_metric(list(self._rows.values()), self._metric)
        place = plotted.index(compared) if compared in plotted else None
        return row(self.ink, compared, self._metric, place, self._columns)
