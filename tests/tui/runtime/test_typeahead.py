"""What is typed in one burst goes into a field in its order, with what corrects it."""

from __future__ import annotations

import asyncio

import pytest
from textual import events
from textual.widgets import Input

from gpuconsole.core.jobs import JobState
from tests.tui.console import Driven, opened
from tests.tui.fake import FakeSession, job

NAMES = {"/": "slash", "<": "backspace", " ": "space"}


def burst(console: Driven, words: str) -> None:
    """Put keys into the app's queue at once, as a paste or a slow line does."""
    for letter in words:
        name = NAMES.get(letter, letter)
        character = None if letter == "<" else letter
        console.app.post_message(events.Key(name, character))


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [("/res<snet", "resnet"), ("/abc<<d", "ad"), ("/c<r<H<cancel", "cancel")],
)
async def test_a_burst_into_the_filter_is_what_was_typed(typed: str, wanted: str) -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))
    async with opened(session) as console:
        await console.press("2")
        burst(console, typed)
        await console.until(
            lambda: isinstance(console.app.focused, Input) and console.app.focused.value == wanted,
            wanted,
        )
        # Nothing was taken for a verb on the way.
        await asyncio.sleep(0)
        assert type(console.app.screen).__name__ == "QueueScreen"
        burst(console, "<<x")
        await console.until(
            lambda: (
                isinstance(console.app.focused, Input)
                and console.app.focused.value == f"{wanted[:-2]}x"
            ),
            "corrected",
        )


async def test_a_burst_into_a_prompt_is_what_was_typed() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.QUEUED),))
    async with opened(session) as console:
        await console.press("2", "P")
        await console.until(lambda: isinstance(console.app.focused, Input), "a prompt")
        burst(console, "<12<3")
        await console.until(
            lambda: isinstance(console.app.focused, Input) and console.app.focused.value == "13",
            "13",
        )
