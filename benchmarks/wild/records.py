"""The first run of each batch with each tier: written once, and never again.

A batch that has been run is no longer unseen: what is corrected after it makes later figures better
than those for code that was never looked at. So its first run is what counts, and a later run of
the same batch with the same tier cannot take its place: it is kept beside it as the latest. A run
of an older version for comparison ("before") has a place of its own, and so has the latest run
with data beside the scripts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.wild import judging, manifest
from benchmarks.wild.judging import Result
from benchmarks.wild.manifest import Entry

RECORDS = Path(__file__).resolve().with_name("first-runs.json")
LATEST = RECORDS.with_name("latest-runs.json")


class AlreadyRunError(Exception):
    """A batch has a first run with this tier."""


def load(path: Path = RECORDS) -> list[dict[str, Any]]:
    """Return the first runs, in the order in which they were made."""
    if not path.exists():
        return []
    runs: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["runs"]
    return runs


def append(run: Mapping[str, Any], path: Path = RECORDS) -> None:
    """Add a first run to the file; raises AlreadyRunError where its place is taken."""
    runs = load(path)
    place = _place(run)
    if any(_place(other)[:3] == place[:3] for other in runs):
        raise AlreadyRunError(f"{run['batch']} has its first run with {run['tier']}")
    _write([*runs, dict(run)], path)


def first_run(batch: str, tier: str, commit: str, path: Path = RECORDS) -> dict[str, Any]:
    """Return the first run of a batch with a tier; raises LookupError where there is none, or where
    it was one of another version of the product."""
    for run in load(path):
        if _place(run)[:3] == (batch, tier, False) and run["commit"] == commit:
            return run
    raise LookupError(f"{batch} has no first run with {tier} of the version {commit}")


def keep_times(
    batch: str, tier: str, times: Mapping[str, tuple[float, float]], path: Path = RECORDS
) -> None:
    """Write beside each script of a first run what its question takes on a machine that does
    nothing else: time on the clock and processor time, in seconds."""
    runs = load(path)
    for run in runs:
        if _place(run)[:3] == (batch, tier, False):
            for identity, (seconds, cpu_s) in times.items():
                run["scripts"][identity]["alone"] = {"seconds": seconds, "cpu_s": cpu_s}
    _write(runs, path)


def replace(run: Mapping[str, Any], path: Path = LATEST) -> None:
    """Keep a run as the latest of its batch and tier."""
    others = [other for other in load(path) if _place(other) != _place(run)]
    _write(sorted([*others, dict(run)], key=_place), path)


def _write(runs: Sequence[Mapping[str, Any]], path: Path) -> None:
    text = json.dumps({"runs": runs}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", "utf-8")


def _place(run: Mapping[str, Any]) -> tuple[str, str, bool, bool]:
    return run["batch"], run["tier"], bool(run.get("before")), bool(run.get("with_data"))


def run_of(
    batch: str,
    tier: str,
    results: Sequence[Result],
    *,
    date: str,
    commit: str,
    before: bool,
    with_data: bool,
    libraries: str,
    with_truth: bool = False,
) -> dict[str, Any]:
    """Return a run as it is recorded: figures, and the outcome of each script.

    `with_truth`: only scripts with a measured peak were asked about.
    """
    return {
        "batch": batch,
        "tier": tier,
        "date": date,
        "commit": commit,
        "before": before,
        "with_data": with_data,
        "libraries": libraries,
        **({"with_truth": True} if with_truth else {}),
        "figures": judging.summary(results),
        "scripts": {result.entry.id: _script(result) for result in results if result.entry.can_run},
    }


def key_of(batch: int | None) -> str:
    """Return the name of a batch size in a record."""
    return str(batch or "own")


def _script(result: Result) -> dict[str, Any]:
    times = {"seconds": round(result.seconds, 2), "cpu_s": result.cpu_s}
    found: dict[str, Any] = {"outcome": result.outcome, **times}
    peaks = {
        key_of(answer.batch): round(answer.peak_bytes)
        for answer in result.answers
        if answer.peak_bytes is not None
    }
    ranges = {
        key_of(answer.batch): [round(answer.low_bytes), round(answer.high_bytes)]
        for answer in result.answers
        if answer.low_bytes is not None and answer.high_bytes is not None
    }
    return {
        **found,
        **({"with_data": True} if result.entry.data else {}),
        **({"by": result.tier} if result.tier else {}),
        **({"peak_bytes": peaks} if peaks else {}),
        **({"range_bytes": ranges} if ranges else {}),
        **({"errors_pct": [round(error, 3) for error in result.errors]} if result.errors else {}),
        **({"cause": result.cause} if result.cause else {}),
    }


def errors_of(run: Mapping[str, Any], entry: Entry) -> list[float]:
    """Return the signed errors in percent of what a run answered of a script, held against its
    truth as it is known by now, which may have been measured after the run."""
    peaks = run["scripts"].get(entry.id, {}).get("peak_bytes", {})
    return [
        100 * (peaks[key_of(point.batch)] / point.peak_bytes - 1)
        for point in entry.truth
        if key_of(point.batch) in peaks
    ]


def counted(run: Mapping[str, Any]) -> list[Entry]:
    """Return the scripts of the batch that can run, as far as that is known by now; one that the
    run did not ask about was not answered, but for a run that asked only those with a truth."""
    entries = [one for one in manifest.load().entries if one.batch == run["batch"] and one.can_run]
    return [one for one in entries if not run.get("with_truth") or one.id in run["scripts"]]
