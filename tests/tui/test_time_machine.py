"""Looking back: the keys, the mark, the slider, and that nothing can be changed in the past."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.events import Event
from gpuconsole.core.fleet import DeviceProcess
from gpuconsole.core.history import downsample
from gpuconsole.core.jobs import JobState
from gpuconsole.session.recording.replay_session import open_replay
from gpuconsole.state.recording.file_format import Header
from gpuconsole.state.recording.writer import Batch, FileWriter
from gpuconsole.tui.app import ConsoleApp, Look
from gpuconsole.tui.render.fleet_map.layout import Density
from gpuconsole.tui.screens.fleet import FleetScreen
from gpuconsole.tui.screens.queue import QueueScreen
from gpuconsole.tui.widgets.fleet_map import FleetMap
from gpuconsole.tui.widgets.time_slider import Slider
from tests.tui.console import NARROW, SIZES, WIDE, Driven, opened
from tests.tui.fake import NOW, FakeSession, incident, job
from tests.tui.recorded import LOST, START, hosts_at, write_recording
from tests.waiting import BOUNDED_S


class FakeRecorder:
    """Recordings that are there already."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = "mine"
        self.on = True
        self.cuts = 0

    async def cut(self) -> None:
        self.cuts += 1


def session(folder: Path) -> FakeSession:
    write_recording(folder)
    made = FakeSession(jobs_now=(job("resnet", JobState.RUNNING, 1),))
    made.recorder = FakeRecorder(folder)  # type: ignore[attr-defined]
    made.settings = LabSettings()  # type: ignore[attr-defined]
    return made


def clock(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%H:%M:%S")


def first_device(console: Driven) -> float | None:
    return console.app.picture.snapshot.hosts[0].devices[0].utilization


async def back_to(console: Driven, words: str) -> None:
    """Type a time and wait until it is shown."""
    await console.press("at")
    await console.type(words)
    await console.press("enter")


@asynccontextmanager
async def replayed(
    path: Path, size: tuple[int, int] = WIDE, at: float | None = None
) -> AsyncIterator[Driven]:
    """The console over a recording alone."""
    session = await open_replay(path, LabSettings(), at)
    app = ConsoleApp(session, Look())
    async with app.run_test(size=size, notifications=True) as pilot:
        driven = Driven(app, pilot)
        await driven.until(lambda: app.picture.now > 0, "first picture")
        yield driven
    await session.__aexit__(None, None, None)


@pytest.mark.parametrize("words", ["10m", "-10m", "10 min ago"])
async def test_a_time_is_typed_as_one_says_it(tmp_path: Path, words: str) -> None:
    async with opened(session(tmp_path)) as console:
        await back_to(console, words)
        await console.shows("PAST")
        assert first_device(console) == 10


async def test_what_is_no_time_stays_in_the_dialog_with_what_is_wrong(tmp_path: Path) -> None:
    async with opened(session(tmp_path)) as console:
        await back_to(console, "soonish")
        await console.shows("Look at which time?", "soonish", "expected a time such as `03:00`")
        assert console.app.travel.past is None
        await console.press(*["backspace"] * len("soonish"))
        await console.type("10m")
        await console.press("enter")
        await console.shows("PAST")


@pytest.mark.parametrize("size", SIZES)
async def test_the_picture_of_then_is_shown_and_marked(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with opened(session(tmp_path), size) as console:
        await console.shows("resnet") if size == WIDE else await console.beat()
        await console.press("less_than_sign", "less_than_sign")
        then = NOW + 1 - 600
        await console.shows(f"PAST {clock(then)}")
        assert first_device(console) == 10
        assert "READ-ONLY" not in console.text
        assert [job.task.name for job in console.app.picture.jobs] == ["early-bird", "bert"]
        slider = console.app.screen.query_one(Slider)
        assert slider.display
        assert "now" in console.text.splitlines()[-2]
        assert "< >" in console.text.splitlines()[-1]
        await console.press("0")
        await console.until(lambda: console.app.travel.past is None, "now")
        await console.beat()
        assert "PAST" not in console.text
        assert slider.display, "it goes on telling that one can look back"
        assert [job.task.name for job in console.app.picture.jobs] == ["resnet"]


async def test_steps_go_both_ways_and_forward_ends_at_now(tmp_path: Path) -> None:
    lab = session(tmp_path)
    async with opened(lab) as console:
        await console.press("full_stop")
        assert console.app.travel.past is None
        await back_to(console, "-10m")
        await console.shows(f"PAST {clock(NOW + 1 - 600)}")
        await console.press("comma")
        await console.shows(f"PAST {clock(NOW + 1 - 610)}")
        await console.press("full_stop", "full_stop")
        await console.shows(f"PAST {clock(NOW + 1 - 590)}")
        await console.press("greater_than_sign")
        await console.shows(f"PAST {clock(NOW + 1 - 290)}")
        await console.press("greater_than_sign", "greater_than_sign")
        await console.until(lambda: console.app.travel.past is None, "now")


async def test_to_look_back_changes_no_density(tmp_path: Path) -> None:
    lab = session(tmp_path)
    lab.recorder.on = True
    rows = sum(max(1, len(host.devices)) for host in lab.hosts_now)
    # Just high enough for a line a device: status, tabs, borders, heading, time line, footer.
    async with opened(lab, (120, rows + 7)) as console:
        fleet_map = console.app.screen.query_one(FleetMap)
        await console.shows("look back")
        assert fleet_map.drawn_density is Density.DEVICE_LINE
        await console.press("comma")
        await console.shows("PAST")
        assert fleet_map.drawn_density is Density.DEVICE_LINE


async def test_a_frozen_picture_gives_way_to_the_past(tmp_path: Path) -> None:
    async with opened(session(tmp_path)) as console:
        await console.press("p")
        await console.shows("PAUSED")
        await back_to(console, "-10m")
        await console.shows("PAST")
        assert "PAUSED" not in console.text
        assert not console.app.paused


async def test_many_steps_at_once_are_one_journey(tmp_path: Path) -> None:
    async with opened(session(tmp_path)) as console:
        await console.press("less_than_sign", *["comma"] * 12)
        await console.shows(f"PAST {clock(NOW + 1 - 420)}")


async def test_a_moment_opens_well_within_its_time(tmp_path: Path) -> None:
    import time

    async with opened(session(tmp_path)) as console:
        await back_to(console, "-15m")
        await console.shows("PAST")
        past = console.app.travel.past
        assert past is not None
        began = time.process_time()
        await past.reel.seek(START + 77)
        past.snapshot()
        assert time.process_time() - began < BOUNDED_S
        assert first_device(console) != 1
        console.app.paint(force=True)
        assert first_device(console) == 1


async def test_jobs_hosts_and_incidents_are_as_they_were(tmp_path: Path) -> None:
    async with opened(session(tmp_path)) as console:
        await console.press("2")
        await back_to(console, "-15m")
        await console.shows("PAST", "early-bird", "running")
        assert console.app.picture.incidents == ()
        await back_to(console, "+6m")
        await console.shows("failed")
        assert len(console.app.picture.incidents) == 1
        assert console.app.picture.totals.down == 2
        await back_to(console, "-6m")
        await console.shows("running")
        assert console.app.picture.totals.down == 1


async def test_the_past_cannot_be_changed(tmp_path: Path) -> None:
    lab = session(tmp_path)
    async with opened(lab) as console:
        await console.press("2")
        await back_to(console, "-15m")
        await console.shows("PAST")
        footer = console.text.splitlines()[-1]
        assert "cancel" not in footer
        for key in ("c", "H", "r", "P", "4", "s"):
            await console.press(key)
            assert isinstance(console.app.screen, QueueScreen)
        assert not {"cancel", "hold", "retry", "priority"} & {call[0] for call in lab.calls}
        await console.press("0")
        await console.until(lambda: console.app.travel.past is None, "now")
        await console.press("c")
        await console.until(lambda: not isinstance(console.app.screen, QueueScreen), "asked")


async def test_time_can_pass_from_a_moment(tmp_path: Path) -> None:
    async with opened(session(tmp_path)) as console:
        await back_to(console, "-15m")
        await console.shows("PAST")
        past = console.app.travel.past
        assert past is not None
        before = past.now()
        await console.press("p")
        assert past.reel.clock.playing
        await console.until(lambda: past.now() > before, "time passes")
        await console.press("p")
        stood = past.now()
        await asyncio.sleep(0)
        assert past.now() == stood
        await console.press("asterisk", "asterisk", "asterisk")
        assert past.reel.clock.speed == 60.0
        await console.until(lambda: past.now() > before + 70, "into the next block")
        console.app.paint(force=True)
        assert "60x" in console.text


@pytest.mark.parametrize("size", SIZES)
async def test_a_click_on_the_slider_goes_there(tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(session(tmp_path), size) as console:
        await back_to(console, "-10m")
        await console.shows("PAST")
        assert console.app.travel.past is not None
        before = console.app.travel.past.now()
        slider = console.app.screen.query_one(Slider)
        track = slider._track
        assert track is not None
        column = track.start + 3 * track.width // 4
        wanted = track.time_at(column)
        assert wanted is not None
        await console.pilot.click(Slider, offset=(column, 0))
        await console.until(
            lambda: console.app.travel.past and console.app.travel.past.now() != before,
            "gone there",
        )
        await console.until(
            lambda: abs(console.app.viewed.now() - wanted) < 70, "where it was clicked"
        )


@pytest.mark.parametrize("words", ["10m", "-10m", "10 min ago"])
async def test_how_long_ago_is_understood_without_a_sign(words: str, tmp_path: Path) -> None:
    async with opened(session(tmp_path)) as console:
        before = console.app.viewed.now()
        await back_to(console, words)
        await console.until(lambda: console.app.travel.past is not None, "the past")
        assert abs(before - 600 - console.app.viewed.now()) < 70


async def test_what_was_not_recorded_is_told(tmp_path: Path) -> None:
    async with opened(session(tmp_path)) as console:
        await back_to(console, "-3h")
        await console.toast("Nothing is recorded at")
        await console.shows(f"PAST {clock(START)}")


async def test_without_recordings_one_is_told_and_stays(tmp_path: Path) -> None:
    lab = FakeSession()
    lab.recorder = FakeRecorder(tmp_path / "none")  # type: ignore[attr-defined]
    lab.settings = LabSettings()  # type: ignore[attr-defined]
    async with opened(lab) as console:
        await console.press("comma")
        await console.toast("holds no recorded moment")
        assert isinstance(console.app.screen, FleetScreen)


async def test_collecting_goes_on_and_news_are_told(tmp_path: Path) -> None:
    lab = session(tmp_path)
    async with opened(lab) as console:
        await back_to(console, "-10m")
        await console.shows("PAST")
        for listener in lab.listeners:
            listener(Event("host", "rtx-01", "rtx-01 is up.", lab.now()))
        await console.toast("rtx-01 is up.")
        assert console.app.travel.past is not None


async def test_history_of_then_is_loaded(tmp_path: Path) -> None:
    async with opened(session(tmp_path)) as console:
        await back_to(console, "-5m")
        await console.shows("PAST")
        history = console.app.viewed.history
        console_past: Any = console.app.travel.past

        def known() -> int:
            series = history.device("GPU-a0", "utilization", 600.0)
            return sum(column is not None for column in downsample(series, 10))

        await console.until(lambda: known() == 10, "ten minutes of history")
        series = history.device("GPU-a0", "utilization", 600.0)
        assert series.values[0] == 5
        assert series.latest == 15
        lost = history.host("rtx-01", "cpu_percent", 600.0)
        assert lost.latest is not None
        assert max(lost.times) >= console_past.now() - 600
        assert history.device("nobody", "power_w", 60.0).times == []


async def test_no_colour_and_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(session(tmp_path), NARROW, Look(symbols="ascii")) as console:
        await back_to(console, "-10m")
        await console.shows("PAST")
        line = console.text.splitlines()[-2]
        assert line.isascii()
        assert "#" in line
        assert "!" in line


@pytest.mark.parametrize("size", SIZES)
async def test_a_file_opens_in_the_same_screens(tmp_path: Path, size: tuple[int, int]) -> None:
    write_recording(tmp_path)
    (path,) = tmp_path.iterdir()
    async with replayed(path, size, START + 30) as console:
        await console.shows(f"REPLAY {clock(START + 30)}", "SIMULATED")
        await console.press("2")
        await console.shows("early-bird")
        await console.press("3")
        await console.shows("REPLAY")
        await console.press("1", "greater_than_sign")
        await console.shows(f"REPLAY {clock(START + 330)}")
        assert first_device(console) == 5
        await console.press("enter")
        await console.shows("Fleet > a100-01")
        await console.press("escape", "0")
        await console.shows(f"REPLAY {clock(START + 1140)}")
        await console.press("full_stop")
        await console.shows(f"REPLAY {clock(START + 1140)}")
        assert console.app.screen.query_one(FleetMap).shown_hosts == 4


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_words_of_a_file_are_harmless(tmp_path: Path, size: tuple[int, int]) -> None:
    nasty = "[red]x[/]\x1b[2J\u202eevil\u4e2d\u6587\n" + "y" * 300
    (first, *_), path = hosts_at(0.0), tmp_path / "x.gpurec"
    process = DeviceProcess(1, nasty, 5.0, nasty, nasty)
    card = replace(first.devices[0], model=nasty, error=nasty, processes=(process,))
    host = replace(first, name=nasty, error=nasty, labels={nasty: nasty}, devices=(card,))
    wrong = replace(job("a", JobState.RUNNING), user=nasty, cause=nasty, detail=nasty)
    wrong = replace(wrong, task=replace(wrong.task, name=nasty, script=nasty, args=(nasty,)))
    batch = Batch(
        START, START + 9, [(START, host)], (wrong,), incidents_before=(incident(title=nasty),)
    )
    batch.events.append(Event(nasty, nasty, nasty, START, "error"))
    file = FileWriter(path, Header(START, nasty, nasty, False, (nasty,), nasty))
    file.write(batch)
    file.close()
    async with replayed(path, size) as console:
        for keys in (("1",), ("enter",), ("escape", "2"), ("3",), ("5",), ("question_mark",)):
            await console.press(*keys)
            console.app.paint(force=True)
            await console.pilot.pause()
            assert "\x1b" not in console.text
            assert "\u202e" not in console.text
        await console.press("escape", "2")
        await console.shows("[red]")


async def test_a_file_plays_to_its_end_and_stands(tmp_path: Path) -> None:
    write_recording(tmp_path)
    (path,) = tmp_path.iterdir()
    async with replayed(path) as console:
        session: Any = console.app.session
        session.reel.play(600.0)
        await console.until(lambda: session.now() >= START + LOST + 1, "past the loss")
        console.app.paint(force=True)
        assert console.app.picture.totals.down == 2
        await console.until(lambda: not session.reel.clock.playing, "the end")
        assert session.now() == START + 1140
