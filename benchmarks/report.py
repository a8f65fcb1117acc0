"""What `gpuconsole report` costs over a long journal.

    python -m benchmarks.report [--jobs 100000] [--limit 1.0]

Writes a journal of made-up jobs, an attempt in ten on two hosts, one in twenty beside another on
its device, and runs the command on it as a person would. Exit code 1 where the median of three runs
for the last 30 days takes more processor time than the limit (seconds); a busy machine doubles it.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpuconsole.core.devices.device_use import DeviceUse
from gpuconsole.core.jobs import Attempt, Job, JobState, Member, Task
from gpuconsole.state import Journal
from gpuconsole.state.journal import _insert
from gpuconsole.state.tables import device_use, rows

DAY_S = 86400.0
HOSTS = 50
SEED = 7
ASKED = (
    ("--by", "user"),
    ("--by", "user", "--since", "-1000d"),
    ("--by", "user,account,host,model,month", "--since", "-1000d"),
)
RUNS = 3


def write(folder: Path, count: int) -> None:
    """Write a journal with so many ended jobs of the last 300 days."""
    dice, now = random.Random(SEED), time.time()
    journal = Journal(folder, clock=time.time)
    free = [now - 300 * DAY_S] * HOSTS
    step_s = 300 * DAY_S * HOSTS / count
    with journal._writing() as (connection, revision):
        for number in range(count):
            job = _job(dice, number, free, step_s)
            values = rows.job_values(job) | {"id": job.id, "revision": revision}
            _insert(connection, "jobs", values)
            (attempt,) = job.attempts
            key = {"job": job.id, "number": 1}
            _insert(connection, "attempts", key | rows.attempt_values(attempt))
            device_use.write(connection, _uses(dice, job, attempt))
    journal.close()


def _job(dice: random.Random, number: int, free: list[float], step_s: float) -> Job:
    """Return a job of the next host. It begins as the one before ends, or beside it."""
    first = number % HOSTS
    places = [first, (first + 1) % HOSTS] if dice.random() < 0.1 else [first]
    shared = len(places) == 1 and dice.random() < 0.05
    began = max(free[place] for place in places) - (0.2 * step_s if shared else 0.0)
    ended = began + dice.uniform(0.5, 1.0) * step_s
    for place in places:
        free[place] = max(free[place], ended)
    cards = range(dice.choice((1, 2, 8)))
    held = [tuple(f"GPU-{place}-{card}" for card in cards) for place in places]
    attempt = Attempt(
        1, f"host-{first}", held[0], created_at=began, starting_at=began, started_at=began,
        ended_at=ended, shared=shared,
        members=tuple(
            Member(f"host-{place}", uuids, (), f"c-{number}")
            for place, uuids in zip(places[1:], held[1:], strict=True)
        ),
    )  # fmt: skip
    task = Task(
        f"train-{number}", script="/home/someone/project/train.py", args=("--lr", "0.1"),
        project=f"/home/someone/project-{dice.randrange(40)}", account=f"a{dice.randrange(8)}",
        env={f"VARIABLE_{n}": "a value of some length" for n in range(10)},
    )  # fmt: skip
    return Job(
        f"20300101-{number:06d}", task, f"user-{dice.randrange(30)}", JobState.SUCCEEDED, began,
        attempts=(attempt,),
    )  # fmt: skip


def _uses(dice: random.Random, job: Job, attempt: Attempt) -> list[DeviceUse]:
    uses = []
    for part in attempt.parts:
        devices = len(part.device_uuids)
        held_s = ((attempt.ended_at or 0.0) - attempt.created_at) * devices
        uses.append(
            DeviceUse(
                job.id,
                1,
                attempt.created_at,
                part.host,
                "NVIDIA A100-SXM4-80GB",
                devices,
                held_s * dice.random(),
                held_s,
                held_s * 300.0,
                held_s,
                attempt.ended_at or 0.0,
                attempt.ended_at,
            )
        )  # fmt: skip
    return uses


def timed(folder: Path, asked: tuple[str, ...]) -> float:
    """Return the processor time that the command takes on a journal, s."""
    command = [sys.executable, "-m", "gpuconsole", "report", "--state", str(folder), *asked]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Write a journal, run the command, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--limit", type=float, default=1.0)
    chosen = parser.parse_args()
    slow = False
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        write(state, chosen.jobs)
        print(f"{chosen.jobs:,} jobs, processor time, median of {RUNS} runs, s")
        for asked in ASKED:
            took = statistics.median(timed(state, asked) for _ in range(RUNS))
            slow = slow or (asked is ASKED[0] and took > chosen.limit)
            print(f"| {' '.join(asked)} | {took:.2f} |")
    return int(slow)


if __name__ == "__main__":
    raise SystemExit(main())
