"""Take every screen as PNG, to be looked at: `python docs/screens.py [FOLDER] [--only NAME ...]`.

Drives the console on the simulated lab with its keys, in each language, and takes each screen at
three sizes in a dark and a light theme: `SCREEN-SIZE-THEME-LANGUAGE.png`. What a screen looks
like to a user, with every column in its place, is seen here and in no other form of it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from pixels import save
from rich.console import Console
from rich.segment import Segment
from textual.pilot import Pilot

from gpuconsole.core.jobs import JobState
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.session.session import Session
from gpuconsole.simulated_lab.jobs import example, submit_demo_jobs
from gpuconsole.tui.app import ConsoleApp, Look

FOLDER = Path(__file__).with_name("images") / "screens"
SIZES = ((80, 24), (120, 36), (200, 60))
THEMES = ("night", "day")
LANGUAGES = ("en", "zh")
DEADLINE_S = 120.0
SPEED = 4.0
REST_S = 0.6
"""How long a screen is left alone before it is taken: clocks strike, lists are filled."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A screen: the keys from the map to it, and the text of the console that it has then."""

    keys: tuple[str, ...] = ()
    shows: str = ""
    """In English; the screen must have it, or what it is in its language."""


_FILTER = ("slash", "ctrl+u")
_SUBMIT = ("4", "ctrl+u", *"too_big.py")
SCENES = {
    "fleet": Scene(),
    "where": Scene(("w", *"24", "enter")),
    "host": Scene(("enter",)),
    "device": Scene(("enter", "enter")),
    "session": Scene(("B",), "Open a session?"),
    "containers": Scene(("C",)),
    "queue": Scene(("2", "tab")),
    "services": Scene(("2", *_FILTER, *"digits", "enter")),
    "usage": Scene(("2", "u")),
    "compare": Scene(("2", *_FILTER, *"sweep", "enter", "M")),
    "job": Scene(("2", *_FILTER, *"state:oom", "enter", "enter"), "Out of memory"),
    "submit": Scene(_SUBMIT, "will not fit"),
    "triage": Scene(("5",)),
    "actions": Scene(("5", "x")),
    "palette": Scene(("colon",)),
    "jump": Scene(("ctrl+o",)),
    "help": Scene(("question_mark",)),
    "past": Scene(("comma",)),
}
KEPT = (
    "fleet",
    "queue",
    "services",
    "job",
    "submit",
    "triage",
    "actions",
    "palette",
    "help",
    "session",
)
"""The screens that are in the repository; the others are taken with `--all`."""
_NAMES = {":": "colon", ".": "full_stop", "_": "underscore", "/": "slash"}


async def take(folder: Path, language: str, scenes: Collection[str]) -> None:
    """Take the scenes in one language."""
    session = open_session(None, None, demo=DemoOptions(speed=SPEED))
    app = ConsoleApp(session, Look(site="demo", language=language))
    async with app.run_test(size=SIZES[0], notifications=False) as pilot:
        await _until(lambda: app.opened, "the console")
        await submit_demo_jobs(session.queue)
        await _until(lambda: _has_past(session), "a job that ran out of memory")
        for size in SIZES:
            await pilot.resize_terminal(*size)
            for theme in THEMES:
                app.theme = theme
                for name in scenes:
                    if name == "job" and folder == FOLDER and size != SIZES[0]:
                        # The facts beside its log name this machine's folders.
                        continue
                    await _come(pilot, app, SCENES[name])
                    path = folder / f"{name}-{size[0]}x{size[1]}-{theme}-{language}.png"
                    save(_lines(app), path)
                    print(path, file=sys.stderr)
                    await _home(pilot)


async def _come(pilot: Pilot[None], app: ConsoleApp, scene: Scene) -> None:
    """Press the keys to a scene, and wait until it is there."""
    for key in scene.keys:
        await pilot.press(_NAMES.get(key, key))
    words = app.ink.say(scene.shows).casefold()
    await _until(lambda: words in _text(app).casefold(), words)
    await pilot.pause(REST_S)


def _has_past(session: Session) -> bool:
    return any(job.state is JobState.OOM for job in session.jobs())


async def _home(pilot: Pilot[None]) -> None:
    """Go back to the map as it was at first: now, and without what covers it."""
    for key in ("escape", "escape", "escape", "0", "1"):
        await pilot.press(key)
        await pilot.pause()


def _lines(app: ConsoleApp) -> list[list[Segment]]:
    """Return what is on the terminal, with what a dialog lies on."""
    wide, high = app.size
    stack = app._background_screens
    update = app.screen._compositor.render_update(full=True, screen_stack=stack)
    assert update is not None
    console = Console(width=wide, height=high, color_system="truecolor", force_terminal=True)
    drawn = [segment for segment in console.render(update) if not segment.control]
    return [line for line in Segment.split_lines(drawn) if line][:high]


def _text(app: ConsoleApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def _until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"the console did not show: {what}")
        await asyncio.sleep(0.05)


def main() -> None:
    """Take them as a user would see them: in a project folder, under a name."""
    ask = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    ask.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    ask.add_argument("--only", nargs="+", choices=SCENES, default=KEPT, metavar="SCREEN")
    ask.add_argument(
        "--all", action="store_true", help="every screen, not only those that are kept"
    )
    ask.add_argument("--language", choices=LANGUAGES, help="one language instead of each")
    said = ask.parse_args()
    folder = said.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["LOGNAME"] = "mei"
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = home
        project = Path(home) / "train"
        shutil.copytree(example("too_big.py").parent, project)
        os.chdir(project)
        for language in [said.language] if said.language else LANGUAGES:
            asyncio.run(take(folder, language, SCENES if said.all else said.only))


if __name__ == "__main__":
    main()
