"""Every screen at two sizes, every theme, no colour and ASCII, as stored pictures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from textual.widgets import Input

from gpuconsole.core.jobs import JobState
from gpuconsole.tui.app import Look
from tests.tui.console import SIZES, Driven, opened
from tests.tui.fake import FakeSession, FakeTriage, incident, job, report
from tests.tui.screens.test_usage import REPORT
from tests.tui.snapshot import FOLDER, same

LINES = tuple(f"INFO step={at}/500 loss={1 / at:.3f}" for at in range(1, 61))


@dataclass(frozen=True)
class Scene:
    """A screen, how to come to it, and what shows that it is there."""

    keys: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    script: str = ""
    back: tuple[str, ...] = ("escape",)
    """The keys that lead back to the map."""


SCENES = {
    "fleet": Scene((), ("a100-01", "ascend-01"), back=()),
    "help": Scene(("question_mark",), ("Help",)),
    "host": Scene(("enter",), ("a100-01",)),
    "device": Scene(("enter", "enter"), ("GPU-a0",), back=("escape", "escape")),
    "queue": Scene(("2",), ("waiting-one", "held"), back=("1",)),
    "usage": Scene(("2", "u"), ("energy over 67%",), back=("escape", "1")),
    "job": Scene(("3",), ("step=60/500",), back=("1",)),
    "submit": Scene(("4",), ("14.8 GiB",), script="train.py", back=("escape", "1")),
    "triage": Scene(("5",), ("slowed by heat",), back=("1",)),
    "palette": Scene(("colon",), ("theme",)),
    "jump": Scene(("ctrl+o",), ()),
    "dialog": Scene(("2", "c"), ("y yes  n no",), back=("escape", "1")),
}
THEMES = ("night", "day", "ice", "contrast", "deuteranopia", "tritanopia", "mono")


def session() -> FakeSession:
    states = (JobState.RUNNING, JobState.QUEUED, JobState.HELD, JobState.FAILED, JobState.OOM)
    names = ("train-resnet", "waiting-one", "held-one", "failed-one", "large-one")
    jobs = tuple(
        job(name, state, number, cause="Out of memory." if state is JobState.OOM else "")
        for number, (name, state) in enumerate(zip(names, states, strict=True), 1)
    )
    wrong = FakeTriage((incident(), incident("host-down", "v100-02")), jobs=jobs)
    return FakeSession(jobs_now=jobs, triage=wrong, lines=LINES, answer=report(), usage=REPORT)


@pytest.fixture(autouse=True)
def steady(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One time zone, no blinking, no files of whoever runs the tests."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr(Input, "cursor_blink", False)
    monkeypatch.chdir(tmp_path)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def come(console: Driven, scene: Scene) -> None:
    for key in scene.keys:
        await console.press(key)
    if scene.script:
        await console.type(scene.script)
    await console.shows(*scene.words)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
async def test_screens_look_as_they_did(size: tuple[int, int]) -> None:
    async with opened(session(), size, Look(site="lab")) as console:
        for name, scene in SCENES.items():
            await come(console, scene)
            await same(console, f"{name}-{size[0]}x{size[1]}")
            await console.press(*scene.back)
            await console.shows(*SCENES["fleet"].words)


async def test_themes_look_as_they_did() -> None:
    async with opened(session(), (120, 36), Look(site="lab")) as console:
        for theme in THEMES:
            console.app.theme = theme
            await come(console, SCENES["fleet"])
            await same(console, f"theme-{theme}")


async def test_ascii_looks_as_it_did() -> None:
    async with opened(session(), (80, 24), Look(site="lab", symbols="ascii")) as console:
        await come(console, SCENES["fleet"])
        await same(console, "ascii-80x24")


async def test_no_color_looks_as_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(session(), (80, 24), Look(site="lab")) as console:
        await come(console, SCENES["fleet"])
        await same(console, "no-color-80x24")


def test_no_picture_is_left_over() -> None:
    names = {f"{name}-{wide}x{high}" for name in SCENES for wide, high in SIZES}
    names |= {f"theme-{theme}" for theme in THEMES} | {"ascii-80x24", "no-color-80x24"}
    stored = {path.stem for path in FOLDER.glob("*.svg") if not path.stem.endswith(".seen")}
    assert stored == names
