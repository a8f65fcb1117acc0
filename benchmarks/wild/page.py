"""Writes the table of runs into docs/accuracy.md, from the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.wild import judging, manifest, records

PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"
BEGIN, END = "<!-- first runs: begin -->", "<!-- first runs: end -->"
_COLUMNS = (
    "batch", "tier", "run", "version", "libraries", "answered", "“will fail”", "points", "median",
    "90 %", ">10 % too low", "in range", "time",
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
    figures, counted = run["figures"], _counted(run)
    points = figures["points"]
    cells = [
        run["batch"],
        run["tier"],
        which,
        f"{run['date']}, {run['commit']}",
        run["libraries"],
        f"{counted.count(judging.ANSWERED)} of {len(counted)}",
        f"{counted.count(judging.ACCUSED)}",
        f"{points}",
        _percent(figures["median_error_pct"]),
        _percent(figures["p90_error_pct"]),
        f"{figures['too_low']}" if points else "–",
        f"{figures['inside_range']} of {figures['ranges']}" if figures["ranges"] else "–",
        f"{figures['median_s']:.1f} s" if figures["median_s"] is not None else "–",
    ]
    return f"| {' | '.join(cells)} |\n"


def _counted(run: Mapping[str, Any]) -> list[str]:
    """Return the outcomes of the scripts that can run, as far as that is known by now."""
    cannot = {entry.id for entry in manifest.load().entries if not entry.can_run}
    return [one["outcome"] for name, one in run["scripts"].items() if name not in cannot]


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} %"


def with_table(
    text: str, first: Sequence[Mapping[str, Any]], latest: Sequence[Mapping[str, Any]]
) -> str:
    """Return a page with the table between its marks; raises ValueError where they are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table(first, latest)}{END}{after}"


def write() -> None:
    """Write the table of the recorded runs into the page."""
    text = PAGE.read_text("utf-8")
    PAGE.write_text(with_table(text, records.load(), records.load(records.LATEST)), "utf-8")
