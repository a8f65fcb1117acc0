"""Containers of every host, not only the console's own; queried only while the screen is open."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from functools import partial

from textual import on
from textual.app import ComposeResult

from gpuconsole.core.engines.host_containers import HostContainer, HostContainers
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.tui.render.containers import ORDERS, heading, ordered, row
from gpuconsole.tui.render.text_cells import Piece
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.container.exec import run_in
from gpuconsole.tui.screens.container.log import ContainerLogScreen
from gpuconsole.tui.screens.dialogs.base import AskScreen
from gpuconsole.tui.screens.list_screen import ListScreen
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.widgets.input_bar import FilterBar
from gpuconsole.tui.widgets.panel import name_box
from gpuconsole.tui.widgets.row_list import Rows

ASK_EVERY_S = 5.0
"""Pause between two looks at a host's list, while the screen is shown."""
FEW = 16
"""With more hosts than this their answers are drawn together."""
TOGETHER_S = 0.3
"""How long an answer waits for others to be drawn with it."""
TAIL = 10_000
"""Lines of a log's past that are read; a line longer than 16 KiB counts as several."""


class ContainersScreen(ListScreen):
    """The containers of one host, or of all."""

    AREA = "containers"
    MODE = "fleet"
    WIDGET_AREAS = ("table",)
    THINGS = "containers"

    def __init__(self, host: str = "", do: str = "") -> None:
        """`host` narrows to one; `do` is what enter does: `log`, which is usual, or `exec`."""
        super().__init__(self.draw_titles)
        self._host = host
        self._do = do or "log"
        self._stopped = False
        self._order = ORDERS[0]
        self._found: dict[str, HostContainers] = {}
        self._rows: Mapping[str, HostContainer | HostContainers] = {}
        self._asked: tuple[str, ...] = ()
        self._owners: Mapping[str, str] = {}
        """What the containers of this queue's jobs are called, by the ids of the jobs."""
        self._waits = False
        """Whether answers wait to be drawn."""

    def body(self) -> ComposeResult:
        """The rows, and the filter."""
        yield Rows(id="containers")
        yield FilterBar(id="filter")

    def on_mount(self) -> None:
        """Begin to ask the hosts."""
        self._ask()

    def crumbs(self) -> str:
        """Fleet > host > containers."""
        say = self.ink.say
        parts = (say("Fleet"), self._host, say("containers"))
        return " > ".join(part for part in parts if part)

    # -- actions ----------------------------------------------------------------------------

    def action_log(self) -> None:
        """Read the container's log; where one came for a command, run one."""
        if self._do == "exec":
            self.action_exec()
            return
        container = self._current()
        if container is not None:
            session = self.session
            opening = partial(session.containers.log, container, follow=True, tail=TAIL)
            self.app.push_screen(ContainerLogScreen(container, opening))

    def action_read(self) -> None:
        """Read the container's log."""
        self._do = "log"
        self.action_log()

    def action_exec(self) -> None:
        """Ask for a command, and run it in the container."""
        container = self._current()
        if container is None:
            return
        if not container.runs:
            self.tell(msg("{name} does not run; its log can be read.", name=container.name))
            return

        def answered(typed: str | None) -> None:
            words = self._split(typed or "")
            if words:
                run_in(self, container, words)

        words = (
            "A shell, or a command with its words; it goes to no shell. It is recorded in the "
            "audit."
        )
        title = msg("Run in {name}?", name=container.name)
        self.app.push_screen(AskScreen(title, words, value="sh"), answered)

    def action_stopped(self) -> None:
        """Show those that do not run too, or not."""
        self._stopped = not self._stopped
        self._ask()

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._order = ORDERS[(ORDERS.index(self._order) + 1) % len(ORDERS)]
        self.show(self.picture)

    def action_renew(self) -> None:
        """Ask all hosts now."""
        self._ask()

    def action_copy(self) -> None:
        """Copy the name by which commands know it."""
        container = self._current()
        if container is not None:
            self.app.copy_to_clipboard(container.key)
            self.tell(msg("Copied {name}.", name=container.key))

    @on(Rows.Opened)
    def _row_opened(self) -> None:
        self.action_log()

    # -- asking -----------------------------------------------------------------------------

    def _ask(self) -> None:
        """Ask every host now, then again and again; each goes its own pace."""
        self.workers.cancel_group(self, "containers")
        self._asked = (self._host,) if self._host else self.session.containers.hosts()
        for host in self._asked:
            aside(self, partial(self._look_at, host), group="containers")
        self.show(self.picture)

    async def _look_at(self, host: str) -> None:
        while True:
            if self.is_current or host not in self._found:
                listing = await self.session.containers.of(host, stopped=self._stopped)
                if listing != self._found.get(host):
                    self._found[host] = listing
                    self._answered()
            await asyncio.sleep(ASK_EVERY_S)

    def _answered(self) -> None:
        """Draw what has come: of many hosts all that comes within a moment at once."""
        if len(self._asked) <= FEW:
            self.show(self.picture, frame=False)
        elif not self._waits:
            self._waits = True
            self.set_timer(TOGETHER_S, self._draw_answers)

    def _draw_answers(self) -> None:
        self._waits = False
        self.show(self.picture, frame=False)

    # -- drawing ----------------------------------------------------------------------------

    def draw(self, picture: Picture) -> None:
        """Draw what is known by now."""
        rows = self.query_one(Rows)
        listings = [self._found[host] for host in self._asked if host in self._found]
        self._rows = ordered(listings, self._order, self._filter)
        keys = tuple(self._rows)
        if keys != self._ids:
            self._ids = keys
        width = rows.inner_width
        self._owners = {job.id: f"{job.task.name} ({job.user})" for job in picture.jobs}
        rows.put(self._ids, self._row, heading(self.ink, width))
        self.draw_titles()

    def draw_titles(self) -> None:
        """Say how many there are, of how many hosts, and in which order."""
        say = self.ink.say
        count = sum(isinstance(each, HostContainer) for each in self._rows.values())
        title = say(f"{count} containers")
        missing = len(self._asked) - len(self._found.keys() & set(self._asked))
        if missing:
            title += "  " + say(f"asking {missing} hosts …")
        if self._stopped:
            title += "  " + say("stopped ones too")
        foot = say(msg("by {order_text}", order_text=self._order))
        name_box(self.query_one(Rows), title, foot)

    def _row(self, key: str, number: int) -> list[Piece]:
        width = self.query_one(Rows).inner_width
        return row(self.ink, self._rows[key], self.picture.now, width, self._owners)

    def _current(self) -> HostContainer | None:
        """Return the container under the cursor, or say what is there instead."""
        row = self._rows.get(self.query_one(Rows).current)
        if isinstance(row, HostContainer):
            return row
        if row is not None and row.error:
            self.console.tell_error(ConsoleError(row.host, row.error, row.hint))
        else:
            self.tell("There is no container under the cursor.")
        return None

    def _split(self, typed: str) -> list[str]:
        """Return the words of a command."""
        try:
            return shlex.split(typed)
        except ValueError:
            self.tell("A quote is not closed.")
            return []
