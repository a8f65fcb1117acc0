"""Open the console over a session made of data, and read what it shows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.notifications import Notification
from textual.pilot import Pilot

from gpuconsole.tui.app import ConsoleApp, Look
from tests.waiting import DEADLINE_S, threads_work

WIDE = (120, 36)
NARROW = (80, 24)
SIZES = (WIDE, NARROW)
SOON_S = 0.02
"""A timer that is due so soon belongs to what is being done."""
QUIET_TURNS = 3
"""Turns of the loop in a row in which nothing else had to be done."""
LEAST_TURNS = 1000
"""Turns of the loop that are waited for, however slow the machine is."""


@dataclass
class Driven:
    """A running console."""

    app: ConsoleApp
    pilot: Pilot[Any]

    @property
    def text(self) -> str:
        """All that is on the terminal now, line by line."""
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    async def press(self, *keys: str) -> None:
        """Press keys one after the other, and let the console act on each.

        What toasts say has been read by then: they go.
        """
        self.app.clear_notifications()
        for key in keys:
            await self.pilot.press(key)
            # What a key opens must be there before the next key is meant for it.
            await self.pilot.pause()

    async def type(self, words: str) -> None:
        """Type words into what has the focus."""
        names = {" ": "space"}
        await self.pilot.press(*(names.get(letter, letter) for letter in words))
        await self.pilot.pause()

    async def at_sizes(self, sizes: Iterable[tuple[int, int]]) -> AsyncIterator[tuple[int, int]]:
        """Give the terminal one size after the other, each drawn: for what only looks, and finds
        its way from any screen."""
        for size in sizes:
            await self.pilot.resize_terminal(*size)
            # The app knows its size a moment before the screen is laid out for it.
            await self.until(lambda size=size: self.app.screen._compositor.size == size, f"{size}")
            await self.pilot.pause()
            yield size

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait for a condition, at most until the deadline."""
        end = time.monotonic() + DEADLINE_S
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"not in time: {what or condition}\n{self.text}")
            await asyncio.sleep(0.01)
            await self.pilot.pause()

    async def shows(self, *words: str) -> None:
        """Wait until all the words are on the terminal."""
        for each in words:
            await self.until(lambda each=each: each in self.text, f"`{each}` is not shown")

    async def toast(self, words: str) -> None:
        """Wait until a toast has said the words; on the terminal they may be wrapped."""

        def said() -> bool:
            return any(words in message.message for message in self.app.messages)

        await self.until(said, f"`{words}` is not shown")

    async def beats(self, count: int) -> None:
        """Wait until the paint clock has struck so often, and what it struck for is done."""
        strikes = self.app._beats + count
        await self.until(lambda: self.app._beats > strikes, "the paint clock")

    async def beat(self) -> None:
        """Let the paint clock strike now."""
        self.app.paint()
        await self.pilot.pause()


async def settled(_min_s: float = 0.0, max_s: float = 1.0) -> None:
    """Wait until the console has nothing more to do but wait: at most `max_s`, and on a busy
    machine, where there are few turns in that time, at least `LEAST_TURNS`.

    It takes the place of Textual's own measure of idleness, which watches the processor's time
    for 20 ms after each key.
    """
    loop: Any = asyncio.get_running_loop()
    end, quiet, turns = loop.time() + max_s, 0, 0
    while quiet < QUIET_TURNS and (loop.time() < end or turns < LEAST_TURNS):
        quiet, turns = quiet + 1, turns + 1
        if loop._ready:
            quiet = 0
        elif (due_s := _due_s(loop)) <= SOON_S or threads_work(loop):
            quiet = 0
            await asyncio.sleep(max(0.001, min(due_s, SOON_S / 4)))
        await asyncio.sleep(0)


def _due_s(loop: Any) -> float:
    """Return the seconds until the loop's next timer."""
    times = (timer.when() for timer in loop._scheduled if not timer.cancelled())
    return max(0.0, min(times, default=float("inf")) - loop.time())


_PARSED: dict[object, list[RuleSet]] = {}
_parse_rules = Stylesheet._parse_rules


def _parsed_once(sheet: Stylesheet, css: str, *where: Any, **more: Any) -> list[RuleSet]:
    """Parse style rules once for all consoles of a run: they are the same in each."""
    key = (css, where, tuple(more.items()), tuple(sorted(sheet._variables.items())))
    if key not in _PARSED:
        _PARSED[key] = _parse_rules(sheet, css, *where, **more)
    return _PARSED[key]


@asynccontextmanager
async def opened(
    session: Any, size: tuple[int, int] = WIDE, look: Look | None = None, *, toasts: bool = True
) -> AsyncIterator[Driven]:
    """Run the console without a terminal. Its toasts stay until keys are pressed: a slow machine
    sees them too."""
    app = ConsoleApp(session, look, opened=True)
    with (
        mock.patch("textual.pilot.wait_for_idle", settled),
        mock.patch("textual.app.wait_for_idle", settled),
        mock.patch.object(Stylesheet, "_parse_rules", _parsed_once),
        mock.patch.object(Notification, "time_left", DEADLINE_S * 2),
    ):
        async with app.run_test(size=size, notifications=toasts) as pilot:
            await pilot.pause()
            driven = Driven(app, pilot)
            await driven.until(lambda: app.picture.now > 0, "first picture")
            yield driven
