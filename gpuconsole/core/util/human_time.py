"""Times as a person says them: `03:00`, `-2h`, `yesterday 18:30`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from gpuconsole.core.units import parse_time

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BEFORE = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_AGO = re.compile(rf"{_BEFORE.pattern}(?:ago)?")
_LONG_UNITS = re.compile(
    r"(?<=[\d\s])(s|m|h|d)(?:econds?|ecs?|inutes?|ins?|ours?|rs?|ays?)\b", re.IGNORECASE
)
"""Units as people write them out; the first letter says which."""
_OF_DAY = re.compile(r"(yesterday\s+)?(\d{1,2}):(\d{2})(?::(\d{2}))?")
_EXPECTED = "expected a time such as `03:00`, `yesterday 18:30`, `10m`, `-2h` or `2030-01-31 03:00`"


def parse_moment(text: str, at: float, latest: float) -> float:
    """Return the time, seconds since the epoch, that a person means.

    `-2h30m`, `10m`, `10 min ago` and `+10m` count from `at`, the moment one looks at; without a
    sign before it. A time of day is the last such
    before `latest` on this machine's clock. Anything else is ISO 8601. ValueError, worded for a
    person, when it is none of these.
    """
    words = text.strip().lower()
    if words == "now":
        return latest
    later, rest = words.startswith("+"), _LONG_UNITS.sub(r"\1", words.lstrip("+-"))
    rest = rest.replace(" ", "")
    if _AGO.fullmatch(rest) and len(words) - len(words.lstrip("+-")) <= 1:
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(rest))
        return at + seconds if later else at - seconds
    of_day = _OF_DAY.fullmatch(words)
    if of_day is not None:
        return _last_at(of_day, latest)
    try:
        return parse_time(text)
    except ValueError:
        raise ValueError(_EXPECTED) from None


def coming(text: str, now: float) -> float:
    """Return a moment that is still to come: `18:00` is today's or tomorrow's, `+2h` and `2h` are
    from now on, else a date and a time. ValueError, worded for a person, for any other."""
    words = text.strip().lower().lstrip("+")
    if _AGO.fullmatch(words.replace(" ", "")):
        return now + sum(
            float(number) * _UNITS[unit] for number, unit in _PART.findall(words.replace(" ", ""))
        )
    of_day = _OF_DAY.fullmatch(words)
    if of_day is not None and not of_day.group(1):
        last = datetime.fromtimestamp(_last_at(of_day, now))
        return (last + timedelta(days=1)).timestamp()
    try:
        at = parse_time(text)
    except ValueError:
        raise ValueError("expected a time such as `18:00`, `+2h` or `2030-01-31T18:00`") from None
    if at <= now:
        raise ValueError("that time is past")
    return at


def _last_at(of_day: re.Match[str], latest: float) -> float:
    yesterday, *figures = of_day.groups()
    hour, minute, second = (int(figure or 0) for figure in figures)
    now = datetime.fromtimestamp(latest)
    try:
        moment = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
    except ValueError:
        raise ValueError(_EXPECTED) from None
    if yesterday or moment > now:
        moment -= timedelta(days=1)
    return moment.timestamp()


def clock_words(at: float, latest: float) -> str:
    """Return a time of day, with the date where it is not that of `latest`."""
    moment, today = datetime.fromtimestamp(at), datetime.fromtimestamp(latest)
    if moment.date() == today.date():
        return moment.strftime("%H:%M:%S")
    return moment.strftime("%m-%d %H:%M:%S")
