"""The peak of a trace: the moment when the most bytes are alive, and what they are."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.memory.trace import KINDS, AffineTrace, Kind, Trace


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes alive at the worst moment, by kind; `event` is its place in the trace."""

    total: int
    parts: Mapping[Kind, int]
    event: int


def peak(trace: Trace) -> Peak:
    """Replay a trace and return its peak in exact bytes (no rounding, no allocator)."""
    live = best = 0
    at = -1
    sizes = trace.sizes
    for place, event in enumerate(trace.events):
        if event >= 0:
            live += sizes[event]
            if live > best:
                best, at = live, place
        else:
            live -= sizes[~event]
    parts: dict[Kind, int] = dict.fromkeys(KINDS, 0)
    for event in trace.events[: at + 1]:
        if event >= 0:
            parts[trace.kinds[event]] += sizes[event]
        else:
            parts[trace.kinds[~event]] -= sizes[~event]
    return Peak(best, parts, at)


@dataclass(frozen=True, slots=True)
class Envelope:
    """The peak as a function of the batch size: the upper hull of `fixed + slope * batch` lines."""

    lines: tuple[tuple[int, int], ...]
    """(slope, fixed), each the largest at some batch size."""

    def at(self, batch: int) -> int:
        """Return the peak in bytes at a batch size."""
        return max(slope * batch + fixed for slope, fixed in self.lines)


def envelope(trace: AffineTrace) -> Envelope:
    """Return the peak of an affine trace for all batch sizes at once."""
    fixed = slope = 0
    best: dict[int, int] = {}
    for event in trace.events:
        if event >= 0:
            fixed += trace.fixed[event]
            slope += trace.per_sample[event]
            if fixed > best.get(slope, -1):
                best[slope] = fixed
        else:
            fixed -= trace.fixed[~event]
            slope -= trace.per_sample[~event]
    lines: list[tuple[int, int]] = []
    for line in sorted(best.items()):
        while lines and lines[-1][1] <= line[1]:
            lines.pop()
        while len(lines) > 1 and _hidden(lines[-2], lines[-1], line):
            lines.pop()
        lines.append(line)
    return Envelope(tuple(lines))


def _hidden(left: tuple[int, int], middle: tuple[int, int], right: tuple[int, int]) -> bool:
    """Tell whether `middle` is nowhere above both neighbours (slopes ascend, heights descend)."""
    return (left[1] - right[1]) * (middle[0] - left[0]) <= (left[1] - middle[1]) * (
        right[0] - left[0]
    )
