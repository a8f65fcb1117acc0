"""Toasts stand at the bottom right, one for a cause, and never on a screen's header."""

from __future__ import annotations

import pytest
from textual.geometry import Region
from textual.widgets._toast import Toast

from gpuconsole.core.events import Event
from gpuconsole.core.jobs import JobState
from gpuconsole.errors import ConsoleError
from gpuconsole.tui.screens.tour import STEPS, begin
from tests.tui.console import Driven, opened
from tests.tui.fake import NOW, FakeSession, job

SIZES = [(80, 24), (120, 36), (200, 60)]
LONG = "A sentence that is long enough to need several lines of a narrow toast. " * 3


async def shown(console: Driven, count: int) -> list[Toast]:
    await console.until(lambda: len(console.app.screen.query(Toast)) == count, "toasts")
    return list(console.app.screen.query(Toast))


@pytest.mark.parametrize("size", SIZES)
async def test_toasts_leave_the_header_free(size: tuple[int, int]) -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))
    async with opened(session, size) as console:
        before = console.text.splitlines()[:3]
        for number in range(8):
            console.app.notify(f"{number}: {LONG}", title=f"Cause {number}", markup=False)
        toasts = await shown(console, 1)

        def places() -> list[Region]:
            return [console.app.screen.find_widget(toast).visible_region for toast in toasts]

        # It is whole.
        await console.until(
            lambda: all(place.y >= 3 and place.height >= 4 for place in places()), "laid out"
        )
        assert places() == [toast.region for toast in toasts]
        assert all(place.bottom <= size[1] - 1 for place in places())
        assert all(place.right >= size[0] - 3 for place in places())
        assert console.text.splitlines()[:3] == before


@pytest.mark.parametrize("size", SIZES)
async def test_a_toast_covers_nothing_of_the_tour(size: tuple[int, int]) -> None:
    async with opened(FakeSession(), size) as console:
        begin(console.app)
        for number in range(len(STEPS)):
            await console.shows(f"{number + 1}/{len(STEPS)}")
            console.app.notify("runs-out: oom. Out of memory on GPU 0.", markup=False)
            (toast,) = await shown(console, 1)
            box = console.app.screen.query_one("#tour")
            await console.until(lambda toast=toast: toast.region.height, "laid out")
            assert not box.region.intersection(toast.region), (box.region, toast.region)
            assert toast.region.y >= 3
            await console.press("enter")


async def test_a_cause_has_one_toast_and_all_are_kept() -> None:
    async with opened(FakeSession()) as console:
        kept = len(console.app.messages)
        for number in range(4):
            console.app.tell_error(ConsoleError("Host is away", "a100-01 does not answer."))
            console.app.notify(f"{number}", title="Saved", markup=False)
            console.app.tell_error(ConsoleError("Host is away", "a100-01 does not answer."))
        await shown(console, 1)
        assert "Host is away (8 times)" in console.text
        assert len(console.app.messages) == kept + 12


async def test_a_lost_host_is_one_toast() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.UNKNOWN),))
    async with opened(session, (80, 24)) as console:
        for event in (
            Event("host", "a100-01", "a100-01 is down. No route to host.", NOW, "error"),
            Event("job", "ana-0001", "resnet: its host is away.", NOW, "warning"),
            Event("incident", "a100-01", "a100-01: host unreachable", NOW, "error"),
        ):
            for listener in session.listeners:
                listener(event)
            await console.toast(event.message.partition(": ")[0])
        await console.toast("host unreachable")
        (toast,) = await shown(console, 1)
        place = console.app.screen.find_widget(toast).visible_region
        assert place.y >= 3
        assert place.right >= 77
        assert len([one for one in console.app.messages if one.severity != "information"]) == 3


async def test_news_of_the_lab_replaces_no_worse_toast() -> None:
    done = job("resnet", JobState.SUCCEEDED)
    async with opened(FakeSession(jobs_now=(done,))) as console:
        console.app.tell_error(ConsoleError("Host is away", "a100-01 does not answer."))
        event = Event("job", done.id, "resnet: succeeded", NOW, "information")
        for listener in console.app.session.listeners:
            listener(event)
        await console.toast("resnet: succeeded")
        await console.pilot.pause()
        await shown(console, 1)
        assert "Host is away" in console.text
        # The answer to a key is seen at once.
        console.app.notify("Copied.", markup=False)
        await console.shows("Copied.")
        await shown(console, 1)
