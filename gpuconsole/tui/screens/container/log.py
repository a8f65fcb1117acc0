"""The log of a container that need be no job, or what a command in it writes: read as it comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import partial

from textual.app import ComposeResult
from textual.content import Content

from gpuconsole.core.engines.host_containers import HostContainer
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.session.containers.service import Spool
from gpuconsole.session.logs.line_index import LogIndex
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.searched_log import SearchedLogScreen
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.widgets.input_bar import FilterBar
from gpuconsole.tui.widgets.log_view import LogLines

Opening = Callable[[], AsyncGenerator[bytes, None]]


class ContainerLogScreen(SearchedLogScreen):
    """Output followed into a file for as long as the screen is there."""

    AREA = "clog"
    MODE = "fleet"
    WIDGET_AREAS = ("log",)
    AUTO_FOCUS = "LogLines"

    def __init__(self, container: HostContainer, opening: Opening, title: str = "") -> None:
        """`opening` begins to read; `title` says of what, else the log."""
        super().__init__(self.draw_log_title)
        self._container = container
        self._opening = opening
        self._named = title
        self._spool: Spool | None = None
        self._ended = ""
        """Why there is no more to come, as a word or a sentence; "" while there may be."""

    def body(self) -> ComposeResult:
        """The log, and the search."""
        yield LogLines(id="log")
        yield FilterBar(search=True, id="filter")

    def on_mount(self) -> None:
        """Begin to read."""
        try:
            self._spool = Spool()
        except OSError as error:
            self._ended = msg("It cannot be kept here: {why}.", why=error.strerror)
            return
        log = LogIndex(self._spool.path)
        self.log_lines.look_at(log)
        aside(self, partial(self._fill, self._spool), group="fill")
        aside(self, partial(self.read_on, log), group="log")

    def on_unmount(self) -> None:
        """What was kept goes."""
        if self._spool is not None:
            self._spool.close()

    def crumbs(self) -> str:
        """Fleet > containers > this one."""
        say = self.ink.say
        return f"{say('Fleet')} > {say('containers')} > {self._container.key}"

    def draw(self, picture: Picture) -> None:
        """Only the title changes."""
        self.draw_log_title()

    def restyle(self) -> None:
        """Draw in another theme."""
        self.log_lines.refresh()
        super().restyle()

    def draw_log_title(self) -> None:
        """Show which log it is, and the matches of the search."""
        lines, say = self.log_lines, self.ink.say
        named = say(self._named or msg("log of {name}", name=self._container.key))
        title = named + self.found_words()
        trouble = self._ended or (lines.source.trouble if lines.source is not None else "")
        title += f"  {say(trouble)}" if trouble else ""
        empty = "It wrote nothing." if self._ended else "It has written nothing yet."
        if lines.only:
            empty = "No line matches. & shows all lines again."
        if say(empty) != lines.empty:
            lines.empty = say(empty)
            lines.refresh()
        lines.border_title = Content(clean(title))

    async def _fill(self, spool: Spool) -> None:
        try:
            await spool.fill(self._opening())
            self._ended = "ended"
        except ConsoleError as error:
            self._ended = error.message
            self.console.tell_error(error)
        except OSError as error:
            self._ended = msg("It cannot be kept here: {why}.", why=error.strerror)
        if self.ready:
            self.draw_log_title()
