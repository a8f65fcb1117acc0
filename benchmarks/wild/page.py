"""Writes the tables of the corpus and of its runs into docs/accuracy.md and its history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.wild import goals, judging, manifest, records, running
from benchmarks.wild.manifest import Entry

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, HISTORY = DOCS / "accuracy.md", DOCS / "accuracy-history.md"
BEGIN, END = "<!-- first runs: begin -->", "<!-- first runs: end -->"
GOALS_BEGIN, GOALS_END = "<!-- goals: begin -->", "<!-- goals: end -->"
DECIDING = ("third-party-24", "suites-19")
"""The batches whose first runs decide: those that were held out last."""
COUNTED_BEGIN, COUNTED_END = "<!-- counted: begin -->", "<!-- counted: end -->"
_COUNTED = (
    "batch", "scripts", "count", "of these with truth", "refused, shown by a run",
    "train with another library", "refused, found by reading",
)  # fmt: skip
_COLUMNS = (
    "batch", "tier", "run", "version", "libraries", "answered", "“will fail”",
    "answered, of those with truth", "judged", "points", "median", "90 %", ">10 % too low",
    "in range", "time", "processor, where answered",
)  # fmt: skip
_HEAD = f"| {' | '.join(_COLUMNS)} |\n|{' --- |' * len(_COLUMNS)}\n"


def table(first: Sequence[Mapping[str, Any]], latest: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of first runs, each with the latest one below it, as Markdown."""
    rows = [_HEAD]
    for run in first:
        rows.append(_row(run, "before" if run["before"] else "first"))
        if not run["before"]:
            same = [other for other in latest if _of(other) == _of(run)]
            rows += [_row(other, _latest(other)) for other in same]
    return "".join(rows)


def _latest(run: Mapping[str, Any]) -> str:
    return "latest, with data" if run.get("with_data") else "latest"


def _of(run: Mapping[str, Any]) -> tuple[str, str]:
    return run["batch"], run["tier"]


def _row(run: Mapping[str, Any], which: str) -> str:
    figures, entries = run["figures"], records.counted(run)
    which += ", with truth" if run.get("with_truth") else ""
    outcomes = [run["scripts"].get(entry.id, {}).get("outcome", "") for entry in entries]
    known = [outcome for outcome, entry in zip(outcomes, entries, strict=True) if entry.truth]
    judged = list(filter(None, (records.errors_of(run, entry) for entry in entries)))
    sizes = judging.sizes_of([error for errors in judged for error in errors])
    cells = [
        run["batch"],
        run["tier"],
        which,
        f"{run['date']}, {run['commit']}",
        run["libraries"],
        f"{outcomes.count(judging.ANSWERED)} of {len(entries)}{_by(run, entries)}",
        f"{outcomes.count(judging.ACCUSED)}",
        f"{known.count(judging.ANSWERED)} of {len(known)}",
        f"{len(judged)}",
        f"{sizes['points']}",
        _percent(sizes["median_error_pct"]),
        _percent(sizes["p90_error_pct"]),
        f"{sizes['too_low']}" if judged else "–",
        f"{figures['inside_range']} of {figures['ranges']}" if figures["ranges"] else "–",
        _seconds(figures["median_s"]),
        _seconds(figures.get("median_cpu_s_answered")),
    ]
    return f"| {' | '.join(cells)} |\n"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} s"


def _by(run: Mapping[str, Any], entries: Iterable[Entry]) -> str:
    """Return how many scripts each tier answered, in a run in which several could."""
    tiers = Counter(run["scripts"].get(entry.id, {}).get("by", "") for entry in entries)
    said = ", ".join(f"{tier} {tiers[tier]}" for tier in running.TIERS if tiers[tier])
    return f" ({said})" if run["tier"] == running.LADDER and said else ""


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} %"


def counted_table(corpus: manifest.Manifest) -> str:
    """Return, for each batch, how many scripts count and why others do not, as Markdown."""
    rows = [f"| {' | '.join(_COUNTED)} |\n|{' --- |' * len(_COUNTED)}\n"]
    for batch in corpus.batches:
        entries = corpus.of(batch)
        shown = [entry.shown_by for entry in entries if not entry.can_run]
        cells = [
            len(entries),
            sum(entry.can_run for entry in entries),
            sum(entry.can_run and bool(entry.truth) for entry in entries),
            shown.count("run") + shown.count("part"),
            shown.count("source"),
            shown.count(""),
        ]
        rows.append(f"| {' | '.join([batch, *map(str, cells)])} |\n")
    return "".join(rows)


def with_goals(text: str) -> str:
    """Return docs/accuracy.md with the goals between their marks; raises ValueError where they are
    missing."""
    return _between(text, GOALS_BEGIN, GOALS_END, goals.table(DECIDING))


def with_runs(
    text: str, first: Sequence[Mapping[str, Any]], latest: Sequence[Mapping[str, Any]]
) -> str:
    """Return the history with its tables between their marks; raises ValueError where they are
    missing."""
    text = _between(text, COUNTED_BEGIN, COUNTED_END, counted_table(manifest.load()))
    return _between(text, BEGIN, END, table(first, latest))


def _between(text: str, begin: str, end: str, made: str) -> str:
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"the page has no marks {begin} and {end}")
    return f"{before}{begin}\n{made}{end}{after}"


def write() -> None:
    """Write the tables into both pages."""
    PAGE.write_text(with_goals(PAGE.read_text("utf-8")), "utf-8")
    runs = records.load(), records.load(records.LATEST)
    HISTORY.write_text(with_runs(HISTORY.read_text("utf-8"), *runs), "utf-8")
