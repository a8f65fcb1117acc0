"""Sizes, durations and times: the words in which figures reach a person or a JSON document."""

from __future__ import annotations

from datetime import datetime, timezone

MIB = 2**20
GIB_IN_MIB = 1024.0


def format_mib(size_mib: float | None) -> str:
    """Return a short size for a person: `640 MiB`, `23.7 GiB`, `n/a`."""
    if size_mib is None:
        return "n/a"
    if abs(size_mib) < GIB_IN_MIB:
        return f"{size_mib:.0f} MiB" if abs(size_mib) >= 10 else f"{size_mib:.1f} MiB"
    return f"{size_mib / GIB_IN_MIB:.1f} GiB"


def format_duration(seconds: float | None) -> str:
    """Return a short duration: `12s`, `3m05s`, `2h14m`, `4d06h`, `-` when unknown."""
    if seconds is None:
        return "-"
    whole = int(max(0.0, seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def format_step(seconds: float | None) -> str:
    """Return the time of one training step for people: 850 µs, 42 ms, 3.1 s."""
    if seconds is None:
        return "-"
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if seconds * factor < 999.5:
            return f"{seconds * factor:.{0 if seconds * factor >= 9.5 else 1}f} {unit}"
    return f"{seconds:.{0 if seconds >= 9.5 else 1}f} s"


def iso_utc(timestamp: float | None) -> str | None:
    """Return an ISO 8601 UTC time with milliseconds, or None."""
    if timestamp is None:
        return None
    moment = datetime.fromtimestamp(timestamp, tz=timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str) -> float:
    """Return the time of an ISO 8601 text, seconds since the epoch; without a zone it is that of
    this machine. ValueError, worded for a person, when it is none."""
    try:
        return datetime.fromisoformat(text.strip().replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("expected a time such as `2030-01-31T18:00+08:00`") from None
