"""Write the trace that `gpuconsole simulate` plays when none is named.

    python tools/sample_trace.py [--check]

It is synthetic: no job of it ever ran. Its shape follows what public traces of labs have in common
(many short jobs of one device, few long ones of many, more by day than by night, users that come in
bursts); its figures are drawn and belong to no real lab.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).parents[1] / "gpuconsole" / "data" / "sample-trace.csv"
SEED = 2024
DAYS = 6
USERS = ("ana", "bo", "chen", "dita", "emil", "fei", "goran", "hana", "ines", "jun")
CLASSES = ("vision", "language", "recommendation", "control")
DEVICES = ((1, 0.72), (2, 0.12), (4, 0.09), (8, 0.07))
HOURS = (2, 1, 1, 1, 1, 1, 2, 3, 6, 9, 10, 10, 8, 9, 10, 10, 9, 8, 7, 6, 5, 5, 4, 3)
"""Weight of each hour of a day."""
SESSIONS_A_DAY = 45


def main() -> int:
    """Write the file, or with --check compare it."""
    text = "".join(lines())
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.read_text(encoding="utf-8") == text else 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"{TARGET}: {text.count(chr(10)) - 4:,} jobs")
    return 0


def lines() -> Iterator[str]:
    """Yield the lines of the file."""
    yield "# Synthetic jobs, made by tools/sample_trace.py: no job of this file ever ran.\n"
    yield "# Times in seconds, memory in MiB; docs/simulate.md explains the columns.\n"
    yield "submitted_s,run_time_s,devices,user,job_class,need_mib,utilization\n"
    for row in sorted(jobs(random.Random(SEED))):
        yield ",".join(str(value) for value in row) + "\n"


def jobs(dice: random.Random) -> Iterator[tuple[int, int, int, str, str, int, int]]:
    """Draw sessions of users, each a burst of jobs that are alike."""
    weights = [1 / (rank + 1) for rank in range(len(USERS))]
    for _ in range(DAYS * SESSIONS_A_DAY):
        user = dice.choices(USERS, weights)[0]
        kind = CLASSES[(USERS.index(user) + dice.choices((0, 1, 2), (6, 2, 1))[0]) % len(CLASSES)]
        devices = dice.choices([count for count, _ in DEVICES], [share for _, share in DEVICES])[0]
        typical = dice.lognormvariate(8.1 + 0.25 * devices**0.5, 1.5)
        need = min(60_000, max(1_500, dice.lognormvariate(9.0, 0.7)))
        busy = dice.triangular(8, 98, 60)
        hour = dice.choices(range(24), HOURS)[0]
        begin = dice.randrange(DAYS) * 86_400 + hour * 3_600 + dice.uniform(0, 3_600)
        for _ in range(dice.choices((1, 2, 3, 5, 8), (8, 4, 3, 2, 1))[0]):
            length = min(172_800.0, typical * dice.lognormvariate(0.0, 0.6))
            yield int(begin), max(20, int(length)), devices, user, kind, int(need), int(busy)
            begin += dice.expovariate(1 / 240)


if __name__ == "__main__":
    sys.exit(main())
