"""Times as a person says them."""

from __future__ import annotations

from datetime import datetime

import pytest

from gpuconsole.core.util.human_time import clock_words, parse_moment

LATEST = datetime(2026, 9, 21, 14, 30, 0).timestamp()
AT = LATEST - 3600


def said(*parts: int) -> float:
    return datetime(2026, *parts).timestamp()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("03:00", said(9, 21, 3, 0)),
        ("14:29:59", said(9, 21, 14, 29, 59)),
        ("14:31", said(9, 20, 14, 31)),
        ("23:10", said(9, 20, 23, 10)),
        ("yesterday 03:00", said(9, 20, 3, 0)),
        ("Yesterday 18:30", said(9, 20, 18, 30)),
        ("-2h", AT - 7200),
        ("-1h30m", AT - 5400),
        ("- 90 s", AT - 90),
        ("+10m", AT + 600),
        ("-1.5d", AT - 129600),
        ("10m", AT - 600),
        ("10 min ago", AT - 600),
        ("2h30m", AT - 9000),
        ("1 hour 5 minutes ago", AT - 3900),
        ("yesterday 14:00", said(9, 20, 14, 0)),
        ("now", LATEST),
        ("2026-09-20 03:00", said(9, 20, 3, 0)),
        ("2026-09-20T03:00:00Z", 1789873200.0),
    ],
)
def test_a_time_is_understood(words: str, expected: float) -> None:
    assert parse_moment(words, AT, LATEST) == expected


@pytest.mark.parametrize(
    "words", ["", "noon", "25:00", "12:60", "-", "--2h", "ago", "-2", "-2w", "3", "+h"]
)
def test_what_is_no_time_is_said_so(words: str) -> None:
    with pytest.raises(ValueError, match="expected a time such as `03:00`"):
        parse_moment(words, AT, LATEST)


def test_another_day_is_named() -> None:
    assert clock_words(AT, LATEST) == "13:30:00"
    assert clock_words(said(9, 20, 3, 0), LATEST) == "09-20 03:00:00"
