"""What the trained correction looks at: terms of the score, and their products with the job and
with how full the lab is.

Hard filters are no features: what must not be, training cannot allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log, log2

from gpuconsole.placement.model import Request

PLACE_TERMS = ("fit", "pack", "fragments", "speed", "price", "reserved")
"""Terms of the score, and `reserved`: 1 on devices kept for the first blocked job, which those that
should end before it starts may use."""
FACTORS = ("length", "gang", "full")
"""How long the job is, how many devices it takes, and the share of the lab's devices that are not
free; 0-1 each."""
PLACE_FEATURES = (*PLACE_TERMS, *(f"{term}*{by}" for term in PLACE_TERMS for by in FACTORS))
"""Terms alone and times each factor."""
ORDER_FEATURES = ("time", "devices", "memory", "gang")
"""Logarithms of predicted run time and devices, memory against the largest need, 4 devices or
more; each moves the job in powers of e of its area."""
LARGEST_NEED_MIB = 81920.0


def folded(weights: Mapping[str, float], factors: tuple[float, ...]) -> tuple[float, ...]:
    """Return what each of `PLACE_TERMS` adds for one job: its own weight, and those of its products
    times the `FACTORS` of that job."""
    return tuple(
        weights.get(term, 0.0)
        + sum(
            weights.get(f"{term}*{by}", 0.0) * value
            for by, value in zip(FACTORS, factors, strict=True)
        )
        for term in PLACE_TERMS
    )


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
