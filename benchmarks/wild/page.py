"""Writes the table of first runs into docs/accuracy.md, from the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.wild import records

PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"
BEGIN, END = "<!-- first runs: begin -->", "<!-- first runs: end -->"
_COLUMNS = (
    "batch", "tier", "first run", "libraries", "answered", "“will fail”", "points", "median",
    "90 %", ">10 % too low", "in range", "time",
)  # fmt: skip
_HEAD = f"| {' | '.join(_COLUMNS)} |\n|{' --- |' * len(_COLUMNS)}\n"


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of first runs as Markdown."""
    return _HEAD + "".join(_row(run) for run in runs)


def _row(run: Mapping[str, Any]) -> str:
    figures = run["figures"]
    points = figures["points"]
    cells = [
        run["batch"],
        run["tier"],
        f"{run['date']}, {run['commit']}" + (", before" if run.get("before") else ""),
        run["libraries"],
        f"{figures['answered']} of {figures['can_run']}",
        f"{figures['accused']}",
        f"{points}",
        _percent(figures["median_error_pct"]),
        _percent(figures["p90_error_pct"]),
        f"{figures['too_low']}" if points else "–",
        f"{figures['inside_range']} of {figures['ranges']}" if figures["ranges"] else "–",
        f"{figures['median_s']:.1f} s" if figures["median_s"] is not None else "–",
    ]
    return f"| {' | '.join(cells)} |\n"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} %"


def with_table(text: str, runs: Sequence[Mapping[str, Any]]) -> str:
    """Return a page with the table between its marks; raises ValueError where they are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table(runs)}{END}{after}"


def write() -> None:
    """Write the table of the recorded runs into the page."""
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), records.load()), "utf-8")
