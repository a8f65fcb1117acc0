"""The chance that a job needs more than is free, as far as nothing was seen of this lab yet.

An error is the logarithm of the need over its estimate. On a device the range of an estimate is
taken as the 90 % in the middle of a normal distribution. On a CPU, where Paddle's allocator counts
tensors alone, most estimates are exact, some are close, and a few are far off: there the error is a
mixture of normal distributions, with weights that depend on the tier and on the answer's own flags.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import erf, log, sqrt
from types import MappingProxyType

from gpuconsole.core.estimate import TIERS_DIFFER, Estimate, Tier
from gpuconsole.core.fleet import Backend
from gpuconsole.core.util.lazy_dataclass import dataclass

UPPER_QUANTILE = 1.645
"""The upper bound is taken as the 95th percentile of the error."""
LEAST_SHARE = 0.01
"""No estimate is surer than this when a chance is stated."""
EXACT_SIGMA = 0.0003
"""Standard deviation of exact estimates: of 180 drawn loops that reading answered within 0.1 %,
178 lay within twice this."""
CLOSE_SIGMA = 0.004
NEAR_SIGMA = 0.05
DOUBTFUL = frozenset({"bound", "double-backward", "grows", "static-graph", "variable-shape"})
"""Flags of answers that say themselves that they are not exact."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of estimates by how far they are off; what is missing to 1 has the range's width."""

    exact: float = 0.0
    close: float = 0.0
    """Off by less than 1 %."""
    near: float = 0.0
    """Off by a few percent."""

    @property
    def far(self) -> float:
        """The share of the rest."""
        return 1.0 - self.exact - self.close - self.near


ON_CPU: Mapping[Tier, Shares] = MappingProxyType({
    "static": Shares(0.88, 0.02, 0.05),
    "meta": Shares(0.85, 0.10, 0.02),
    "traced": Shares(0.85, 0.10, 0.02),
    "history": Shares(0.90, 0.05, 0.03),
})  # fmt: skip
"""From those of the generated loops 1000-1239 with an even hash, and, for the meta tier, from the
first runs on code that people wrote (docs/accuracy-history.md,
`python -m benchmarks.chances --loops`). On devices, with workspaces and kernels of their own, no
such shares are known."""
DOUBTFUL_ON_CPU = Shares(0.10, 0.30, 0.55)
"""The same of answers with one of the flags DOUBTFUL."""
UNREACHED = "unreached"
"""Flag of answers that allow for an evaluation that was not reached."""
IN_DOUBT = frozenset({UNREACHED, TIERS_DIFFER})
"""Flags of answers of which the upper bound is not shown."""
UNREACHED_ON_CPU = Shares(0.45, 0.05)
"""Shares of answers with one of these: of ten configurations with an evaluation of larger batches
that was not reached, seven took far more (docs/accuracy-history.md), of scripts with one of the
same size hardly any. Taken for answers of tiers that differ, too."""


def shares(tier: Tier, backend: Backend, flags: Collection[str] = ()) -> Shares:
    """Return how the estimates of a tier are spread."""
    base = ON_CPU.get(tier) if backend == "cpu" else None
    if base is None:
        return Shares()
    if tier != "history" and not IN_DOUBT.isdisjoint(flags):
        return UNREACHED_ON_CPU
    return DOUBTFUL_ON_CPU if not DOUBTFUL.isdisjoint(flags) and tier != "history" else base


def wide(upper_share: float) -> float:
    """Return the standard deviation of the error of which `upper_share` is the upper bound."""
    return log(1.0 + max(upper_share, LEAST_SHARE)) / UPPER_QUANTILE


def above(point: float, spread: float, estimate: Estimate) -> float:
    """Return the chance that an estimate's error is above `point`; `spread` is the standard
    deviation of those that are far off."""
    mixture = shares(estimate.tier, estimate.backend, estimate.flags)
    return (
        mixture.exact * _above(point, EXACT_SIGMA)
        + mixture.close * _above(point, CLOSE_SIGMA)
        + mixture.near * _above(point, NEAR_SIGMA)
        + mixture.far * _above(point, spread)
    )


def _above(point: float, sigma: float) -> float:
    return 0.5 * (1.0 - erf(point / sigma / sqrt(2.0)))
