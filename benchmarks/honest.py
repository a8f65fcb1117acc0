"""Scripts that train: none may be called wrong, and what is not told has a reason.

`python -m benchmarks.honest` runs each script of `scripts/honest` on Paddle, reads it with the
static tier and measures it with the meta tier, and prints what each tier said.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuconsole.preflight import analyse
from gpuconsole.preflight.tiers.probe_request import PROBE, build

SCRIPTS = Path(__file__).parent / "scripts" / "honest"
LIMIT_S = 600.0
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "GLOG_minloglevel": "3"}


@dataclass(frozen=True)
class Said:
    """What was said of a script."""

    name: str
    runs: str = ""
    """Why it does not run on Paddle; "" where it does."""
    static: tuple[str, ...] = ()
    """The faults that reading it found."""
    kind: str = ""
    """The kind of error with which measuring ended; "" where it answered."""
    reason: str = ""

    @property
    def accused(self) -> bool:
        """Whether a script that runs is called wrong."""
        return not self.runs and (bool(self.static) or self.kind == "script")


def trained(script: Path) -> str:
    """Run a script on Paddle; return the last line of its error, "" where it ends well."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=False,
            timeout=LIMIT_S, cwd=folder, env=ENVIRONMENT,
        )  # fmt: skip
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]


def faults(script: Path) -> tuple[str, ...]:
    """Return the faults that the static tier finds."""
    found = analyse(script).estimate(backend="cpu").errors
    return tuple(f"line {one.line}: {one.message}" for one in found)


def measured(script: Path) -> tuple[str, str]:
    """Return kind and words of the error with which the meta tier ends, empty for an answer."""
    request = build(None, script, mode="meta", backend="cpu")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(PROBE / "probe.py")], input=json.dumps(request),
            capture_output=True, text=True, check=False, timeout=LIMIT_S, env=ENVIRONMENT,
            cwd=folder,
        )  # fmt: skip
    last = json.loads(done.stdout.splitlines()[-1])
    error = last.get("error", {})
    return error.get("kind", ""), error.get("message", "")


def answers(names: tuple[str, ...]) -> Iterator[Said]:
    """Give what is said of scripts, of all where no names are given."""
    for script in sorted(SCRIPTS.glob("*.py")):
        if not names or script.stem in names:
            yield Said(script.stem, trained(script), faults(script), *measured(script))


def main() -> int:
    """Ask and print; 1 where a script that trains is called wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.honest", description=__doc__)
    parser.add_argument("names", nargs="*", help="scripts, all where none is named")
    rows = []
    for row in answers(tuple(parser.parse_args().names)):
        rows.append(row)
        print(f"{row.name}: {row.kind or 'answered'}{': ' if row.reason else ''}{row.reason}")
        for fault in row.static:
            print(f"  static: {fault}")
        if row.runs:
            print(f"  does not run: {row.runs}")
    accused = [row.name for row in rows if row.accused]
    told = sum(not row.kind for row in rows)
    print(f"{len(rows)} scripts, {told} answered, {len(accused)} called wrong: {accused}")
    return int(bool(accused))


if __name__ == "__main__":
    sys.exit(main())
