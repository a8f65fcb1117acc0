"""What a cell of a vendor's table says as a figure; None for whatever it does not say. Pure.

A cell is a figure with at most its own unit, or it is nothing: `N/A`, `-`, `nan`, words in any
language, and a cell of another column that slipped into this one are all unknown, never 0.
"""

from __future__ import annotations

import re

_FIGURE = re.compile(r"([-+]?[0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(%|[A-Za-z°℃]*)")
_PAIR = re.compile(r"\s*(N/A|[^/]*?)\s*/\s*(N/A|[^/]*?)\s*")
_MOST_MIB = 2.0**27
"""128 TiB: more than any device has."""
# The tools write MB and GB for sizes that are powers of two: 65536 MB is the card of 64 GiB.
_UNITS = {
    "b": 2.0**-20, "kb": 2.0**-10, "kib": 2.0**-10, "k": 2.0**-10,
    "": 1.0, "mb": 1.0, "mib": 1.0, "m": 1.0,
    "gb": 2.0**10, "gib": 2.0**10, "g": 2.0**10, "tb": 2.0**20, "tib": 2.0**20,
}  # fmt: skip


def _figure(cell: str | None, units: tuple[str, ...]) -> float | None:
    match = _FIGURE.fullmatch(cell.strip()) if cell else None
    if match is None or match.group(2).lower() not in units:
        return None
    return float(match.group(1))


def _between(value: float | None, low: float, high: float) -> float | None:
    return value if value is not None and low <= value <= high else None


def percent(cell: str | None) -> float | None:
    """Return a share of time or of memory, 0-100."""
    return _between(_figure(cell, ("", "%")), 0, 100)


def celsius(cell: str | None) -> float | None:
    """Return a temperature in degrees Celsius."""
    return _between(_figure(cell, ("", "c", "°c", "℃")), -100, 500)


def watts(cell: str | None) -> float | None:
    """Return a power in watts."""
    return _between(_figure(cell, ("", "w")), 0, 100_000)


def megahertz(cell: str | None) -> float | None:
    """Return a clock in MHz."""
    return _between(_figure(cell, ("", "mhz")), 0, 1_000_000)


def count(cell: str | None) -> int | None:
    """Return a number of things."""
    value = _between(_figure(cell, ("",)), 0, 2**53)
    return int(value) if value is not None and value == int(value) else None


def mib(cell: str | None, unit: str = "") -> float | None:
    """Return a size in MiB; `unit` is that of the column's header, for a cell without one."""
    match = _FIGURE.fullmatch(cell.strip()) if cell else None
    if match is None:
        return None
    scale = _UNITS.get((match.group(2) or unit).lower())
    return None if scale is None else _between(float(match.group(1)) * scale, 0, _MOST_MIB)


def pair(cell: str | None) -> tuple[str, str]:
    """Return the two sides of `used/total` or `usage/cap`; empty words when it is no pair."""
    match = _PAIR.fullmatch(cell or "")
    return (match.group(1), match.group(2)) if match is not None else ("", "")


def sizes(cell: str | None, unit: str = "") -> tuple[float | None, float | None]:
    """Return used and total MiB of `used/total`; a unit behind the second holds for both."""
    used, total = pair(cell)
    after = _FIGURE.fullmatch(total.strip())
    common = after.group(2) if after is not None and after.group(2) else unit
    return mib(used, common), mib(total, common)
