"""Changes the rules of the product one at a time, and counts how many changes the tests notice.

    python tools/mutants.py [--sample N] [--seed S]

The rules are those of `gpuconsole/core`, `gpuconsole/placement` and `gpuconsole/preflight/memory`;
what is changed, and which tests are asked, is set in `pyproject.toml` under `tool.mutmut`. All
changes take many hours, so a random sample is taken. Every change that no test noticed is listed;
its text is printed by `python -m mutmut show NAME`.

Ends with 1 when fewer than 85 % of the sample were noticed.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections import Counter

GOAL = 0.85
NOTICED = ("killed", "timeout", "caught by type check", "suspicious")
UNCHECKED = "gpuconsole.no_such_name"
"""A name that no change has: mutmut then makes all changes, and runs the tests for none."""


def main() -> int:
    """Take the sample, run the tests for each of its changes, and print what was noticed."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--sample", type=int, default=200, metavar="N", help="changes to try")
    options.add_argument("--seed", type=int, default=1, metavar="S", help="which sample")
    given = options.parse_args()
    _mutmut("run", UNCHECKED)
    names = sorted(results())
    if not names:
        print("mutmut made no changes: does `python -m mutmut run` work here?", file=sys.stderr)
        return 1
    sample = sorted(random.Random(given.seed).sample(names, min(given.sample, len(names))))
    _mutmut("run", *sample)
    return report(sample, results(), len(names))


def results() -> dict[str, str]:
    """Return what became of each change, by its name."""
    text = subprocess.run(
        (sys.executable, "-m", "mutmut", "results", "--all", "true"),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    lines = (line.strip().partition(": ") for line in text.splitlines())
    return {name: status for name, _, status in lines if name and status}


def report(sample: list[str], became: dict[str, str], total: int) -> int:
    """Print the figures of a sample, and what no test noticed; return the exit status."""
    statuses = Counter(became.get(name, "not checked") for name in sample)
    noticed = sum(statuses[status] for status in NOTICED)
    for name in sample:
        if became.get(name) not in NOTICED:
            print(f"{became.get(name, 'not checked'):12} {name}")
    share = noticed / len(sample)
    print(f"{noticed} of {len(sample)} noticed ({share:.0%}; goal {GOAL:.0%}), of {total} changes")
    return 0 if share >= GOAL else 1


def _mutmut(*arguments: str) -> None:
    subprocess.run((sys.executable, "-m", "mutmut", *arguments), check=False)


if __name__ == "__main__":
    sys.exit(main())
