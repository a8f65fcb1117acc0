"""Judges the answers of a tier over a batch: coverage, accusations, errors, causes of misses."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.wild.manifest import Entry
from benchmarks.wild.running import LADDER, Answer

DEEP = 10.0
"""An estimate more than this many percent below the truth is counted by itself."""
ANSWERED, ACCUSED, UNKNOWN, BROKEN, NOT_HERE, NOT_COUNTED = (
    "answered", "accused", "unknown", "broken", "not here", "not counted",
)  # fmt: skip

_SILENT = "no reason given"


@dataclass(frozen=True, slots=True)
class Result:
    """What a tier made of one script."""

    entry: Entry
    answers: tuple[Answer, ...]
    """At the script's own batch size first, then at each that was measured."""
    missing: str = ""
    """Why the script could not be laid out."""

    @property
    def outcome(self) -> str:
        """In one word, by the answer at the script's own batch size."""
        if not self.entry.can_run:
            return NOT_COUNTED
        if self.missing:
            return NOT_HERE
        first = self.answers[0]
        if first.faults:
            return ACCUSED
        if first.answered:
            return ANSWERED
        return BROKEN if first.broken else UNKNOWN

    @property
    def cause(self) -> str:
        """The first reason that was given for a miss; empty where there is an answer."""
        if self.outcome in (ANSWERED, NOT_HERE, NOT_COUNTED):
            return self.missing or self.entry.cannot_run
        first = self.answers[0]
        return next(iter((*first.faults, *filter(None, (first.broken,)), *first.unknowns)), _SILENT)

    @property
    def errors(self) -> list[float]:
        """Signed errors in percent at the measured batch sizes that were answered."""
        truth = {point.batch: point.peak_bytes for point in self.entry.truth}
        return [
            100 * (answer.peak_bytes / truth[answer.batch] - 1)
            for answer in self.answers
            if answer.peak_bytes is not None and answer.batch in truth
        ]

    @property
    def inside(self) -> list[bool]:
        """At each such batch size, whether the truth lies in the stated range."""
        truth = {point.batch: point.peak_bytes for point in self.entry.truth}
        return [
            answer.low_bytes <= truth[answer.batch] <= answer.high_bytes
            for answer in self.answers
            if answer.low_bytes is not None
            and answer.high_bytes is not None
            and answer.batch in truth
        ]

    @property
    def tier(self) -> str:
        """The tier that answered at the script's own batch size; "" where none did."""
        return self.answers[0].tier if self.outcome == ANSWERED else ""

    @property
    def seconds(self) -> float:
        """Wall time of the question at the script's own batch size; 0 where it was not asked."""
        return self.answers[0].seconds if self.answers else 0.0

    @property
    def cpu_s(self) -> float:
        """Processor time of that question, in seconds."""
        return self.answers[0].cpu_s if self.answers else 0.0


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """Return the figures of a batch; only scripts that can run count."""
    counted = [result for result in results if result.entry.can_run]
    errors = [error for result in counted for error in result.errors]
    inside = [one for result in counted for one in result.inside]
    asked = [result for result in counted if not result.missing]
    answered = [result for result in asked if result.outcome == ANSWERED]
    outcomes = [result.outcome for result in counted]
    return {
        "scripts": len(results),
        "can_run": len(counted),
        "answered": outcomes.count(ANSWERED),
        "answered_by": dict(Counter(filter(None, (result.tier for result in counted)))),
        "accused": outcomes.count(ACCUSED),
        "unknown": outcomes.count(UNKNOWN),
        "broken": outcomes.count(BROKEN),
        "not_here": outcomes.count(NOT_HERE),
        **sizes_of(errors),
        "inside_range": sum(inside),
        "ranges": len(inside),
        "median_s": _median([result.seconds for result in asked]),
        "median_cpu_s": _median([result.cpu_s for result in asked]),
        "median_cpu_s_answered": _median([result.cpu_s for result in answered]),
    }


def _median(seconds: Sequence[float]) -> float | None:
    return round(statistics.median(seconds), 2) if seconds else None


def sizes_of(errors: Sequence[float]) -> dict[str, Any]:
    """Return how large signed errors in percent are: their number, median and 90 %, and how many
    are far too low."""
    sizes = sorted(abs(error) for error in errors)
    return {
        "points": len(sizes),
        "median_error_pct": round(statistics.median(sizes), 3) if sizes else None,
        "p90_error_pct": round(sizes[round(0.9 * (len(sizes) - 1))], 3) if sizes else None,
        "too_low": sum(error < -DEEP for error in errors),
    }


_PLACE = re.compile(r"^[^\s:]+:\d+: ")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_DOTTED = re.compile(r"\b\w+(?:\.\w+)+\b")


def kind_of(cause: str) -> str:
    """Return a cause without what is particular to one script: places, names, numbers."""
    text = _QUOTED.sub("…", _PLACE.sub("", cause))
    return _NUMBER.sub("N", _DOTTED.sub("…", text)).strip() or cause


def causes(results: Sequence[Result]) -> Mapping[str, list[Result]]:
    """Return the misses grouped by kind of cause, the most frequent first."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        if result.entry.can_run and result.outcome != ANSWERED:
            groups[f"{result.outcome}: {kind_of(result.cause)}"].append(result)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def report(batch: str, tier: str, results: Sequence[Result]) -> str:
    """Return what is printed of a run."""
    figures = summary(results)
    lines = [f"{batch}, {tier}: {figures['answered']} of {figures['can_run']} scripts answered"]
    lines += [f"  {result.entry.id:60} {_shown(result)}" for result in results]
    lines.append("  " + ", ".join(f"{name} {value}" for name, value in figures.items()))
    for kind, group in causes(results).items():
        lines.append(f"  {len(group):3} x {kind}")
        for result in group:
            lines.append(f"        {result.entry.id}: {result.cause}")
            lines += [f"            {why}" for why in _further(result, tier)]
    return "\n".join(lines)


def _further(result: Result, tier: str) -> Sequence[str]:
    """Return why the lower tiers of the ladder did not answer."""
    return result.answers[0].unknowns[1:3] if tier == LADDER and result.answers else ()


def _shown(result: Result) -> str:
    if not result.entry.can_run:
        return f"{NOT_COUNTED}: {result.entry.cannot_run}"
    said = [f"{e:+.2f} %" for e in result.errors] or [
        f"{a.peak_bytes / 2**20:.2f} MiB" for a in result.answers if a.peak_bytes is not None
    ]
    by = f" by {result.tier}" if result.tier else ""
    return (
        f"{result.outcome}{by} {' '.join(said)} {result.seconds:.1f} s (CPU {result.cpu_s:.1f} s)"
    )
