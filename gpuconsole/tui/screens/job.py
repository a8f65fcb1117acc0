"""Job: what it does, why it is in this state, its memory against the prediction, and its log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from gpuconsole.core.engines.transfers import LeftOut
from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.training.curves import Curves
from gpuconsole.core.training.log import progress
from gpuconsole.core.units import MIB, format_duration, format_mib
from gpuconsole.core.wording import msg, sentences
from gpuconsole.errors import ConsoleError
from gpuconsole.session.results import FetchedResults
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.render.job import (
    FETCHED,
    Beside,
    Going,
    fact_lines,
    head_lines,
    short_head,
)
from gpuconsole.tui.render.plots.memory_plot import Bounds, memory_lines, memory_title, until
from gpuconsole.tui.render.plots.time_plot import Scale, plot_lines
from gpuconsole.tui.render.plots.training_curves import curve_lines, drawn_with, plots_of
from gpuconsole.tui.render.queue import in_order
from gpuconsole.tui.render.queue_detail import fullest
from gpuconsole.tui.render.text_cells import text
from gpuconsole.tui.render.training_progress import Pace
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens import job_actions, session_actions
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs import retry_oom
from gpuconsole.tui.screens.dialogs.ports import PortsScreen, forwarded
from gpuconsole.tui.screens.job_log import LogScreen
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.widgets.input_bar import FilterBar
from gpuconsole.tui.widgets.log_view import LogLines
from gpuconsole.tui.widgets.panel import Panel, SizedPanel

LOOK_BACK = 60
"""Lines at the end of the log in which progress is looked for."""
LONGEST_S = 4 * 3600.0
"""How much of a job's past is plotted at most: so much is remembered."""
SHORTEST_S = 60.0
MEMORY, USE = "memory", "use"
"""What is plotted of the device, beside metrics of the log."""
_ENDED = ("job.retry", "job.search")
_ACTIVE = ("job.session", "job.follow", "job.search", "job.cancel")
"""Keys that come first in the footer: where it is narrow, the others are left to the help."""
MOST_RESULTS = 12
"""Fetched files that are named."""


class JobScreen(LogScreen):
    """One job."""

    AREA = "job"
    MODE = "job"
    WIDGET_AREAS = ("log",)
    AUTO_FOCUS = "LogLines"
    HORIZONTAL_BREAKPOINTS = [*ConsoleScreen.HORIZONTAL_BREAKPOINTS, (160, "-huge")]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__(self._job_of_now, self._log_has_grown)
        self._pace = Pace()
        self._going: Going | None = None
        self._docker = ""
        self._docker_of: tuple[str, Attempt | None] = ("", None)
        self._curves = Curves()
        self._curves_of: tuple[str, int] = ("", 0)
        """The job and the attempt of these curves."""
        self._reading = False
        self._plotted = ""
        """What the key has chosen to plot; "" where it has not."""
        self._results: dict[str, Sequence[str]] = {}
        """What ended jobs have left, or where it was copied to, by job."""

    def body(self) -> ComposeResult:
        """Head above; log at the left, memory and facts at the right."""
        yield Panel(id="job-head")
        with Horizontal(id="job-main"):
            with Vertical(id="job-left"):
                yield SizedPanel(id="job-plot")
                yield LogLines(id="log")
            with Vertical(id="job-side"):
                yield SizedPanel(id="job-memory")
                yield SizedPanel(id="job-curves")
                yield Panel(id="job-facts")
        yield Static("", id="job-empty", classes="panel empty", markup=False)
        yield FilterBar(search=True, id="filter")

    def under_cursor(self) -> tuple[Host | None, Device | None, Job | None]:
        """Return the job."""
        return None, None, self.job

    def _job_of_now(self) -> Job | None:
        """Return the job that was opened last, else the newest."""
        job = self.picture.job(self.console.job_id)
        if job is None and self.picture.jobs:
            job = in_order(self.picture.jobs)[0]
        return job

    def draw(self, picture: Picture) -> None:
        """Draw the job as it is now, and follow its log."""
        job = self.job
        self.set_class(job is None, "-empty")
        if job is None:
            words = ["No job to look at yet.", "", "2 shows the queue, 4 submits a script."]
            empty = self.query_one("#job-empty", Static)
            lines = [[(self.ink.say(line), self.ink.text)] for line in words]
            empty.update(text(lines), layout=False)
            return
        # One that was just queued may not be in the picture yet.
        self.console.job_id = self.console.job_id or job.id
        self.follow_log(job)
        if (job.id, job.attempt) != self._docker_of:
            # The account and the devices are known only once the attempt is on its host.
            self._docker_of, self._docker = (job.id, job.attempt), self._rendered(job)
        if job.state.ended and job.attempt is not None and job.id not in self._results:
            self._results[job.id] = ()
            aside(self, partial(self._ask_results, job.id), group="results")
        self._draw_head(job)
        self._draw_plots(job)
        self._draw_facts(job)
        self.draw_log_title()

    def crumbs(self) -> str:
        """Queue > job."""
        job = self.job
        return f"{self.ink.say('Queue')} > {job.task.name}" if job else ""

    def restyle(self) -> None:
        """Draw in another theme."""
        self.log_lines.refresh()
        super().restyle()

    def keys(self) -> list[Key]:
        """Return the keys that do something to this job."""
        job = self.job
        absent: set[str] = set()
        if job is not None:
            absent = {"job.cancel" if job.state.ended else "job.retry"}
            if job.state is not JobState.RUNNING:
                absent.add("job.ports")
            if not session_actions.can_enter(job):
                absent.add("job.session")
            if job.attempt is None or not job.attempt.members:
                absent.add("job.rank")
            if len(job.attempts) < 2:
                absent.add("job.attempt")
        keys_ = super().keys()
        return [key for key in keys_ if key.id not in absent]

    def footer_keys(self) -> Sequence[Key]:
        """What one does to a job as it is, before what moves in its log."""
        ended = self.job is not None and self.job.state.ended
        first = _ENDED if ended else _ACTIVE
        keys = {key.id: key for key in super().footer_keys()}
        if ended:
            keys.pop("job.follow", None)
        return [*(keys.pop(id_) for id_ in first if id_ in keys), *keys.values()]

    # -- actions ----------------------------------------------------------------------------

    def action_metric(self) -> None:
        """Plot the next figure: the device's memory and use, then what the log reports."""
        job = self.job
        if job is None:
            return
        choices = self._choices()
        # Before the key is pressed the first of them is what is seen.
        at = choices.index(self._plotted) if self._plotted in choices else 0
        self._plotted = choices[(at + 1) % len(choices)]
        self.set_class(bool(self._plotted), "-plotted")
        if not plots_of(self._curves):
            self.tell("Its log reports nothing of training in a form that is known.")
        self.call_after_refresh(lambda: self.show(self.picture))

    def _choices(self) -> list[str]:
        """What can be plotted, in the order of the key; "" on a narrow screen is the log alone."""
        names = plots_of(self._curves)
        if self.has_class("-huge"):
            return [*names, USE]
        return ["", *names, MEMORY, USE] if self.has_class("-narrow") else [MEMORY, *names, USE]

    def action_facts(self) -> None:
        """Show or hide the facts."""
        self.toggle_class("-facts-toggled")
        self.call_after_refresh(lambda: self.show(self.picture))

    def action_scroll_facts(self, lines: int) -> None:
        """Scroll the facts."""
        self.query_one("#job-facts", Panel).scroll_relative(y=lines, animate=False)

    def action_fetch(self) -> None:
        """Fetch the results into a folder of the working folder."""
        job = self.job
        if job is None:
            return

        def fetched(done: FetchedResults) -> None:
            self.tell(msg("The results are in {path}.", path=done.folder), "Fetched")
            aside(self, partial(self._list_results, job.id, done), group="results")

        self.tell(msg("Fetching the results into {folder}/{id}.", folder=FETCHED, id=job.id))
        work = partial(self.session.fetch_results, job.id, Path.cwd() / FETCHED)
        self.ask_session(work, fetched, group="fetch")

    async def _ask_results(self, job_id: str) -> None:
        try:
            files = await self.session.results(job_id)
        except ConsoleError as error:
            self._results[job_id] = (error.message,)
        else:
            named = [f"{file.name}  {format_mib(file.size_bytes / MIB)}" for file in files]
            self._results[job_id] = (
                *_few(named),
                msg("F copies them into {folder}/{id}", folder=FETCHED, id=job_id),
            )
        self.show(self.picture)

    async def _list_results(self, job_id: str, done: FetchedResults) -> None:
        listed = await asyncio.to_thread(_listed, done.folder)
        self._results[job_id] = (*listed, *_left_out(done.left_out))
        self.show(self.picture)

    def action_ports(self) -> None:
        """Open, list and close ports of the job's container."""
        if self.job is not None:
            self.app.push_screen(PortsScreen(self.session, self.job))

    def action_session(self) -> None:
        """Enter the session."""
        if self.job is not None:
            session_actions.enter(self, self.job)

    def action_cancel(self) -> None:
        """Cancel the job."""
        if self.job is not None:
            job_actions.cancel(self, (self.job,))

    def action_retry(self) -> None:
        """Queue the ended job again; one that ran out of memory with what should fit."""
        if self.job is not None:
            retry_oom.retry(self, (self.job,))

    def action_copy(self) -> None:
        """Copy the docker command."""
        if self._docker:
            self.app.copy_to_clipboard(self._docker)
            self.tell("Copied the docker command.")
        else:
            self.tell("There is no docker command before the job has a place.")

    def action_sibling(self, step: int) -> None:
        """Show the job before or after this one, in the queue's order."""
        ids = [job.id for job in in_order(self.picture.jobs)]
        if self.console.job_id in ids:
            self.console.open_job(ids[(ids.index(self.console.job_id) + step) % len(ids)])

    def action_back(self) -> None:
        """Leave a search, then go back to the queue."""
        bar = self.query_one(FilterBar)
        if bar.is_open:
            bar.clear()
        else:
            super().action_back()

    def on_resize(self, event: events.Resize) -> None:
        """The head is made for a width."""
        super().on_resize(event)
        self.call_after_refresh(lambda: self.show(self.picture))

    @on(SizedPanel.Sized)
    def _plot_sized(self) -> None:
        job = self.job
        if job is not None and self.ready:
            self._draw_plots(job)

    # -- drawing ----------------------------------------------------------------------------

    def _log_has_grown(self) -> None:
        """The job may be further."""
        if self.job is not None and self.ready:
            self._draw_head(self.job)
            self._read_curves(self.job)

    def _read_curves(self, job: Job) -> None:
        """Have what is new in the log read for its curves, one look at a time."""
        attempt = self.shown_attempt(job)
        if attempt is not None and not self._reading:
            self._reading = True
            aside(self, partial(self._take_curves, job.id, attempt.number), group="curves")

    async def _take_curves(self, job_id: str, attempt: int) -> None:
        try:
            curves = await self.session.curves(job_id, attempt)
        except ConsoleError:
            # The log's own box says that it cannot be read.
            return
        finally:
            self._reading = False
        job = self.job
        if job is not None and job.id == job_id and self.ready:
            self._curves = curves
            self._curves_of = (job_id, attempt)
            self._draw_plots(job)

    def _draw_plots(self, job: Job) -> None:
        """Draw the current plots, where this size has them."""
        attempt = self.shown_attempt(job)
        shown = (job.id, attempt.number if attempt else 0)
        if shown != self._curves_of:
            self._curves, self._curves_of = Curves(), shown
            self._read_curves(job)
        memory, curves = self.query_one("#job-memory", Panel), self.query_one("#job-curves", Panel)
        if self.has_class("-huge"):
            self._draw_memory(job, memory)
            chosen = self._plotted if self._plotted in self._choices() else self._choices()[0]
            self._draw_plot(job, chosen, curves)
            return
        above = self.query_one("#job-plot", Panel)
        self._draw_plot(job, self._plotted or MEMORY, above if above.display else memory)
        if above.display and memory.display:
            self._draw_memory(job, memory)

    def _draw_plot(self, job: Job, chosen: str, panel: Panel) -> None:
        if not panel.display or not panel.size.width:
            return
        attempt = self.shown_attempt(job)
        if chosen == MEMORY or attempt is None:
            self._draw_memory(job, panel)
        elif chosen == USE:
            self._draw_use(job, attempt, panel)
        else:
            with_val = " ".join(curve.name for curve in drawn_with(self._curves, chosen))
            panel.entitle(with_val or chosen, "m next")
            width, height = panel.inner_width, panel.size.height
            panel.put(curve_lines(self.ink, self._curves, chosen, width, height))

    def _draw_use(self, job: Job, attempt: Attempt, panel: Panel) -> None:
        """Plot the use of the fullest device of an attempt."""
        device = fullest(attempt, self.picture.snapshot)
        uuid = device.uuid if device else attempt.device_uuids[0] if attempt.device_uuids else ""
        end = attempt.ended_at or self.picture.now
        began = attempt.started_at or self.picture.now
        span = min(LONGEST_S, max(SHORTEST_S, self.picture.now - began))
        series = self.session.history.device(uuid, "utilization", span)
        if attempt.ended_at is not None and end > series.start:
            series = until(series, end)
        panel.entitle("use of the device", "m next")
        scale = Scale(100.0, lambda value: f"{value:.0f}%")
        panel.put(plot_lines(self.ink, series, scale, panel.inner_width, panel.size.height))

    def _draw_head(self, job: Job) -> None:
        head = self.query_one("#job-head", Panel)
        latest = self.shown_attempt(job) is job.attempt
        done = progress(self.log_lines.tail(LOOK_BACK)) if latest else None
        now, number = self.picture.now, job.attempt.number if job.attempt else 0
        self._pace.note((job.id, number), done, now)
        step_s = self._pace.seconds(job, done, now)
        why = self._why(job) if job.state is JobState.QUEUED else ""
        going = self._going = Going(job, self.picture.snapshot, now, done, step_s, why)
        short = self.has_class("-short")
        priority = self.ink.say(f"  priority {job.task.priority}")
        head.entitle(f"{job.task.name}  {job.user}{priority}", job.id)
        width = self.size.width - (2 if short else 4)
        head.put((short_head if short else head_lines)(self.ink, going, width))

    def _draw_memory(self, job: Job, panel: Panel) -> None:
        if not panel.display or not panel.size.width:
            return
        attempt = self.shown_attempt(job)
        title = memory_title(job.estimate_mib)
        panel.entitle(title)
        if attempt is None or attempt.started_at is None:
            panel.put([[(self.ink.say("It has not run yet."), self.ink.muted)]])
            return
        device = fullest(attempt, self.picture.snapshot)
        end = attempt.ended_at or self.picture.now
        span = min(LONGEST_S, max(SHORTEST_S, self.picture.now - attempt.started_at))
        uuid = device.uuid if device else attempt.device_uuids[0] if attempt.device_uuids else ""
        series = self.session.history.device(uuid, "memory_used_mib", span)
        if attempt.ended_at is not None and end > series.start:
            series = until(series, end)
        limit = None
        if device is not None and device.memory_total_mib:
            share = job.task.threshold(self.session.settings.memory_threshold)
            limit = share * device.memory_total_mib
        if device is not None and len(attempt.parts) * len(attempt.device_uuids) > 1:
            title = msg(
                "memory of {host} gpu {index}, the fullest", host=attempt.host, index=device.index
            )
        panel.entitle(title, f"over {format_duration(series.end - series.start)}")
        bounds = Bounds(job.estimate_mib, limit)
        width, height = panel.inner_width, panel.size.height
        panel.put(memory_lines(self.ink, series, bounds, width, height))

    def _draw_facts(self, job: Job) -> None:
        facts = self.query_one("#job-facts", Panel)
        if self._going is None or not facts.display or not facts.size.width:
            return
        facts.entitle("facts", "( ) scroll  i hides")
        attempt = self.shown_attempt(job)
        number, named = attempt.number if attempt else 0, not self.has_class("-short")
        urls = [forward.info for forward in self.session.forwards.open_now()]
        urls = [url for url in urls if url.job in (job.id, forwarded(job))]
        ports = [msg("{url} is port {port}", url=url.url, port=url.port) for url in urls]
        beside = Beside(self._docker, number, self._results.get(job.id, ()), named, ports)
        facts.put(fact_lines(self.ink, self._going, beside, facts.inner_width))

    def _why(self, job: Job) -> str:
        try:
            why = self.session.why_now(job.id)
        except ConsoleError:
            # The job left the journal between two beats; the next picture lacks it.
            return ""
        if why.estimated_start is None:
            return why.reason
        left = format_duration(max(0.0, why.estimated_start - self.picture.now))
        return sentences(msg("It should start in about {time}.", time=left), why.reason)

    def _rendered(self, job: Job) -> str:
        try:
            return self.session.render(job.id)
        except ConsoleError:
            # Nothing to render before the job has a place; the panel leaves the line out.
            return ""


def _listed(folder: Path) -> tuple[str, ...]:
    """Return the files of a folder with their sizes, largest first."""
    try:
        paths = (path for path in folder.rglob("*") if not path.is_symlink() and path.is_file())
        sizes = {path: path.stat().st_size for path in paths}
    except OSError as error:
        return (msg("{folder} cannot be read: {why}.", folder=folder, why=error.strerror),)
    files = sorted(sizes, key=lambda path: -sizes[path])
    named = [
        f"{clean(str(path.relative_to(folder)), 300)}  {format_mib(sizes[path] / MIB)}"
        for path in files
    ]
    return (msg("in {folder}", folder=folder), *_few(named))


def _left_out(left: LeftOut) -> tuple[str, ...]:
    """Return what could not be fetched and why, and how much more that is."""
    named = [
        f"left out: {omission.name} {omission.reason}" for omission in left.named[:MOST_RESULTS]
    ]
    more = left.count - len(named)
    return (*named, *([f"and {more} more"] if more else []))


def _few(named: Sequence[str]) -> tuple[str, ...]:
    """Return the first names, and how many more there are."""
    more = len(named) - MOST_RESULTS
    names = (*named[:MOST_RESULTS], *([f"and {more} more"] if more > 0 else []))
    return names or ("no files",)
