"""A log on a screen, whatever it is of: reading on, searching, going to a place, copying a line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from textual import on

from gpuconsole.core.text import clean
from gpuconsole.core.training.log_timestamps import line_at, read_clock
from gpuconsole.core.wording import msg
from gpuconsole.session.logs.line_index import Lines
from gpuconsole.session.logs.search import Search
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs.base import AskScreen
from gpuconsole.tui.widgets.input_bar import FilterBar
from gpuconsole.tui.widgets.log_view import LogLines

LOOK_S = 0.2
"""The file is looked at so often: a chatty job costs a few repaints a second, not one a line."""

_ON_MATCHES = frozenset({"log('next')", "log('previous')", "log('only')"})
"""What keys do with the matches of a search."""


class SearchedLogScreen(ConsoleScreen):
    """A screen with a log: `LogLines` and a `FilterBar` that searches."""

    def __init__(
        self, draw_title: Callable[[], None], log_grew: Callable[[], None] = lambda: None
    ) -> None:
        """`draw_title` shows which log it is, and the matches of the search; `log_grew` is called
        when there are more lines."""
        super().__init__()
        self._draw_title, self._log_grew = draw_title, log_grew
        self._way = 0
        """Where to go as soon as a search has found something."""
        self._progress_seen: tuple[int, int] = (-1, -1)

    def found_words(self) -> str:
        """Return what the search has found, for the title."""
        lines, say, search = self.log_lines, self.ink.say, self.log_lines.search
        if search is None:
            return ""
        here = search.place(lines.here)
        words = say(f"  match {here or '-'} of {len(search.matches):,}")
        return words + (say("  only matches") if lines.only else "")

    @property
    def log_lines(self) -> LogLines:
        """The widget."""
        return self.query_one(LogLines)

    # -- reading ----------------------------------------------------------------------------

    async def read_on(self, log: Lines, at_rest: Callable[[], object] = lambda: None) -> None:
        """Read on for as long as this log is shown; `at_rest` is called where all is read."""
        seen, trouble = -1, ""
        while True:
            more = await log.grow() if self.is_current or seen < 0 else False
            if (log.version, log.trouble) != (seen, trouble):
                seen, trouble = log.version, log.trouble
                self.log_lines.grown()
                self._log_grew()
            if not more:
                at_rest()
                await asyncio.sleep(LOOK_S)

    async def _look_through(self, search: Search, log: Lines) -> None:
        """Search what there is, then what comes."""
        lines = self.log_lines
        while True:
            count = len(search.matches)
            while await search.go_on(log):
                if self._way and search.matches and lines.step(self._way):
                    self._way = 0
                self._tell_found(search, log)
            if count != len(search.matches):
                if lines.only:
                    lines.grown()
                self._tell_found(search, log)
            await asyncio.sleep(LOOK_S)

    def search_for(self, words: str) -> None:
        """Search for words from now on; "" for none."""
        lines = self.log_lines
        if not words or lines.source is None:
            lines.look_for(None)
            self.workers.cancel_group(self, "search")
        else:
            search = Search(words)
            lines.look_for(search)
            self._progress_seen = (-1, -1)
            look = partial(self._look_through, search, lines.source)
            aside(self, look, group="search", exclusive=True)
        self.draw_footer()

    def footer_keys(self) -> Sequence[Key]:
        """Return the keys that act now: without a search none that step through its matches."""
        keys = self.keys()
        if self.log_lines.search is None:
            keys = [key for key in keys if key.action not in _ON_MATCHES]
        return keys

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
        self._draw_title()

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
        self._draw_title()

    def action_search(self) -> None:
        """Search the log."""
        self.query_one(FilterBar).open()

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

    # -- messages ---------------------------------------------------------------------------

    @on(FilterBar.Searched)
    def _searched(self, event: FilterBar.Searched) -> None:
        lines = self.log_lines
        if event.text != (lines.search.words if lines.search is not None else ""):
            self._way = 0
            self.search_for(event.text)
        if event.done and event.text and not lines.step(1):
            self._way = 1
        self._draw_title()

    @on(FilterBar.Left)
    def _search_left(self) -> None:
        self.log_lines.focus()

    @on(LogLines.Moved)
    def _log_moved(self) -> None:
        if self.ready:
            self._draw_title()
