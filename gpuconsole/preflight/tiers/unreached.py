"""What a measurement did not reach, by what its runs tell: an evaluation that may come, what is
saved, the end of an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from gpuconsole.core.wording import msg
from gpuconsole.preflight.batch_sizes import MOST_BATCH

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

    def is_open(self, *, copies: bool) -> bool:
        """Tell whether more may be needed; `copies` where what is saved lies beside the tensors."""
        return self.steps or self.samples is not None or (copies and self.unsaved)

    def beside(self, parts: Mapping[str, float], batch: int, *, copies: bool) -> float:
        """Return the MiB that may come beside a step, of whose parts in MiB: an evaluation whose
        last graph is held while the next is made, and copies of what is saved."""
        evaluated = saved = 0.0
        if self.steps or self.samples is not None:
            share = (self.samples or batch) / batch if batch else 1.0
            evaluated = share * (parts["activations"] + parts["inputs"])
        if copies and (self.steps or self.unsaved):
            saved = parts["parameters"] + parts["optimizer"]
        return evaluated + saved

    def said(self, *, copies: bool) -> list[str]:
        """Return what is said of it."""
        said = [msg(UNREACHED)] if self.steps else []
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
        below = [one for one in self.runs if one["batch"] <= batch]
        runs = self.runs if alike else (below or self.runs[:1])[-1:]
        unsaved = [bool(one["unsaved"]) for one in runs if "unsaved" in one]
        return Gap(
            steps=bool(runs) and all(one.get("reached") == "steps" for one in runs),
            unsaved=bool(unsaved) and all(unsaved),
            samples=self._samples(batch) if _awaits(runs) else None,
        )

    def _samples(self, batch: int) -> int:
        """Return the samples of the batches that are awaited: a loader keeps its own size, or the
        proportion to the one that trains, as it did in the runs; 0 where nothing tells."""
        known: dict[int, int] = {
            one["batch"]: one["awaits"] for one in self.runs if one.get("awaits")
        }
        if not known or not batch:
            return 0
        if len({*known.values()}) == 1 and len(known) > 1:
            return max(known.values())
        return max((ceil(batch * size / of) for of, size in known.items() if of), default=0)


def reach(runs: Sequence[Mapping[str, Any]]) -> Reach:
    """Read what the runs of a document tell; figures that are none count as nothing told."""
    told = []
    for one in sorted(runs, key=lambda one: int(one["batch"])):
        size = one.get("awaits")
        whole = size is None or (type(size) is int and 0 <= size <= MOST_BATCH)
        told.append(one if whole else {**one, "awaits": 0})
    names = ("batch", "reached", "unsaved", "awaits")
    return Reach(tuple({name: one[name] for name in names if name in one} for one in told))


def _awaits(runs: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether an evaluation may come, by all that went on beyond their first steps."""
    told = [one["awaits"] for one in runs if "awaits" in one]
    return bool(told) and None not in told
