"""The log of a job on a screen: which attempt and rank, searching, going to a place, saving."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from textual import on
from textual.content import Content

from gpuconsole.core.jobs import Attempt, Job
from gpuconsole.core.logtimes import line_at, read_clock
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.session.logs.line_index import Lines, LogIndex
from gpuconsole.session.logs.merge import MergedLog
from gpuconsole.session.logs.noted import NotedLog, warning_line
from gpuconsole.session.logs.search import Search
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs.base import AskScreen
from gpuconsole.tui.widgets.input_bar import FilterBar
from gpuconsole.tui.widgets.log_view import LogLines

LOOK_S = 0.2
"""The file is looked at so often: a chatty job costs a few repaints a second, not one a line."""
ALL = -1
"""The rank that stands for all ranks merged."""


class LogScreen(ConsoleScreen):
    """A screen with the log of a job: `LogLines` and a `FilterBar` that searches."""

    def __init__(self) -> None:
        super().__init__()
        self._followed: tuple[str, int, int] = ("", 0, 0)
        """Job, attempt and rank whose log is shown."""
        self._chosen_attempt = 0
        """The attempt asked for; 0 means the latest."""
        self._rank = ALL
        self._way = 0
        """Where to go as soon as a search has found something."""
        self._progress_seen: tuple[int, int] = (-1, -1)

    # -- for the screen that has the log ----------------------------------------------------

    @property
    def job(self) -> Job | None:
        """The job shown."""
        raise NotImplementedError

    def log_grew(self) -> None:
        """Called when there are more lines."""

    @property
    def log_lines(self) -> LogLines:
        """The widget."""
        return self.query_one(LogLines)

    def shown_attempt(self, job: Job) -> Attempt | None:
        """Return the attempt whose log is shown."""
        chosen = [one for one in job.attempts if one.number == self._chosen_attempt]
        return chosen[0] if chosen else job.attempt

    def follow_log(self, job: Job) -> None:
        """Follow the log of the job's attempt, unless that is what is followed."""
        if job.id != self._followed[0]:
            self._chosen_attempt, self._rank = 0, ALL
        attempt = self.shown_attempt(job)
        number = attempt.number if attempt else 0
        wanted = (job.id, number, self._rank)
        warning = warning_line(job, number, self.session.settings.limits.time_limit)
        if wanted == self._followed:
            if isinstance(self.log_lines.source, NotedLog):
                self.log_lines.source.note(warning)
            return
        self._followed = wanted
        found = self._log_of(job, attempt) if attempt is not None else None
        log = NotedLog(found) if found is not None else None
        self.log_lines.look_at(log)
        self._search_for(self.log_lines.search.words if self.log_lines.search else "")
        if log is not None:
            aside(self, partial(self._read, log, warning), group="log", exclusive=True)
        else:
            self.workers.cancel_group(self, "log")

    def _log_of(self, job: Job, attempt: Attempt) -> Lines | None:
        try:
            paths = self._paths(job, attempt)
        except ConsoleError:
            # The job left the journal; the next picture lacks it.
            return None
        if self._rank == ALL and len(paths) > 1:
            return MergedLog(tuple(paths.values()))
        return LogIndex(paths[max(0, self._rank)])

    def _paths(self, job: Job, attempt: Attempt) -> Mapping[int, Path]:
        ranks = range(len(attempt.parts))
        return {rank: self.session.log_path(job.id, attempt.number, rank) for rank in ranks}

    # -- reading ----------------------------------------------------------------------------

    async def _read(self, log: NotedLog, warning: str) -> None:
        """Read on for as long as this log is shown; a warning of before stands at its end."""
        seen, trouble = -1, ""
        while True:
            more = await log.grow() if self.is_current or seen < 0 else False
            if (log.version, log.trouble) != (seen, trouble):
                seen, trouble = log.version, log.trouble
                self.log_lines.grown()
                self.log_grew()
            if not more:
                log.note(warning)
                await asyncio.sleep(LOOK_S)

    async def _look_through(self, search: Search, log: Lines) -> None:
        """Search what there is, then what comes."""
        lines = self.log_lines
        while True:
            found = len(search.matches)
            while await search.go_on(log):
                if self._way and search.matches and lines.step(self._way):
                    self._way = 0
                self._tell_found(search, log)
            if found != len(search.matches):
                if lines.only:
                    lines.grown()
                self._tell_found(search, log)
            await asyncio.sleep(LOOK_S)

    def _search_for(self, words: str) -> None:
        """Search for words from now on; "" for none."""
        lines = self.log_lines
        if not words or lines.source is None:
            lines.look_for(None)
            self.workers.cancel_group(self, "search")
            return
        search = Search(words)
        lines.look_for(search)
        self._progress_seen = (-1, -1)
        aside(
            self, partial(self._look_through, search, lines.source), group="search", exclusive=True
        )

    def _tell_found(self, search: Search, log: Lines) -> None:
        """Say how many lines match, and how far the search is."""
        share = 100 * search.done // max(1, len(log))
        if (len(search.matches), share) == self._progress_seen:
            return
        self._progress_seen = (len(search.matches), share)
        say = self.ink.say
        words = say(f"{len(search.matches):,} lines match")
        words += say(f" in {share}%") if share < 100 else ""
        self.query_one(FilterBar).note(words + say("   & only those"))
        if self.log_lines.only and share < 100:
            self.log_lines.grown()
        self.draw_log_title()

    # -- actions ----------------------------------------------------------------------------

    def action_log(self, what: str) -> None:
        """Follow, wrap, show only matches, or step through them."""
        lines = self.log_lines
        if what == "follow":
            lines.follow = not lines.follow
        elif what == "wrap":
            lines.wrap = not lines.wrap
        elif lines.search is None:
            self.tell("Nothing is marked; / searches the log.")
        elif what == "only":
            lines.only = not lines.only
        elif not lines.step(1 if what == "next" else -1):
            self.tell(msg("No line has `{words}`.", words=lines.search.words))
        self.draw_log_title()

    def action_search(self) -> None:
        """Search the log."""
        self.query_one(FilterBar).open()

    def action_rank(self) -> None:
        """Show the log of the next rank, after the last all of them merged."""
        attempt = self.shown_attempt(self.job) if self.job else None
        count = len(attempt.parts) if attempt else 0
        if self.job is None or count < 2:
            self.tell("The job runs on one host; there is one log.")
            return
        self._rank = self._rank + 1 if self._rank + 1 < count else ALL
        self.follow_log(self.job)
        self.show(self.picture)

    def action_attempt(self) -> None:
        """Show the log of the attempt before, before the first that of the latest."""
        job = self.job
        attempt = self.shown_attempt(job) if job else None
        if job is None or attempt is None or len(job.attempts) < 2:
            self.tell("There is no other attempt.")
            return
        numbers = [one.number for one in job.attempts]
        at = numbers.index(attempt.number) - 1
        self._chosen_attempt = numbers[at] if at >= 0 else 0
        self.follow_log(job)
        self.show(self.picture)

    def action_go_to(self) -> None:
        """Ask for a line, a share or a time, and go there."""
        words = (
            "A line such as 1204, a share such as 50%, or where lines tell the time, 02:14 or "
            "02:14:51."
        )

        def answered(typed: str | None) -> None:
            if typed:
                self._go_to(typed.strip().replace(",", ""))

        self.app.push_screen(AskScreen("Go to", words), answered)

    def _go_to(self, typed: str) -> None:
        log = self.log_lines.source
        if log is None or not len(log):
            self.tell("The log is empty.")
            return
        clock = read_clock(typed)
        number, percent = typed.removesuffix("%"), typed.endswith("%")
        if clock is not None:
            line = line_at(clock, len(log), log.text)
            if line is None:
                self.tell("The lines of this log tell no times.")
                return
        elif number.isdecimal():
            line = len(log) * int(number) // 100 if percent else int(number) - 1
        else:
            self.tell(msg("`{words}` is no line, share or time.", words=clean(typed, 40)))
            return
        self.log_lines.go_to(max(0, min(len(log) - 1, line)))

    def action_copy_line(self) -> None:
        """Copy the selected line, else the newest or the one at the top."""
        pointed = self.log_lines.pointed()
        if pointed is None:
            self.tell("There is no line to copy.")
            return
        line, words = pointed
        self.app.copy_to_clipboard(words)
        self.tell(msg("Copied line {n}: {words}", n=f"{line + 1:,}", words=clean(words, 60)))

    def action_save(self) -> None:
        """Save the whole log in the working folder, byte for byte; of a gang each rank's."""
        job = self.job
        attempt = self.shown_attempt(job) if job else None
        if job is None or attempt is None:
            self.tell("There is no log yet.")
            return
        ranks = self._paths(job, attempt)
        if self._rank != ALL:
            ranks = {self._rank: ranks[self._rank]}
        number = "" if attempt is job.attempt else f"-attempt-{attempt.number}"
        copies = {
            path: Path.cwd() / f"{job.id}{number}{f'-rank-{rank}' if rank else ''}.log"
            for rank, path in ranks.items()
        }
        aside(self, partial(self._save, copies), group="save")

    async def _save(self, copies: Mapping[Path, Path]) -> None:
        try:
            for path, copy in copies.items():
                await asyncio.to_thread(shutil.copyfile, path, copy)
        except OSError as error:
            words = msg(
                "{path} cannot be copied: {why}.",
                path=error.filename2 or error.filename,
                why=error.strerror,
            )
            hint = "Start the console in a folder that you may write to."
            self.console.tell_error(ConsoleError("Log not saved", words, hint))
            return
        count = len(self.log_lines.source) if self.log_lines.source is not None else 0
        names = " and ".join(str(copy) for copy in copies.values())
        self.tell(msg("{n} lines are in {names}.", n=f"{count:,}", names=names), "Log saved")

    # -- messages ---------------------------------------------------------------------------

    @on(FilterBar.Searched)
    def _searched(self, event: FilterBar.Searched) -> None:
        lines = self.log_lines
        if event.text != (lines.search.words if lines.search is not None else ""):
            self._way = 0
            self._search_for(event.text)
        if event.done and event.text and not lines.step(1):
            self._way = 1
        self.draw_log_title()

    @on(FilterBar.Left)
    def _search_left(self) -> None:
        self.log_lines.focus()

    @on(LogLines.Moved)
    def _log_moved(self) -> None:
        if self.ready:
            self.draw_log_title()

    # -- drawing ----------------------------------------------------------------------------

    def draw_log_title(self) -> None:
        """Say whose log it is, and what the search has found."""
        lines, job, say = self.log_lines, self.job, self.ink.say
        title = say("log")
        attempt = self.shown_attempt(job) if job is not None else None
        if job is not None and attempt is not None:
            if len(attempt.parts) > 1:
                count = len(attempt.parts)
                rank = f"rank {self._rank} of {count}"
                title += f": {say(f'all {count} ranks merged' if self._rank == ALL else rank)}"
            if attempt is not job.attempt:
                title += say(f", attempt {attempt.number} of {len(job.attempts)}")
        search = lines.search
        if search is not None:
            here = search.place(lines.here)
            title += say(f"  match {here or '-'} of {len(search.matches):,}")
            title += say("  only matches") if lines.only else ""
        if lines.source is not None and lines.source.trouble:
            title += f"  {say(lines.source.trouble)}"
        empty = say(self._emptiness(attempt))
        if empty != lines.empty:
            lines.empty = empty
            lines.refresh()
        lines.border_title = Content(clean(title))

    def _emptiness(self, attempt: Attempt | None) -> str:
        """Say why there is nothing to see, and what to do."""
        if self.log_lines.only:
            return "No line matches. & shows all lines again."
        if attempt is None:
            return "Nothing is written before it runs. 2 shows why it waits."
        if attempt.ended_at is not None:
            return "It wrote nothing."
        return "It has written nothing yet."
