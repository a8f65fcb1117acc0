"""Pure drawing: every line has exactly the width it was given, whatever is in it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpuconsole.core.devices.health_levels import Condition, condition
from gpuconsole.core.fleet import FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import JobState
from gpuconsole.tui.keymap.registry import in_area
from gpuconsole.tui.render.device import Lines, marks_of, sample_lines
from gpuconsole.tui.render.device_rows import columns_for
from gpuconsole.tui.render.fleet_map.layout import Density, Shown, hosts_of, layout, natural_density
from gpuconsole.tui.render.fleet_map.metrics import METRICS, Cells
from gpuconsole.tui.render.fleet_map.owners import Owners
from gpuconsole.tui.render.fleet_map.rows import MapView, draw_row
from gpuconsole.tui.render.frame import Marks, footer_line, nav_line, status_line
from gpuconsole.tui.render.host import device_lines
from gpuconsole.tui.render.text_cells import fit, wrapped
from gpuconsole.tui.snapshot import Gallery, Picture
from gpuconsole.tui.style.styles import Ink
from gpuconsole.tui.style.themes import BUILT_IN
from tests.tui.fake import FakeSession, device, job

INK = Ink(BUILT_IN)


def width_of(pieces: list[tuple[str, object]]) -> int:
    return sum(cell_len(text) for text, _ in pieces)


@given(st.text(max_size=60), st.integers(0, 40))
def test_fit_is_exact(text: str, width: int) -> None:
    assert cell_len(fit(text, width)) == width
    assert cell_len(fit(text, width, "right")) == width


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200), st.integers(8, 60))
def test_wrapped_lines_stay_within_their_width(text: str, width: int) -> None:
    assert all(cell_len(line) <= width for line in wrapped(text, width))


def test_wrapped_loses_no_word() -> None:
    sentence = "one two " + "x" * 50 + " three 数据数据数据"
    joined = "".join(wrapped(sentence, 12)).replace(" ", "")
    assert joined == sentence.replace(" ", "")


@pytest.mark.parametrize("density", list(Density))
@pytest.mark.parametrize("width", [56, 74, 116, 196])
@pytest.mark.parametrize("symbols", ["block", "ascii"])
def test_rows_of_the_map_fit_the_width(density: Density, width: int, symbols: str) -> None:
    session = FakeSession(jobs_now=(job("resnet", JobState.RUNNING),))
    picture = Gallery().picture(session.snapshot(), session.jobs(), session.now())
    shown = [Shown(host, host.devices) for host in picture.snapshot.hosts]
    ink = Ink(BUILT_IN, symbols)  # type: ignore[arg-type]
    placed = layout(shown, density, width)
    columns = columns_for(width - 3)
    for metric in METRICS:
        owners = Owners()
        cells = Cells(ink, owners)
        view = MapView(
            ink, picture, shown, hosts_of(shown), placed, metric.name, columns, width, cells, owners
        )
        for row in placed.rows:
            for cursor in (None, (row.hosts[0], 0)):
                drawn = width_of(draw_row(view, row, cursor))  # type: ignore[arg-type]
                if density < Density.HOST_LINE:
                    assert drawn == max(width, placed.cells(row))
                else:
                    assert drawn <= max(width, 57)


@pytest.mark.parametrize("density", [Density.HALF_BLOCKS, Density.DEVICE_CELL])
def test_a_row_of_cells_is_as_wide_as_was_laid_out(density: Density) -> None:
    """Of a host wider than the map, and of one that has got more devices under a filter."""
    card = FakeSession().hosts_now[0].devices[0]
    few, many = (
        Host("h", HostState.UP, devices=tuple(replace(card, uuid=str(at)) for at in range(count)))
        for count in (2, 64)
    )
    ink, owners = Ink(BUILT_IN), Owners()
    for laid, drawn, width in ((many, many, 20), (few, many, 20), (few, few, 40)):
        placed = layout([Shown(laid, laid.devices)], density, width)
        shown = [Shown(drawn, drawn.devices)]
        view = MapView(
            ink,
            Picture(),
            shown,
            [drawn],
            placed,
            "utilisation",
            (),
            width,
            Cells(ink, owners),
            owners,
        )
        for cursor in (None, (0, 0)):
            row = draw_row(view, placed.rows[0], cursor)
            assert width_of(row) == max(width, placed.cells(placed.rows[0]))  # type: ignore[arg-type]


@given(st.integers(1, 400), st.integers(20, 200), st.integers(5, 60))
def test_every_host_has_a_row(hosts: int, width: int, height: int) -> None:
    one = FakeSession().hosts_now[0]
    shown = [Shown(one, one.devices)] * hosts
    density = natural_density(shown, width, height)
    placed = layout(shown, density, width)
    assert sorted({host for row in placed.rows for host in row.hosts}) == list(range(hosts))


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_the_frame_fits_the_width(width: int) -> None:
    session = FakeSession()
    picture = Gallery().picture(session.snapshot(), session.jobs(), session.now())
    marks = Marks(True, True, True, "a-site-with-a-long-name")
    assert width_of(status_line(INK, picture, marks, width)) <= max(width, 60)  # type: ignore[arg-type]
    assert width_of(nav_line(INK, picture, "fleet", "x" * 300, width)) == width  # type: ignore[arg-type]
    for area in ("fleet", "queue", "job", "submit"):
        keys = [key for key in in_area(area) if key.footer]
        line = footer_line(INK, keys, width, form=area == "submit")
        assert width_of(line) <= width  # type: ignore[arg-type]
        assert "help" in line[-1][0]


def test_nothing_is_set_apart_from_what_was_left_out() -> None:
    session = FakeSession()
    picture = Gallery().picture(session.snapshot(), session.jobs(), session.now())
    cut = 0
    for width in range(40, 200):
        words = "".join(text for text, _ in status_line(INK, picture, Marks(True), width))
        cut += words.count("│") < 2
        assert not re.search(r"│ *$|│  +", words), words
    assert cut, "at some width something was left out"


def test_where_one_is_stays_when_there_is_room_for_part_of_the_way() -> None:
    crumbs = "Fleet > a100-01 > gpu 3"
    roomy = "".join(text for text, _ in nav_line(INK, Picture(), "fleet", crumbs, 120))
    narrow = "".join(text for text, _ in nav_line(INK, Picture(), "fleet", crumbs, 70))
    assert roomy.endswith("Fleet > a100-01 > gpu 3 ")
    assert narrow.endswith(" a100-01 > gpu 3 ")
    assert "Fleet >" not in narrow


def test_a_device_told_by_a_tool_says_how_old_its_reading_is_and_what_the_tool_calls_it() -> None:
    session = FakeSession()
    now = session.now()
    host = next(one for one in session.snapshot().hosts if one.name == "ascend-01")
    reported = replace(host.devices[0], sampled_at=now - 42, health="Warning", power_limit_w=None)
    host = replace(host, devices=(reported, *host.devices[1:]))
    picture = Gallery().picture(FleetSnapshot(1, now, (host,)), (), now)

    def words(lines: Lines) -> str:
        return "\n".join("".join(text for text, _ in line) for line in lines)

    beside = words(device_lines(INK, picture, reported, 60))
    assert "42s ago" in beside
    assert "Its own tool calls it Warning." in beside
    screen = words(sample_lines(INK, picture, host, reported, 120))
    assert "42s ago" in screen
    assert "calls it Warning" in screen
    assert "MIG" not in screen
    assert condition(host, reported) is Condition.FAULT
    other = words(sample_lines(INK, picture, host, replace(reported, sampled_at=None), 120))
    assert "ago" not in other


@pytest.mark.parametrize(("own", "share"), [(None, 0.7), (0.5, 0.5), (0.9, 0.7)])
def test_the_limit_of_a_device_is_the_one_that_jobs_are_placed_by(
    own: float | None, share: float
) -> None:
    card = replace(device("GPU-0"), memory_total_mib=10_000.0)
    running = job("x", JobState.RUNNING, estimate_mib=6000.0)
    running = replace(running, task=replace(running.task, memory_threshold=own))
    predicted, limit = marks_of(card, "memory_used_mib", running, 0.7)
    assert limit.value == share * 10_000.0
    assert predicted.bad is (share < 0.6)
    assert [mark.value for mark in marks_of(card, "memory_used_mib", None, 0.7)] == [7000.0]
