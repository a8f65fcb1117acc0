"""The chance that a job needs more than is free, as far as nothing was seen of this lab yet.

An error is the logarithm of the need over its estimate. The range of an estimate is taken as the
90 % in the middle of a normal distribution. Where nothing but tensors takes memory, a second and
narrow one stands beside it: such an estimate is mostly exact, and now and then far off.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import erf, log, sqrt
from types import MappingProxyType

from gpuconsole.core.estimate import Tier
from gpuconsole.core.fleet import Backend

UPPER_QUANTILE = 1.645
"""The upper bound is taken as the 95th percentile of the error."""
LEAST_SHARE = 0.01
"""No estimate is surer than this when a chance is told."""
EXACT: Mapping[Backend, float] = MappingProxyType({"cpu": 0.83})
"""The share of estimates that are exact. First runs of the static tier on scripts by people who
had not seen it (docs/accuracy.md): 65 of 78 points within 1 %. It is a figure of Paddle's CPU
allocator; on cards, with workspaces and kernels of their own, no such share is known."""
EXACT_SIGMA = 0.005
"""Standard deviation of the exact ones: 1 % is two of it."""


def wide(upper_share: float) -> float:
    """Return the standard deviation of the error of which `upper_share` is the upper bound."""
    return log(1.0 + max(upper_share, LEAST_SHARE)) / UPPER_QUANTILE


def above(point: float, spread: float, tier: Tier, backend: Backend) -> float:
    """Return the chance that the error is above `point`, `spread` its standard deviation."""
    exact = 0.0 if tier == "formula" else EXACT.get(backend, 0.0)
    return exact * _above(point, EXACT_SIGMA) + (1.0 - exact) * _above(point, spread)


def _above(point: float, sigma: float) -> float:
    return 0.5 * (1.0 - erf(point / sigma / sqrt(2.0)))
