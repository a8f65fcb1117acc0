"""The job and submit screens without colours, without symbols, with hostile words everywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.jobs import Job, JobState, Member, Task
from gpuconsole.tui.app import Look
from gpuconsole.tui.screens.dialogs.retry_oom import AgainScreen
from tests.tui.console import SIZES, Driven, opened
from tests.tui.fake import NOW, FakeSession, job

HOSTILE = "[b]x[/b] \x1b[2J\x1b]0;owned\x07\u202e数据\u200b\n" + "y" * 300
LINES = (
    HOSTILE,
    "\x1b[31mERROR\x1b[0m [link=x]",
    "10%|\r100%|█| 5/9 [00:10<00:01]",
    "\x00\xff",
    "WARN 数",
)


def hostile(state: JobState) -> Job:
    plain = job("gpt", state)
    assert plain.attempt is not None
    member = Member(HOSTILE, ("GPU-m1",), (1,), HOSTILE, "d" * 64)
    attempt = replace(
        plain.attempt,
        number=2,
        host=HOSTILE,
        members=(member,),
        placement_reasons=(HOSTILE,),
        cause=HOSTILE,
    )
    task = Task(HOSTILE, HOSTILE, (HOSTILE,), image=HOSTILE, project=HOSTILE)
    older = replace(attempt, number=1, members=())
    return replace(
        plain, task=task, attempts=(older, attempt), cause=HOSTILE, detail=HOSTILE, user="ana",
        submitted_at=NOW - 9,
    )  # fmt: skip


def harmless(console: Driven, size: tuple[int, int], *, ascii_only: bool = False) -> None:
    text = console.text
    assert not set("\x1b\x07\u202e\u200b\x00") & set(text)
    if ascii_only:
        assert not [letter for letter in text if ord(letter) > 126 and letter not in "数据ÿ"]
    for strip in console.app.screen._compositor.render_strips():
        assert strip.cell_length == size[0]


async def walk(console: Driven, size: tuple[int, int], *, ascii_only: bool = False) -> None:
    """Go through the job's and the form's states by their keys."""
    await console.press("3")
    await console.shows("5/9" if size[0] == 80 else "5 of 9", "[b]x[/b]", "ERROR [link=x]")
    for keys in ("R", "R", "R", "a", "a", "w", "w", "i", "i", "t 2 enter", "y", "slash x enter",
                 "ampersand", "n", "escape"):  # fmt: skip
        await console.press(*keys.split())
        await console.beat()
        harmless(console, size, ascii_only=ascii_only)
    await console.press("r")
    await console.until(lambda: isinstance(console.app.screen, AgainScreen))
    harmless(console, size, ascii_only=ascii_only)
    await console.press("n", "4", "up")
    await console.shows("[b]x[/b]")
    harmless(console, size, ascii_only=ascii_only)


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_words_are_only_words(size: tuple[int, int]) -> None:
    session = FakeSession(jobs_now=(hostile(JobState.OOM),), lines=LINES)
    async with opened(session, size) as console:
        await walk(console, size)


@pytest.mark.parametrize("size", SIZES)
async def test_without_symbols(size: tuple[int, int]) -> None:
    session = FakeSession(jobs_now=(hostile(JobState.OOM),), lines=LINES)
    async with opened(session, size, Look(symbols="ascii")) as console:
        await walk(console, size, ascii_only=True)


@pytest.mark.parametrize("size", SIZES)
async def test_without_colours(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    session = FakeSession(jobs_now=(hostile(JobState.OOM),), lines=LINES)
    async with opened(session, size) as console:
        assert console.app.no_color
        await walk(console, size)
