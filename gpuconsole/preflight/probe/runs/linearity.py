"""Whether what several runs hold is a line in the batch, judged by their blocks alone."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..documents import Batch, Run

SLACK = 0.001
"""Share of a run's peak by which it may differ from what the others tell, and still be a line."""

QUADRATIC = math.log(3.5) / math.log(2)
"""A block that grows faster than this power of the batch is one of pairs of samples."""


def peak(run: Run, sizes: Sequence[float] | None = None) -> float:
    """Return the most bytes that are alive at once, with other sizes where they are given."""
    sizes = run["sizes"] if sizes is None else sizes
    total = most = 0.0
    for event in run["events"]:
        total += sizes[event] if event >= 0 else -sizes[~event]
        most = max(most, total)
    return most


def straight(runs: Sequence[Run]) -> bool:
    """Whether the runs between the smallest and the largest are what those two tell.

    Blocks of pairs of samples grow with the square of the batch, and are no obstacle.
    """
    small, large = runs[0], runs[-1]
    for middle in runs[1:-1]:
        if not small["events"] == middle["events"] == large["events"]:
            return False
        expected = [
            between(small["batch"], a, large["batch"], b, middle["batch"])
            for a, b in zip(small["sizes"], large["sizes"])
        ]
        true = peak(middle)
        if abs(peak(middle, expected) - true) > SLACK * true:
            return False
    return True


BY_DATA = ("sparse", "unique", "nonzero", "where_index", "masked", "nms", "bincount")
"""Parts of the names of kernels with results as long as what the data holds."""


def by_data(run: Run) -> bool:
    """Tell whether a run has blocks that are as long as data says."""
    return any(part in name for name in run["names"] for part in BY_DATA)


def proportional(small: Run, large: Run) -> bool:
    """Whether two runs alone tell that memory is a line in the batch: each block is the same in
    both or as many times larger as the batch is, and none is as long as data says."""
    if by_data(small) or small["events"] != large["events"] or small["names"] != large["names"]:
        return False
    grows = large["batch"] / small["batch"]
    off = sum(min(abs(b - a), abs(b - a * grows)) for a, b in zip(small["sizes"], large["sizes"]))
    return off <= SLACK * peak(large)


def between(few: int, small: float, many: int, large: float, batch: int) -> float:
    """Return the size of a block at a batch, of its sizes at two others."""
    if large <= small:
        return small
    if small and math.log(large / small) / math.log(many / few) >= QUADRATIC:
        square = (large / many - small / few) / (many - few)
        return batch * (small / few + square * (batch - few))
    return small + (large - small) * (batch - few) / (many - few)


def seconds_at(batch: int, runs: Sequence[Run]) -> float:
    """Return how long a run at a batch size would take, going by two others."""
    small, large = runs[0], runs[-1]
    slope = (large["seconds"] - small["seconds"]) / (large["batch"] - small["batch"])
    return large["seconds"] + max(0.0, slope) * (batch - large["batch"])


def other_sizes(run: Run, batch: Batch) -> bool:
    """Whether loaders of several batch sizes were used, and which one trains was not known."""
    if batch["how"] != "loader" or batch.get("value") or not run["own_batch"]:
        return False
    sizes = {reader["own"] for reader in run["readers"] if reader.get("own")}
    return len(sizes.union(filter(None, run.get("own_sizes", ())))) > 1


def in_one_batch(run: Run) -> int:
    """Return how many samples a reader has if its epoch is one batch that is not full; else 0."""
    whole = (reader["samples"] or 0 for reader in run["readers"] if reader.get("batches") == 1)
    return max((samples for samples in whole if samples <= run["batch"]), default=0)


def misplaced(small: Run, large: Run, batch: Batch) -> bool:
    """Whether the batch size was put in where it does not reach the batches that are trained on.
    Data that is shorter than both sizes says nothing of that."""
    before, after = small.get("trained_on"), large.get("trained_on")
    put = batch["how"] in ("argument", "edit")
    return put and before is not None and before == after != in_one_batch(small)


def level(first: Run, other: Run) -> tuple[Run, Run]:
    """Return two runs as far as both went: what ended one of them earlier is no difference. Where
    both were followed until the script ended, with fewer batches in an epoch in one of them, both
    went as far."""
    both = (first, other)
    if first.get("until") == other.get("until"):
        return both
    if all(run.get("until") and run.get("by_itself") for run in both):
        return both
    cycles = min(len(first["cycles"]), len(other["cycles"]))
    return upto(first, cycles), upto(other, cycles)


def upto(run: Run, cycles: int) -> Run:
    """Return a run as it was when so many of its cycles had ended."""
    events = run["events"][: run["cycles"][cycles - 1] if cycles else 0]
    born = sum(event >= 0 for event in events)
    return {
        **run,
        "events": events,
        "cycles": run["cycles"][:cycles],
        "sizes": run["sizes"][:born],
        "name": run["name"][:born],
        "kind": run["kind"][:born],
        "inside": [block for block in run["inside"] if block < born],
        "cycles_seen": cycles,
        "until": None,
    }


MOST_NUMBER = 2**20
"""The largest number that depends on data which is considered: points of a mask, say."""
SLIGHT = 0.01
"""Share of a run's peak by which it may change with such a number, and still be reported."""


def moved(first: Run, other: Run) -> int:
    """Return the bytes of blocks by which two runs differ."""
    sizes = [sorted(run["sizes"], reverse=True) for run in level(first, other)]
    return sum(abs(a - b) for a, b in itertools.zip_longest(*sizes, fillvalue=0))


def at_most(first: Run, number: int, other: Run) -> float | None:
    """Return the bytes by which the largest number of unknown data changes a run with ones, as
    another with this number shows; None where that is more than next to nothing."""
    most = MOST_NUMBER * moved(first, other) / (number - 1)
    return most if most <= SLIGHT * peak(first) else None


def unmoved(small: Run, large: Run) -> bool:
    """Whether another batch size has changed nothing; an engine's threads may free in any order."""
    return sorted(small["sizes"]) == sorted(large["sizes"])


def fixed(run: Run) -> Run:
    """Return a run as one of the script's own batch size alone; 0 where that has no number."""
    return {**run, "batch": run["own_batch"] or 0, "fixed": True}
