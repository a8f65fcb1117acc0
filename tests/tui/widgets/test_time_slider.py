"""The line of time: where things are on it, at any width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpuconsole.core.events import Event
from gpuconsole.state.recording.archive import Span
from gpuconsole.tui.render.plots.time_slider import TimeView, slider_line
from gpuconsole.tui.style.styles import Ink
from gpuconsole.tui.style.themes import BUILT_IN

NOW = 1_790_000_000.0
INK, PLAIN = Ink(BUILT_IN), Ink(BUILT_IN, "ascii")


def drawn(view: TimeView, width: int = 120, ink: Ink = INK) -> str:
    return "".join(text for text, _ in slider_line(ink, view, width)[0])


def test_what_was_recorded_what_was_not_and_what_happened() -> None:
    spans = (Span(NOW - 3000, NOW - 2000), Span(NOW - 1000, NOW))
    marks = (Event("job", "a", "ended", NOW - 2900), Event("host", "b", "down", NOW - 500, "error"))
    line = drawn(TimeView(NOW - 2400, NOW - 3000, NOW, spans, marks))
    track = line[line.index(" ", 1) + 1 : line.index(" now")]
    assert track.count("█") == track.count("•") == track.count("!") == 1
    assert track.index("•") < track.index("█") < track.index("!")
    assert track.startswith("┈")
    assert "┈" in track[track.index("█") : track.index("!")]
    assert line.rstrip().endswith("‖ 40m00s ago")


def test_trouble_hides_an_event_at_the_same_place_and_not_the_other_way() -> None:
    marks = [Event("host", "b", "down", NOW - 500, "error"), Event("job", "a", "x", NOW - 499)]
    assert "•" not in drawn(TimeView(NOW - 60, NOW - 900, NOW, (), marks))
    assert "!" in drawn(TimeView(NOW - 60, NOW - 900, NOW, (), marks[::-1]))


@pytest.mark.parametrize(
    ("ago", "recorded", "window"),
    [(10, 30, 60), (10, 4000, 900), (100, 130, 300), (850, 4000, 3600), (7200, 9000, 6 * 3600),
     (40 * 3600, 50 * 3600, 3 * 86400)],
)  # fmt: skip
def test_the_line_spans_what_is_needed(ago: float, recorded: float, window: float) -> None:
    first, last = TimeView(NOW - ago, NOW - recorded, NOW).window
    assert (first, last) == (NOW - window, NOW)


def test_a_file_is_shown_from_end_to_end() -> None:
    view = TimeView(NOW - 50, NOW - 7000, NOW, fixed=True, speed=60.0)
    assert view.window == (NOW - 7000, NOW)
    assert drawn(view).rstrip().endswith("▶ 60x  50s to the end")


def test_ascii_alone() -> None:
    marks = (Event("host", "b", "down", NOW - 500, "error"),)
    line = drawn(TimeView(NOW - 60, NOW - 900, NOW, (Span(NOW - 900, NOW),), marks), 100, PLAIN)
    assert line.isascii()


@given(
    st.integers(60, 240),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.lists(st.tuples(st.floats(-2e6, 10), st.floats(0, 1e5)), max_size=5),
    st.lists(st.floats(-2e6, 10), max_size=5),
    st.booleans(),
)
def test_the_line_fills_its_width_and_a_click_goes_where_it_points(
    width: int,
    ago: float,
    recorded: float,
    spans: list[tuple[float, float]],
    marks: list[float],
    fixed: bool,
) -> None:
    view = TimeView(
        NOW - ago,
        NOW - recorded,
        NOW,
        tuple(Span(NOW + at, NOW + at + long) for at, long in spans),
        tuple(Event("job", "a", "b", NOW + at) for at in marks),
        fixed=fixed,
    )
    pieces, track = slider_line(INK, view, width)
    assert sum(cell_len(text) for text, _ in pieces) == width
    assert track.time_at(track.start - 1) is None
    for column in range(track.start, track.start + track.width):
        at = track.time_at(column)
        assert at is not None
        assert track.place_of(at) == column - track.start
