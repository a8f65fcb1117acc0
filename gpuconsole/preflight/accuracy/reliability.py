"""How good past predictions were: chances against what happened, memory against what was taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import log2

from gpuconsole.core.devices.run_history import Observation
from gpuconsole.core.units import format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg

EDGES = (0.0, 0.02, 0.1, 0.3, 0.7, 0.9, 0.98, 1.0)
"""Bins of predicted chances: narrow where a prediction claims to be sure."""
ENOUGH = 20
"""With fewer runs a share says little."""
COLUMNS, ROWS = 56, 14
OK, OUT, BOTH = "·", "x", "*"


@dataclass(frozen=True, slots=True)
class Bin:
    """Runs with a predicted chance to run out from `low` to `high`."""

    low: float
    high: float
    runs: int
    ran_out: int
    predicted: float | None
    """Mean of their predicted chances."""

    @property
    def observed(self) -> float | None:
        """The share that ran out."""
        return self.ran_out / self.runs if self.runs else None


@dataclass(frozen=True, slots=True)
class Pair:
    """Predicted and observed memory of one run (MiB); after running out the truth is more."""

    predicted_mib: float
    observed_mib: float
    ran_out: bool


@dataclass(frozen=True, slots=True)
class Reliability:
    """Predictions against what happened."""

    bins: tuple[Bin, ...]
    pairs: tuple[Pair, ...]

    @property
    def judged(self) -> int:
        """How many runs had a predicted chance."""
        return sum(bin.runs for bin in self.bins)

    @property
    def too_few(self) -> str:
        """Why this says little yet, or ""."""
        if self.judged >= ENOUGH:
            return ""
        runs = "{n} run" if self.judged == 1 else "{n} runs"
        return msg(
            f"Too little history: {runs} with a prediction, and below {{low}} a share says little.",
            n=self.judged, low=ENOUGH,
        )  # fmt: skip


def reliability(observations: Iterable[Observation]) -> Reliability:
    """Return what the history says about predictions."""
    seen = tuple(observations)
    judged = [
        (observation.oom_probability, observation.outcome == "oom")
        for observation in seen
        if observation.oom_probability is not None
    ]
    pairs = []
    for observation in seen:
        out = observation.outcome == "oom"
        taken = observation.peak_mib
        if out:
            taken = (observation.allocated_mib or 0.0) + (observation.requested_mib or 0.0)
        if observation.predicted_reserved_mib and taken:
            pairs.append(Pair(observation.predicted_reserved_mib, taken, out))
    return Reliability(tuple(_bins(judged)), tuple(pairs))


def _bins(judged: Sequence[tuple[float, bool]]) -> Iterable[Bin]:
    for low, high in pairwise(EDGES):
        last = high == EDGES[-1]
        inside = [pair for pair in judged if low <= pair[0] < high or (last and pair[0] >= high)]
        mean = sum(chance for chance, _ in inside) / len(inside) if inside else None
        yield Bin(low, high, len(inside), sum(out for _, out in inside), mean)


def scatter(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Return predicted (across) against observed (up) memory as lines of text, both logarithmic
    and alike; nothing without runs. Right predictions lie on the diagonal."""
    if not pairs:
        return ()
    sizes = [size for pair in pairs for size in (pair.predicted_mib, pair.observed_mib)]
    low, high = log2(min(sizes)) - 0.25, log2(max(sizes)) + 0.25
    grid = [[" "] * COLUMNS for _ in range(ROWS)]
    for column in range(COLUMNS):
        grid[column * ROWS // COLUMNS][column] = "/" if column % 4 == 0 else " "
    for pair in pairs:
        across = min(COLUMNS - 1, int((log2(pair.predicted_mib) - low) / (high - low) * COLUMNS))
        up = min(ROWS - 1, int((log2(pair.observed_mib) - low) / (high - low) * ROWS))
        mark, there = OUT if pair.ran_out else OK, grid[up][across]
        grid[up][across] = BOTH if there in (OK, OUT, BOTH) and there != mark else mark
    lines = []
    for number, row in enumerate(reversed(grid)):
        label = {0: format_mib(2**high), ROWS - 1: format_mib(2**low)}.get(number, "")
        lines.append(f"{label:>9} │{''.join(row).rstrip()}")
    left, right = format_mib(2**low), format_mib(2**high)
    lines.append(f"{'':>9} └{'─' * COLUMNS}")
    lines.append(f"{'':>11}{left}{right:>{COLUMNS - len(left)}}")
    return tuple(lines)
