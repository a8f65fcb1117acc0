"""What shows the way: the tour, the line of time, what tabs count, dimmed dialogs, the palette."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.style import Style
from textual import events

from gpuconsole.core.events import Event
from gpuconsole.core.fleet import HostState
from gpuconsole.core.jobs import JobState
from gpuconsole.tui.app import Look
from gpuconsole.tui.screens.tour import STEPS, TourScreen
from tests.tui.console import NARROW, SIZES, WIDE, Driven, opened
from tests.tui.fake import NOW, FakeRecorder, FakeSession, FakeTriage, incident, job, lab
from tests.tui.recorded import START, write_recording


def jobs() -> FakeSession:
    running, waiting = job("resnet", JobState.RUNNING, 1), job("bert", JobState.QUEUED, 2)
    return FakeSession(jobs_now=(running, waiting), triage=FakeTriage((incident(),)))


# -- the tour -------------------------------------------------------------------------------


@asynccontextmanager
async def first_start(
    tmp_path: Path, size: tuple[int, int] = WIDE
) -> AsyncIterator[tuple[Driven, Path]]:
    seen = tmp_path / "state" / "tour-seen"
    async with opened(jobs(), size, Look(tour=seen)) as console:
        await console.shows(f"1/{len(STEPS)}")
        yield console, seen


@pytest.mark.parametrize("size", SIZES)
async def test_the_tour_goes_through_the_screens(tmp_path: Path, size: tuple[int, int]) -> None:
    async with first_start(tmp_path, size) as (console, seen):
        for number, step in enumerate(STEPS, start=1):
            await console.shows(f"{number}/{len(STEPS)}  {step.title}", "esc leaves the tour")
            assert console.app.current_mode == step.mode
            await console.press("enter")
        await console.until(seen.exists, "remembered")
        assert not isinstance(console.app.screen, TourScreen)
        assert console.app.current_mode == "fleet"


async def test_keys_typed_ahead_stay_in_the_tour(tmp_path: Path) -> None:
    async with first_start(tmp_path) as (console, seen):
        for _ in STEPS:
            console.app.post_message(events.Key("enter", "\r"))
        await console.until(seen.exists, "remembered")
        await console.pilot.pause()
        assert console.app.current_mode == "fleet"
        assert [len(stack) for stack in console.app._screen_stacks.values()].count(1) == len(
            console.app._screen_stacks
        ), "a screen was opened below the tour"


async def test_the_map_behind_the_tour_goes_on(tmp_path: Path) -> None:
    session = jobs()
    awaited = replace(lab()[0], state=HostState.CONNECTING, devices=())
    session.hosts_now = (awaited,)
    async with opened(session, look=Look(tour=tmp_path / "tour-seen")) as console:
        await console.shows("leaves the tour", "connecting", "1 host ")
        session.change(lab()[0])
        await console.shows("A100", "leaves the tour")


async def test_esc_leaves_the_tour_for_good(tmp_path: Path) -> None:
    async with first_start(tmp_path) as (console, seen):
        await console.press("enter")
        await console.shows("2/")
        await console.press("left")
        await console.shows("1/")
        await console.press("escape")
        await console.until(seen.exists, "remembered")
        assert not isinstance(console.app.screen, TourScreen)
    async with opened(jobs(), look=Look(tour=seen)) as console:
        await console.shows("Fleet: utilisation")
        assert f"1/{len(STEPS)}" not in console.text


async def test_a_key_of_the_console_leaves_the_tour_and_acts(tmp_path: Path) -> None:
    async with first_start(tmp_path) as (console, seen):
        await console.press("2")
        await console.shows("why is")
        await console.until(seen.exists, "remembered")


async def test_the_palette_shows_the_tour_again() -> None:
    async with opened(jobs()) as console:
        await console.press("colon")
        await console.type("tour")
        await console.press("enter")
        await console.shows(f"1/{len(STEPS)}")


# -- the line of time -----------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_the_line_of_time_is_there_and_tells_how_to_look_back(
    size: tuple[int, int], tmp_path: Path
) -> None:
    write_recording(tmp_path)
    session = jobs()
    session.recorder = FakeRecorder(on=True, folder=tmp_path)
    async with opened(session, size) as console:
        for keys in (("1",), ("2",), ("3",), ("5",), ("1", "enter")):
            await console.press(*keys)
            await console.shows("now  , < @ look back")
        await console.app.travel.survey()
        session.time = NOW + 2
        for tell in session.listeners:
            tell(Event("host", "a100-01", "a100-01 is down.", NOW - 200, "error"))
        await console.until(lambda: "━" in last(console) and "!" in last(console), "what was")
        view = console.app.travel.view()
        assert view is not None
        assert view.first == pytest.approx(START)
        # A form has no keys for it, and no room to lose.
        await console.press("4")
        await console.until(lambda: "look back" not in console.text, "the form")


def last(console: Driven) -> str:
    return console.text.splitlines()[-2]


async def test_where_nothing_is_recorded_there_is_no_line_of_time() -> None:
    async with opened(jobs()) as console:
        await console.shows("Fleet: utilisation")
        assert "look back" not in console.text


# -- tabs and dialogs -----------------------------------------------------------------------


async def test_tabs_tell_what_they_count() -> None:
    async with opened(jobs()) as console:
        await console.shows("2 Queue 1 waiting", "3 Job 1 active", "5 Triage 1 open")
    async with opened(jobs(), NARROW) as console:
        await console.shows("2 Queue 1 ", "3 Job 1 ", "5 Triage 1")


def colors_of(console: Driven, words: str) -> set[Style]:
    strips = console.app.screen._compositor.render_strips()
    return {part.style or Style() for strip in strips for part in strip if words in part.text}


async def test_a_dialog_dims_what_is_behind_it() -> None:
    async with opened(jobs()) as console:
        await console.press("2")
        await console.shows("resnet")
        await console.press("c")
        await console.shows("Cancel resnet?", "a100-01")
        assert colors_of(console, "2 Queue 1 waiting") == {console.app.ink.below}
        await console.press("n")
        await console.until(lambda: "Cancel resnet?" not in console.text)
        assert console.app.ink.below not in colors_of(console, " 2 Queue 1 waiting ")


async def test_where_only_ascii_is_drawn_a_dialog_has_its_border_alone() -> None:
    async with opened(jobs(), look=Look(symbols="ascii")) as console:
        await console.press("2", "c")
        await console.shows("Cancel resnet?")
        assert "2 Queue" not in console.text


async def test_what_leaves_a_dialog_is_called_cancel() -> None:
    async with opened(jobs()) as console:
        await console.press("K")
        await console.shows("Signal ", "Cancel", "esc cancel")


# -- the palette ----------------------------------------------------------------------------


async def test_the_palette_ends_processes_from_any_screen() -> None:
    async with opened(jobs()) as console:
        await console.press("colon")
        await console.type("kill")
        await console.shows("process", "Signal ")
        await console.press("enter")
        await console.shows("TERM asks it to end")


async def test_export_json_writes_hosts_jobs_and_incidents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(jobs()) as console:
        for reported in ("Exported to", "File exists"):
            await console.press("colon")
            await console.type("export json")
            await console.press("enter")
            await console.shows("Export to which file?")
            await console.press("enter")
            await console.toast(reported)
        (file,) = tmp_path.glob("*.json")
        document = json.loads(file.read_text("utf-8"))
        assert {host["name"] for host in document["hosts"]} >= {"a100-01"}
        assert [one["name"] for one in document["jobs"]] == ["resnet", "bert"]
        assert len(document["incidents"]) == 1
        assert file.stat().st_mode & 0o077 == 0
