"""The app: screens, keys, theme, the paint clock, and the display of errors."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.filter import ANSIToTruecolor, LineFilter
from textual.notifications import Notify
from textual.reactive import reactive
from textual.screen import Screen

from gpuconsole.core.events import Event, worded
from gpuconsole.core.fleet import FleetSnapshot, HostState
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.wording import Message, joined, msg
from gpuconsole.errors import ConsoleError
from gpuconsole.language import language
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.keymap.user_keymap import KeyChoice, bindings
from gpuconsole.tui.palette.commands import Recent
from gpuconsole.tui.render.frame import Marks
from gpuconsole.tui.runtime.awaited_session import AwaitedSession
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.runtime.lazy_screens import import_aside, later_modes
from gpuconsole.tui.runtime.notifications import Crowds, notification, worth_a_call
from gpuconsole.tui.runtime.terminal import lasting
from gpuconsole.tui.runtime.typeahead import TypeAhead
from gpuconsole.tui.screens.base import ConsoleScreen, toggle
from gpuconsole.tui.screens.fleet import FleetScreen
from gpuconsole.tui.screens.messages import MOST, Messages, MessagesScreen, Said
from gpuconsole.tui.screens.tour import TourScreen, begin_first
from gpuconsole.tui.snapshot import Gallery, Picture
from gpuconsole.tui.style.ascii_filter import PlainSymbols, farewell
from gpuconsole.tui.style.settings import Look
from gpuconsole.tui.style.styles import Ink, few_colors
from gpuconsole.tui.style.themes import BUILT_IN, Wardrobe, shipped_folder
from gpuconsole.tui.widgets.jumpable import places_of

if TYPE_CHECKING:
    from textual.driver import Driver
    from textual.notifications import Notification, SeverityLevel

    from gpuconsole.session.session import Session
    from gpuconsole.tui.render.plots.time_slider import TimeView
    from gpuconsole.tui.time_machine import Travel

BEAT_S = 0.4
"""The paint clock: pollers write as they like, the screen looks more often than they do, so that a
sample is seen soon after it was taken. A beat without news costs nothing, one with news what has
changed."""
SMALL_FLEET, HALF_S = 64, 0.5
"""Up to so many hosts agents speak together, shortly before a second is over: the screen looks as
the next begins, which draws the hosts and the clock in one, and once more in between."""
OPENING_BEAT_S = 0.1
"""The same while hosts are still awaited after the start."""
OPENING_BEATS = 50
"""So many of them at most: a host that does not answer is not awaited for longer."""
LATER_S = 0.5
"""How long after the first figures the other screens are imported."""
SURVEY_S = 5.0
"""How long after the first figures it is looked up what was recorded before."""
THEMES_EVERY = 3
"""At each of so many beats the files of the themes are looked at."""
SWITCH_S = 0.0005
"""The interpreter's switch interval (s). With Python's default of 5 ms, a thread that plans or
searches would delay each query of the journal while a screen is drawn, and so every key."""
MOST_HELD = 1000
"""Keys and clicks that wait for the session at most: those typed last."""
LARGE_FLEET, SELDOM = 256, 3
"""Above so many hosts every beat has news of many of them; one of so many is enough."""
AT_ONCE = 256
"""So many hosts of a large fleet are summed up before a key may come in between."""


class ConsoleApp(TypeAhead):
    """The console over one session, or over one that is opened after the first frame. With `opened`
    the caller has entered it and will leave it."""

    TITLE = "gpuconsole"
    CSS_PATH = "console.tcss"
    BINDINGS = bindings("app")
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        "fleet": FleetScreen,
        **later_modes(),
    }
    NOTIFICATION_TIMEOUT = 4

    paused: reactive[bool] = reactive(False, init=False)
    locked: reactive[bool] = reactive(False, init=False)
    """Read-only by the viewer's own choice; a read-only session overrides it."""
    session: Session
    travel: Travel
    """Where in time it is looked at. Neither is there before `has_session`."""

    def __init__(
        self,
        session: Session | AwaitedSession,
        look: Look | None = None,
        *,
        opened: bool = False,
    ) -> None:
        self.look = look or Look()
        self.wardrobe = Wardrobe((shipped_folder(), *self.look.theme_folders))
        _, self._theme_errors = self.wardrobe.look()
        chosen = self.wardrobe.themes.get(self.look.theme)
        self._language = language(self.look.language)
        self.ink = Ink(chosen or BUILT_IN, self.look.symbols, language=self._language)
        self.keychoice = KeyChoice(self.look.keys)
        self.recent = Recent()
        self.messages: Messages = Messages(maxlen=MOST)
        super().__init__()
        self._awaited: AwaitedSession | None = None
        self._held: deque[events.Event] = deque(maxlen=MOST_HELD)
        """What was typed before there was a session to act on."""
        if isinstance(session, AwaitedSession):
            self._awaited = session
        else:
            self._take(session)
        self.opened = opened
        self.has_opened = asyncio.Event()
        """For what runs beside the console."""
        self.picture = Picture()
        self.job_id = ""
        self._gallery = Gallery()
        self._painted: tuple[int, object, int] = (-1, None, 0)
        self._paint_due = False
        self._beats = 0
        self._trail: list[str] = []
        self._told: dict[str, int] = {}
        self._causes: dict[str, str] = {}
        """The hosts that toasts are about, by what they say."""
        self._begun = False
        self._leaving = False

    # -- life -------------------------------------------------------------------------------

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The stylesheet's own variables, for themes that are not ours."""
        return BUILT_IN.variables()

    def get_driver_class(self) -> type[Driver]:
        """Return what reads keys and draws: Textual's choice, and on a terminal our own."""
        return lasting(super().get_driver_class())

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What is drawn passes these: Textual's, but for a search for named colours, of which we
        have none, and ours where only ASCII may be seen."""
        plain = (PlainSymbols(),) if self.ink.ascii else ()
        filters = [each for each in super().get_line_filters() if type(each) is not ANSIToTruecolor]
        return (*filters, *plain)

    def on_mount(self) -> None:
        """Paint first, then open the session."""
        sys.setswitchinterval(SWITCH_S)
        for file in self.wardrobe.themes.values():
            self.register_theme(file.theme())
        self.theme = self.ink.theme.name
        self._dip()
        self.set_keymap(self.keychoice.keymap)
        self.theme_changed_signal.subscribe(self, lambda _: self._restyle())
        self.switch_mode("fleet")
        self.call_after_refresh(self._begin)

    async def on_unmount(self) -> None:
        """Let go of the past."""
        if self.has_session:
            await self.travel.close()

    def leave(self) -> None:
        """Close the console, once it has opened: no screen is taken away while it is made."""
        if self._begun:
            self.exit()
        self._leaving = True

    def _take(self, session: Session) -> None:
        """Show this session from now on."""
        # It knows recordings and their player, which bring the session's room along.
        from gpuconsole.tui.time_machine import Travel

        self._awaited, self.session, self.travel = None, session, Travel(self, session)

    async def on_event(self, event: events.Event) -> None:
        """Keep what is typed until there is a session for it to act on, and its order."""
        early = self._awaited is not None or self._held
        if early and isinstance(event, (events.InputEvent, events.Paste)):
            self._held.append(event)
            return
        await super().on_event(event)

    async def _act_on_held(self) -> None:
        while self._held:
            await super().on_event(self._held.popleft())

    def _begin(self) -> None:
        self._begun = True
        if self._leaving:
            self.exit()
            return
        self._tell_theme_errors()
        aside(self, self._open_session, group="session")

    async def _open_session(self) -> None:
        if not self.opened:
            try:
                if self._awaited is not None:
                    self._sketch(self._awaited.snapshot)
                    self._take(await self._awaited.open())
                    # The lab's queue has settings of its own, of which this one is heard here.
                    triage = self.session.settings.triage
                    bell = triage.notify if triage.bell else ""
                    self.look = replace(self.look, bell=bell)
                    self.call_later(self._act_on_held)
                self._sketch(self.session.snapshot(), self.session.jobs())
                await self.session.__aenter__()
            except ConsoleError as error:
                self.exit(return_code=error.exit_code, message=farewell(error))
                return
            self.opened = True
        self.has_opened.set()
        self.session.subscribe(Crowds(self, self._event).take)
        self.paint(force=True)
        self._begin_beats()
        aside(self, self._opening_beats, group="opening")
        begin_first(self)
        self.set_timer(LATER_S, lambda: aside(self, import_aside, group="imports"))
        self.set_timer(SURVEY_S, lambda: aside(self, self.travel.survey, group="survey"))

    # -- painting ---------------------------------------------------------------------------

    def _sketch(self, snapshot: FleetSnapshot, jobs: tuple[Job, ...] = ()) -> None:
        """Show what is known before anybody was asked: the hosts' names, and the jobs."""
        now = self.session.now() if self.has_session else time.time()
        self.picture = self._gallery.picture(snapshot, jobs, now)
        if isinstance(self.screen, ConsoleScreen):
            self.screen.show(self.picture)

    def _begin_beats(self) -> None:
        count = len(self.session.snapshot().hosts)
        if count > SMALL_FLEET:
            beats = SELDOM if count > LARGE_FLEET else 1
            self.set_interval(beats * BEAT_S, partial(self._beat, beats))
            return
        begin = partial(self.set_interval, HALF_S, self._beat)
        self.set_timer(HALF_S - time.time() % HALF_S, begin)

    async def _opening_beats(self) -> None:
        """Look more often until every host has shown itself, so that the first is seen at once."""
        for _ in range(OPENING_BEATS):
            hosts = self.session.snapshot().hosts
            if len(hosts) > LARGE_FLEET:
                return
            self.paint()
            if all(host.state is not HostState.CONNECTING for host in hosts):
                return
            await asyncio.sleep(OPENING_BEAT_S)

    async def _beat(self, beats: int = 1) -> None:
        """Paint what is new; `beats` have passed since this was last called."""
        self._beats += beats
        if self._beats % THEMES_EVERY == 0:
            self.look_at_themes()
        large = len(self.picture.snapshot.hosts) > LARGE_FLEET
        if large and self._beats % SELDOM:
            return
        if large and not self.paused:
            hosts, painted = self.viewed.snapshot().hosts, self._painted
            for first in range(0, len(hosts), AT_ONCE):
                self._gallery.look_ahead(hosts[first : first + AT_ONCE], first)
                await asyncio.sleep(0)
                if self._painted is not painted:
                    # Something else called for a paint, of hosts that are newer than these.
                    return
        self.paint()

    def paint(self, *, force: bool = False) -> None:
        """Hand the screen a new picture when fleet, jobs or the second have changed."""
        if not self.opened or (self.paused and not force) or not self.is_running:
            # A session outlives the screens for a moment, and still has news.
            return
        session = self.viewed
        snapshot, jobs, now = session.snapshot(), session.jobs(), session.now()
        revision, seen, second = self._painted
        incidents = session.triage.incidents()
        news = jobs is not seen or incidents is not self.picture.incidents
        beat = news or int(now) != second
        if not (force or beat or snapshot.revision != revision):
            return
        self._painted = (snapshot.revision, jobs, int(now))
        self.picture = replace(self._gallery.picture(snapshot, jobs, now), incidents=incidents)
        if (screen := self._drawn()) is not None:
            screen.show(self.picture, frame=force or beat)

    def _paint_soon(self) -> None:
        """Paint once for all events of this moment: a rack that is lost brings dozens."""
        if not self._paint_due:
            self._paint_due = True
            self.call_later(self._paint_events)

    def _paint_events(self) -> None:
        self._paint_due = False
        self.paint(force=True)

    def _drawn(self) -> ConsoleScreen | None:
        """Return the screen that pictures are drawn on: the one in front, or behind the tour."""
        shown = [screen for screen in self.screen_stack if not isinstance(screen, TourScreen)]
        return shown[-1] if shown and isinstance(shown[-1], ConsoleScreen) else None

    def marks(self) -> Marks:
        """What the status line says beside the figures."""
        if self._awaited is not None:
            simulated = self._awaited.snapshot.simulated
            return Marks(simulated, self.read_only, self.paused, self.look.site, "")
        simulated = self.opened and (self.session.simulated or self.picture.snapshot.simulated)
        if past := self.travel.mark:
            return Marks(simulated, False, False, self.look.site, past)
        notice = "JOURNAL LOST" if self.session.lost is not None else ""
        if self.session.away:
            notice = "LAB QUEUE AWAY"
        return Marks(simulated, self.read_only, self.paused, self.look.site, notice)

    @property
    def read_only(self) -> bool:
        """Whether keys that change something are taken away."""
        shown = self.viewed if self._awaited is None else self._awaited
        return self.locked or shown.read_only

    @property
    def has_session(self) -> bool:
        """Whether there is a session already; before the first frame there need not be one."""
        return self._awaited is None

    def time_view(self) -> TimeView | None:
        """What the line of time shows; None where nothing is recorded."""
        return self.travel.view() if self.has_session else None

    @property
    def viewed(self) -> Session:
        """What the screens read: the session, or what it or another was at a moment."""
        return self.travel.session

    def _dip(self) -> None:
        """Take the ink of the theme, for what the terminal can show."""
        # Without a terminal there is nothing that could not be shown.
        system = "truecolor" if self.is_headless else self.console.color_system
        few = few_colors(system, no_color=self.no_color)
        chosen = self.wardrobe.themes.get(self.theme, BUILT_IN)
        self.ink = Ink(chosen, self.look.symbols, few_colors=few, language=self._language)

    def _restyle(self) -> None:
        self._dip()
        for screen in self.screen_stack:
            if isinstance(screen, ConsoleScreen) and screen.is_mounted:
                screen.restyle()
                # What did not change is not drawn again by itself, and has the colours of before.
                screen.query("*").refresh()

    def look_at_themes(self) -> None:
        """Apply themes that changed on disk; broken ones are reported and change nothing."""
        changed, errors = self.wardrobe.look()
        for error in errors:
            self.tell_error(error)
        for name in changed:
            self.register_theme(self.wardrobe.themes[name].theme())
        if self.theme in changed:
            self.refresh_css(animate=False)
            self._restyle()

    # -- where one is -----------------------------------------------------------------------

    def action_go(self, mode: str) -> None:
        """Go to a numbered screen."""
        if mode == "submit" and self.read_only:
            self.notify("Read-only: jobs cannot be submitted.", severity="warning", markup=False)
            return
        if mode != self.current_mode:
            # Each once: going back ends.
            before = [each for each in self._trail if each not in (mode, self.current_mode)]
            self._trail = [*before, self.current_mode]
            self.switch_mode(mode)
        else:
            while len(self.screen_stack) > 1 and isinstance(self.screen, ConsoleScreen):
                self.pop_screen()

    def go_back(self) -> None:
        """Leave a screen opened from another, else go to the mode before."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        elif self._trail:
            self.switch_mode(self._trail.pop())

    def open_job(self, job_id: str) -> None:
        """Show a job's screen."""
        self.job_id = job_id
        if self.current_mode != "job":
            self.action_go("job")
        elif isinstance(self.screen, ConsoleScreen):
            self.screen.show(self.picture)

    def action_command_palette(self) -> None:
        """Open the palette over a screen."""
        if isinstance(self.screen, ConsoleScreen):
            from gpuconsole.tui.palette.screen import Palette

            self.push_screen(Palette(self.screen))

    def action_jump(self) -> None:
        """Show a letter at each place, to jump there."""
        if isinstance(self.screen, ConsoleScreen):
            from gpuconsole.tui.screens.jump import JumpScreen

            self.push_screen(JumpScreen(places_of(self.screen)))

    def action_expand(self) -> None:
        """Show what has the focus on the whole body, or everything again."""
        if isinstance(self.screen, ConsoleScreen) and not toggle(self.screen):
            self.notify("Nothing here has the focus.", timeout=3, markup=False)

    def action_last(self) -> None:
        """Go to the previous screen; again comes back."""
        if self._trail:
            before = self._trail[-1]
            self._trail = [*self._trail[:-1], self.current_mode]
            self.switch_mode(before)

    def show_messages(self) -> None:
        """Show all toasts of this session."""
        self.push_screen(MessagesScreen())

    def change_look(self, look: Look) -> None:
        """Look otherwise until the console closes."""
        self.look = look
        if look.language != self._language.code:
            self._language = language(look.language)
        self._restyle()
        self.refresh(layout=True)

    def action_help(self) -> None:
        """Show the keys of this screen."""
        if isinstance(self.screen, ConsoleScreen):
            from gpuconsole.tui.screens.help import HelpScreen

            self.push_screen(HelpScreen(self.screen))

    def action_pause(self) -> None:
        """Freeze the picture; collecting goes on. In the past, let time pass or stand."""
        if self.travel.past is not None:
            self.travel.toggle_play()
        else:
            self.paused = not self.paused

    def action_time_step(self, seconds: int) -> None:
        """Look at a moment so much later, or before."""
        self.travel.step(seconds)

    def action_time_at(self) -> None:
        """Ask for a time to look at."""
        self.travel.ask()

    def action_time_now(self) -> None:
        """Look at now again; a frozen picture goes on."""
        self.paused = False
        self.travel.go_now()

    def action_time_speed(self) -> None:
        """Let time pass, or faster."""
        self.travel.faster()

    def action_toggle_read_only(self) -> None:
        """Take the writing keys away, or give them back."""
        if self.session.read_only:
            self.notify("This session was opened read-only.", severity="warning", markup=False)
            return
        self.locked = not self.locked

    def watch_paused(self) -> None:
        """The mark changes at once."""
        self.paint(force=True)

    def watch_locked(self) -> None:
        """Mark and footer change at once."""
        self.paint(force=True)

    def keys_of(self, *areas: str) -> list[Key]:
        """Return the active keys of these areas."""
        return list(self.keychoice.in_area(*areas))

    # -- telling ----------------------------------------------------------------------------

    def tell_error(self, error: ConsoleError) -> None:
        """Show an error for a person; the same again counts up."""
        count = self._told[str(error)] = self._told.get(str(error), 0) + 1
        say = self.ink.say
        title = say(error.title)
        title += "" if count == 1 else say(f" ({count} times)")
        message = joined("\n", filter(None, (error.message, error.hint)))
        self.notify(message, title=title, severity="error", timeout=8, markup=False)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a toast, and keep it for `:messages`."""
        say = self.ink.say
        if not isinstance(message, Message):
            message = joined("\n", message.split("\n"))
        message = say(message)
        title = say(title)
        self.messages.append(Said(time.time(), severity, title, message))
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def _on_notify(self, event: Notify) -> None:
        """Take away the toast before: one at a time covers little; `:messages` has all. What
        happened in the lab, and less severe, replaces none: it is in the list only."""
        fresh = event.notification
        cause, news = self._cause(fresh), fresh.message in self._causes
        shown = list(self._notifications)
        for earlier in shown:
            same = cause and self._cause(earlier) == cause
            if (same or news) and _RANKS[earlier.severity] > _RANKS[fresh.severity]:
                event.prevent_default()
                return
        for earlier in shown:
            self._unnotify(earlier, refresh=False)

    def _event(self, event: Event) -> None:
        self.travel.note(event)
        self._paint_soon()
        jobs = self.viewed.jobs() if event.kind == "job" else ()
        job = next((job for job in jobs if job.id == event.subject), None)
        if job is not None and not job.state.ended and event.severity == "information":
            # A job's ordinary steps are on the screen; only its end is worth a toast.
            return
        named = job is not None or not event.subject or event.subject in event.message
        said = self.ink.say(worded(event, job.task.name if job is not None else ""))
        words = said if named else f"{event.subject}: {said}"
        timeout = 8 if event.severity == "error" else 4
        self._causes[words] = _host_of(event, job)
        while len(self._causes) > MOST:
            del self._causes[next(iter(self._causes))]
        self.notify(words, severity=event.severity, timeout=timeout, markup=False)
        if worth_a_call(event, self.look.bell):
            self.bell()
            if self._driver is not None:
                self._driver.write(notification(self.TITLE or "", said, os.environ))

    def _cause(self, notification: Notification) -> str:
        """Return what a toast is about: a host, or its title without how often it was said."""
        host = self._causes.get(notification.message, "")
        return f"host {host}" if host else notification.title.partition(" (")[0]

    def _tell_theme_errors(self) -> None:
        if self.look.theme not in self.wardrobe.themes:
            names = ", ".join(sorted(self.wardrobe.themes))
            message = msg(
                "There is no theme `{name}`; known: {names}.", name=self.look.theme, names=names
            )
            self.notify(message, title="Theme not found", severity="error", markup=False)
        # A file that cannot be read is why there is no such theme: it is what stays to be read.
        for error in self._theme_errors:
            self.tell_error(error)
        for problem in self.keychoice.problems:
            self.notify(problem, title="Keys of the settings", severity="error", markup=False)


_RANKS = {"information": 0, "warning": 1, "error": 2}


def _host_of(event: Event, job: Job | None) -> str:
    """Return the host that an event is about, so that what follows from its loss is one toast."""
    if event.kind in ("host", "incident"):
        return event.subject
    attempt = job.attempt if job is not None and job.state is JobState.UNKNOWN else None
    return attempt.host if attempt is not None else ""
