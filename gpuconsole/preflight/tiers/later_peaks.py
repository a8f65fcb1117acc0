"""What comes after the first steps, of which a run with data tells the peak alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.tiers.measurement_gaps import MOST_BYTES

FURTHEST = ("steps", "epoch", "end")
"""How far runs go, the further the later."""


@dataclass(frozen=True, slots=True)
class Rise:
    """By how much the peak of what comes after the first steps is higher than theirs, by batch
    size, in bytes: below zero where it is lower."""

    points: tuple[tuple[int, float], ...] = ()
    """In the order of the batch sizes."""

    def bytes_at(self, batch: int) -> float:
        """Return the bytes at a batch size: by a line between two, and beyond them; in proportion
        where only one is known, which other batch sizes may exceed."""
        if not self.points:
            return 0.0
        if len(self.points) == 1:
            size, rise = self.points[0]
            return max(0.0, rise * max(1.0, batch / size if size else 1.0))
        pairs = list(pairwise(self.points))
        (few, low), (many, high) = next((pair for pair in pairs if batch <= pair[1][0]), pairs[-1])
        return max(0.0, low + (high - low) * (batch - few) / (many - few))


def rise(runs: Sequence[Mapping[str, object]]) -> Rise:
    """Read what the runs of a document report, of those that went the furthest; malformed figures
    count as not reported, and so do rises of nothing."""
    points = {}
    reporting = [run for run in runs if _is_rise(run.get("rise"))]
    furthest = max((_reach(run) for run in reporting), default=0)
    for run in reporting:
        batch, size = run["batch"], run["rise"]
        if _reach(run) == furthest and isinstance(batch, int) and isinstance(size, (int, float)):
            points[batch] = float(size)
    if all(size <= 0 for size in points.values()):
        return Rise()
    return Rise(tuple(sorted(points.items())))


def _reach(run: Mapping[str, object]) -> int:
    reached = run.get("reached")
    return FURTHEST.index(reached) if reached in FURTHEST else 0


def _is_rise(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= MOST_BYTES
