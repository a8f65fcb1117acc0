"""Sizes, durations and times as people and documents read them."""

from __future__ import annotations

import pytest

from gpuconsole.core.units import format_duration, format_mib, iso_utc, mib


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
        (8040.0, "2h14m"),
        (367200.0, "4d06h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert format_duration(seconds) == text


def test_times_are_utc_with_milliseconds() -> None:
    assert iso_utc(0.0) == "1970-01-01T00:00:00.000Z"
    assert iso_utc(1_700_000_000.1234) == "2023-11-14T22:13:20.123Z"
    assert iso_utc(None) is None


def test_bytes_become_mebibytes() -> None:
    assert mib(3 * 2**20) == 3.0
