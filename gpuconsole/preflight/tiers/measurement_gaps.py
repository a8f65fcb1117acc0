"""What a measurement did not reach, by what its runs tell: an evaluation that may come, what is
saved, the end of an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

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

    def is_open(self, *, copies: bool) -> bool:
        """Tell whether more may be needed; `copies` where what is saved lies beside the tensors."""
        awaited = self.steps or self.samples is not None
        return awaited or self.uncollected > 0 or (copies and self.unsaved)

    def beside(self, parts: Mapping[str, float], batch: int, *, copies: bool) -> float:
        """Return the MiB that may come beside a step with the given parts (MiB): an evaluation that
        holds its last graph while the next is made, copies of what is saved, and used batches."""
        evaluated = saved = 0.0
        if self.steps or self.samples is not None:
            share = (self.samples or batch) / batch if batch else 1.0
            evaluated = share * (parts["activations"] + parts["inputs"])
        if copies and (self.steps or self.unsaved):
            saved = parts["parameters"] + parts["optimizer"]
        return evaluated + saved + self.uncollected

    def said(self, *, copies: bool) -> list[str]:
        """Return what is said of it."""
        said = [msg(UNREACHED)] if self.steps else []
        if self.uncollected or self.collected:
            said.append(msg(UNCOLLECTED, size=format_mib(self.uncollected)))
        if self.samples:
            said.append(msg(AWAITED, n=self.samples))
        elif self.samples is not None and not self.steps:
            said.append(msg(AWAITED_ALIKE))
        if copies and self.unsaved and not self.steps:
            said.append(msg(UNSAVED))
        return said


@dataclass(frozen=True, slots=True)
class Reach:
    """How far each run of a measurement went."""

    runs: tuple[Mapping[str, Any], ...] = ()

    def gap(self, batch: int, *, alike: bool) -> Gap:
        """Return what was not reached at a batch size; `alike` where all runs are of one program,
        so that what the shorter one has not seen the other has."""
        below = [run for run in self.runs if run["batch"] <= batch]
        runs = self.runs if alike else (below or self.runs[:1])[-1:]
        unsaved = [bool(run["unsaved"]) for run in runs if "unsaved" in run]
        return Gap(
            steps=bool(runs) and all(run.get("reached") == "steps" for run in runs),
            unsaved=bool(unsaved) and all(unsaved),
            samples=self._samples(batch) if _awaits(runs) else None,
            **self._used(batch),
        )

    def _used(self, batch: int) -> dict[str, float]:
        """Return the MiB of used batches that are left to Python's collector, as reported by the
        run at the largest batch size up to this one, in proportion; empty if none reported any."""
        reporting = [run for run in self.runs if run.get("uncollected")]
        below = [run for run in reporting if run["batch"] <= batch] or reporting[:1]
        if not below:
            return {}
        run = below[-1]
        share = batch / run["batch"] if run["batch"] and batch else 1.0
        counted, further = (bytes_ * share / MIB for bytes_ in run["uncollected"])
        return {"collected": counted, "uncollected": further}

    def _samples(self, batch: int) -> int:
        """Return the samples of the batches that are awaited: a loader keeps its own size, or the
        proportion to the one that trains, as it did in the runs; 0 where nothing tells."""
        sizes: dict[int, int] = {
            run["batch"]: run["awaits"] for run in self.runs if run.get("awaits")
        }
        if not sizes or not batch:
            return 0
        if len({*sizes.values()}) == 1 and len(sizes) > 1:
            return max(sizes.values())
        return max((ceil(batch * size / of) for of, size in sizes.items() if of), default=0)


def reach(runs: Sequence[Mapping[str, Any]]) -> Reach:
    """Read what the runs of a document report; malformed figures count as not reported."""
    checked: list[Mapping[str, Any]] = []
    for run in sorted(runs, key=lambda each: int(each["batch"])):
        size = run.get("awaits")
        whole = size is None or (type(size) is int and 0 <= size <= MOST_BATCH)
        record = run if whole else {**run, "awaits": 0}
        checked.append(
            record if _is_pair(record.get("uncollected")) else {**record, "uncollected": None}
        )
    names = ("batch", "reached", "unsaved", "awaits", "uncollected")
    return Reach(
        tuple({name: record[name] for name in names if name in record} for record in checked)
    )


def _is_pair(value: object) -> bool:
    """Tell whether a value is two numbers of bytes."""
    return isinstance(value, list) and len(value) == 2 and all(
        type(item) in (int, float) and 0 <= item < MOST_BYTES for item in value
    )  # fmt: skip


def _awaits(runs: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether an evaluation may come, by all that went on beyond their first steps."""
    counts = [run["awaits"] for run in runs if "awaits" in run]
    return bool(counts) and None not in counts
