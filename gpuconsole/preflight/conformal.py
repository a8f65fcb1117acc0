"""Quantiles of past errors that hold for the next run too, whatever their distribution.

Split conformal prediction: of n exchangeable errors and the next one, each is the k-th smallest
with equal chance, so the next is at most the ceil((n + 1) q)-th smallest with chance q or more.
An error known only as "more than" gives its weight to all larger ones (Kaplan and Meier).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erf, inf, sqrt

ENOUGH = 9
"""With so many errors the largest one bounds the next with chance 0.9."""
LEVEL = 0.95
"""The bound's chance, from 19 errors on; between 9 and 18 the largest error is the bound."""
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
    ordered = sorted(residuals, key=lambda one: (one.value, one.censored))
    share = 1.0 / (len(ordered) + 1)
    found: list[tuple[float, float]] = []
    for place, one in enumerate(ordered):
        if one.censored:
            # The unseen one is among the heirs, so there always is one.
            share += share / (len(ordered) - place)
        else:
            found.append((one.value, share))
    return found


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


def lower(residuals: Sequence[Residual], level: float = LEVEL) -> float | None:
    """Return the bound above which the next error lies with chance `level`; None with too few.

    A "more than" entry counts with what is sure of it.
    """
    if len(residuals) < ENOUGH:
        return None
    mirrored = [Residual(-one.value) for one in residuals]
    bound = upper(mirrored, level)
    return None if bound is None else -bound


def exceedance(residuals: Sequence[Residual], point: float, blur: float, spread: float) -> float:
    """Return the chance that an error like those seen is above `point`.

    Each known one is blurred by a normal of `blur`. How far one that is "more than" goes is not
    known: it is taken from a normal around 0 of `spread`, cut off below it. ZeroDivisionError
    without any.
    """
    return sum(_above(one, point, blur, spread) for one in residuals) / len(residuals)


def _above(one: Residual, point: float, blur: float, spread: float) -> float:
    if not one.censored:
        return 1.0 - _normal((point - one.value) / blur)
    if point <= one.value:
        return 1.0
    beyond = 1.0 - _normal(one.value / spread)
    # So far out a normal says nothing any more.
    return (1.0 - _normal(point / spread)) / beyond if beyond > _ROUNDING else 0.5


def _normal(distance: float) -> float:
    """Return the standard normal distribution."""
    return 0.5 * (1.0 + erf(distance / sqrt(2.0)))
