"""What a measurement did not reach, by what its runs tell: an evaluation that may come, what is
saved, the end of an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TypeGuard

from gpuconsole.core.units import MIB, format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.preflight.batch_sizes import MOST_BATCH

MOST_BYTES = 1 << 50
"""Beyond it a figure is none."""
UNREACHED = (
    "What comes after an epoch was not reached: the upper end of the range allows for an "
    "evaluation that holds as much beside a step, and for a copy of what is saved."
)
"""Said of a run that was followed for some steps alone."""
AWAITED = (
    "The script may evaluate later, which was not reached: the upper end of the range allows for "
    "batches of {n} beside a step."
)
AWAITED_ALIKE = (
    "The script may evaluate later, which was not reached: the upper end of the range allows for "
    "an evaluation that holds as much beside a step."
)
UNCOLLECTED = (
    "A loader whose samples are one bare array leaves used batches to Python's collector, which "
    "comes after a hundred or so of them: those of two epochs are counted, and the range "
    "goes from none of them to {size} more."
)
CYCLES = (
    "Of trainings that are over {size} may wait for Python's collector, which are counted: the "
    "range goes from none of them to {more} more."
)
UNFILLED = (
    "L-BFGS may end before its history is full: all of it is counted, and the lower end of the "
    "range is {size} less."
)
LATER = (
    "What comes after the first steps takes {size} more than they do; of it sums alone were seen."
)
UNSAVED = (
    "The script saves later, which was not reached: the upper end of the range allows for a copy "
    "of parameters and states."
)


@dataclass(frozen=True, slots=True)
class Gap:
    """What was not reached at one batch size."""

    steps: bool = False
    """Whether neither the end of an epoch nor that of the script was seen."""
    unsaved: bool = False
    """Whether something may be saved that was not."""
    samples: int | None = None
    """Samples of a batch of the evaluation that may come, 0 where nothing tells them; None where
    there is none."""
    collected: float = 0.0
    """MiB of used batches that are counted, and that Python's collector may have found before."""
    uncollected: float = 0.0
    """MiB of further ones that a longer run may leave to it."""
    in_cycles: tuple[float, float] = (0.0, 0.0)
    """MiB of what trainings that are over have left in cycles of objects: what is counted, and what
    Python's collector may have left beside that."""
    unfilled: float = 0.0
    """MiB of L-BFGS's history that it has only where it makes all its iterations."""

    @property
    def may_be_less(self) -> float:
        """MiB that are counted and need not be there."""
        return self.collected + self.in_cycles[0] + self.unfilled

    @property
    def may_be_left(self) -> float:
        """MiB that Python's collector may leave beside what is counted."""
        return self.uncollected + self.in_cycles[1]

    def is_open(self, *, copies: bool) -> bool:
        """Tell whether more may be needed; `copies` where what is saved lies beside the tensors."""
        awaited = self.steps or self.samples is not None
        return awaited or self.may_be_left > 0 or (copies and self.unsaved)

    def beside(self, parts: Mapping[str, float], batch: int, *, copies: bool) -> float:
        """Return the MiB that may come beside a step with the given parts (MiB): an evaluation that
        holds its last graph while the next is made, copies of what is saved, and used batches."""
        evaluated = saved = 0.0
        if self.steps or self.samples is not None:
            share = (self.samples or batch) / batch if batch else 1.0
            evaluated = share * (parts["activations"] + parts["inputs"])
        if copies and (self.steps or self.unsaved):
            saved = parts["parameters"] + parts["optimizer"]
        return evaluated + saved + self.may_be_left

    def said(self, *, copies: bool) -> list[str]:
        """Return what is said of it."""
        said = [msg(UNREACHED)] if self.steps else []
        if self.uncollected or self.collected:
            said.append(msg(UNCOLLECTED, size=format_mib(self.uncollected)))
        if any(self.in_cycles):
            size, more = map(format_mib, self.in_cycles)
            said.append(msg(CYCLES, size=size, more=more))
        if self.unfilled:
            said.append(msg(UNFILLED, size=format_mib(self.unfilled)))
        if self.samples:
            said.append(msg(AWAITED, n=self.samples))
        elif self.samples is not None and not self.steps:
            said.append(msg(AWAITED_ALIKE))
        if copies and self.unsaved and not self.steps:
            said.append(msg(UNSAVED))
        return said


@dataclass(frozen=True, slots=True)
class Reached:
    """How far one run went, as it reports."""

    batch: int
    by: str = ""
    """`end`, `epoch` or `steps`."""
    unsaved: bool | None = None
    """Whether something may be saved that was not; None where it says nothing of that."""
    awaits: int | None = None
    """Samples of an evaluation that may come, 0 where nothing tells them; None where none may."""
    goes_on: bool = False
    """Whether it went on beyond its first steps, and so says what it awaits."""
    used: tuple[float, float] | None = None
    """Bytes of used batches that are counted, and of further ones; None without any."""
    in_cycles: tuple[float, float] | None = None
    """Bytes that trainings that are over have left in cycles of objects, and that may be left
    beside them; None without any."""
    unfilled: float = 0.0
    """Bytes of L-BFGS's history that it has only where it makes all its iterations."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far each run of a measurement went."""

    runs: tuple[Reached, ...] = ()

    def gap(self, batch: int, *, alike: bool) -> Gap:
        """Return what was not reached at a batch size; `alike` where all runs are of one program,
        so that what the shorter one has not seen the other has."""
        below = [run for run in self.runs if run.batch <= batch]
        runs = self.runs if alike else (below or self.runs[:1])[-1:]
        unsaved = [run.unsaved for run in runs if run.unsaved is not None]
        collected, uncollected = self._left(batch, [(run.batch, run.used) for run in self.runs])
        cycles = [(run.batch, run.in_cycles) for run in self.runs]
        return Gap(
            steps=bool(runs) and all(run.by == "steps" for run in runs),
            unsaved=bool(unsaved) and all(unsaved),
            samples=self._samples(batch) if _awaits(runs) else None,
            collected=collected,
            uncollected=uncollected,
            in_cycles=self._left(batch, cycles),
            unfilled=max((run.unfilled for run in self.runs), default=0.0) / MIB,
        )

    @staticmethod
    def _left(
        batch: int, reports: Sequence[tuple[int, tuple[float, float] | None]]
    ) -> tuple[float, float]:
        """Return the MiB that are left to Python's collector, as reported by the run at the largest
        batch size up to this one, in proportion: counted, and further ones; 0 if none reported
        any."""
        reporting = [(size, left) for size, left in reports if left is not None]
        below = [pair for pair in reporting if pair[0] <= batch] or reporting[:1]
        if not below:
            return 0.0, 0.0
        size, (counted, further) = below[-1]
        share = batch / size if size and batch else 1.0
        return counted * share / MIB, further * share / MIB

    def _samples(self, batch: int) -> int:
        """Return the samples of the batches that are awaited: a loader keeps its own size, or the
        proportion to the one that trains, as it did in the runs; 0 where nothing tells."""
        sizes = {run.batch: run.awaits for run in self.runs if run.awaits}
        if not sizes or not batch:
            return 0
        if len({*sizes.values()}) == 1 and len(sizes) > 1:
            return max(sizes.values())
        return max((ceil(batch * size / of) for of, size in sizes.items() if of), default=0)


def reach(runs: Sequence[Mapping[str, object]]) -> Reach:
    """Read what the runs of a document report; malformed figures count as not reported."""
    return Reach(tuple(sorted(map(_reached, runs), key=lambda run: run.batch)))


def _reached(run: Mapping[str, object]) -> Reached:
    batch, size, used = run["batch"], run.get("awaits"), run.get("uncollected")
    if not isinstance(batch, (int, float)):
        raise TypeError("a batch size that is no number")
    whole = type(size) is int and 0 <= size <= MOST_BATCH
    return Reached(
        batch=int(batch),
        by=str(run.get("reached", "")),
        unsaved=bool(run["unsaved"]) if "unsaved" in run else None,
        awaits=size if whole and isinstance(size, int) else None if size is None else 0,
        goes_on="awaits" in run,
        used=_pair(used),
        in_cycles=_pair(run.get("in_cycles")),
        unfilled=_size(run.get("unfilled")),
    )


def _pair(value: object) -> tuple[float, float] | None:
    """Return a value that is two numbers of bytes; None for any other."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    if not all(map(_is_size, value)):
        return None
    return value[0], value[1]


def _size(value: object) -> float:
    """Return a value that is a number of bytes; 0 for any other."""
    return value if _is_size(value) else 0.0


def _is_size(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value < MOST_BYTES


def _awaits(runs: Sequence[Reached]) -> bool:
    """Tell whether an evaluation may come, by all that went on beyond their first steps."""
    counts = [run.awaits for run in runs if run.goes_on]
    return bool(counts) and None not in counts
