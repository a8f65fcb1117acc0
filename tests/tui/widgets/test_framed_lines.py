"""Lines in a frame look as Textual draws them, and are put together only where they changed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace

import pytest
from rich.style import Style
from textual.cache import FIFOCache
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gpuconsole.core.fleet import Host
from gpuconsole.tui.app import Look
from gpuconsole.tui.widgets.fleet_map import FleetMap
from gpuconsole.tui.widgets.framed_lines import FramedLines
from gpuconsole.tui.widgets.panel import Panel
from tests.tui.console import Driven, opened
from tests.tui.fake import FakeSession


def cells(line: Strip) -> list[tuple[str, Style | None]]:
    """Return a line letter by letter: where it is cut into segments is not seen."""
    return [(letter, segment.style) for segment in line for letter in segment.text]


def same_as_textual(console: Driven) -> int:
    """Assert that every widget of framed lines looks as Textual would draw it; returns their
    number."""
    seen = console.app.screen._compositor.visible_widgets
    shown = [each for each in seen if isinstance(each, FramedLines)]
    for widget in shown:
        whole = Region(0, 0, *widget.outer_size)
        ours = widget.render_lines(whole)
        widget._styles_cache.clear()
        theirs = Widget.render_lines(widget, whole)
        assert list(map(cells, ours)) == list(map(cells, theirs)), widget
    return len(shown)


def busier(host: Host) -> Host:
    """Return a host with other figures."""
    return replace(host, devices=tuple(replace(each, utilization=13.0) for each in host.devices))


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (200, 60)])
async def test_every_screen_looks_as_textual_draws_it(size: tuple[int, int]) -> None:
    session = FakeSession()
    async with opened(session, size, Look(tour=False)) as console:
        await console.shows("a100-01")
        assert same_as_textual(console) >= 4
        session.change(busier(session.hosts_now[0]))
        await console.beat()
        await console.shows("13%")
        same_as_textual(console)
        for keys in (
            ("down", "right"),
            ("i",),
            ("i",),
            ("2",),
            ("3",),
            ("5",),
            ("1", "enter"),
            ("enter",),
        ):
            await console.press(*keys)
            same_as_textual(console)
        console.app.theme = "day"
        await console.press("escape")
        same_as_textual(console)


async def test_lines_under_a_tint_are_left_to_textual() -> None:
    async with opened(FakeSession()) as console:
        await console.shows("a100-01")
        panel = console.app.screen.query_one("#inspector", Panel)
        plain = list(map(cells, panel.render_lines(Region(0, 0, *panel.outer_size))))
        panel.styles.tint = "red 40%"
        await console.pilot.pause()
        same_as_textual(console)
        tinted = list(map(cells, panel.render_lines(Region(0, 0, *panel.outer_size))))
        assert tinted != plain


async def test_a_line_that_looks_the_same_is_the_line_of_before() -> None:
    session = FakeSession()
    async with opened(session) as console:
        await console.shows("a100-01")
        fleet_map = console.app.screen.query_one(FleetMap)
        whole = Region(0, 0, *fleet_map.outer_size)
        before = fleet_map.render_lines(whole)
        assert all(map(_is, before, fleet_map.render_lines(whole)))
        session.change(busier(session.hosts_now[0]))
        await console.beat()
        await console.shows("13%")
        after = fleet_map.render_lines(whole)
        other = {place for place in range(len(after)) if after[place] is not before[place]}
        assert other == {2, 3, 4, 5}, "the four devices of the first host, below border and heading"


async def test_rows_are_drawn_again_from_edge_to_edge() -> None:
    """A line of which only the inside is drawn again is cut in two by Textual, each second."""
    async with opened(FakeSession()) as console:
        await console.shows("a100-01")
        fleet_map = console.app.screen.query_one(FleetMap)
        fleet_map._exchange_repaint_regions()
        fleet_map.refresh_rows([3])
        width = fleet_map.outer_size.width
        assert set(fleet_map._exchange_repaint_regions()) == {Region(0, 4, width, 1)}
        fleet_map.refresh_rows([7, 3, 4, 8, 4])
        assert set(fleet_map._exchange_repaint_regions()) == {
            Region(0, 4, width, 2),
            Region(0, 8, width, 2),
        }, "and those that lie together, together"


def _is(one: object, other: object) -> bool:
    return one is other


def reachable(start: object) -> Iterator[object]:
    """Yield what an object refers to in a few steps: as far as a line remembers its parts."""
    seen = [start]
    for _ in range(4):
        seen = [
            each
            for each in gc.get_referents(*seen)
            if isinstance(each, (Strip, FIFOCache, list, dict))
        ]
        yield from seen


async def test_no_line_refers_to_itself() -> None:
    """One that does stays until garbage is searched for: a thousand cells at each paint."""
    session = FakeSession()
    async with opened(session) as console:
        await console.shows("a100-01")
        session.change(busier(session.hosts_now[0]))
        await console.beat()
        await console.shows("13%")
        seen = console.app.screen._compositor.visible_widgets
        lines = []
        for widget in (each for each in seen if isinstance(each, FramedLines)):
            top, _, bottom, _ = widget.styles.gutter
            width, height = widget.outer_size
            lines += widget.render_lines(Region(0, top, width, height - top - bottom))
        assert len(lines) > 20
        for line in lines:
            line.divide([line.cell_length])
            assert all(each is not line for each in reachable(line)), line.text


async def test_a_new_title_is_painted_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reaches the screen a turn later is painted later: the title after the cursor's row."""
    async with opened(FakeSession()) as console:
        await console.shows("a100-01")
        screen, asked = console.app.screen, list[object]()
        post = screen.post_message

        def noted(message: Message) -> bool:
            asked.append(getattr(message, "widget", None))
            return post(message)

        monkeypatch.setattr(screen, "post_message", noted)
        fleet_map, panel = screen.query_one(FleetMap), screen.query_one("#inspector", Panel)
        fleet_map.refresh_rows([3])
        panel.entitle("another host")
        assert set(asked) == {fleet_map, panel}
