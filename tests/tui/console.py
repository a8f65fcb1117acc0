"""Open the console over a session made of data, and read what it shows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from textual.pilot import Pilot

from gpuconsole.tui.app import ConsoleApp, Look

WIDE = (120, 36)
NARROW = (80, 24)
SIZES = (WIDE, NARROW)
DEADLINE_S = 20.0
"""Long enough for a machine that does much else; a test waits only for as long as it must."""


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
        """Press keys one after the other, and let the console act on each."""
        for key in keys:
            await self.pilot.press(key)
            # What a key opens must be there before the next key is meant for it.
            await self.pilot.pause()

    async def type(self, words: str) -> None:
        """Type words into what has the focus."""
        names = {" ": "space"}
        await self.pilot.press(*(names.get(letter, letter) for letter in words))
        await self.pilot.pause()

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

    async def told(self, words: str) -> None:
        """Wait until a toast says the words; on the terminal they may be wrapped."""

        def said() -> bool:
            return any(words in note.message for note in self.app._notifications)

        await self.until(said, f"`{words}` is not told")

    async def beats(self, count: int) -> None:
        """Wait until the paint clock has struck so often, and what it struck for is done."""
        strikes = self.app._beats + count
        await self.until(lambda: self.app._beats > strikes, "the paint clock")

    async def beat(self) -> None:
        """Let the paint clock strike now."""
        self.app.paint()
        await self.pilot.pause()


@asynccontextmanager
async def opened(
    session: Any, size: tuple[int, int] = WIDE, look: Look | None = None
) -> AsyncIterator[Driven]:
    """Run the console without a terminal."""
    app = ConsoleApp(session, look, opened=True)
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        driven = Driven(app, pilot)
        await driven.until(lambda: app.picture.now > 0, "first picture")
        yield driven
