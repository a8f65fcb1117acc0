"""Record the README's moving picture from the simulated lab: `python docs/recording.py [FILE]`.

Drives the real console with its keys and takes what it draws after each of them. Only waiting is
shortened: a screen is shown as long as `STORY` says, not as long as the lab took.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from animation import Frame, animated
from rich.segment import Segment

from gpuconsole.core.jobs import JobState
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.simulated_lab.jobs import example, submit_demo_jobs
from gpuconsole.tui.app import ConsoleApp, Look

SIZE = (96, 30)
TARGET = Path(__file__).with_name("images") / "tour.svg"
DEADLINE_S = 120.0
SPEED = 4.0


@dataclass(frozen=True, slots=True)
class Step:
    """A sentence of the story: what is pressed, and what the screen shows then."""

    caption: str
    keys: tuple[str, ...] = ()
    shows: str = ""
    """The last screen is taken once it has this text."""
    seconds: float = 2.6
    """How long the last screen is shown."""
    key_seconds: float = 0.2
    """How long the screen after each earlier key is shown."""


STORY = (
    Step("A lab of six simulated hosts", shows="SIMULATED", seconds=1.6),
    Step("w 1x24: where are 24 GiB free?", ("w", *"1x24", "enter"), "1 x 24 GiB"),
    Step("2: the queue", ("escape", "2"), "eight-cards", 0.8),
    Step("/ eight: why does this job wait?", ("slash", *"eight", "enter"), "why is eight-c", 3.2),
    Step("/ state:oom: what ran out?", ("slash", "ctrl+u", *"state:oom", "enter"), "oom", 1, 0.1),
    Step("enter: its log, and the cause", ("enter",), "Out of memory on GPU"),
    Step("r: the batch size that fits", ("r",), "again with batch size", 2.8),
    Step("y: it runs again with that", ("y",), "", 1.0),
    Step("and succeeds", (), "succeeded", 2.2),
)


async def record() -> list[Frame]:
    """Play the story and return its screens."""
    session = open_session(None, None, demo=DemoOptions(speed=SPEED))
    app = ConsoleApp(session, Look(site="demo"))
    frames: list[Frame] = []
    async with app.run_test(size=SIZE, notifications=False) as pilot:
        await _until(lambda: app.opened, "the console")
        await submit_demo_jobs(session.queue)
        await _until(lambda: any(job.state is JobState.OOM for job in session.jobs()), "oom")
        for step in STORY:
            for key in step.keys[:-1]:
                await pilot.press(key)
                await pilot.pause(0.1)
                frames.append(_frame(app, step.caption, step.key_seconds))
            await pilot.press(*step.keys[-1:])
            await _until(lambda text=step.shows: text in _text(app), step.shows)
            await pilot.pause(0.7)
            frames.append(_frame(app, step.caption, step.seconds))
    return frames


async def _until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"the console did not show: {what}")
        await asyncio.sleep(0.05)


def _text(app: ConsoleApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def _frame(app: ConsoleApp, caption: str, seconds: float) -> Frame:
    strips = app.screen._compositor.render_strips()
    return Frame(caption, tuple(tuple(Segment.simplify(strip)) for strip in strips), seconds)


def main() -> None:
    """Record as a user would be seen: in a project folder, under a name."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else TARGET).resolve()
    os.environ["LOGNAME"] = "mei"
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = home
        project = Path(home) / "train"
        shutil.copytree(example("too_big.py").parent, project)
        os.chdir(project)
        frames = asyncio.run(record())
    target.write_text(
        animated(frames, "gpuconsole on a simulated lab", mark="SIMULATED"), encoding="utf-8"
    )
    print(f"{target}: {sum(frame.seconds for frame in frames):.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
