"""What is typed in one burst goes into a field in its order, with what corrects it."""

from __future__ import annotations

import asyncio
import time

import pytest
from textual import events
from textual._xterm_parser import XTermParser
from textual.widgets import Input

from gpuconsole.core.jobs import JobState
from gpuconsole.tui.runtime.typeahead import SIGNS
from tests.tui.console import Driven, opened
from tests.tui.fake import FakeSession, job
from tests.waiting import DEADLINE_S

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


def at_once(letter: str) -> list[events.Key]:
    """Return what Textual takes Escape and a letter for that come at once."""
    parser = XTermParser()
    keys = [*parser.feed(f"\x1b{letter}")]
    deadline = time.monotonic() + DEADLINE_S
    while not keys and time.monotonic() < deadline:
        keys = [*parser.tick()]
    return [key for key in keys if isinstance(key, events.Key)]


async def test_escape_and_a_letter_that_come_at_once_are_two_keys() -> None:
    (key,) = at_once("2")
    assert key.key != "2"
    async with opened(FakeSession()) as console:
        await console.press("/")
        await console.until(lambda: isinstance(console.app.focused, Input), "a filter")
        console.app.post_message(key)
        await console.until(lambda: type(console.app.screen).__name__ == "QueueScreen", "queue")


async def test_what_is_typed_after_them_comes_after_them() -> None:
    (key,) = at_once("2")
    async with opened(FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))) as console:
        console.app.post_message(key)
        burst(console, "/resnet")
        await console.until(
            lambda: (
                isinstance(console.app.focused, Input) and console.app.focused.value == "resnet"
            ),
            "a filter",
        )
        assert type(console.app.screen).__name__ == "QueueScreen"


async def test_a_letter_with_alt_neither_leaves_a_field_nor_acts() -> None:
    (key,) = at_once("b")
    alt = events.Key("alt+d", "d")
    async with opened(FakeSession()) as console:
        await console.press("/")
        await console.until(lambda: isinstance(console.app.focused, Input), "a filter")
        field = console.app.focused
        console.app.post_message(key)
        console.app.post_message(alt)
        burst(console, "x")
        await console.until(lambda: isinstance(field, Input) and "x" in field.value, "a field")
        assert console.app.focused is field


async def test_a_sign_that_somebody_may_write_is_left_in_a_field() -> None:
    (key,) = at_once("3")
    async with opened(FakeSession()) as console:
        await console.press("/")
        await console.until(lambda: isinstance(console.app.focused, Input), "a filter")
        field = console.app.focused
        console.app.post_message(key)
        await console.until(lambda: isinstance(field, Input) and field.value == "£", "a sign")


@pytest.mark.parametrize("letter", "1234567890-=")
def test_signs_are_those_that_textual_takes_a_key_after_escape_for(letter: str) -> None:
    (key,) = at_once(letter)
    assert key.character is not None
    assert SIGNS[key.character] == letter
