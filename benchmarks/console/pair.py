"""Two versions of the console at once, and the figures of this one by those of the other.

    git worktree add /tmp/before HEAD~1
    python -m benchmarks.console.pair /tmp/before --case "session 155x37"

On a machine with other work two runs one after the other cannot be compared. Here both run at the
same time on the same processor, so that whatever disturbs one disturbs the other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

Figures = dict[tuple[str, str], float]


def main() -> None:
    """Print the figures of both, and their ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("other", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--case", default="session 155x37", help="as for benchmarks.console")
    parser.add_argument("--pairs", type=int, default=1)
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for _ in range(options.pairs):
        runs = [_started(folder, options.case) for folder in (options.other, Path.cwd())]
        other, this = map(_figures, runs)
        print(f"load {os.getloadavg()[0]:.0f}")
        for key, before in other.items():
            if before and key in this:
                ratio = this[key] / before
                print(
                    f"{'  '.join(key):50} {before:9.2f} {this[key]:9.2f} {ratio:7.2f}", flush=True
                )


def _started(folder: Path, case: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.console", "--case", case, "--json"]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def _figures(run: subprocess.Popen[str]) -> Figures:
    out, _ = run.communicate()
    return {(row["case"], row["what"]): row["figure"] for row in json.loads(out)}


if __name__ == "__main__":
    main()
