"""Hold the static estimate against what real Paddle runs measured.

    python benchmarks/preflight_corpus.py [CORPUS] [--only ID] [--verbose]

CORPUS is a folder with `truth.json` and `scripts/` (default: `../shared/paddle-corpus`).
Prints the error of every scored point, the median and the 90th percentile, and the coverage.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from gpuconsole.preflight.analysis import Analysis, analyse

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "paddle-corpus"


def measured(corpus: Path, entry: dict[str, Any], verbose: bool) -> list[float]:
    """Print one script's points and return its errors in percent."""
    argv = list((entry.get("argv") or "").split())
    start = time.perf_counter()
    analysis: Analysis = analyse(corpus / entry["entry"], argv)
    errors: list[float] = []
    first = analysis.estimate(backend="cpu")
    for point in entry.get("points", []):
        estimate = analysis.estimate(point["batch"], backend="cpu")
        if estimate.memory is None:
            why = estimate.unknowns[0] if estimate.unknowns else None
            faults = "; ".join(f"{e.line}: {e.message}" for e in estimate.errors)
            print(f"  {entry['id']:24} b={point['batch']:<5} unknown: {why} {faults}")
            break
        found = estimate.memory.tensors_peak_mib * 2**20
        error = 100 * (found / point["peak_bytes"] - 1)
        print(
            f"  {entry['id']:24} b={point['batch']:<5} {point['peak_bytes'] / 2**20:9.1f} MiB"
            f"  estimate {found / 2**20:9.1f}  {error:+6.2f} %"
            f"{'' if point['scoring'] else '  (not scored)'}"
        )
        if verbose:
            print(
                "     ",
                {
                    k: round(getattr(estimate.memory, k), 2)
                    for k in (
                        "parameters_mib",
                        "gradients_mib",
                        "optimizer_mib",
                        "activations_mib",
                        "inputs_mib",
                        "workspace_mib",
                    )
                },
            )
        if point["scoring"]:
            errors.append(abs(error))
    ms = 1000 * (time.perf_counter() - start)
    print(
        f"  {entry['id']:24} coverage {first.coverage:.2f}, batch {first.batch_size} "
        f"({first.batch_source.kind if first.batch_source else None}), {ms:.0f} ms"
    )
    if verbose:
        for unknown in first.unknowns:
            print("      ?", unknown.line, unknown.reason)
    return errors


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    truth_file = args.corpus / "truth.json"
    if not truth_file.exists():
        parser.exit(2, f"There is no {truth_file}: name the folder of a measured corpus.\n")
    truth = json.loads(truth_file.read_text())
    errors: list[float] = []
    covered = 0
    scripts = [s for s in truth["scripts"] if not args.only or s["id"] in args.only.split(",")]
    for entry in scripts:
        found = measured(args.corpus, entry, args.verbose)
        covered += bool(found)
        errors += found
    if errors:
        errors.sort()
        print(
            f"{len(errors)} points of {covered}/{len(scripts)} scripts: "
            f"median {statistics.median(errors):.2f} %, "
            f"p90 {errors[int(0.9 * (len(errors) - 1))]:.2f} %, "
            f"worst {errors[-1]:.2f} %"
        )


if __name__ == "__main__":
    main()
