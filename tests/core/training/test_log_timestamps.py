"""Moments in a log are found by the clock, with dates and without."""

from __future__ import annotations

import pytest

from gpuconsole.core.training.log_timestamps import line_at, read_clock, stamp_of


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("02:11:42 INFO step", (0, 7902)),
        ("2026-11-21 02:11:42,123 INFO", (20261121, 7902)),
        ("[2026-11-21T02:11:42Z] r0", (20261121, 7902)),
        ("ratio 1:02:03:04 is no time", None),
        ("25:00:00 is none", None),
        ("x" * 100 + "02:11:42", None),
        ("loss 0.4", None),
    ],
)
def test_a_line_tells_when_it_was_written(line: str, expected: tuple[int, int] | None) -> None:
    assert stamp_of(line) == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("02:14", 8040),
        ("02:14:51", 8091),
        ("2:14", None),
        ("1204", None),
        ("99:00", None),
        ("", None),
    ],
)
def test_a_clock_is_read(typed: str, expected: int | None) -> None:
    assert read_clock(typed) == expected


def clock(second: int) -> str:
    return f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"


def found(lines: list[str], typed: str) -> int | None:
    wanted = read_clock(typed)
    assert wanted is not None
    return line_at(wanted, len(lines), lines.__getitem__)


def test_the_first_line_at_the_moment_is_found_among_lines_without_times() -> None:
    lines = []
    for second in range(36000, 36600):
        lines += [f"{clock(second)} step", "  a line of a traceback", "  another"]
    assert found(lines, "10:00") == 0
    assert found(lines, "10:05:00") == 900
    assert found(lines, "10:09:59") == 1797
    assert found(lines, "09:30") == 0, "before the log began"
    assert found(lines, "11:00") == len(lines) - 1, "after its end"


def test_a_log_over_midnight_is_one_day_long() -> None:
    lines = [f"{clock(second)} step" for second in range(22 * 3600, 26 * 3600, 60)]
    assert found(lines, "23:30") == 90
    assert found(lines, "01:00") == 180


def test_with_dates_the_last_such_moment_is_meant() -> None:
    lines = [f"2026-11-{day} {hour:02}:00:00 x" for day in (20, 21, 22) for hour in range(24)][:66]
    assert found(lines, "03:00") == 51
    assert found(lines, "20:00") == 44, "the last day ends before"


@pytest.mark.parametrize("lines", [[], ["loss 1", "loss 2"]])
def test_lines_without_times_have_no_moments(lines: list[str]) -> None:
    assert found(lines, "03:00") is None
