"""What comes after the first steps, of which runs with data tell peaks alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.tiers.measurement_gaps import MOST_BYTES

FURTHEST = ("steps", "epoch", "end")
"""How far runs go, the further the later."""
EQUAL = 0.99
"""Share of the peak at a smaller batch from which on that at a larger one is not lower."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Bytes that were held at most at one batch size, by Paddle's own counter."""

    batch: int
    first: float
    """In the first steps."""
    train: float
    """In later ones."""
    other: float = 0.0
    """In what is no training, such as an evaluation; 0 where nothing is."""

    @property
    def rise(self) -> float:
        """Bytes by which the later peak is higher than that of the first steps."""
        return max(0.0, self.train - self.first, self.other - self.first)


@dataclass(frozen=True, slots=True)
class Later:
    """By how much the peak of what comes after the first steps is higher than theirs."""

    points: tuple[Peaks, ...] = ()
    """Of runs that went as far as each other, in the order of their batch sizes."""
    others: bool = False
    """Whether there are runs that did not go as far."""

    def bytes_at(self, batch: int) -> float:
        """Return the bytes at a batch size: each peak is a line between two, and beyond them; as
        many as at the one that is known, where it is but one."""
        if not self.points:
            return 0.0
        if len(self.points) == 1:
            return self.points[0].rise
        first, train, other = (self._at(batch, part) for part in ("first", "train", "other"))
        return max(0.0, train - first, other - first)

    def beside(self, batch: int) -> float:
        """Return the bytes that may come beside these, where runs do not say how they grow: as
        many for each sample as at the batch size that is known."""
        if not self.is_unsure:
            return 0.0
        largest = self.points[-1]
        share = batch / largest.batch if largest.batch else 1.0
        most = max(point.rise for point in self.points)
        return max(0.0, most * max(1.0, share) - self.bytes_at(batch))

    @property
    def is_unsure(self) -> bool:
        """Whether runs do not say how a later peak grows: but one went as far as it, or it is
        lower at a larger batch, where something was not reached."""
        if not any(point.rise for point in self.points):
            return False
        alone = len(self.points) == 1 and self.others
        return alone or any(
            many.train < EQUAL * few.train or many.other < EQUAL * few.other
            for few, many in pairwise(self.points)
        )

    def _at(self, batch: int, part: str) -> float:
        pairs = list(pairwise(self.points))
        few, many = next((pair for pair in pairs if batch <= pair[1].batch), pairs[-1])
        low: float = getattr(few, part)
        rise: float = max(0.0, getattr(many, part) - low)
        return low + rise * (batch - few.batch) / (many.batch - few.batch)


def later(runs: Sequence[Mapping[str, object]]) -> Later:
    """Read what the runs of a document report, of those that went the furthest; malformed figures
    count as not reported."""
    groups: dict[tuple[int, int], list[Peaks]] = {}
    for run in runs:
        peaks = _peaks(run)
        if peaks is not None:
            groups.setdefault(_reach(run), []).append(peaks)
    if not groups:
        return Later()
    furthest = sorted(groups[max(groups)], key=lambda peaks: peaks.batch)
    return Later(tuple(furthest), others=len(furthest) < len(runs))


def _reach(run: Mapping[str, object]) -> tuple[int, int]:
    """Return how far a run went: runs that ended by themselves all went as far."""
    reached, followed = run.get("reached"), run.get("followed")
    place = FURTHEST.index(reached) if reached in FURTHEST else 0
    if FURTHEST[place] == "end" or not isinstance(followed, int):
        return place, 0
    return place, followed


def _peaks(run: Mapping[str, object]) -> Peaks | None:
    batch, peaks = run["batch"], run.get("peaks")
    if not isinstance(batch, int) or not isinstance(peaks, list) or len(peaks) != 3:
        return None
    if not all(type(size) in (int, float) and 0 <= size <= MOST_BYTES for size in peaks):
        return None
    return Peaks(batch, *map(float, peaks))
