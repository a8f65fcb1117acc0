"""Search for a time of day in a log with timestamps at the start of its lines."""

from __future__ import annotations

import re
from collections.abc import Callable

_STAMP = re.compile(
    r"(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ]+)?(?<![\d:])"
    r"(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d):(?P<second>[0-5]\d)(?![\d:])"
)
_LOOKED_AT = 80
"""Characters of a line among which its time is looked for."""
_SKIPPED = 200
"""Lines without a time that are passed over, as those of a traceback, before giving up."""
DAY_S = 86400

Stamp = tuple[int, int]
"""A date as an ascending number, 0 if there is none, and seconds of the day."""


def stamp_of(line: str) -> Stamp | None:
    """Return when a line says that it was written."""
    match = _STAMP.search(line[:_LOOKED_AT])
    if match is None:
        return None
    date = 0
    if match["year"]:
        date = int(match["year"]) * 10000 + int(match["month"]) * 100 + int(match["day"])
    return date, int(match["hour"]) * 3600 + int(match["minute"]) * 60 + int(match["second"])


def read_clock(typed: str) -> int | None:
    """Return `HH:MM` or `HH:MM:SS` as seconds of the day; None when it is neither."""
    stamp = stamp_of(f"{typed}:00" if typed.count(":") == 1 else typed)
    return stamp[1] if stamp is not None and re.fullmatch(r"[\d:]+", typed) else None


def line_at(clock: int, count: int, text: Callable[[int], str]) -> int | None:
    """Return the first of `count` lines written at `clock` (seconds of the day) or later, the last
    time the clock showed it; None when the lines tell no times.

    Times must rise. Lines that tell no date are taken to be of one day's length.
    """

    def stamp(line: int, step: int) -> tuple[Stamp, int] | None:
        for near in range(line, max(-1, min(count, line + step * _SKIPPED)), step):
            if stamp_there := stamp_of(text(near)):
                return stamp_there, near
        return None

    first, last = stamp(0, 1), stamp(count - 1, -1)
    if first is None or last is None:
        return None
    (date, begin), (last_date, end) = first[0], last[0]
    if last_date and clock > end:
        # The clock has not shown it on the last day: the day before is meant.
        last_date = _day_before(last_date, date, count, stamp)

    def key(stamp: Stamp) -> tuple[int, int]:
        return stamp if date else (0, (stamp[1] - begin) % DAY_S)

    wanted = key((last_date, clock))
    if not date and wanted > key((0, end)):
        # Neither shown: the nearer end of the log.
        return 0 if (begin - clock) % DAY_S < (clock - end) % DAY_S else count - 1
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        nearby = stamp(middle, 1)
        if nearby is not None and key(nearby[0]) < wanted:
            low = nearby[1] + 1
        else:
            high = middle
    at = stamp(min(low, count - 1), 1)
    return at[1] if at is not None else count - 1


def _day_before(
    date: int, first: int, count: int, stamp: Callable[[int, int], tuple[Stamp, int] | None]
) -> int:
    """Return the last date before this one on which a line was written, or the first."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high + 1) // 2
        nearby = stamp(middle, 1)
        if nearby is not None and nearby[0][0] < date:
            low = middle
        else:
            high = middle - 1
    nearby = stamp(low, -1)
    return nearby[0][0] if nearby is not None else first
