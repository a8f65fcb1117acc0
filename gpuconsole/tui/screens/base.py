"""What all screens share: the frame, one picture a beat, footer and help from the registry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from gpuconsole.errors import ConsoleError
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.keymap.registry import in_area
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.render.frame import footer_line, nav_line, status_line
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.style.styles import Ink
from gpuconsole.tui.widgets.panel import Line, Panel
from gpuconsole.tui.widgets.plain_containers import Box, Column, ground
from gpuconsole.tui.widgets.time_slider import Slider

if TYPE_CHECKING:
    from gpuconsole.core.fleet import Device, Host
    from gpuconsole.core.jobs import Job
    from gpuconsole.session.session import Session
    from gpuconsole.tui.app import ConsoleApp


Result = TypeVar("Result")
TOO_SMALL = "gpuconsole needs 60 columns and 16 lines; please make the window a little larger."


class ConsoleScreen(Screen[None]):
    """A screen with status, numbered tabs, a body and a footer."""

    AREA: ClassVar[str] = ""
    MODE: ClassVar[str] = ""
    FORM: ClassVar[bool] = False
    WIDGET_AREAS: ClassVar[tuple[str, ...]] = ()
    """Areas of the widgets that have the focus here, for the help."""
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-short"), (30, "-tall")]  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.picture = Picture()
        self._dressed: Ink | None = None
        """What was drawn with."""
        self._footer: tuple[object, list[Key], int] = (None, [], 0)
        """What the footer shows: its ink, keys and width."""

    def __init_subclass__(cls, **more: object) -> None:
        areas = (cls.AREA,) if cls.FORM else (cls.AREA, "go", "time")
        cls.BINDINGS = bindings(*areas) if cls.AREA else []
        super().__init_subclass__(**more)  # type: ignore[arg-type]

    def compose(self) -> ComposeResult:
        """The frame around the screen's own body."""
        self._dressed = self.ink
        with Column(id="frame"):
            yield Line(id="status")
            yield Line(id="nav")
            with Box(id="body"):
                yield from self.body()
            yield Slider(id="slider")
            yield Line(id="footer")
        yield Static(self.ink.say(TOO_SMALL), id="too-small", markup=False)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the background, where it is one colour."""
        if self.styles.background.a < 1:
            return super().render_lines(crop)
        return ground(self, crop)

    def body(self) -> ComposeResult:
        """The screen's own widgets."""
        yield from ()

    # -- drawing ----------------------------------------------------------------------------

    def show(self, picture: Picture, *, frame: bool = True) -> None:
        """Draw a new picture: the frame, which need not follow every sample, then the body."""
        self.picture = picture
        if self.ready:
            if frame:
                self.draw_frame()
            self.draw(picture)

    @property
    def ready(self) -> bool:
        """Whether there are widgets to draw on: not before composing, nor while closing."""
        return self.is_mounted and self.query_one_optional("#footer") is not None

    def draw(self, picture: Picture) -> None:
        """Draw the body."""

    def under_cursor(self) -> tuple[Host | None, Device | None, Job | None]:
        """Return what is under the cursor, or what the screen is about: host, device, job."""
        return None, None, None

    def with_owner(
        self, host: Host | None, device: Device | None
    ) -> tuple[Host | None, Device | None, Job | None]:
        """Return a host, its device, and the job that holds it."""
        return host, device, self.picture.owners.get(device.uuid) if device is not None else None

    def crumbs(self) -> str:
        """Say where one is, for the right end of line 2."""
        return ""

    def footer_keys(self) -> Sequence[Key]:
        """The keys that the footer may show, the most useful first; the help lists all."""
        return self.keys()

    def draw_frame(self) -> None:
        """Draw status, tabs and footer for the present size."""
        if not self.ready:
            return
        width = self.size.width
        ink, app = self.ink, self.console
        self.query_one("#status", Line).put(status_line(ink, self.picture, app.marks(), width))
        self.query_one("#nav", Line).put(
            nav_line(ink, self.picture, self.MODE, self.crumbs(), width)
        )
        view = None if self.FORM else app.time_view()
        self.query_one("#slider", Slider).show(view, width)
        self.draw_footer()

    def draw_footer(self) -> None:
        """Draw the keys that act now."""
        view = None if self.FORM else self.console.time_view()
        past = self.console.keys_of("time") if view is not None and not view.live else []
        if self.console.paused and not self.FORM:
            pause = (key for key in self.console.keys_of("go") if key.id == "go.pause")
            past = [replace(key, label="resume", footer=True) for key in pause]
        keys = [key for key in [*past, *self.footer_keys()] if key.footer]
        shown = (self.ink, keys, self.size.width)
        if shown != self._footer:
            self._footer = shown
            line = footer_line(self.ink, keys, self.size.width, form=self.FORM)
            self.query_one("#footer", Line).put(line)

    def restyle(self) -> None:
        """Draw everything again in the ink of now."""
        self._dressed = self.ink
        self.query_one("#too-small", Static).update(self.ink.say(TOO_SMALL))
        for panel in self.query(Panel):
            panel.retitle()
        self.show(self.picture)

    def on_resize(self, event: events.Resize) -> None:
        """The frame's lines are made for a width."""
        self.draw_frame()

    def on_screen_resume(self) -> None:
        """Catch up with the present picture, and with the ink of now."""
        if self._dressed is not self.ink and self.ready:
            self.picture = self.console.picture
            self.restyle()
        else:
            self.show(self.console.picture)

    # -- keys -------------------------------------------------------------------------------

    def keys(self) -> list[Key]:
        """Return the keys of this screen that may be pressed now."""
        read_only = self.console.read_only
        return [key for key in self.console.keys_of(self.AREA) if not (read_only and key.writes)]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Take the writing keys away in read-only mode, and all while there is nothing yet that a
        key could act on."""
        if not self.ready:
            return False
        if not self.console.read_only:
            return True
        written = {key.action.partition("(")[0] for key in in_area(self.AREA) if key.writes}
        return action not in written

    @on(Slider.Chosen)
    def _time_chosen(self, event: Slider.Chosen) -> None:
        self.console.travel.go(event.at)

    def action_back(self) -> None:
        """Let a frozen picture go on, else go back to the screen before."""
        if self.console.paused:
            self.console.paused = False
        else:
            self.console.go_back()

    # -- the session ------------------------------------------------------------------------

    @property
    def console(self) -> ConsoleApp:
        """The app, typed."""
        return cast("ConsoleApp", self.app)

    @property
    def session(self) -> Session:
        """The session that this screen drives: that of now, or of the moment looked at."""
        return self.console.viewed

    @property
    def ink(self) -> Ink:
        """Styles and glyphs of now."""
        return self.console.ink

    def ask_session(
        self,
        work: Callable[[], Awaitable[Result]],
        then: Callable[[Result], None] | None = None,
        *,
        group: str = "session",
        exclusive: bool = False,
    ) -> None:
        """Run a coroutine of the session aside; errors become toasts, the answer goes to `then`."""

        async def asked() -> None:
            try:
                answer = await work()
            except ConsoleError as error:
                self.console.tell_error(error)
                return
            self.console.paint(force=True)
            if then is not None:
                then(answer)

        aside(self, asked, group=group, exclusive=exclusive)

    def tell(self, message: str, title: str = "") -> None:
        """Say a short thing that passed."""
        self.notify(message, title=title, timeout=3, markup=False)


EXPANDED, WHOLE, ASIDE = "-expanded", "-whole", "-aside"


def toggle(screen: Screen[Any]) -> bool:
    """Expand what has the focus, or bring back all; False when nothing there can be expanded."""
    if screen.has_class(EXPANDED):
        screen.remove_class(EXPANDED)
        screen.query(f".{ASIDE}, .{WHOLE}").remove_class(ASIDE, WHOLE)
        return True
    body = screen.query_one("#body")
    node = screen.focused
    if node is None or body not in node.ancestors:
        return False
    screen.add_class(EXPANDED)
    while node is not body and isinstance(node.parent, Widget):
        for sibling in node.parent.children:
            # The line into which one types a filter stays within reach.
            if sibling is not node and not sibling.query(Input):
                sibling.add_class(ASIDE)
        node.add_class(WHOLE)
        node = node.parent
    return True
