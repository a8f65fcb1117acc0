"""What a person meets in the first hour with the console, by the keys that they press."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from rich.style import Style
from textual.screen import ModalScreen

from gpuconsole.core.fleet import Host, HostState
from gpuconsole.core.history import Series
from gpuconsole.core.incidents import Severity
from gpuconsole.core.jobs import JobState
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.tui.render.fleet_map.layout import Density
from gpuconsole.tui.render.fleet_map.metrics import METRICS
from gpuconsole.tui.screens.fleet import FleetScreen
from gpuconsole.tui.widgets.fleet_map import FleetMap
from tests.tui.console import Driven, opened
from tests.tui.fake import NOW, FakeHistory, FakeSession, FakeTriage, device, incident, job, lab
from tests.tui.seeing import contrast, lightness


def fleet_map(console: Driven) -> FleetMap:
    return console.app.screen.query_one(FleetMap)


def row(console: Driven, *words: str) -> str:
    """The first line on the terminal with all the words."""
    return next(
        line for line in console.text.splitlines() if all(word in line for word in words)
    )  # fmt: skip


def seen(console: Driven, words: str) -> list[tuple[str, Style]]:
    """The text on the terminal with its styles, of the first line that has the words."""
    for strip in console.app.screen._compositor.render_strips():
        if words in strip.text:
            return [(part.text, part.style or Style()) for part in strip]
    raise AssertionError(f"`{words}` is not shown\n{console.text}")


def ground(style: Style) -> str:
    assert style.bgcolor is not None
    return style.bgcolor.get_truecolor().hex


def ink(style: Style) -> str:
    assert style.color is not None
    return style.color.get_truecolor().hex


# -- the map --------------------------------------------------------------------------------


async def test_bar_and_column_follow_the_metric() -> None:
    async with opened(FakeSession()) as console:
        expected = ["80%", "51%", "64C", "78%", "80%", "0G"]
        titles = ["load", "held", "temp", "power", "load", "free"]
        for metric, figure, title in zip(METRICS, expected, titles, strict=True):
            await console.shows(f"Fleet: {metric.title}")
            await console.until(lambda figure=figure: f" {figure} " in row(console, "▸"), figure)
            assert f" {title} " in row(console, "model", "memory")
            await console.press("m")


@pytest.mark.parametrize("key", ["w", "slash"])
async def test_an_open_bar_changes_no_density(key: str) -> None:
    session = FakeSession()
    rows = sum(max(1, len(host.devices)) for host in session.hosts_now)
    # Just high enough for a line a device: status, tabs, borders, heading, footer.
    async with opened(session, (120, rows + 6)) as console:
        assert fleet_map(console).drawn_density is Density.DEVICE_LINE
        height = fleet_map(console).size.height
        await console.press(key)
        await console.until(lambda: fleet_map(console).size.height < height, "a bar")
        await console.pilot.pause()
        assert fleet_map(console).drawn_density is Density.DEVICE_LINE


async def test_where_hosts_have_a_line_each_rows_of_devices_fill_the_rest() -> None:
    """A small terminal has no room for a line a device: those of one host are shown."""
    hosts = tuple(
        Host(f"h{n}", HostState.UP, devices=tuple(device(f"u{n}-{at}", at) for at in range(8)))
        for n in range(4)
    )
    async with opened(FakeSession(hosts_now=hosts), (80, 21)) as console:
        assert fleet_map(console).drawn_density is Density.HOST_LINE
        await console.shows("╭─ h0")
        rows = [line for line in console.text.splitlines() if " A100-SXM4-40GB " in line]
        assert len([line for line in rows if "8x" not in line]) == 8
        await console.press("down", "right", "right")
        await console.shows("╭─ h1")
        await console.until(lambda: "▸   2" in console.text, "the third device is marked")
        await console.press("left")
        await console.until(lambda: "▸   1" in console.text, "the second device is marked")
        # A bar takes its line from them, not from the hosts.
        await console.press("w")
        await console.until(lambda: "where fit" in console.text, "the bar")
        await console.until(lambda: fleet_map(console).size.height == 5, "five lines of hosts")
        assert fleet_map(console).drawn_density is Density.HOST_LINE
        await console.press("escape", "slash")
        await console.type("h2")
        await console.press("enter")
        await console.until(lambda: fleet_map(console).drawn_density is Density.DEVICE_LINE)
        await console.until(lambda: "╭─ h2" not in console.text, "the map alone")


async def test_rows_of_devices_below_the_hosts_show_the_answer_too() -> None:
    hosts = tuple(
        Host(f"h{n}", HostState.UP,
             devices=tuple(device(f"u{n}-{at}", at, utilization=0.0, memory_used_mib=4.0)
                           for at in range(8)))
        for n in range(4)
    )  # fmt: skip
    async with opened(FakeSession(hosts_now=hosts), (80, 24)) as console:
        await console.shows("■ free")
        fleet_map(console).lit = frozenset({"u0-2"})
        console.app.paint(force=True)
        await console.until(lambda: "◆ free" in row(console, " 2  A100"), "the answer")


async def test_the_answer_is_readable_under_the_cursor_too() -> None:
    async with opened(FakeSession()) as console:
        await console.press("w")
        await console.type("24")
        await console.press("enter")
        await console.shows("1 x 24 GiB")
        await console.until(lambda: "◆ free" in row(console, "▸"), "the cursor on an answer")
        for text, style in seen(console, "▸"):
            if text.strip(" │▸╮╭"):
                assert contrast(ink(style), ground(style)) > 3.0, text


async def test_what_is_free_is_the_brightest_on_the_map() -> None:
    async with opened(FakeSession()) as console:
        await console.shows("■ free", "3 free 2x32G 1x24G")
        heat = [ink(style) for style in console.app.ink.heat]
        (free,) = {ink(style) for text, style in seen(console, "■ free") if "■" in text}
        assert lightness(free) > max(map(lightness, heat)) + 5
        await console.press("minus")
        await console.until(lambda: "■" in row(console, "ascend-01"), "free devices as cells")


@dataclass
class Rising(FakeHistory):
    """Every device has gone from idle to full in five minutes."""

    asked: list[tuple[str, str]] = field(default_factory=list)

    def device(self, uuid: str, metric: str, span_s: float) -> Series:
        self.asked.append((uuid, metric))
        times = [NOW - span_s + at * span_s / 100 for at in range(100)]
        values = [float(at) for at in range(100)]
        holds = [span_s / 100] * 100
        return Series(NOW - span_s, NOW, times, values, values, values, holds)


async def test_where_there_is_room_a_device_shows_its_last_minutes() -> None:
    history = Rising()
    async with opened(FakeSession(history=history), (200, 60)) as console:
        await console.shows("last 5m")
        line = row(console, "▸")
        dots = [letter for letter in line if "\u2800" <= letter <= "\u28ff"]
        assert len(dots) > 10
        assert dots == sorted(dots, key=lambda dot: bin(ord(dot)).count("1")), "it rises"
        assert {metric for _, metric in history.asked} >= {"utilization"}
        await console.press("m", "m")
        await console.until(lambda: ("GPU-a0", "temperature_c") in history.asked, "temperatures")


@dataclass
class Begun(FakeHistory):
    """A lab of which there are figures for so many seconds."""

    for_s: float = 0.0

    def device(self, uuid: str, metric: str, span_s: float) -> Series:
        times = [NOW - at for at in range(int(min(self.for_s, span_s)), 0, -1)]
        values, holds = [50.0] * len(times), [1.0] * len(times)
        return Series(NOW - span_s, NOW, times, values, values, values, holds)


@pytest.mark.parametrize(
    ("for_s", "title"), [(20, "last 30s"), (50, "last 1m"), (100, "last 2m"), (9000, "last 5m")]
)
async def test_the_past_of_a_device_goes_as_far_back_as_there_is_any(
    for_s: int, title: str
) -> None:
    """A console that was opened a moment ago shows no column that stays empty for minutes."""
    async with opened(FakeSession(history=Begun(for_s)), (200, 60)) as console:
        await console.shows(title)
        at = row(console, title).index(title)
        cells = row(console, "▸")[at : at + 24]
        filled = sum("\u2800" < letter <= "\u28ff" for letter in cells)
        assert filled >= 12, cells


async def test_without_any_past_there_is_no_column_for_it_until_there_is() -> None:
    history = Begun()
    async with opened(FakeSession(history=history), (200, 60)) as console:
        await console.shows("memory", "owner")
        assert "last 30s" not in console.text
        history.for_s = 3
        console.app.paint(force=True)
        await console.shows("last 30s")


# -- large terminals ------------------------------------------------------------------------


async def test_a_large_terminal_shows_past_processes_and_events_of_what_is_looked_at() -> None:
    async with opened(FakeSession(history=Rising()), (200, 60)) as console:
        await console.shows("utilisation %, last 15 minutes", "memory GiB", "processes", "events")
        await console.shows("a100-01 gpu 0", "now 99%")
        assert fleet_map(console).drawn_density is Density.DEVICE_LINE
        await console.press("down")
        await console.shows("a100-01 gpu 1")
        # What the map needs itself, it keeps.
        await console.pilot.resize_terminal(200, 24)
        await console.until(lambda: "last 15 minutes" not in console.text, "the map alone")


async def test_the_pane_below_leaves_the_map_every_line_it_needs() -> None:
    """The time line takes a line too: it is the pane that is smaller for it, not the map."""
    hosts = tuple(
        Host(f"h{n}", HostState.UP, devices=tuple(device(f"u{n}-{at}", at) for at in range(8)))
        for n in range(4)
    )
    made = FakeSession(hosts_now=hosts, history=Rising())
    made.recorder.on = True
    async with opened(made, (200, 60)) as console:
        await console.shows("utilisation %, last 15 minutes")
        await console.beat()
        assert fleet_map(console).max_scroll_y == 0
        assert sum("A100-SXM4-40GB" in line for line in console.text.splitlines()) >= 32


# -- a picture that does not change ------------------------------------------------------------


@pytest.mark.parametrize("key", ["0", "escape", "p"])
async def test_a_frozen_picture_says_how_it_goes_on(key: str) -> None:
    async with opened(FakeSession()) as console:
        await console.press("p")
        await console.shows("PAUSED", "p resume")
        await console.press(key)
        await console.until(lambda: "PAUSED" not in console.text, "going on")
        assert "p resume" not in console.text


# -- keys that lead back --------------------------------------------------------------------


async def test_an_answered_question_leaves_the_actions_of_an_incident(tmp_path: Path) -> None:
    async with (
        open_session(None, tmp_path / "state", demo=DemoOptions()) as session,
        opened(session, toasts=False) as console,
    ):
        await console.press("5")
        await console.shows("idle")
        await console.press("end", "x")
        await console.shows("preview of 1")
        await console.press("1")
        await console.until(lambda: isinstance(console.app.screen, ModalScreen), "a question")
        await console.press("n", "1")
        await console.until(lambda: isinstance(console.app.screen, FleetScreen), "the fleet")


# -- a host that comes back -----------------------------------------------------------------


async def test_a_host_that_answers_again_is_recovering() -> None:
    gone = incident("unreachable", "v100-02", title="host unreachable", host="v100-02", uuid="",
                    index=None)  # fmt: skip
    gone = replace(gone, severity=Severity.CRITICAL)
    session = FakeSession(triage=FakeTriage((gone,)))
    async with opened(session) as console:
        await console.press("5")
        await console.shows("1 CRIT", "host unreachable")
        assert "recovering" not in console.text
        back = next(host for host in lab() if host.name == "v100-02")
        session.change(replace(back, state=HostState.UP, error=""))
        await console.shows("recovering: host unreachable")
        await console.until(lambda: "1 CRIT" not in console.text, "nothing is critical")


# -- the palette ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "found"),
    [("kill", "Cancel the job (asks)"), ("docs", "Show the keys of this screen"),
     ("10 min ago", "Look at a time"), ("ana", "a100-01 1"), ("theme", "night")],
)  # fmt: skip
async def test_the_palette_answers_words_that_people_type(words: str, found: str) -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))
    async with opened(session) as console:
        await console.press("2", "colon")
        await console.type(words)
        await console.shows(found)
