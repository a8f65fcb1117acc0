"""The host and the device in full: figures, history, topology, processes, and ending those."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.fleet import Device, DeviceProcess, Host, HostState
from gpuconsole.core.history import History, Series
from gpuconsole.core.jobs import JobState
from gpuconsole.errors import RefusedError
from gpuconsole.session.factory import DemoOptions, open_session
from gpuconsole.tui.app import Look
from gpuconsole.tui.render.plots.time_plot import Mark, Scale, plot_lines
from gpuconsole.tui.render.topology import topology_lines
from gpuconsole.tui.screens.device import DeviceScreen
from gpuconsole.tui.screens.dialogs.kill_process import SignalScreen
from gpuconsole.tui.style.styles import Ink
from gpuconsole.tui.style.themes import BUILT_IN
from gpuconsole.tui.widgets.fleet_map import FleetMap
from gpuconsole.tui.widgets.row_list import Rows
from tests.tui.console import NARROW, SIZES, WIDE, Driven, opened
from tests.tui.fake import NOW, FakeSession, device, job, lab

LARGE = (200, 60)
HOSTILE = "[red]x[/] \x1b[31m\u202eevil 数据"


class Remembered:
    """A history that a test has fed."""

    def __init__(self, hosts: Sequence[Host], seconds: int = 240) -> None:
        self._history = History()
        for second in range(seconds):
            at = NOW - seconds + second
            wave = 50 + 45 * math.sin(second / 20)
            moved = [
                replace(
                    host, sampled_at=at,
                    devices=tuple(replace(each, utilization=wave) for each in host.devices),
                )
                for host in hosts
            ]  # fmt: skip
            self._history.feed(moved)

    def device(self, uuid: str, metric: Any, span_s: float) -> Series:
        return self._history.device(uuid, metric, NOW - span_s, NOW)

    def host(self, name: str, metric: Any, span_s: float) -> Series:
        return self._history.host(name, metric, NOW - span_s, NOW)


def session(**more: Any) -> FakeSession:
    made = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),), **more)
    made.history = Remembered(made.hosts_now)  # type: ignore[assignment]
    return made


async def to_device(console: Driven) -> None:
    await console.press("enter", "enter")
    await console.until(lambda: isinstance(console.app.screen, DeviceScreen))


# -- plots ------------------------------------------------------------------------------------


def drawn(
    series: Series, width: int = 40, height: int = 5, symbols: str = "block", **more: Any
) -> str:
    ink = Ink(BUILT_IN, symbols)  # type: ignore[arg-type]
    scale = Scale(100.0, lambda value: f"{value:.0f}%")
    lines = plot_lines(ink, series, scale, width, height, **more)
    assert len(lines) == height
    assert all(style is not None for line in lines for _, style in line)
    return "\n".join("".join(text for text, _ in line) for line in lines)


def ramp(top: float = 100.0) -> Series:
    values = [top * step / 33 for step in range(34)]
    times = [float(step) for step in range(34)]
    return Series(0.0, 34.0, times, values, values, values, [1.0] * 34)


GOLDEN = """\
 100%┤                          ▁▂▃▄▅▆▇█
     ┤                  ▁▂▃▄▅▆▇█████████
     ┤         ▁▂▃▄▅▆▇██████████████████
   0%┤▁▁▂▃▄▅▆▇██████████████████████████
      -34s                      now 100%"""


def test_a_ramp_as_golden_text() -> None:
    assert drawn(ramp()) == GOLDEN
    assert "peak 100% at" in drawn(ramp(), width=60)


def test_plain_characters_alone_in_ascii() -> None:
    text = drawn(ramp(), symbols="ascii", marks=[Mark(85.0, "limit")])
    assert text.isascii()
    assert "#" in text
    assert "- limit -" in text


def test_marks_are_named_where_the_curve_is_not() -> None:
    low = ramp(20.0)
    text = drawn(low, height=11, marks=[Mark(95.0, "predicted", bad=True), Mark(85.0, "limit")])
    assert "─ predicted ─" in text.splitlines()[0]
    assert "─ limit ─" in text.splitlines()[1]


def test_two_marks_in_one_row_show_the_first() -> None:
    text = drawn(ramp(20.0), height=3, marks=[Mark(95.0, "first"), Mark(94.0, "second")])
    assert "first" in text
    assert "second" not in text


@pytest.mark.parametrize("width", [9, 20, 60, 200])
@pytest.mark.parametrize("height", [2, 3, 12])
def test_a_plot_fits_its_box(width: int, height: int) -> None:
    for line in drawn(ramp(), width, height).splitlines():
        assert len(line) <= max(width, 14)


def test_nothing_told_says_so() -> None:
    assert "No history yet" in drawn(Series(0.0, 10.0))
    gap = Series(0.0, 10.0, [0.0], [None], [None], [None], [1.0])
    assert "No history yet" in drawn(gap)
    whole = drawn(Series(0.0, 10.0), width=24, height=5)
    assert " ".join(whole.split()) == "No history yet: it is kept while the console is open."
    assert max(len(line) for line in whole.splitlines()) <= 24


# -- topology ---------------------------------------------------------------------------------


def matrix(host: Host, width: int = 80) -> str:
    ink = Ink(BUILT_IN)
    return "\n".join("".join(text for text, _ in line) for line in topology_lines(ink, host, width))


def test_links_stand_in_a_matrix_with_a_legend() -> None:
    text = matrix(lab()[0])
    assert text.splitlines()[1].split() == ["gpu", "0", "·", "NV12", "NV12", "NV12", "-"]
    assert "NVLink" in text
    assert "SYS" not in text, "only what is seen is explained"


def test_a_host_without_links_says_so() -> None:
    assert "does not tell" in matrix(lab()[2])


def test_many_devices_are_cut_and_counted() -> None:
    peers = lab()[0].devices[0].peers
    host = Host("h", HostState.UP, devices=tuple(
        device(f"GPU-a{at}", at, peers=peers) for at in range(20)))  # fmt: skip
    assert "and 4 more" in matrix(host, 200)
    assert all(len(line) <= 60 for line in matrix(host, 60).splitlines())


# -- the screens ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [*SIZES, LARGE])
async def test_host_shows_processes_topology_history_and_events(size: tuple[int, int]) -> None:
    async with opened(session(), size) as console:
        await console.press("enter")
        await console.shows("processes", "4100", "resnet")
        if size != NARROW:
            await console.shows("events")
        if size != LARGE:
            await console.press("f6")
            if size == NARROW:
                await console.shows("events")
                await console.press("f6")
                await console.shows("550.54", "ram")
                await console.press("f6")
            await console.shows("topology", "NV12", "NVLink")
            await console.press("f6")
        await console.shows("cpu %", "memory GiB", "now 37%")
        await console.press("f6")
        await console.shows("4100")
        assert all(len(line) == size[0] for line in console.text.splitlines())


@pytest.mark.parametrize("size", [*SIZES, LARGE])
async def test_device_shows_sample_plots_and_processes(size: tuple[int, int]) -> None:
    async with opened(session(), size) as console:
        await to_device(console)
        await console.shows("Fleet > a100-01 > gpu 0", "GPU-a0", "312 TFLOPS", "NV12")
        await console.shows("utilisation %, last 5 minutes", "peak 95%", "4100", "python")
        await console.shows("resnet of ana")
        if size == NARROW:
            assert "temperature C" not in console.text
            await console.press("m")
            await console.shows("memory GiB, last 5 minutes")
        await console.shows("limit 34.0 GiB", "predicted 17.6 GiB")
        await console.press("t")
        await console.shows("last 1 hour")
        await console.press("t", "t")
        await console.shows("last 5 minutes")
        await console.press("right_square_bracket")
        await console.shows("gpu 1", "GPU-a1", "4101")
        await console.press("left_square_bracket")
        await console.shows("4100")
        await console.press("escape")
        await console.shows("Fleet > a100-01 > gpu 0", "processes")


async def test_one_figure_gets_all_the_room_and_gives_it_back() -> None:
    async with opened(session()) as console:
        await to_device(console)
        await console.shows("utilisation %", "power W")
        await console.press("m", "m")
        await console.until(lambda: "power W" not in console.text)
        await console.shows("memory GiB")
        await console.press("m", "m", "m")
        await console.shows("utilisation %", "memory GiB", "temperature C", "power W")


async def test_the_owner_is_one_key_away() -> None:
    async with opened(session()) as console:
        await to_device(console)
        await console.press("J")
        await console.shows("Queue > resnet")
        await console.press("escape")
        await console.shows("Fleet > a100-01 > gpu 0")
        await console.press("right_square_bracket", "J")
        await console.toast("No job of this queue")


async def test_trouble_is_told_in_words_with_what_to_do() -> None:
    made = session()
    bad = replace(made.hosts_now[0].devices[0], xid=79, ecc_uncorrected=2, throttle=("hw-thermal",))
    made.change(replace(made.hosts_now[0], devices=(bad, *made.hosts_now[0].devices[1:])))
    async with opened(made, LARGE) as console:
        await to_device(console)
        await console.shows("XID 79", "bus", "2 memory errors", "Reset the device", "fans")


async def test_a_device_that_leaves_the_picture_is_told() -> None:
    made = session()
    async with opened(made) as console:
        await to_device(console)
        made.change(replace(made.hosts_now[0], devices=()))
        await console.beat()
        await console.shows("not in the picture any more")
        await console.press("K", "c", "m", "t", "right_square_bracket")
        await console.press("escape")
        await console.press("enter")
        await console.toast("no device under the cursor")


# -- ending what runs -------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_ones_own_process_gets_the_chosen_signal(size: tuple[int, int]) -> None:
    made = session()
    async with opened(made, size) as console:
        await to_device(console)
        await console.press("K")
        await console.shows("Signal 4100?", "python train.py", "resnet", "KILL ends it at once")
        await console.press("enter")
        assert made.processes.signals == [], "the focus is on keeping it"
        await console.press("K", "tab", "tab", "tab", "enter")
        await console.until(lambda: made.processes.signals)
        await console.toast("SIGKILL was sent to 4100")
        await console.press("K", "y")
        await console.until(lambda: len(made.processes.signals) == 2)
        assert made.processes.signals == [("a100-01", 4100, "KILL"), ("a100-01", 4100, "TERM")]


async def test_somebody_elses_process_needs_the_name_typed() -> None:
    made = session(user="bo")
    async with opened(made) as console:
        await to_device(console)
        await console.press("K", "y")
        await console.shows("SIGTERM to a process of ana?", "not yours")
        await console.type("bob")
        await console.press("enter")
        assert made.processes.signals == []
        await console.press("backspace", "backspace", "backspace")
        await console.type("ana")
        await console.press("enter")
        await console.until(lambda: made.processes.signals)


async def test_what_is_refused_is_told() -> None:
    made = session()
    made.processes.error = RefusedError("Not permitted", "Not yours.", "Ask ana.")
    async with opened(made) as console:
        await to_device(console)
        await console.press("K", "y")
        await console.toast("Ask ana.")


async def test_stopping_the_container_of_a_job_says_it_is_cancelled() -> None:
    made = session()
    async with opened(made) as console:
        await to_device(console)
        await console.press("c")
        await console.shows("Stop the container of resnet?", "It is cancelled")
        await console.press("n")
        assert made.processes.stopped == []
        await console.press("c", "y")
        await console.until(lambda: made.processes.stopped)
        assert made.processes.stopped == [("a100-01", "c" * 64)]


async def test_a_process_without_a_container_is_pointed_to_the_signal() -> None:
    made = session()
    bare = DeviceProcess(77, "bo", 900.0, "python -m ipykernel")
    alone = replace(made.hosts_now[0].devices[0], processes=(bare,))
    made.change(replace(made.hosts_now[0], devices=(alone, *made.hosts_now[0].devices[1:])))
    async with opened(made) as console:
        await to_device(console)
        await console.press("c")
        await console.toast("K signals it")


async def test_a_foreign_container_needs_the_owners_name() -> None:
    made = session(user="bo")
    made.jobs_now = ()
    async with opened(made) as console:
        await to_device(console)
        await console.press("c")
        await console.shows("Stop the container of ana?", "no job of this queue", "Type `ana`")
        await console.type("ana")
        await console.press("enter")
        await console.until(lambda: made.processes.stopped)


@pytest.mark.parametrize("size", SIZES)
async def test_on_a_free_device_no_footer_offers_a_signal_and_the_key_says_why(
    size: tuple[int, int],
) -> None:
    free = FakeSession(hosts_now=lab()[2:3])
    busy = FakeSession(hosts_now=lab()[:1])
    for keys in ([], ["enter"], ["enter", "enter"]):
        async with opened(free, size) as console:
            await console.press(*keys)
            assert "K signal" not in console.text
            assert "J job" not in console.text
            await console.press("K")
            await console.toast("No process")
        async with opened(busy, size) as console:
            await console.press(*keys)
            await console.shows("K signal")


async def test_the_footer_of_the_fleet_follows_the_cursor_at_once() -> None:
    busy, _, free, _ = lab()
    async with opened(FakeSession(hosts_now=(busy, free))) as console:
        await console.shows("K signal")
        await console.press(*["down"] * len(busy.devices))
        assert console.app.screen.query_one(FleetMap).current[0] == free
        assert "K signal" not in console.text
        await console.press("up")
        assert "K signal" in console.text


async def test_read_only_has_no_such_keys() -> None:
    made = session(read_only=True)
    async with opened(made) as console:
        await to_device(console)
        await console.press("K", "c")
        assert not isinstance(console.app.screen, SignalScreen)
        assert "K signal" not in console.text


@pytest.mark.parametrize("symbols", ["block", "ascii"])
async def test_no_color_ascii_and_hostile_names(
    symbols: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    bad = Device(
        "u", 0, HOSTILE, memory_total_mib=1000.0, error=HOSTILE, throttle=(HOSTILE,),
        processes=(DeviceProcess(7, HOSTILE, 1.0, HOSTILE, "d" * 64),),
    )  # fmt: skip
    host = Host(HOSTILE, HostState.UP, HOSTILE, {"rack": HOSTILE}, devices=(bad,))
    made = FakeSession(hosts_now=(host,))
    for size in (WIDE, NARROW):
        async with opened(made, size, Look(symbols=symbols)) as console:  # type: ignore[arg-type]
            await console.press("enter")
            for _ in range(4):
                await console.press("f6")
            await to_device_from_host(console)
            await console.shows("[red]x")
            await console.press("K")
            await console.shows("Signal 7?")
            await console.press("escape", "c")
            await console.shows("Stop the container")
            await console.press("escape")
            assert "\x1b" not in console.text
            assert "\u202e" not in console.text


async def to_device_from_host(console: Driven) -> None:
    await console.press("enter")
    await console.until(lambda: isinstance(console.app.screen, DeviceScreen))


async def test_in_the_simulated_lab_a_signalled_process_goes_away(tmp_path: Path) -> None:
    async with (
        open_session(None, tmp_path / "state", demo=DemoOptions()) as real,
        opened(real) as console,
    ):
        await console.press("slash")
        await console.type("process:ipykernel")
        await console.press("enter")
        await to_device(console)
        await console.shows("ipykernel")
        await console.press("K", "y")
        await console.shows("Type `")
        found = [p for h in real.snapshot().hosts for d in h.devices for p in d.processes]
        owner = next(process.user for process in found if "ipykernel" in process.command)
        await console.type(owner)
        await console.press("enter")
        await console.shows("no process holds memory")


async def test_memory_links_energy_and_division_are_shown() -> None:
    made = session()
    reported = replace(
        made.hosts_now[0].devices[0], ecc_uncorrected=0, ecc_corrected=41, retired_pages=2,
        remap_pending=True, nvlinks_up=11, nvlinks_down=1, nvlink_errors=7, energy_j=7.2e6,
        mig=True, clock_notes=("application-clocks",),
    )  # fmt: skip
    slice_ = replace(
        made.hosts_now[0].devices[1], uuid="MIG-1", parent_uuid=reported.uuid, mig_profile="1g.5gb"
    )
    made.change(replace(made.hosts_now[0], devices=(reported, slice_)))
    async with opened(made, LARGE) as console:
        await to_device(console)
        await console.shows("0 errors, 41 corrected", "2 replaced, reset it", "11 of 12, 7 errors",
                            "2.0 kWh", "cut into slices", "still in use",
                            "set for applications")  # fmt: skip
        await console.press("]")
        await console.shows("a slice, 1g.5gb")


async def test_the_plots_take_what_the_processes_leave() -> None:
    async with opened(session(), LARGE) as console:
        await to_device(console)
        rows = console.app.screen.query_one(Rows)
        await console.until(lambda: rows.size.height == 3, "one process, and no less than a box")
        assert console.app.screen.query_one("#device-plots").size.height > 36
