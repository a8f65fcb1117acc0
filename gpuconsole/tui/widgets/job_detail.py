"""The panes beside a job's reasons on a large terminal: need or memory, curve, log and history."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical

from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.training.curves import Curves
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.session.logs.tail import last_lines
from gpuconsole.tui.render.log_line import marked
from gpuconsole.tui.render.plots.memory_plot import Bounds, memory_lines, memory_title, until
from gpuconsole.tui.render.plots.training_curves import curve_lines, plots_of
from gpuconsole.tui.render.queue_detail import (
    fullest,
    history_lines,
    kinds_for,
    need_lines,
    place_of,
)
from gpuconsole.tui.render.text_cells import fit
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.style.styles import ink_of
from gpuconsole.tui.widgets.panel import Panel, SizedPanel

if TYPE_CHECKING:
    from gpuconsole.placement.forecast.start_times import Expected
    from gpuconsole.session.session import Session

LONGEST_S, SHORTEST_S = 4 * 3600.0, 60.0
"""How much of a job's past is plotted, at most and at least."""
MOST_LINES = 60
"""Lines of the log's end that are read."""


class JobDetail(Horizontal):
    """What is known of one job beside its reasons."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._seen: tuple[Session, Picture, Job, Sequence[Job]] | None = None
        self._read_of: tuple[str, int, bool] = ("", 0, False)
        """The job, its attempt and whether it had ended, of which lines and curves are."""
        self._lines: Sequence[str] = ()
        self._curves = Curves()
        self._reading = False

    def compose(self) -> ComposeResult:
        """Need or memory and history; of a job that ran its curve and log beside them."""
        with Container(id="queue-facts"):
            yield SizedPanel(id="queue-need")
            yield SizedPanel(id="queue-history")
        with Vertical(id="queue-log-side"):
            yield SizedPanel(id="queue-curve")
            yield SizedPanel(id="queue-log")

    def show(
        self, session: Session, picture: Picture, job: Job | None, waiting: Sequence[Job]
    ) -> None:
        """Show a job from now on; `waiting` are the jobs that wait, in their order."""
        self._seen = None if job is None else (session, picture, job, waiting)
        self._draw()
        self._read()

    @on(SizedPanel.Sized)
    def _sized(self) -> None:
        self._draw()

    # -- reading ----------------------------------------------------------------------------

    def _read(self) -> None:
        """Have the end of the log and its curves read, one look at a time."""
        if self._seen is None or self._reading:
            return
        session, _, job, _ = self._seen
        wanted = _attempt_of(job)
        if not wanted[1] or (wanted == self._read_of and job.state.ended):
            return
        self._reading = True
        aside(self, partial(self._take, session, job, wanted), group="detail")

    async def _take(self, session: Session, job: Job, wanted: tuple[str, int, bool]) -> None:
        try:
            path: Path = session.log_path(job.id, wanted[1])
            lines = await asyncio.to_thread(last_lines, path, MOST_LINES)
            curves = await session.curves(job.id, wanted[1])
        except ConsoleError:
            # The job left the journal, or its log cannot be read: the job's screen says why.
            lines, curves = [], Curves()
        finally:
            self._reading = False
        self._read_of, self._lines, self._curves = wanted, lines, curves
        if self.is_mounted and self._seen is not None:
            self._draw()
            # The cursor may stand on another job by now.
            if _attempt_of(self._seen[2])[:2] != wanted[:2]:
                self._read()

    # -- drawing ----------------------------------------------------------------------------

    def _draw(self) -> None:
        if not self.display or not self.is_mounted or not self.size.width:
            return
        if self._seen is None:
            for panel in self.query(Panel):
                panel.entitle("")
                panel.put([])
            return
        session, picture, job, waiting = self._seen
        attempt = job.attempt
        ran = attempt is not None and attempt.started_at is not None
        self.set_class(ran, "-ran")
        if attempt is not None and ran:
            self._draw_memory(session, picture, job, attempt)
            self._draw_log(job)
        else:
            self._draw_need(session, picture, job)
        starts: Mapping[str, Expected] = session.foresight.known
        history = self.query_one("#queue-history", Panel)
        history.entitle("history")
        place = place_of(job, waiting, starts)
        ink = ink_of(self)
        history.put(history_lines(ink, job, place, picture.now, history.inner_width))

    def _draw_need(self, session: Session, picture: Picture, job: Job) -> None:
        panel = self.query_one("#queue-need", Panel)
        share = job.task.threshold(session.settings.memory_threshold)
        each = "" if job.task.devices in (1, None) else " on each of {n}"
        size = msg(f"{{size}}{each}", size=format_mib(job.estimate_mib), n=job.task.devices or 1)
        panel.entitle("need against the devices", size)
        kinds = kinds_for(job, picture.snapshot, share)
        panel.put(need_lines(ink_of(self), job, kinds, panel.inner_width))

    def _draw_memory(self, session: Session, picture: Picture, job: Job, attempt: Attempt) -> None:
        panel = self.query_one("#queue-need", Panel)
        device = fullest(attempt, picture.snapshot)
        began = attempt.started_at or picture.now
        span = min(LONGEST_S, max(SHORTEST_S, picture.now - began))
        uuid = device.uuid if device else attempt.device_uuids[0] if attempt.device_uuids else ""
        series = session.history.device(uuid, "memory_used_mib", span)
        end = attempt.ended_at
        if end is not None and end > series.start:
            series = until(series, end)
        limit = None
        if device is not None and device.memory_total_mib:
            share = job.task.threshold(session.settings.memory_threshold)
            limit = share * device.memory_total_mib
        over = msg("over {time}", time=format_duration(series.end - series.start))
        panel.entitle(memory_title(job.estimate_mib), over)
        bounds, width = Bounds(job.estimate_mib, limit), panel.inner_width
        panel.put(memory_lines(ink_of(self), series, bounds, width, panel.size.height))

    def _draw_log(self, job: Job) -> None:
        ink = ink_of(self)
        mine = self._read_of[:2] == _attempt_of(job)[:2]
        lines, curves = (self._lines, self._curves) if mine else ((), Curves())
        names = plots_of(curves)
        curve, log = self.query_one("#queue-curve", Panel), self.query_one("#queue-log", Panel)
        curve.display = bool(names)
        if names:
            curve.entitle(names[0])
            width, height = curve.inner_width, curve.size.height
            curve.put(curve_lines(ink, curves, names[0], width, max(2, height)))
        log.entitle("log, last lines", "enter opens it")
        height = max(1, log.size.height)
        if not lines:
            words = "It has written nothing." if mine else "Reading the log."
            log.put([[(ink.say(words), ink.muted)]])
            return
        width = log.inner_width
        log.put([marked(ink, fit(line, width), line, ink.text, None) for line in lines[-height:]])


def _attempt_of(job: Job) -> tuple[str, int, bool]:
    return job.id, job.attempt.number if job.attempt else 0, job.state is not JobState.RUNNING
