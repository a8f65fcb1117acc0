"""Curves drawn in cells."""

from __future__ import annotations

import math

from gpuconsole.core.util.line_plot import number, plot


def test_a_rising_line_goes_from_the_lower_left_to_the_upper_right() -> None:
    drawn = plot([[(0, 0.0), (10, 5.0)]], 10, 4)
    assert drawn.rows[0][-1][0] != " "
    assert drawn.rows[-1][0][0] != " "
    assert drawn.rows[0][0] == (" ", -1)
    assert (drawn.low, drawn.high, drawn.first, drawn.last) == (0.0, 5.0, 0, 10)
    columns = zip(*drawn.rows, strict=True)
    assert all(any(glyph != " " for glyph, _ in column) for column in columns), "no gaps"


def test_the_first_curve_is_in_front() -> None:
    drawn = plot([[(0, 1.0), (1, 1.0)], [(0, 1.0), (1, 2.0)]], 8, 3, ascii_only=True)
    assert drawn.rows[-1][0] == ("*", 0)
    assert drawn.rows[0][-1] == ("+", 1)


def test_values_that_are_no_numbers_are_left_out_and_nothing_is_drawn_of_nothing() -> None:
    empty = plot([[(0, math.nan), (1, math.inf)], []], 5, 2)
    assert {cell for row in empty.rows for cell in row} == {(" ", -1)}
    one = plot([[(3, 2.0)]], 5, 3)
    assert sum(glyph != " " for row in one.rows for glyph, _ in row) == 1


def test_a_wild_value_does_not_press_the_curve_flat() -> None:
    points = [(float(n), 1.0 + n / 100) for n in range(100)]
    points[3] = (3.0, 1e9)
    drawn = plot([points], 20, 5)
    assert drawn.cut
    assert drawn.high < 3
    assert not plot([points[4:]], 20, 5).cut


def test_numbers_are_short() -> None:
    assert [number(one) for one in (None, math.nan, 0.0, 1.23456, 12345.6, 1.5e-7, 2e9)] == [
        "n/a", "nan", "0", "1.235", "12346", "1.50e-07", "2.00e+09",
    ]  # fmt: skip
    assert all(len(number(one)) <= 10 for one in (-1.23456e-300, -99999.9, 1e308, -0.00123456))
