"""Holds the first runs of batches against the goals for code that was never seen.

    python -m benchmarks.wild --goals third-party-7,third-party-8,suites-5

A goal for an answer "by some tier" counts what a user gets who names none: reading first, and a run
on tensors without data where reading tells nothing. It is put together from the first runs of the
two tiers; a recorded run of the ladder takes its place where there is one.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.wild import judging, records, running
from benchmarks.wild.manifest import Entry
from gpuconsole.core.units import MIB
from gpuconsole.preflight.tiers.two_tiers import are_close

Run = Mapping[str, Any]
MEDIAN_PCT, P90_PCT = 1.0, 8.0
"""The largest median error, and the largest error of nine in ten points, in percent."""
SUITES = "suites"


@dataclass(frozen=True, slots=True)
class Asked:
    """What one tier said of one script in a first run."""

    entry: Entry
    run: Run

    @property
    def outcome(self) -> str:
        """One of the outcomes of `judging`; empty where the run did not ask."""
        return str(self.said.get("outcome", ""))

    @property
    def errors(self) -> list[float]:
        """Signed errors in percent, against the truth as it is known by now."""
        return records.errors_of(self.run, self.entry)

    @property
    def inside(self) -> list[bool]:
        """At each measured batch size that has a range, whether the truth lies in it."""
        ranges = self.said.get("range_bytes", {})
        keys = [(records.key_of(point.batch), point.peak_bytes) for point in self.entry.truth]
        return [ranges[key][0] <= peak <= ranges[key][1] for key, peak in keys if key in ranges]

    @property
    def seconds(self) -> float:
        """Time on the clock of the question at the script's own batch size: on a machine that did
        nothing else, where it was measured again."""
        return float(self._timed.get("seconds", 0.0))

    @property
    def cpu_s(self) -> float:
        """Processor time of that question, in seconds."""
        return float(self._timed.get("cpu_s", 0.0))

    @property
    def beside(self) -> tuple[float, float]:
        """Both of the first run itself, whose machine may have done other work."""
        return float(self.said.get("seconds", 0.0)), float(self.said.get("cpu_s", 0.0))

    @property
    def timed_alone(self) -> bool:
        """Whether the time was measured again."""
        return "alone" in self.said

    @property
    def _timed(self) -> Mapping[str, Any]:
        timed: Mapping[str, Any] = self.said.get("alone", self.said)
        return timed

    @property
    def said(self) -> Mapping[str, Any]:
        """What the run recorded of it."""
        said: Mapping[str, Any] = self.run["scripts"].get(self.entry.id, {})
        return said


@dataclass(frozen=True, slots=True)
class Goal:
    """One row: what is asked, what came of it, and whether it is met; None where no run tells."""

    name: str
    asked: str
    found: str
    met: bool | None

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        verdict = {True: "met", False: "**missed**", None: "not shown"}[self.met]
        return self.name, self.asked, self.found, verdict


def table(batches: Sequence[str], runs: Iterable[Run] | None = None) -> str:
    """Return the goals against the first runs of some batches, as Markdown.

    Raises ValueError where one of them has no first run with the static or the meta tier.
    """
    runs = records.load() if runs is None else list(runs)
    static, meta = (_of_tier(tier, batches, runs) for tier in ("static", "meta"))
    ladder = _ladder(batches, runs) or _put_together(static, meta)
    rows = [
        *_coverage(static, meta, ladder),
        _none("called wrong although it runs", [*static, *meta], _accused),
        *_errors("static", static),
        *_errors("meta", meta),
        *_errors("what a user gets", ladder),
        *_errors("reading confirmed by `meta`", _confirmed(static, meta)),
        _time("static, processor time, median", static, lambda one: one.cpu_s, 0.4),
        _time("meta, time on the clock, median", meta, lambda one: one.seconds, 10.0),
    ]
    head = "| goal | asked | first run | |\n| --- | --- | --- | --- |\n"
    return head + "".join(f"| {' | '.join(row.cells)} |\n" for row in rows)


def _of_tier(tier: str, batches: Sequence[str], runs: Iterable[Run]) -> list[Asked]:
    """Return what a tier said of each script that counts; raises ValueError without a first run."""
    found = {r["batch"]: r for r in runs if r["tier"] == tier and not r["before"]}
    missing = [batch for batch in batches if batch not in found]
    if missing:
        raise ValueError(f"no first run with {tier}: {', '.join(missing)}")
    return [
        Asked(entry, found[batch]) for batch in batches for entry in records.counted(found[batch])
    ]


def _ladder(batches: Sequence[str], runs: Sequence[Run]) -> list[Asked]:
    try:
        return _of_tier(running.LADDER, batches, runs)
    except ValueError:
        return []


def _put_together(static: Sequence[Asked], meta: Sequence[Asked]) -> list[Asked]:
    """Return the answer of reading where there is one, else that of the run."""
    measured = {asked.entry.id: asked for asked in meta}
    return [
        asked
        if asked.outcome == judging.ANSWERED
        else measured.get(asked.entry.id, asked)
        for asked in static
    ]  # fmt: skip


def _confirmed(static: Sequence[Asked], meta: Sequence[Asked]) -> list[Asked]:
    """Return the answers of scripts that were both read and run: where the two differ, the larger
    with a range that holds both, as the product answers."""
    measured = {asked.entry.id: asked for asked in meta}
    both = [
        (read, measured[read.entry.id])
        for read in static
        if read.outcome == judging.ANSWERED
        and read.entry.id in measured
        and measured[read.entry.id].outcome == judging.ANSWERED
    ]
    return [Asked(read.entry, _larger(read, ran)) for read, ran in both]


def _larger(read: Asked, ran: Asked) -> Run:
    """Return a run that says of one script what `preflight.TwoTiers` would."""
    mine, other = dict(ran.said), read.said
    peaks, ranges = dict(mine.get("peak_bytes", {})), dict(mine.get("range_bytes", {}))
    for key in {*peaks} & {*other.get("peak_bytes", {})}:
        if are_close(peaks[key] / MIB, other["peak_bytes"][key] / MIB):
            continue
        peaks[key] = max(peaks[key], other["peak_bytes"][key])
        if key in ranges and key in other.get("range_bytes", {}):
            held = (ranges[key], other["range_bytes"][key])
            ranges[key] = [min(low for low, _ in held), max(high for _, high in held)]
    said = {**mine, "peak_bytes": peaks, "range_bytes": ranges}
    return {"scripts": {read.entry.id: said}}


def _coverage(static: list[Asked], meta: list[Asked], ladder: list[Asked]) -> list[Goal]:
    third, suites = "third-party scripts", "entries of suites"
    return [
        _share(f"answered by some tier, {third}", _apart(ladder, suites=False), 90),
        _share(f"answered by some tier, {suites}", _apart(ladder, suites=True), 90),
        _share(f"answered by `meta`, {third}", _apart(meta, suites=False), 75),
        _share(f"answered by `meta`, {suites}", _apart(meta, suites=True), 60),
        _share(f"answered by reading, {third}", _apart(static, suites=False), 30),
        _share(f"answered by reading, {suites}", _apart(static, suites=True), 10),
    ]


def _apart(asked: Iterable[Asked], *, suites: bool) -> list[Asked]:
    return [one for one in asked if one.entry.batch.startswith(SUITES) == suites]


def _share(name: str, asked: Sequence[Asked], percent: int) -> Goal:
    answered = sum(one.outcome == judging.ANSWERED for one in asked)
    share = 100 * answered / len(asked) if asked else 0.0
    found = f"{answered} of {len(asked)} ({share:.0f} %)"
    return Goal(name, f"{percent} %", found, share >= percent if asked else None)


def _accused(one: Asked) -> bool:
    return one.outcome == judging.ACCUSED


def _none(name: str, asked: Sequence[Asked], bad: Callable[[Asked], bool]) -> Goal:
    ids = sorted({one.entry.id for one in asked if bad(one)})
    found = f"{len(ids)} of {len({one.entry.id for one in asked})}"
    return Goal(name, "none", found, not ids)


def _errors(name: str, asked: Sequence[Asked]) -> list[Goal]:
    errors = [error for one in asked for error in one.errors]
    inside = [held for one in asked for held in one.inside]
    sizes = judging.sizes_of(errors)
    if not errors:
        return [Goal(f"{name}, errors", "", "no point answered", None)]
    median, p90, low = sizes["median_error_pct"], sizes["p90_error_pct"], sizes["too_low"]
    share = 100 * sum(inside) / len(inside) if inside else None
    close = sum(abs(error) <= P90_PCT for error in errors)
    within = "no record" if share is None else f"{sum(inside)} of {len(inside)} ({share:.0f} %)"
    return [
        Goal(
            f"{name}, error: median, nine tenths",
            f"{MEDIAN_PCT:.0f} %, {P90_PCT:.0f} %",
            f"{median:.2f} %, {p90:.2f} %; within {P90_PCT:.0f} %: {close} of {len(errors)} points",
            median <= MEDIAN_PCT and p90 <= P90_PCT,
        ),
        Goal(
            f"{name}, points more than {judging.DEEP:.0f} % too low", "none", f"{low}", not low
        ),
        Goal(
            f"{name}, truth inside the range", "95 %", within,
            None if share is None else share >= 95,
        ),
    ]  # fmt: skip


def _time(
    name: str, asked: Sequence[Asked], time_of: Callable[[Asked], float], most: float
) -> Goal:
    known = [one for one in asked if one.outcome]
    if not known:
        return Goal(name, f"{most:g} s", "no record", None)
    median = statistics.median(time_of(one) for one in known)
    work = statistics.median(one.cpu_s for one in known)
    found = f"{median:.2f} s" + ("" if median == work else f", {work:.1f} s of processor time")
    if all(one.timed_alone for one in known):
        clock = statistics.median(one.beside[0] for one in known)
        used = statistics.median(one.beside[1] for one in known)
        found += f"; first run, beside other work: {clock:.2f} s, {used:.2f} s of processor time"
    return Goal(name, f"{most:g} s", found, median <= most)
