"""Take the README's pictures from the simulated lab: `python docs/pictures.py [FOLDER]`.

Drives the real console with its keys at 120x36 and saves what it draws as SVG. Fonts of other
hosts are taken out of the files: a picture needs no network.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gpuconsole.core.jobs import JobState
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.simulated_lab.jobs import example, submit_demo_jobs
from gpuconsole.tui.app import ConsoleApp, Look

SIZE = (120, 36)
FOLDER = Path(__file__).with_name("images")
DEADLINE_S = 60.0
SPEED = 4.0


async def take(folder: Path) -> None:
    """Take all pictures into the folder."""
    session = open_session(None, None, demo=DemoOptions(speed=SPEED))
    app = ConsoleApp(session, Look(site="demo"))
    async with app.run_test(size=SIZE, notifications=False) as pilot:
        await _until(lambda: app.opened)
        await submit_demo_jobs(session.queue)
        await _until(lambda: any(job.state is JobState.OOM for job in session.jobs()))
        await pilot.pause(2)
        _save(app, folder / "fleet.svg", "the fleet")
        await pilot.press("2")
        await pilot.pause(1)
        names = [job.task.name for job in session.jobs()]
        for _ in range(len(names)):
            await pilot.press("j")
            await pilot.pause(0.1)
            if "too-big is" in _text(app) or "is too-big" in _text(app):
                break
        await pilot.pause(1)
        _save(app, folder / "queue.svg", "the queue")
        await pilot.press("5")
        await _until(lambda: "642 MiB" in _text(app))
        await pilot.press("j")
        await pilot.pause(1)
        _save(app, folder / "triage.svg", "triage")
        await pilot.press("4")
        await pilot.pause(1)
        for letter in "too_big.py":
            await pilot.press(_key(letter))
        await _until(lambda: "WILL NOT FIT" in _text(app).upper())
        await pilot.pause(1)
        _save(app, folder / "submit.svg", "preflight")
        await pilot.press("escape", "2", "slash", *(_key(letter) for letter in "state:oom"))
        await pilot.press("enter", "enter")
        await _until(lambda: "Out of memory on GPU" in _text(app))
        await pilot.press("i")  # the facts beside the log name this machine's folders
        await pilot.pause(1)
        _save(app, folder / "job.svg", "a job")
        await pilot.press("escape", "1", "comma")
        await _until(lambda: "PAST" in _text(app))
        await pilot.pause(1)
        _save(app, folder / "past.svg", "ten seconds ago")


def _key(letter: str) -> str:
    names = {"/": "slash", ".": "full_stop", "_": "underscore", "-": "minus", ":": "colon"}
    return names.get(letter, letter)


def _text(app: ConsoleApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def _until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("the console did not come to what was to be shown")
        await asyncio.sleep(0.05)


def _save(app: ConsoleApp, path: Path, title: str) -> None:
    picture = app.export_screenshot(title=f"gpuconsole: {title} (simulated lab)")
    picture = re.sub(r"@font-face\s*\{.*?\}", "", picture, flags=re.DOTALL)
    picture = picture.replace("Fira Code", "DejaVu Sans Mono")
    path.write_text(picture, encoding="utf-8")
    print(path, file=sys.stderr)


def main() -> None:
    """Take them as a user would be seen: in a project folder, under a name."""
    target = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else FOLDER
    target.mkdir(parents=True, exist_ok=True)
    os.environ["LOGNAME"] = "mei"
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOME"] = home
        project = Path(home) / "train"
        shutil.copytree(example("too_big.py").parent, project)
        os.chdir(project)
        asyncio.run(take(target))


if __name__ == "__main__":
    main()
