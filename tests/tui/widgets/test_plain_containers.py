"""Containers draw what Textual would draw of them, without asking for each of their lines."""

from __future__ import annotations

from unittest import mock

from rich.style import Style
from textual._styles_cache import StylesCache
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gpuconsole.tui.app import Look
from gpuconsole.tui.widgets.fleet_map import FleetMap
from tests.tui.console import opened
from tests.tui.fake import FakeSession


def cells(strips: list[Strip]) -> list[list[tuple[str, object]]]:
    return [
        [(char, (segment.style or Style()).bgcolor) for segment in strip for char in segment.text]
        for strip in strips
    ]


async def test_what_lies_under_the_map_is_its_background_alone() -> None:
    for look in (Look(), Look(symbols="ascii")):
        async with opened(FakeSession(), look=look) as console:
            under = console.app.screen.query_one(FleetMap).ancestors
            widgets = [node for node in under if isinstance(node, Widget)]
            assert len(widgets) == 5
            for widget in widgets:
                crop = Region(0, 0, *widget.size)
                with mock.patch.object(StylesCache, "render_widget", side_effect=AssertionError):
                    drawn = widget.render_lines(crop)
                assert cells(drawn) == cells(Widget.render_lines(widget, crop)), widget
