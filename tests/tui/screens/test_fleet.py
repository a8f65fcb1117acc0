"""The fleet screen: what it shows, and what its keys do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.dom import DOMNode

from gpuconsole.core.fleet import Device, DeviceProcess, Host, HostState
from gpuconsole.core.jobs import JobState
from gpuconsole.tui.app import Look
from gpuconsole.tui.render.fleet_map.layout import Density
from gpuconsole.tui.widgets.fleet_map import FleetMap
from gpuconsole.tui.widgets.input_bar import FilterBar
from tests.tui.console import NARROW, SIZES, WIDE, Driven, opened
from tests.tui.fake import FakeSession, device, idle, job, lab

HOSTILE = "[red]x[/] \x1b[31m\u202eevil 数据"


def fleet_map(console: Driven) -> FleetMap:
    return console.app.screen.query_one(FleetMap)


def crowd(hosts: int, devices: int = 8) -> tuple[Host, ...]:
    return tuple(
        Host(f"n{at:04d}", HostState.UP, labels={"rack": f"r{at // 8:03d}"}, sampled_at=1.0,
             devices=tuple(device(f"{at}-{k}", k, utilization=(at * 7 + k) % 101)
                           for k in range(devices)))
        for at in range(hosts)
    )  # fmt: skip


async def test_the_table_has_model_memory_load_heat_and_power() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))
    async with opened(session) as console:
        async for size in console.at_sizes(SIZES):
            await console.shows("host", "gpu", "model", "memory", "load", "C", "W", "owner")
            first = next(line for line in console.text.splitlines() if "▸" in line)
            for word in ("a100-01", "A100-SXM4-40GB", "20.5/40G", "80%", " 64 ", " 310 ", "resnet"):
                assert word in first
            await console.shows("SIMULATED", "1 DOWN", "No route to host", "lost")
            await console.shows("1 Fleet", "2 Queue", "3 Job", "4 Submit", ": command", "? help")
            assert all(len(line) == size[0] for line in console.text.splitlines())


async def test_status_line_counts() -> None:
    async with opened(FakeSession(), look=Look(site="lab-a")) as console:
        first = console.text.splitlines()[0]
        for word in ("lab-a", "3 up", "9 GPU", "5 busy", "3 free 2x32G 1x24G", "1 bad", "1s"):
            assert word in first


async def test_the_inspector_follows_the_cursor() -> None:
    async with opened(FakeSession()) as console:
        await console.shows("550.54 / 12.4", "python train.py")
        await console.press("G")
        await console.shows("v100-02", "down")
        assert fleet_map(console).current[0].name == "v100-02"  # type: ignore[union-attr]
        await console.press("k", "up")
        await console.shows("gpu 0  Ascend 910")
        await console.press("g", "down", "j", "right", "l")
        assert fleet_map(console).current[1].uuid == "GPU-b0"  # type: ignore[union-attr]
        await console.press("left")
        assert fleet_map(console).current[1].uuid == "GPU-a3"  # type: ignore[union-attr]


async def test_the_inspector_hides_and_a_narrow_terminal_shows_it_on_demand() -> None:
    async with opened(FakeSession()) as console:
        await console.press("i")
        await console.until(lambda: "10.0.0.11" not in console.text)
    async with opened(FakeSession(), NARROW) as console:
        assert "10.0.0.11" not in console.text
        await console.press("i")
        await console.shows("10.0.0.11")


async def test_filter_narrows_as_one_types_and_escape_clears_then_leaves() -> None:
    async with opened(FakeSession()) as console:
        await console.press("slash")
        await console.type("gpu:3090 util<20")
        await console.shows("1 host matches", "rtx-01")
        await console.until(lambda: "ascend-01" not in console.text)
        assert fleet_map(console).shown_hosts == 1
        await console.press("enter")
        assert console.app.focused is fleet_map(console)
        await console.shows("filter: gpu:3090 util<20", "1 of 4 hosts")
        await console.press("escape")
        await console.shows("ascend-01", "4 hosts")
        assert not console.app.screen.query_one(FilterBar).is_open


async def test_escape_goes_back_to_each_screen_once_and_then_rests() -> None:
    async with opened(FakeSession()) as console:
        for number in "21215":
            await console.press(number)
        modes = []
        for _ in range(4):
            await console.press("escape")
            modes.append(console.app.current_mode)
        assert modes == ["fleet", "queue", "queue", "queue"]


async def test_a_filter_that_is_wrong_says_where() -> None:
    async with opened(FakeSession()) as console:
        await console.press("slash")
        await console.type("util<x")
        await console.shows("col 6", "needs a number")
        assert fleet_map(console).shown_hosts == 4, "what is right before it stays"


async def test_a_filter_that_is_wrong_says_so_in_the_language_of_the_console() -> None:
    async with opened(FakeSession(), look=Look(language="zh")) as console:
        await console.press("slash")
        await console.type("gpu:3090 util<x")
        await console.shows("…90 util<x", "第 15 列", "后面要有数字")


async def test_a_filter_without_a_match_says_what_to_do() -> None:
    async with opened(FakeSession()) as console:
        await console.press("slash")
        await console.type("rack:r99")
        await console.shows("No hosts match `rack:r99`.", "esc clears the filter.")


async def test_the_map_makes_room_for_words_and_no_other_widget_is_styled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(FakeSession()) as console:
        styled: list[DOMNode] = []
        screen, update = console.app.screen, console.app.update_styles

        def updating(node: DOMNode, animate: bool = True) -> None:
            styled.append(node)
            update(node, animate=animate)

        monkeypatch.setattr(console.app, "update_styles", updating)
        await console.press("slash")
        for text, empty in (("rack:r99", True), ("\b" * 8, False)):
            for letter in text:
                await console.press("backspace" if letter == "\b" else letter)
            shown = fleet_map(console).display, screen.query_one("#fleet-empty").display
            assert shown == (not empty, empty)
        assert screen not in styled


async def test_every_metric_and_density_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))
    async with opened(session) as console:
        seen = set()
        for _ in range(6):
            seen.add(fleet_map(console).metric)
            for _ in range(4):
                await console.press("minus")
            assert fleet_map(console).drawn_density is Density.HOST_CELL
            for _ in range(4):
                await console.press("plus")
            assert fleet_map(console).drawn_density is Density.DEVICE_LINE
            await console.press("m")
        assert len(seen) == 6
        await console.shows("Fleet: utilisation")


async def test_states_are_glyphs_on_the_dense_map() -> None:
    async with opened(FakeSession()) as console:
        await console.press("minus", "minus")
        await console.until(lambda: fleet_map(console).drawn_density is Density.DEVICE_CELL)
        rows = [line for line in console.text.splitlines() if line.startswith(("│r1", "│r2"))]
        assert "~!" in rows[0]
        assert "x" in rows[1]


async def test_faults_only() -> None:
    async with opened(FakeSession()) as console:
        await console.press("exclamation_mark")
        await console.shows("faults only", "rtx-01", "v100-02")
        await console.until(lambda: "ascend-01" not in console.text)
        await console.press("escape")
        await console.shows("ascend-01")


async def test_only_changed_hosts_are_drawn_again() -> None:
    session = FakeSession()
    async with opened(session) as console:
        rows = range(10)
        drawn = fleet_map(console)._strips
        await console.until(lambda: drawn.keys() >= set(rows), "all rows drawn")
        before = dict(drawn)
        host = session.hosts_now[0]
        session.change(replace(host, devices=(replace(host.devices[0], utilization=11.0),
                                              *host.devices[1:])))  # fmt: skip
        await console.beat()
        await console.shows("11%")
        kept = [row for row in rows if fleet_map(console)._strips[row] is before[row]]
        assert kept == [4, 5, 6, 7, 8, 9]


async def test_the_cursor_stays_on_its_device_when_hosts_come_and_go() -> None:
    session = FakeSession()
    async with opened(session) as console:
        await console.press("G", "up")
        assert fleet_map(console).current[1].uuid == "NPU-c1"  # type: ignore[union-attr]
        session.hosts_now = (Host("aaa", HostState.UP, devices=(idle("n"),)), *lab())
        session.revision += 1
        await console.beat()
        await console.shows("aaa")
        assert fleet_map(console).current[1].uuid == "NPU-c1"  # type: ignore[union-attr]


async def test_pause_freezes_the_picture() -> None:
    session = FakeSession()
    async with opened(session) as console:
        await console.press("p")
        await console.shows("PAUSED")
        session.change(replace(session.hosts_now[2], name="ascend-01", state=HostState.DOWN))
        await console.beat()
        assert "2 DOWN" not in console.text
        await console.press("p")
        await console.shows("2 DOWN")


@pytest.mark.parametrize("size", SIZES)
async def test_an_empty_fleet_says_what_to_do(size: tuple[int, int]) -> None:
    async with opened(FakeSession(hosts_now=()), size) as console:
        await console.shows("No hosts yet.", "gpuconsole init", "gpuconsole demo")
        await console.press("enter", "m", "plus", "minus", "exclamation_mark", "j", "G", "y", "i")


async def test_old_data_is_marked() -> None:
    session = FakeSession(time=1_790_000_012.0)
    async with opened(session) as console:
        await console.shows("12s!")


async def test_hostile_names_are_shown_as_they_are() -> None:
    bad = device("u", processes=(DeviceProcess(7, HOSTILE, 1.0, HOSTILE),), model=HOSTILE)
    host = Host(HOSTILE, HostState.UP, HOSTILE, {"rack": HOSTILE}, devices=(bad,), error=HOSTILE)
    session = FakeSession(hosts_now=(host,), jobs_now=(job(HOSTILE, JobState.RUNNING),))
    async with opened(session, look=Look(site=HOSTILE)) as console:
        await console.shows("[red]x")
        for key in ("minus", "minus", "minus", "minus", "plus", "plus", "plus", "plus"):
            await console.press(key)
        assert "\x1b" not in console.text
        assert "\u202e" not in console.text
        await console.press("enter")
        await console.shows("Fleet > [red]x")
        await console.press("2")
        await console.shows("[red]x")


@pytest.mark.parametrize(("hosts", "expected"), [(400, Density.HALF_BLOCKS),
                                                 (1000, Density.HOST_CELL)])  # fmt: skip
async def test_a_large_fleet_gets_a_density_that_fits(hosts: int, expected: Density) -> None:
    async with opened(FakeSession(hosts_now=crowd(hosts))) as console:
        assert fleet_map(console).drawn_density is expected
        await console.press("G")
        assert fleet_map(console).current[0].name == f"n{hosts - 1:04d}"  # type: ignore[union-attr]
        await console.press("plus", "plus")
        await console.press("pagedown", "pageup", "end", "home")


async def test_click_moves_the_cursor() -> None:
    async with opened(FakeSession()) as console:
        await console.pilot.click(FleetMap, offset=(6, 4))

        def at_it() -> bool:
            return fleet_map(console).current[1].uuid == "GPU-a2"  # type: ignore[union-attr]

        await console.until(at_it)


async def test_a_drained_host_says_so_with_the_reason() -> None:
    session = FakeSession()
    session.change(replace(session.hosts_now[0], drained="drained by ada: new fans"))
    async with opened(session) as console:
        await console.press("enter")
        await console.shows("takes no new jobs: drained by ada")


async def test_host_screen_shows_devices_processes_and_goes_back() -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))
    async with opened(session) as console:
        await console.press("enter")
        await console.shows("Fleet > a100-01 > gpu 0", "4100", "python", "550.54")
        await console.press("down")
        await console.shows("Fleet > a100-01 > gpu 1")
        await console.press("right_square_bracket")
        await console.shows("Fleet > rtx-01")
        await console.press("left_square_bracket", "J")
        await console.shows("Queue > resnet")
        await console.press("escape")
        await console.shows("Fleet > a100-01")
        await console.press("escape")
        await console.shows("4 hosts")


async def test_no_color_and_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))
    for symbols in ("block", "ascii"):
        async with opened(session, WIDE, Look(symbols=symbols)) as console:  # type: ignore[arg-type]
            for keys in (("minus", "minus", "minus"), ("2",), ("3",), ("4",), ("f1",), ("escape",)):
                await console.press(*keys)
            if symbols == "ascii":
                await console.press("escape", "1")
                await console.until(lambda: "a100-01" in console.text)
                assert console.text.isascii()


async def test_a_tiny_terminal_gets_a_sentence() -> None:
    async with opened(FakeSession()) as console:
        async for _ in console.at_sizes(((59, 30), (100, 15), (20, 5))):
            await console.shows("gpuconsole")
            assert "a100-01" not in console.text


def test_a_device_without_any_figure_is_drawn() -> None:
    from gpuconsole.tui.render.device_rows import columns_for, device_line
    from gpuconsole.tui.snapshot import Picture
    from gpuconsole.tui.style.styles import Ink
    from gpuconsole.tui.style.themes import BUILT_IN

    bare = Device("u", 0, "Unheard Of 9000")
    host = Host("h", HostState.UP, devices=(bare,))
    for width in (30, 60, 76, 200):
        pieces = device_line(Ink(BUILT_IN), Picture(), host, bare, columns_for(width))
        words = "".join(text for text, _ in pieces)
        assert "n/a" in words
        assert len(words) <= max(width, 52)


async def test_groups_by_each_label_with_headings_that_sum_up() -> None:
    async with opened(FakeSession()) as console:
        await console.press("b")
        await console.shows("by rack", "rack r1", "2 hosts", "1 of 7 free", "rack r2")
        lines = console.text.splitlines()
        heading = next(at for at, line in enumerate(lines) if "rack r1" in line)
        assert "a100-01" in lines[heading + 1]
        await console.press("G")
        assert fleet_map(console).current[0].name == "v100-02"  # type: ignore[union-attr]
        await console.press("g")
        assert fleet_map(console).current[0].name == "a100-01"  # type: ignore[union-attr]
        for _ in range(4 + 3):
            await console.press("down")
        assert fleet_map(console).current[0].name == "ascend-01", "headings are stepped over"  # type: ignore[union-attr]
        await console.press("minus", "minus")
        await console.shows("rack r1")
        await console.press("right", "right", "down", "up", "pagedown", "pageup")
        await console.press("b")
        await console.shows("model A100-SXM4-40GB", "model RTX 3090", "no model")
        await console.press("b")
        await console.until(lambda: "model A100" not in console.text)


async def test_a_group_follows_its_hosts() -> None:
    session = FakeSession()
    async with opened(session) as console:
        await console.press("b", "minus")
        await console.shows("1 of 7 free")
        quiet = tuple(idle(f"GPU-a{at}", at) for at in range(4))
        session.change(replace(session.hosts_now[0], devices=quiet))
        await console.beat()
        await console.shows("5 of 7 free")


async def test_sorts_by_name_load_free_and_trouble() -> None:
    def first(console: Driven) -> str:
        return fleet_map(console)._shown[0].host.name

    async with opened(FakeSession()) as console:
        seen = []
        for _ in range(5):
            seen.append(first(console))
            await console.press("o")
        assert seen == ["a100-01", "a100-01", "a100-01", "ascend-01", "v100-02"]
        await console.press("o", "o")
        await console.shows("load first")


async def test_a_live_order_does_not_jump_each_second() -> None:
    session = FakeSession()
    async with opened(session) as console:
        await console.press("o", "o")
        quiet = tuple(idle(f"GPU-a{at}", at) for at in range(4))
        session.change(replace(session.hosts_now[0], devices=quiet))
        await console.beat()
        assert fleet_map(console)._shown[0].host.name == "a100-01"
        session.change(session.hosts_now[1], at=session.time + 6)
        await console.beat()
        assert fleet_map(console)._shown[0].host.name == "rtx-01"


@pytest.mark.parametrize("size", SIZES)
async def test_where_do_devices_fit(size: tuple[int, int]) -> None:
    session = FakeSession()
    async with opened(session, size) as console:
        await console.press("w")
        await console.type("2x24")
        await console.press("enter")
        await console.shows("2 x 24 GiB", "1 place", "ascend-01", "gpu 0,1")
        assert fleet_map(console).lit == {"NPU-c0", "NPU-c1"}
        assert fleet_map(console).current[0].name == "ascend-01"  # type: ignore[union-attr]
        await console.press("escape")
        await console.until(lambda: "2 x 24 GiB" not in console.text)
        assert fleet_map(console).lit == frozenset()
        await console.press("w")
        await console.press(*["backspace"] * 4)
        await console.type("nonsense")
        await console.press("enter")
        await console.shows("how many")
        await console.press("escape")
        assert console.app.focused is fleet_map(console)


async def test_where_nothing_fits_the_nearest_is_named() -> None:
    session = FakeSession()
    session.foresight.held = {"NPU-c1": "bo"}
    async with opened(session) as console:
        await console.press("w")
        await console.type("2 x 30 GiB")
        await console.press("enter")
        await console.shows("fits nowhere now", "1 of 2 on ascend-01", "gpu 1 held by bo")


async def test_owners_have_letters_and_a_legend() -> None:
    async with opened(FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))) as console:
        for _ in range(4):
            await console.press("m")
        await console.press("minus", "minus")
        await console.shows("a ana 4", "none", "aaaa")


async def test_free_memory_is_a_number_where_a_host_has_a_line() -> None:
    async with opened(FakeSession(), (200, 60)) as console:
        for _ in range(5):
            await console.press("m")
        await console.press("minus")
        await console.shows("free GiB of each device", "32 32")


async def test_user_me_is_the_one_who_looks() -> None:
    async with opened(FakeSession()) as console:
        await console.press("slash")
        await console.type("user:me")
        await console.shows("1 host matches", "a100-01")


async def test_the_inspector_names_the_free_devices() -> None:
    session = FakeSession()
    busy, *rest = session.hosts_now[0].devices
    quiet = tuple(idle(each.uuid, each.index, peers=each.peers, processes=()) for each in rest)
    session.change(replace(session.hosts_now[0], devices=(busy, *quiet)))
    async with opened(session) as console:
        await console.shows("gpu 1-3 (NVLink)")
        await console.press("G")
        await console.press("k", "k")
        await console.shows("gpu 0,1")


async def test_a_host_wider_than_the_map_ends_at_its_edge() -> None:
    hosts = (*crowd(1, devices=200), *crowd(2)[1:])
    async with opened(FakeSession(hosts_now=hosts), NARROW) as console:
        shown = fleet_map(console)
        for density in (Density.HALF_BLOCKS, Density.DEVICE_CELL):
            shown.density = density
            await console.beat()
            width = shown.size.width
            for line in range(shown.size.height):
                cells = sum(segment.cell_length for segment in shown.render_line(line))
                assert cells == width


@pytest.mark.parametrize(("size", "above"), [((200, 60), True), ((200, 32), False)])
async def test_processes_stand_above_events_where_there_is_height(
    size: tuple[int, int], above: bool
) -> None:
    async with opened(FakeSession(), size) as console:
        await console.shows("processes", "events", "4100")
        processes = console.app.screen.query_one("#fleet-processes")
        events = console.app.screen.query_one("#fleet-events")

        def is_above() -> bool:
            return processes.region.bottom == events.region.y

        await console.until(lambda: is_above() is above, "the panels in their places")
        assert (processes.region.width == events.region.width) is above
