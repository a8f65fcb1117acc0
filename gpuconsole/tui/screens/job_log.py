"""The log of a job on a screen: which attempt and rank, searching, going to a place, saving."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from textual.content import Content

from gpuconsole.core.jobs import Attempt, Job
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.session.logs.line_index import Lines, LogIndex
from gpuconsole.session.logs.merge import MergedLog
from gpuconsole.session.logs.noted import NotedLog, warning_line
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.searched_log import SearchedLogScreen
from gpuconsole.tui.screens.session_actions import can_enter

ALL = -1
"""The number that means all ranks merged."""


class LogScreen(SearchedLogScreen):
    """A screen with the log of a job: `LogLines` and a `FilterBar` that searches."""

    def __init__(self, shown_job: Callable[[], Job | None], log_grew: Callable[[], None]) -> None:
        """`shown_job` returns the job with the log; `log_grew` is called when there are more
        lines."""
        super().__init__(self.draw_log_title, log_grew)
        self._shown_job = shown_job
        self._followed: tuple[str, int, int] = ("", 0, 0)
        """Job, attempt and rank of the log that is shown."""
        self._chosen_attempt = 0
        """The attempt asked for; 0 means the latest."""
        self._rank = ALL

    # -- for the screen that has the log ----------------------------------------------------

    @property
    def job(self) -> Job | None:
        """The job shown."""
        return self._shown_job()

    def shown_attempt(self, job: Job) -> Attempt | None:
        """Return the attempt with the log that is shown."""
        chosen = [attempt for attempt in job.attempts if attempt.number == self._chosen_attempt]
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
        job_log = self._log_of(job, attempt) if attempt is not None else None
        log = NotedLog(job_log) if job_log is not None else None
        self.log_lines.look_at(log)
        self.search_for(self.log_lines.search.words if self.log_lines.search else "")
        if log is not None:
            reading = partial(self.read_on, log, partial(log.note, warning))
            aside(self, reading, group="log", exclusive=True)
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

    # -- actions ----------------------------------------------------------------------------

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
        numbers = [attempt.number for attempt in job.attempts]
        at = numbers.index(attempt.number) - 1
        self._chosen_attempt = numbers[at] if at >= 0 else 0
        self.follow_log(job)
        self.show(self.picture)

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

    # -- drawing ----------------------------------------------------------------------------

    def draw_log_title(self) -> None:
        """Show which log it is, and the matches of the search."""
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
        title += self.found_words()
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
        if can_enter(self.job):
            return "It runs. B enters it."
        return "It has written nothing yet."
