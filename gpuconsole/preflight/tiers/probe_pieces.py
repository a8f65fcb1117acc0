"""Recordings of several batch sizes as the memory at any: one line, or a line between each two.

Two runs tell a line; a third says whether it is one. Where it is not (sparse gradients hold as
many rows as a batch has different words) the runs themselves are exact, and every other batch size
has a bound: between two runs by the lines on both sides, beyond the largest by a parabola.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.memory.backends import terms
from gpuconsole.preflight.memory.liveness import peak
from gpuconsole.preflight.tiers.probe_trace import (
    OtherProgram,
    Recording,
    Run,
    Unusable,
    combine,
    constant,
    for_all_sizes,
    require_little_varied,
)

SLACK = 0.001
"""Share of its peak by which a run may differ from what the others tell, and all be on a line."""
NO_MEMORY = "the steps that it ran took no memory that was seen"
WAITING = terms("cpu").waiting_batches
"""Batches that a reader holds ready: near an epoch's end fewer, of which runs of other batch sizes
tell other numbers."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """What the memory is made of, by batch size."""

    parts: tuple[tuple[int, Recording], ...]
    """Beyond which batch size a recording holds, in order."""
    largest: int
    """The largest batch size that was run."""
    curvature: float = 0.0
    """Bytes by which the peak bends up for each two samples more; 0 where it bends down."""
    slope: float = 0.0
    """Bytes by which the peak grows for each sample, between the two largest batch sizes."""
    only: bool = False
    """Whether the script was run with its own batch size alone, and nothing tells of others."""

    @property
    def straight(self) -> Recording | None:
        """The recording that holds for all batch sizes, where one does."""
        return self.parts[0][1] if len(self.parts) == 1 and not self.only else None

    def at(self, batch: int) -> Recording:
        """Return the recording that holds at a batch size."""
        return self.parts[self._place(batch)][1]

    def _place(self, batch: int) -> int:
        return max(0, bisect_left([start for start, _ in self.parts], batch) - 1)

    def bound(self, batch: int) -> float:
        """Return by what a batch size that was not run is multiplied, to be a bound."""
        if len(self.parts) == 1:
            return 1.0
        place = self._place(batch)
        (start, own), (_, before) = self.parts[place], self.parts[max(0, place - 1)]
        expected = _peak(own, batch)
        if not expected:
            return 1.0
        if batch > self.largest:
            beyond = batch - self.largest
            least = max(expected, _peak(own, self.largest) + self.slope * beyond)
            return (least + self.curvature * (batch - start) * beyond) / expected
        # Of a curve that flattens the line before lies above, of one that steepens this one.
        ends = [*(batch_end for batch_end, _ in self.parts[1:]), self.largest]
        return max(1.0, min(_peak(before, batch), _peak(own, ends[place])) / expected)


def pieces(runs: Sequence[Run], *, exact: bool = False) -> Pieces:
    """Return the runs of one script, in the order of their batch sizes, as one.

    `exact` runs are of the batch sizes that are asked about: where the script does something else
    at each, they stand for themselves. Unusable says why the runs do not tell the memory.
    """
    if not any(any(run.sizes) for run in runs):
        # What broke off before its network ran is not one that needs nothing.
        raise Unusable(NO_MEMORY)
    first, last = runs[0], runs[-1]
    if len(runs) == 1:
        if exact:
            require_little_varied(first)
        return Pieces(((0, constant(first)),), first.batch, only=True)
    try:
        whole = for_all_sizes(combine(first, last, exact=exact), first)
        # What two runs have in common may lack what only one of them came to.
        if all(_on_the_line(whole, run) for run in (runs if exact else runs[1:-1])):
            return Pieces(((0, whole),), last.batch)
    except Unusable as why:
        if not (exact and isinstance(why, OtherProgram)):
            # The smaller ones may be alike; if they are not, they say why.
            combine(first, runs[1], exact=exact)
    parts = [(few.batch, _stretch(few, many)) for few, many in pairwise(runs)]
    if exact:
        # Below the smallest it is a bound.
        parts.insert(0, (0, constant(first)))
    slopes = _slopes(runs)
    return Pieces(tuple(parts), last.batch, _curvature(runs, slopes), max(0.0, slopes[-1]))


def _on_the_line(whole: Recording, run: Run) -> bool:
    own = constant(run)
    peaks = [(_peak(own, run.batch, n), _peak(whole, run.batch, n)) for n in (1, WAITING)]
    return all(abs(estimated - true) <= SLACK * true for true, estimated in peaks)


def _stretch(few: Run, many: Run) -> Recording:
    """Return what lies between two runs; the larger one's where they have nothing in common."""
    try:
        return combine(few, many)
    except Unusable:
        return constant(many)


def _slopes(runs: Sequence[Run]) -> list[float]:
    """Return by how many bytes a sample the peak grows, between each two runs."""
    peaks = [_peak(constant(run), run.batch) for run in runs]
    return [
        (b - a) / (many.batch - few.batch)
        for (a, b), (few, many) in zip(pairwise(peaks), pairwise(runs), strict=True)
    ]


def _curvature(runs: Sequence[Run], slopes: Sequence[float]) -> float:
    """Return the second divided difference of the last three runs' peaks, where it is positive."""
    if len(slopes) < 2:
        return 0.0
    return max(0.0, (slopes[-1] - slopes[-2]) / (runs[-1].batch - runs[-3].batch))


def _peak(recording: Recording, batch: int, waiting: int = WAITING) -> int:
    return peak(recording.trace(batch, waiting, kernels=True)).total
