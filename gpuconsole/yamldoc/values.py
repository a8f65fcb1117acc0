"""Values that people write with units: sizes, durations; and text that needs no quotes."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

_SIZES_MIB = {
    "": 1.0,
    "mib": 1.0,
    "m": 1.0,
    "gib": 1024.0,
    "g": 1024.0,
    "tib": 1024.0**2,
    "t": 1024.0**2,
    "mb": 1e6 / 2**20,
    "gb": 1e9 / 2**20,
    "tb": 1e12 / 2**20,
}
_DURATIONS_S = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", re.IGNORECASE)


def _as_written(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


def _quantity(value: object, units: dict[str, float], expected: str) -> float:
    match = _QUANTITY.fullmatch(str(_as_written(value)).strip())
    if match is None or match.group(2).lower() not in units:
        raise PydanticCustomError("quantity", "{expected}", {"expected": expected})
    return float(match.group(1)) * units[match.group(2).lower()]


def _size(value: object) -> float:
    return _quantity(value, _SIZES_MIB, "expected a size such as `8 GiB` or `512 MiB`")


def _duration(value: object) -> float:
    return _quantity(value, _DURATIONS_S, "expected a duration such as `90s`, `15m` or `2h`")


Text = Annotated[str, BeforeValidator(_as_written)]
"""Text that need not be quoted: `8`, `0.001` or `true` arrive as they were written."""

SizeMib = Annotated[float, BeforeValidator(_size), Field(gt=0)]
"""A size in MiB: `8 GiB`, `512m`, `10 GB`; a bare number is MiB."""

Seconds = Annotated[float, BeforeValidator(_duration)]
"""A duration in seconds: `90s`, `15m`, `2h`, `1d`; a bare number is seconds."""
