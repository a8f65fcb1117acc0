"""The figures that stand side by side in one answer of preflight, all of one device.

A need is the upper bound of what the process holds there, with the context; the limit is what may
be used; what is left is the one less the other. A screen that takes its figures from here cannot
show two that contradict each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuconsole.core.estimate import Memory, Report, Verdict, VerdictWord
from gpuconsole.core.util.lazy_dataclass import dataclass

ORDER: tuple[VerdictWord, ...] = ("fits", "tight", "will-not-fit", "unknown", "will-fail")
"""Verdicts, best first."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is shown of a report: the verdict of one device, and the memory on that device."""

    word: VerdictWord
    verdict: Verdict | None
    """None where there was no device to judge."""
    memory: Memory | None

    @property
    def limit_mib(self) -> float | None:
        """What may be used of the device; never negative."""
        limit = None if self.verdict is None else self.verdict.limit_mib
        return None if limit is None else max(0.0, limit)

    @property
    def beyond_mib(self) -> float:
        """How much of the need is above the limit."""
        limit = self.limit_mib
        if self.memory is None or limit is None:
            return 0.0
        return max(0.0, self.memory.high_mib - limit)

    @property
    def share_percent(self) -> int | None:
        """The need in percent of the limit; above 100 only, and always, where it is above."""
        if self.memory is None or not self.limit_mib:
            return None
        share = 100.0 * self.memory.high_mib / self.limit_mib
        return max(101, round(share)) if self.beyond_mib else min(100, round(share))


def answer(report: Report, uuids: Sequence[str] = ()) -> Answer:
    """Return what is shown of a report: of the best of the named devices, else of all."""
    verdict = best(report.verdicts, uuids)
    word = "unknown" if verdict is None else verdict.verdict
    if report.estimate.errors or word == "will-fail":
        # What was followed before the fault is not what it needs.
        return Answer("will-fail", verdict, None)
    on_device = None if verdict is None else verdict.memory
    return Answer(word, verdict, on_device or report.estimate.memory)


def best(verdicts: Sequence[Verdict], uuids: Sequence[str] = ()) -> Verdict | None:
    """Return the best verdict of the named devices, else of all: by word, then by room."""
    named = [verdict for verdict in verdicts if verdict.uuid and verdict.uuid in uuids]
    return min(named or verdicts, key=goodness, default=None)


def goodness(verdict: Verdict) -> tuple[int, float]:
    """Return a key by which better verdicts come first."""
    return ORDER.index(verdict.verdict), -(verdict.headroom_mib or 0.0)
