"""Quantiles of past errors that hold for the next run too, whatever their distribution.

Split conformal prediction: of n exchangeable errors and the next one, each is the k-th smallest
with equal chance, so the next is at most the ceil((n + 1) q)-th smallest with chance q or more.
The weight of an error known only as "more than" is spread over all larger ones (Kaplan and Meier).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import erf, inf, pow, sqrt
from statistics import pstdev, quantiles

from gpuconsole.core.util.lazy_dataclass import dataclass

ENOUGH = 9
"""With so many errors the largest one bounds the next with chance 0.9."""
LEVEL = 0.95
"""The bound's chance, from 19 errors on; between 9 and 18 the largest error is the bound."""
LEAST_BLUR = 0.005
"""On a device not even a run repeated takes the same to the byte."""
_QUARTILES = 1.349
"""What lies between the quartiles of a normal distribution, in standard deviations."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Residual:
    """Logarithm of observed over predicted; `censored` when the truth is only known to be more."""

    value: float
    censored: bool = False


def weights(residuals: Sequence[Residual]) -> list[tuple[float, float]]:
    """Return (value, weight) of the errors that are known, ascending.

    Each of n errors and the unseen next one begins with 1 / (n + 1). What is missing to 1 lies
    above all that was seen.
    """
    # At equal values a known error comes first: "more than" means above it.
    ordered = sorted(residuals, key=lambda residual: (residual.value, residual.censored))
    share = 1.0 / (len(ordered) + 1)
    weighted: list[tuple[float, float]] = []
    for place, residual in enumerate(ordered):
        if residual.censored:
            # The unseen one is among the heirs, so there always is one.
            share += share / (len(ordered) - place)
        else:
            weighted.append((residual.value, share))
    return weighted


def upper(residuals: Sequence[Residual], level: float = LEVEL) -> float | None:
    """Return the bound that the next error keeps with chance `level`; infinite when "more than"
    entries leave none. None with too few errors."""
    if len(residuals) < ENOUGH:
        return None
    wanted = min(level, len(residuals) / (len(residuals) + 1))
    reached = 0.0
    for value, weight in weights(residuals):
        reached += weight
        if reached >= wanted - _ROUNDING:
            return value
    return inf


def lower(residuals: Sequence[Residual]) -> float | None:
    """Return the bound above which the next error lies with chance `LEVEL`; None with too few.

    A "more than" entry counts with what is sure of it.
    """
    if len(residuals) < ENOUGH:
        return None
    mirrored = [Residual(-residual.value) for residual in residuals]
    bound = upper(mirrored)
    return None if bound is None else -bound


def blur(residuals: Sequence[Residual], most: float, least: float = LEAST_BLUR) -> float:
    """Return by how much each known error is blurred, from `least` to `most`: with few of them the
    most, else by Silverman's rule (Density Estimation, 1986, 3.31), which follows how far they lie
    apart."""
    values = [residual.value for residual in residuals if not residual.censored]
    if len(values) < ENOUGH:
        return most
    low, _, high = quantiles(values, n=4)
    width = min(pstdev(values), (high - low) / _QUARTILES)
    return min(most, max(least, 0.9 * width / pow(len(values), 0.2)))


def exceedance(
    residuals: Sequence[Residual], point: float, blur: float, above: Callable[[float], float]
) -> float:
    """Return the chance that an error like those seen is above `point`.

    Each known one is blurred by a normal of `blur`. How far one that is "more than" goes is not
    known: it is taken from what is assumed without any, where the chance of an error above x is
    `above(x)`, cut off below it. ZeroDivisionError without any.
    """
    return sum(_above(residual, point, blur, above) for residual in residuals) / len(residuals)


def _above(residual: Residual, point: float, blur: float, above: Callable[[float], float]) -> float:
    if not residual.censored:
        return 1.0 - _normal((point - residual.value) / blur)
    if point <= residual.value:
        return 1.0
    beyond = above(residual.value)
    # So far out the assumption says nothing any more.
    return above(point) / beyond if beyond > _ROUNDING else 0.5


def _normal(distance: float) -> float:
    """Return the standard normal distribution."""
    return 0.5 * (1.0 + erf(distance / sqrt(2.0)))
