"""Hold what the console draws against a stored picture; write it with GPUCONSOLE_SNAPSHOTS=write.

A picture is the SVG that Textual exports, without fonts of other hosts. It is compared until it
is equal or the deadline has passed: what is still being drawn is no difference.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

from tests.tui.console import Driven
from tests.waiting import DEADLINE_S

FOLDER = Path(__file__).with_name("snapshots")
WRITING = os.environ.get("GPUCONSOLE_SNAPSHOTS") == "write"
STILL = 8
"""Looks in a row at which a picture must be the same to be written down."""


async def same(console: Driven, name: str) -> None:
    """Assert that the console looks like the stored picture of that name."""
    stored = FOLDER / f"{name}.svg"
    if WRITING:
        stored.parent.mkdir(exist_ok=True)
        stored.write_text(await _at_rest(console), encoding="utf-8")
        return
    assert stored.exists(), f"{stored.name} is missing; GPUCONSOLE_SNAPSHOTS=write makes it"
    wanted = stored.read_text(encoding="utf-8")
    end = time.monotonic() + DEADLINE_S
    while (seen := _picture(console)) != wanted:
        if time.monotonic() > end:
            different = stored.with_suffix(".seen.svg")
            different.write_text(seen, encoding="utf-8")
            raise AssertionError(
                f"the console does not look like {stored}: compare it with {different}; where the "
                f"change is meant, run again with GPUCONSOLE_SNAPSHOTS=write\n{console.text}"
            )
        await asyncio.sleep(0.05)
        await console.pilot.pause()


async def _at_rest(console: Driven) -> str:
    seen: list[str] = []
    while len(seen) < STILL or len(set(seen[-STILL:])) > 1:
        await asyncio.sleep(0.05)
        await console.pilot.pause()
        seen.append(_picture(console))
    return seen[-1]


def _picture(console: Driven) -> str:
    picture = console.app.export_screenshot(title="gpuconsole")
    picture = re.sub(r"@font-face\s*\{.*?\}", "", picture, flags=re.DOTALL)
    # Its name is made of all that is drawn; without it a change is one line, not every line.
    picture = re.sub(r"terminal-\d+", "terminal", picture)
    return re.sub(r"[ \t]+$", "", picture, flags=re.MULTILINE)
