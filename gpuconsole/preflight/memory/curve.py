"""Peak memory against the batch size."""

from __future__ import annotations

from gpuconsole.core.estimate import CurvePoint, Estimate
from gpuconsole.preflight.verdicts import Estimator

POINTS = 48
LARGEST = 65_536


def curve(estimator: Estimator, estimate: Estimate, up_to_mib: float) -> tuple[CurvePoint, ...]:
    """Return the memory at batch sizes from 1 until it passes `up_to_mib` MiB (and the script's
    own batch is on the curve); empty if unknown."""
    memory = estimate.memory
    reserved = estimator.reserved_at(estimate.backend)
    if memory is None or reserved(1) is None:
        return ()

    def at(batch: int) -> CurvePoint | None:
        size = reserved(batch)
        if size is None:
            return None
        total = memory.context_mib + size
        return CurvePoint(
            batch, total, total + memory.upper_share * size + memory.context_spread_mib
        )

    last = max(2, estimate.batch_size or 1)
    while last < LARGEST and (point := at(last)) is not None and point.high_mib < up_to_mib:
        last *= 2
    last = min(last, LARGEST)
    sizes = sorted({max(1, round(last * place / POINTS)) for place in range(POINTS + 1)})
    if estimate.batch_size and estimate.batch_size <= last:
        sizes = sorted({*sizes, estimate.batch_size})
    return tuple(point for point in map(at, sizes) if point is not None)
