"""What a run allocates and frees, in order, and the sizes as functions of the batch size.

A `Storage` is one block of tensor memory. It is freed when the last interpreted name, autograd node
or temporary drops it: the interpreter keeps exactly the references that the script would, so the
reference counts of CPython itself decide lifetimes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from gpuconsole.core.util.lazy_dataclass import dataclass

Kind = Literal["parameters", "gradients", "optimizer", "activations", "inputs", "workspace"]
KINDS: tuple[Kind, ...] = (
    "parameters",
    "gradients",
    "optimizer",
    "activations",
    "inputs",
    "workspace",
)


class Place(NamedTuple):
    """Where in the script a block was born."""

    file: str
    line: int
    layer: str
    """Path of the innermost layer that was running: `encoder.layers.0.linear1`; "" outside."""
    moment: Literal["forward", "backward", "step"]


@dataclass(frozen=True, slots=True)
class Trace:
    """Allocations of one run. `events` holds `i` where block `i` is born and `~i` where it dies."""

    events: Sequence[int]
    sizes: Sequence[int]
    """Bytes of each block, unrounded."""
    kinds: Sequence[Kind]
    places: Sequence[Place] = ()
    """Of each block, where they were recorded."""
    backwards: Sequence[int] = ()
    """Index into `events` at which each backward pass began."""


class Ledger:
    """Writes the trace of a run."""

    __slots__ = ("_alive", "_counted", "backwards", "events", "kinds", "open", "places", "sizes")

    def __init__(self) -> None:
        self.events: list[int] = []
        self.sizes: list[int] = []
        self.kinds: list[Kind] = []
        self.places: list[Place] = []
        self.backwards: list[int] = []
        self.open = True
        self._alive: dict[Kind, int] = dict.fromkeys(KINDS, 0)
        """Bytes of each kind that were alive after the first `_counted` events."""
        self._counted = 0

    def live(self, kind: Kind) -> int:
        """Return the bytes of one kind that are alive now."""
        alive, kinds, sizes = self._alive, self.kinds, self.sizes
        events = self.events[self._counted :]
        for event in events:
            if event >= 0:
                alive[kinds[event]] += sizes[event]
            else:
                alive[kinds[~event]] -= sizes[~event]
        self._counted += len(events)
        return alive[kind]

    def change_kind(self, index: int, kind: Kind) -> None:
        """Make a block one of another kind, from its birth on."""
        self.kinds[index] = kind
        self._alive = dict.fromkeys(KINDS, 0)
        self._counted = 0

    def close(self) -> Trace:
        """End the recording: what dies from now on is only the interpreter's own tidying up."""
        self.open = False
        return Trace(
            tuple(self.events), tuple(self.sizes), tuple(self.kinds), tuple(self.places),
            tuple(self.backwards),
        )  # fmt: skip


class Storage:
    """One block of tensor memory, freed with its last reference."""

    __slots__ = ("__weakref__", "index", "ledger", "nbytes")

    def __init__(self, ledger: Ledger, nbytes: int, kind: Kind, place: Place) -> None:
        self.ledger = ledger
        self.nbytes = nbytes
        self.index = len(ledger.sizes)
        if ledger.open:
            ledger.sizes.append(nbytes)
            ledger.kinds.append(kind)
            ledger.places.append(place)
            ledger.events.append(self.index)

    def __del__(self) -> None:
        if self.ledger.open:
            self.ledger.events.append(~self.index)


@dataclass(frozen=True, slots=True)
class AffineTrace:
    """A trace with block sizes `fixed + per_sample * batch`."""

    events: Sequence[int]
    fixed: Sequence[int]
    per_sample: Sequence[int]
    kinds: Sequence[Kind]

    def at(self, batch: int) -> Trace:
        """Return the trace at a batch size."""
        sizes = [a + b * batch for a, b in zip(self.fixed, self.per_sample, strict=True)]
        return Trace(self.events, sizes, self.kinds)


def affine(traces: Sequence[tuple[int, Trace]]) -> AffineTrace | None:
    """Fit runs at two or more batch sizes; None unless every block is exactly affine in all.

    A line through the *peaks* of two batch sizes would be unsafe, for the peak moves to another
    moment as the batch grows; a line through each block is exact.
    """
    (low, first), (high, last) = traces[0], traces[-1]
    if any(trace.events != first.events or trace.kinds != first.kinds for _, trace in traces):
        return None
    fixed: list[int] = []
    slopes: list[int] = []
    for small, large in zip(first.sizes, last.sizes, strict=True):
        slope, rest = divmod(large - small, high - low)
        if rest or slope < 0 or small - slope * low < 0:
            return None
        slopes.append(slope)
        fixed.append(small - slope * low)
    line = AffineTrace(first.events, fixed, slopes, first.kinds)
    for batch, trace in traces[1:-1]:
        if list(trace.sizes) != list(line.at(batch).sizes):
            return None
    return line
