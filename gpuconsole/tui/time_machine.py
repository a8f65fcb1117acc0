"""The time machine: where in time the console looks, and how one gets there.

Keys only set where to go; files are read beside the event loop, and when keys come faster than
that, the moments in between are passed over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from gpuconsole.core.events import Event
from gpuconsole.core.units import format_duration
from gpuconsole.core.util.human_time import clock_words, parse_moment
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.session.recording.player import SPEEDS
from gpuconsole.session.recording.replay_session import ReplaySession, open_past
from gpuconsole.state.recording.archive import Shelf, Span
from gpuconsole.tui.render.plots.time_slider import TimeView
from gpuconsole.tui.runtime.background import aside
from gpuconsole.tui.screens.dialogs.base import AskScreen

if TYPE_CHECKING:
    from gpuconsole.session.session import Session
    from gpuconsole.tui.app import ConsoleApp

NEAR_NOW_S = 1.0
"""So close to now one looks at now."""
MOST_MARKS = 500
"""Events of this session that are marked on the slider."""
MISSED_S = 15.0
"""If the moment reached is so far (s) from the one wanted, the reason is shown."""


class Travel:
    """Looks at now, or at a recorded moment."""

    def __init__(self, app: ConsoleApp, session: Session) -> None:
        self._app = app
        self._now = session
        self.past = session if isinstance(session, ReplaySession) else None
        """What was, where one looks at that."""
        self._target: tuple[float, int] | None = None
        self._heading: float | None = None
        """The time to which it goes; None once it is there."""
        self._spans: tuple[Span, ...] = ()
        """What was recorded before."""
        self._began = session.now()
        self._marks: deque[Event] = deque(maxlen=MOST_MARKS)
        if self.past is not None:
            self.past.reel.on_change = self._arrived

    @property
    def session(self) -> Session:
        """What the screens read."""
        return self.past or self._now

    @property
    def is_replay(self) -> bool:
        """Whether there is no now: the console shows a file."""
        return self.past is not None and self.past is self._now

    @property
    def mark(self) -> str:
        """What the status line says, or ""."""
        if self.past is None:
            return ""
        template = "REPLAY {when}" if self.is_replay else "PAST {when}"
        return msg(template, when=clock_words(self.past.now(), self._latest()))

    def view(self) -> TimeView | None:
        """What the slider shows; None where nothing is recorded."""
        if self.past is None:
            return self._live()
        reel = self.past.reel
        speed = reel.clock.speed if reel.clock.playing else 0.0
        spans, latest = reel.spans, self._latest()
        if not self.is_replay and self._now.recorder.on:
            # What was seen since the last block is in memory yet.
            spans = (*spans, Span(reel.last, latest))
        return TimeView(
            self.past.now(), reel.first, latest, spans, reel.marks, speed, fixed=self.is_replay
        )

    def _live(self) -> TimeView | None:
        """Return how far back one could look; None where nothing is recorded."""
        now = self._now.now()
        if not self._now.recorder.on:
            return None
        spans = (*self._spans, Span(min(self._began, now), now))
        return TimeView(now, spans[0].first, now, spans, tuple(self._marks), live=True)

    def note(self, event: Event) -> None:
        """Take up an event, to mark it on the slider."""
        self._marks.append(event)

    async def survey(self) -> None:
        """Learn what was recorded before this console was opened."""
        folder = self._now.recorder.folder
        if folder is None or self.past is not None:
            return
        names = [host.name for host in self._now.snapshot().hosts]
        # A recording that cannot be read is reported when it is opened.
        with suppress(ConsoleError, OSError):
            self._spans = await asyncio.to_thread(lambda: Shelf(folder, hosts=names).spans)

    def step(self, seconds: float) -> None:
        """Go so many seconds on, or back."""
        base = self.session.now() if self._heading is None else self._heading
        self.go(base + seconds, 1 if seconds > 0 else -1)

    def go(self, at: float, direction: int = 0) -> None:
        """Go to a time; at now or after it, back to now."""
        if not self._app.opened or (self.past is None and direction > 0):
            return
        going = self._heading is not None
        self._target, self._heading = (at, direction), at
        if not going:
            aside(self._app, self._travel, group="travel")

    def go_now(self) -> None:
        """Go back to now; in a file, to its end."""
        if self.past is not None:
            self.go(self._latest() + NEAR_NOW_S, 1)

    def ask(self) -> None:
        """Ask for a time."""

        def answered(text: str | None) -> None:
            if not text:
                return
            # It was one a moment ago.
            with suppress(ValueError):
                self.go(parse_moment(text, self.session.now(), self._latest()))

        explanation = (
            "How long ago: `10m` or `2h30m`. A time of day: `03:00`, `yesterday 14:00`. Or a date:"
            " `2030-01-31 03:00`."
        )
        screen = AskScreen("Look at which time?", explanation, refuse=self._no_time)
        self._app.push_screen(screen, answered)

    def _no_time(self, text: str) -> str:
        """Return why a text is no time, "" where it is one."""
        try:
            if text:
                parse_moment(text, self.session.now(), self._latest())
        except ValueError as error:
            return str(error)
        return ""

    def toggle_play(self) -> None:
        """Let time pass, or stand still."""
        if self.past is None:
            return
        reel = self.past.reel
        if reel.clock.playing:
            reel.pause()
        else:
            reel.play()
        self._arrived()

    def faster(self) -> None:
        """Play at the next speed, after the last at the first again."""
        if self.past is None:
            return
        reel = self.past.reel
        place = SPEEDS.index(reel.clock.speed) + 1 if reel.clock.speed in SPEEDS else 0
        reel.play(SPEEDS[place % len(SPEEDS)] if reel.clock.playing else reel.clock.speed)
        self._arrived()

    async def close(self) -> None:
        """Leave the past."""
        past, self.past = self.past, None
        if past is not None and past is not self._now:
            await past.__aexit__(None, None, None)

    def _latest(self) -> float:
        if self.past is None or self.is_replay:
            return self.past.reel.last if self.past is not None else self._now.now()
        return self._now.now()

    async def _travel(self) -> None:
        try:
            while self._target is not None:
                (at, direction), self._target = self._target, None
                await self._to(at, direction)
        except ConsoleError as error:
            self._target = None
            self._app.tell_error(error)
        finally:
            self._heading = None

    async def _to(self, at: float, direction: int) -> None:
        if not self.is_replay and at > self._now.now() - NEAR_NOW_S:
            await self.close()
            self._arrived()
            return
        if self.past is None:
            # Now the paused picture is on the screen.
            self._app.paused = False
            self.past = await self._opened(at)
            landed = self.past.now()
        else:
            if not self.is_replay and at > self.past.reel.last:
                await self._now.recorder.cut()
            landed = await self.past.reel.seek(at, direction)
        if abs(landed - at) > MISSED_S and self._target is None:
            self._tell_missed(at, landed)
        self._arrived()

    async def _opened(self, at: float) -> ReplaySession:
        past = await open_past(self._now, at)
        past.reel.on_change = self._arrived
        past.reel.on_end = self._caught_up
        await past.__aenter__()
        return past

    def _caught_up(self) -> None:
        """Go on with what was recorded meanwhile; where that is all, now is reached."""
        past = self.past
        if past is None:
            return
        reel, recorder = past.reel, self._now.recorder

        async def go_on() -> None:
            await recorder.cut()
            if self.past is past:
                reel.play()

        if recorder.on and self._now.now() - reel.last > 2 * NEAR_NOW_S:
            aside(self._app, go_on, group="travel")
        else:
            self.go_now()

    def _tell_missed(self, at: float, landed: float) -> None:
        latest = self._latest()
        words = f"Nothing is recorded at {clock_words(at, latest)}; the nearest is shown, "
        words += f"{format_duration(abs(landed - at))} {'later' if landed > at else 'before'}."
        self._app.notify(words, markup=False)

    def _arrived(self) -> None:
        if self.past is not None:
            # Incidents were recorded as they were known: then they were looked for.
            self.past.triage.looked_at = self.past.now()
        self._app.paint(force=True)
