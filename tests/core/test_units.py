"""Sizes, durations and times as people and documents read them."""

from __future__ import annotations

import pytest

from gpuconsole.core.units import (
    format_duration,
    format_mib,
    format_step,
    iso_utc,
    parse_time,
)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "n/a"),
        (0.0, "0.0 MiB"),
        (9.44, "9.4 MiB"),
        (640.2, "640 MiB"),
        (1024.0, "1.0 GiB"),
        (24268.8, "23.7 GiB"),
        (-2048.0, "-2.0 GiB"),
    ],
)
def test_sizes(size: float | None, text: str) -> None:
    assert format_mib(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (-3.0, "0s"),
        (59.9, "59s"),
        (60.0, "1m00s"),
        (3599.0, "59m59s"),
        (3600.0, "1h00m"),
        (8040.0, "2h14m"),
        (86399.0, "23h59m"),
        (86400.0, "1d00h"),
        (367200.0, "4d06h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert format_duration(seconds) == text


def test_times_are_utc_with_milliseconds() -> None:
    assert iso_utc(0.0) == "1970-01-01T00:00:00.000Z"
    assert iso_utc(1_700_000_000.1234) == "2023-11-14T22:13:20.123Z"
    assert iso_utc(None) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0.0 µs"),
        (9.49e-6, "9.5 µs"),
        (9.5e-6, "10 µs"),
        (850e-6, "850 µs"),
        (999.4e-6, "999 µs"),
        (999.6e-6, "1.0 ms"),
        (9.49e-3, "9.5 ms"),
        (42e-3, "42 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (9.49, "9.5 s"),
        (9.5, "10 s"),
        (60.0, "60 s"),
    ],
)
def test_steps(seconds: float | None, text: str) -> None:
    assert format_step(seconds) == text


def test_times_are_read_with_a_zone_and_with_the_letter_for_utc() -> None:
    expected = 1894039200.0
    assert parse_time("2030-01-07T18:00:00Z") == expected
    assert parse_time(" 2030-01-08T02:00+08:00 ") == expected


@pytest.mark.parametrize("text", ["", "noon", "2030-13-01", "Z"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a time such as `2030-01-31T18:00\+08:00`$"):
        parse_time(text)
