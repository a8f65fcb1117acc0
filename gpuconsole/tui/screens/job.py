"""Job: what it does, why it stands there, its memory against the prediction, and its log."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.errors import ConsoleError
from gpuconsole.tui.aside import aside
from gpuconsole.tui.picture import Picture
from gpuconsole.tui.presentation.cells import text
from gpuconsole.tui.presentation.jobs import fact_lines, head_lines, progress
from gpuconsole.tui.presentation.queue import in_order
from gpuconsole.tui.screens import verbs
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.widgets.filterbar import FilterBar
from gpuconsole.tui.widgets.loglines import LogLines
from gpuconsole.tui.widgets.panel import Panel, name_box

FLUSH_S = 0.2
"""New log lines are shown so often: a chatty job costs a few repaints a second, not one a line."""

BATCH = 500
LOOK_BACK = 60
"""Lines at the end of the log in which progress is looked for."""


class JobScreen(ConsoleScreen):
    """One job."""

    AREA = "job"
    MODE = "job"
    WIDGET_AREAS = ("log",)
    AUTO_FOCUS = "LogLines"

    def __init__(self) -> None:
        super().__init__()
        self._followed: tuple[str, int] = ("", 0)
        self._read_until: JobState | None = None
        """The job's state when its log came to an end; None while it is read."""
        self._pending: list[str] = []
        self._docker = ""
        self._docker_of: tuple[str, Attempt | None] = ("", None)

    def body(self) -> ComposeResult:
        """Head above; log and facts side by side."""
        yield Panel(id="job-head")
        with Horizontal(id="job-main"):
            yield LogLines(id="log")
            yield Panel(id="job-facts")
        yield Static("", id="job-empty", classes="panel empty", markup=False)
        yield FilterBar(search=True, id="filter")

    def on_mount(self) -> None:
        """Show new lines a few times a second."""
        self.set_interval(FLUSH_S, self._flush)

    @property
    def job(self) -> Job | None:
        """The job shown: the one opened last, else the newest."""
        found = self.picture.job(self.console.job_id)
        if found is None and self.picture.jobs:
            found = in_order(self.picture.jobs)[0]
        return found

    def draw(self, picture: Picture) -> None:
        """Draw the job as it is now, and follow the log of its latest attempt."""
        job = self.job
        self.set_class(job is None, "-empty")
        if job is None:
            words = ["No job to look at yet.", "", "2 shows the queue, 4 submits a script."]
            empty = self.query_one("#job-empty", Static)
            empty.update(text([[(line, self.ink.text)] for line in words]), layout=False)
            return
        self.console.job_id = job.id
        self._follow(job)
        if (job.id, job.attempt) != self._docker_of:
            # The account and the devices are known only once the attempt is on its host.
            self._docker_of, self._docker = (job.id, job.attempt), self._rendered(job)
        self._draw_head(job)
        self._draw_facts(job)
        self._draw_log_title()

    def crumbs(self) -> str:
        """Queue > job."""
        job = self.job
        return f"Queue > {job.task.name}" if job else ""

    def restyle(self) -> None:
        """Draw in another theme."""
        self.query_one(LogLines).refresh()
        super().restyle()

    # -- actions ----------------------------------------------------------------------------

    def action_log(self, what: str) -> None:
        """Follow, wrap, or step through matches."""
        log = self.query_one(LogLines)
        if what == "follow":
            log.follow = not log.follow
        elif what == "wrap":
            log.wrap = not log.wrap
        elif not log.step(1 if what == "next" else -1):
            self.tell("Nothing is marked; / searches the log.")
        self._draw_log_title()

    def action_search(self) -> None:
        """Search the log."""
        self.query_one(FilterBar).open()

    def action_facts(self) -> None:
        """Show or hide the facts."""
        self.toggle_class("-facts-toggled")
        self.call_after_refresh(lambda: self.show(self.picture))

    def action_save(self) -> None:
        """Save the lines kept to a file in the working folder."""
        job = self.job
        if job is None:
            return
        path = Path.cwd() / f"{job.id}.log"
        lines = self.query_one(LogLines).lines
        try:
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        except OSError as error:
            words = f"{path} cannot be written: {error.strerror}."
            hint = "Start the console in a folder that you may write to."
            self.console.tell_error(ConsoleError("Log not saved", words, hint))
            return
        self.tell(f"{len(lines)} lines are in {path}.", "Log saved")

    def action_fetch(self) -> None:
        """Fetch the results into the working folder."""
        job = self.job
        if job is None:
            return
        self.tell("Fetching the results.")
        self.ask_session(
            lambda: self.session.fetch(job.id, Path.cwd()),
            lambda path: self.tell(f"The results are in {path}.", "Fetched"),
            group="fetch",
        )

    def action_cancel(self) -> None:
        """Cancel the job."""
        if self.job is not None:
            verbs.cancel(self, (self.job,))

    def action_retry(self) -> None:
        """Queue the ended job again."""
        if self.job is not None:
            verbs.retry(self, (self.job,))

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
            bar.action_leave()
            bar.action_leave()
        else:
            super().action_back()

    # -- messages ---------------------------------------------------------------------------

    @on(FilterBar.Searched)
    def _searched(self, event: FilterBar.Searched) -> None:
        log = self.query_one(LogLines)
        found = log.search(event.text)
        if event.text:
            self.query_one(FilterBar).note(f"{found} lines match   enter goes there")
        if event.done and found:
            log.step(1)
        self._draw_log_title()

    @on(FilterBar.Left)
    def _search_left(self) -> None:
        self.query_one(LogLines).focus()

    @on(LogLines.Moved)
    def _log_moved(self) -> None:
        self._draw_log_title()

    def on_resize(self, event: events.Resize) -> None:
        """The head is made for a width."""
        super().on_resize(event)
        self.call_after_refresh(lambda: self.show(self.picture))

    # -- the log ----------------------------------------------------------------------------

    def _follow(self, job: Job) -> None:
        """Follow the log of the latest attempt, unless that is what is followed.

        A log that ended before its job did, as when its host went out of sight, is read again
        once the job has another state.
        """
        wanted = (job.id, job.attempt.number if job.attempt else 0)
        if wanted == self._followed and self._read_until in (None, job.state):
            return
        self._followed, self._read_until = wanted, None
        self._pending.clear()
        self.query_one(LogLines).clear_lines()
        if job.attempt is not None:
            aside(self, partial(self._read, job), group="log", exclusive=True)
        else:
            self.workers.cancel_group(self, "log")

    async def _read(self, job: Job) -> None:
        count = 0
        try:
            async for line in self.session.logs(job.id, follow=not job.state.ended):
                self._pending.append(clean(line))
                count += 1
                if count % BATCH == 0:
                    # A log that is all there already must not hold up the keys.
                    await asyncio.sleep(0)
        except ConsoleError as error:
            self._pending.append(f"-- the log cannot be read: {error.message} --")
        try:
            self._read_until = self.session.job(job.id).state
        except ConsoleError:
            # The job left the journal; the next picture lacks it.
            self._read_until = job.state

    def _flush(self) -> None:
        if self._pending and self.ready:
            fresh, self._pending = self._pending, []
            self.query_one(LogLines).extend(fresh)
            self._draw_log_title()
            if self.job is not None:
                self._draw_head(self.job)

    def _rendered(self, job: Job) -> str:
        try:
            return self.session.render(job.id)
        except ConsoleError:
            # Nothing to render before the job has a place; the panel leaves the line out.
            return ""

    # -- drawing ----------------------------------------------------------------------------

    def _draw_head(self, job: Job) -> None:
        head = self.query_one("#job-head", Panel)
        width = self.size.width - 4
        lines = self.query_one(LogLines).lines[-LOOK_BACK:]
        done = progress(lines)
        head.entitle(f"{job.task.name}  {job.user}  priority {job.task.priority}", job.id)
        head.put(head_lines(self.ink, job, done, self.picture.snapshot, self.picture.now, width))

    def _draw_facts(self, job: Job) -> None:
        facts = self.query_one("#job-facts", Panel)
        if facts.display and facts.size.width:
            facts.entitle("facts", "i hides")
            width = facts.inner_width
            facts.put(fact_lines(self.ink, job, self._docker, self.picture.now, width))

    def _draw_log_title(self) -> None:
        log = self.query_one(LogLines)
        total = len(log.lines) + log.dropped
        here, matches = log.matching
        found = f"  match {here} of {matches}" if matches else ""
        last = min(len(log.lines), log.scroll_offset.y + log.size.height) + log.dropped
        place = f"{total:,} lines" if log.wrap else f"line {last:,} of {total:,}"
        follow, wrap = ("ON" if log.follow else "off"), ("ON" if log.wrap else "off")
        name_box(log, f"log{found}", f"{place}  f follow {follow}  w wrap {wrap}")
