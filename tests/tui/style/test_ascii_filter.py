"""Plain ASCII: no screen, dialog or toast draws anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.tui.app import Look
from gpuconsole.tui.style.ascii_filter import plain
from tests.tui.console import NARROW, WIDE, Driven, opened
from tests.tui.fake import FakeSession, job, report

ASCII = Look(site="lab", symbols="ascii")
LINES = tuple(f"INFO step={at}/500" for at in range(1, 201))


def many_jobs() -> tuple[Job, ...]:
    states = list(JobState)
    long = "A cause with so many words that no column of any terminal has enough room for it."
    return tuple(
        job(f"a-job-with-a-very-long-name-{at}", states[at % len(states)], at, cause=long)
        for at in range(1, 60)
    )


def all_ascii(console: Driven) -> None:
    strange = {letter for letter in console.text if not letter.isascii()}
    assert not strange, f"{strange} in\n{console.text}"


async def press(console: Driven, *keys: str) -> None:
    for key in keys:
        await console.press(key)
        all_ascii(console)


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_every_screen_is_ascii(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("train.py", "other.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    session = FakeSession(
        jobs_now=many_jobs(),
        lines=LINES,
        answer=report(512, "will-not-fit"),
    )
    async with opened(session, size, ASCII) as console:
        all_ascii(console)
        await press(console, "m", "m", "m", "m", "m", "m", "minus", "minus", "minus", "plus")
        await press(
            console,
            "i",
            "i",
            "exclamation_mark",
            "exclamation_mark",
            "slash",
            "r",
            "a",
            "less_than_sign",
            "escape",
        )
        await press(console, "escape", "escape", "enter", "y", "question_mark", "escape", "escape")
        await press(console, "colon", "j", "o", "b", "escape", "escape")
        await press(console, "2", "j", "i", "i", "c", "n", "P", "escape", "slash", "z", "escape")
        await press(console, "escape", "3", "g", "W", "i", "slash", "9", "enter", "escape", "y")
        await press(console, "4", *"train.py")
        await console.shows("will not fit" if size == NARROW else "WILL NOT FIT")
        await press(console, "f6", "f6", "f6", "f2", "ctrl+l", "escape", "ctrl+j", "escape")
        await press(console, "f9", "escape", "p")


async def test_letters_of_other_scripts_stay() -> None:
    session = FakeSession(jobs_now=(job("训练-é", JobState.RUNNING),))
    async with opened(session, look=ASCII) as console:
        await console.press("2")
        await console.shows("训练-é")


@pytest.mark.parametrize("drawn", ["╭─╮│╰╯┃━", "█▌░▒▓▁▂▅▆▇▎▊", "●○◌‖✓✗…·•▸", "├──└──┼"])
def test_a_drawing_keeps_its_width(drawn: str) -> None:
    assert plain(drawn).isascii()
    assert len(plain(drawn)) == len(drawn)
    assert clean(plain(drawn)) == plain(drawn)
