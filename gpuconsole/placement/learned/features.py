"""What the trained correction looks at: the terms of the score, and their products with the job.

Hard filters are no features: what must not be, training cannot allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log, log2

from gpuconsole.placement.model import Request

_BASE = ("fit", "pack", "fragments", "speed", "price")
PLACE_FEATURES = (*_BASE, *(f"{term}*{by}" for term in _BASE for by in ("length", "gang")))
"""Terms of the score, alone and times the job's length and its number of devices (0-1 each)."""
ORDER_FEATURES = ("time", "devices", "memory", "gang")
"""Logarithms of predicted run time and devices, memory against the largest need, 4 devices or
more; each moves the job in powers of e of its area."""
LARGEST_NEED_MIB = 81920.0


def place_features(terms: Mapping[str, float], request: Request, length: float) -> dict[str, float]:
    """Return the features of a place by name, 0-1 each."""
    gang = gang_size(request)
    found: dict[str, float] = {}
    for term in _BASE:
        value = terms[term]
        found[term] = value
        found[f"{term}*length"] = value * length
        found[f"{term}*gang"] = value * gang
    return found


def order_features(request: Request, seconds: float) -> dict[str, float]:
    """Return the features of a job in the queue by name."""
    return {
        "time": log(max(1.0, seconds) / 3600.0) / 10.0,
        "devices": log2(request.devices),
        "memory": min(1.0, (request.need_mib or 0.0) / LARGEST_NEED_MIB),
        "gang": 1.0 if request.devices >= 4 else 0.0,
    }


def gang_size(request: Request) -> float:
    """Return how many devices a job takes, 0-1 by logarithm: one is 0, eight and more are 1."""
    return min(1.0, log2(request.devices) / 3.0)
