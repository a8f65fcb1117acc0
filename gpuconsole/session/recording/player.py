"""A player of a recording: the moment, playing on from it, and stepping through time. Files are
read in the player's own thread; what the session asks for is in memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gpuconsole.core.events import Event
from gpuconsole.errors import ConsoleError
from gpuconsole.session.async_helpers import cancel_all
from gpuconsole.state.recording.archive import Shelf, Span
from gpuconsole.state.recording.file_format import Header
from gpuconsole.state.recording.reader import Stretch

LOOK_EVERY_S = 0.1
HISTORY_S = 900.0
"""So much of the time before a moment can be seen of any lab."""
MOST_HISTORY_S = 4 * 3600.0
"""So much at most is loaded of a lab of `USUAL_DEVICES` devices; of a larger one less."""
USUAL_DEVICES = 256
SPEEDS = (1.0, 10.0, 60.0, 600.0)

Answer = TypeVar("Answer")


class ReelClock:
    """A clock that is paused at a moment, or runs on from it at some speed, up to a limit."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._at = 0.0
        self._since = ticks()
        self._limit = 0.0
        self.speed = 1.0
        self.playing = False

    def now(self) -> float:
        """Return the moment, seconds since the epoch."""
        passed = (self._ticks() - self._since) * self.speed if self.playing else 0.0
        return min(self._at + passed, max(self._at, self._limit))

    def set(self, at: float, limit: float) -> None:
        """Go to a moment; it runs no further than to `limit`."""
        self._at, self._limit, self._since = at, limit, self._ticks()

    def run(self, *, playing: bool, speed: float) -> None:
        """Let time pass from here, or stand still."""
        self.set(self.now(), self._limit)
        self.playing, self.speed = playing, speed

    def extend(self, limit: float) -> None:
        """Let it run as far as to `limit`; time that it waited for that is not caught up."""
        self.set(self.now(), limit)

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of the person who looks."""
        await asyncio.sleep(seconds)


class Reel:
    """Recorded files and the moment at which one looks. Use on one event loop."""

    def __init__(
        self, shelf: Callable[[], Shelf], ticks: Callable[[], float] = time.monotonic
    ) -> None:
        """`shelf` opens the files; it is called in the player's thread."""
        self.clock = ReelClock(ticks)
        self.spans: tuple[Span, ...] = ()
        self.marks: tuple[Event, ...] = ()
        """Every event that was recorded, oldest first."""
        self.trouble: tuple[str, ...] = ()
        self.behind: tuple[Stretch, ...] = ()
        """Blocks in memory up to the present one, oldest first."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when there is more to see at the same moment."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when playing stops because nothing more is recorded."""
        self._open = shelf
        self._shelf: Shelf | None = None
        self._stretch: Stretch | None = None
        self._next: Stretch | None = None
        self._reach = 0.0
        self._at_start: float | None = None
        """How fast time shall pass as soon as somebody looks."""
        self._thread = ThreadPoolExecutor(1, "replay")
        self._tasks: list[asyncio.Task[None]] = []
        self._reading: set[asyncio.Task[None]] = set()
        self._filling = False
        self._marked: tuple[Span, ...] = ()
        """What was recorded when marks were last looked for."""

    @property
    def header(self) -> Header:
        """What the recording says of itself."""
        assert self._shelf is not None
        return self._shelf.header

    @property
    def first(self) -> float:
        """The first recorded moment."""
        return self.spans[0].first if self.spans else 0.0

    @property
    def last(self) -> float:
        """The last recorded moment, as far as is known."""
        return self.spans[-1].last if self.spans else 0.0

    async def open(self, at: float | None = None, direction: int = 1) -> float:
        """Open the files and go to a moment, or to the first; return where that is (see `seek`).

        UsageError when there is nothing, RecordingError when it cannot be read.
        """
        self._shelf = await self._aside(self._open)
        self.trouble = self._shelf.trouble
        return await self.seek(at if at is not None else 0.0, direction)

    async def seek(self, at: float, direction: int = 0) -> float:
        """Go to the recorded moment nearest to a time, after it with direction 1 and before it
        with -1 where there is one; return where that is. RecordingError when it is damaged."""
        shelf = self._shelf
        assert shelf is not None

        def find() -> tuple[float, Stretch, tuple[Span, ...]]:
            shelf.refresh()
            landed = shelf.nearest(at, direction)
            return landed, shelf.stretch(landed), shelf.spans

        landed, stretch, self.spans = await self._aside(find)
        self._stretch, self._next = stretch, None
        self.behind = (stretch,)
        self.clock.set(landed, stretch.last)
        if self._tasks:
            self._look_for_marks()
        if self._reach:
            self.want(self._reach)
        return landed

    def play(self, speed: float | None = None) -> None:
        """Let time pass from here; before `start`, from then on."""
        if self._tasks:
            self.clock.run(playing=True, speed=speed or self.clock.speed)
        else:
            self._at_start = speed or self.clock.speed

    def pause(self) -> None:
        """Stand still."""
        self.clock.run(playing=False, speed=self.clock.speed)

    def current(self) -> tuple[Stretch | None, float]:
        """Return the block in memory that holds the present moment, and the moment."""
        now, following = self.clock.now(), self._next
        if following is not None and now >= following.first:
            self._stretch, self._next = following, None
            reach = max(self._reach, 1.0)
            recent = (stretch for stretch in self.behind if stretch.last > now - reach)
            self.behind = (*recent, following)
        return self._stretch, now

    async def run(self) -> None:
        """Keep what comes next in memory while time passes; until cancelled."""
        while True:
            stretch, _ = self.current()
            if self.clock.playing and self._next is None and stretch is not None:
                await self._load_next(stretch)
            await asyncio.sleep(LOOK_EVERY_S)

    def want(self, span_s: float) -> None:
        """Have the last so many seconds in memory soon; they are in `behind` then."""
        stretch, now = self.current()
        if stretch is None:
            return
        most = max(HISTORY_S, MOST_HISTORY_S * min(1.0, USUAL_DEVICES / max(1, stretch.devices)))
        self._reach = max(self._reach, min(span_s, most))
        if self._filling:
            return
        if self.behind and self.behind[0].first <= max(now - self._reach, self.first):
            return
        self._filling = True
        self._start(self._fill())

    async def start(self) -> None:
        """Begin to play on when asked."""
        self._tasks = [asyncio.ensure_future(self.run())]
        if self._at_start is not None:
            self.play(self._at_start)
        self._look_for_marks()

    async def close(self) -> None:
        """Let go of the files."""
        tasks, self._tasks = self._tasks, []
        await cancel_all([*tasks, *self._reading])
        self._thread.shutdown(wait=False)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        """Read in the background, until it is done or the player is closed."""
        task = asyncio.ensure_future(work)
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    def _look_for_marks(self) -> None:
        """A day of events takes longer to read than a moment: the picture comes first."""
        if self.spans != self._marked:
            self._marked = self.spans
            self._start(self._load_marks())

    async def _load_marks(self) -> None:
        shelf = self._shelf
        assert shelf is not None
        # File by file, so that a step in time need not wait for all of them.
        while await self._aside(shelf.read_events):
            pass
        self.marks = await self._aside(shelf.events)
        self.on_change()

    async def _load_next(self, stretch: Stretch) -> None:
        shelf = self._shelf
        assert shelf is not None

        def find() -> tuple[Stretch | None, tuple[Span, ...]]:
            shelf.refresh()
            return shelf.following(stretch), shelf.spans

        try:
            following, self.spans = await self._aside(find)
        except ConsoleError as error:
            self.trouble = (*self.trouble, error.message)
            self.pause()
            return
        if stretch is not self._stretch:
            # Somebody went elsewhere meanwhile.
            return
        if following is None:
            if self.clock.now() >= stretch.last:
                self.pause()
                self.on_end()
            return
        self._next = following
        if following.first > stretch.last and self.clock.now() >= stretch.last:
            # Nothing was recorded in between.
            self.clock.set(following.first, following.last)
        elif following.first <= stretch.last:
            self.clock.extend(following.last)
        else:
            self._next = None

    async def _fill(self) -> None:
        """Load what lies before the present moment, as far as it is wanted."""
        shelf, before = self._shelf, self.behind
        assert shelf is not None
        until = max(self.clock.now() - self._reach, self.first)

        def find() -> tuple[Stretch, ...]:
            stretches = list(before)
            while stretches[0].first > until:
                try:
                    earlier = shelf.stretch(stretches[0].first - 0.001)
                except ConsoleError:
                    # Nothing is before, or it is damaged: what is there is shown.
                    break
                if earlier.first >= stretches[0].first:
                    break
                stretches.insert(0, earlier)
            return tuple(stretches)

        try:
            stretches = await self._aside(find)
        finally:
            self._filling = False
        if self.behind and self.behind[-1] in stretches:
            self.behind = stretches[: stretches.index(self.behind[-1]) + 1]
            self.on_change()

    async def _aside(self, work: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
