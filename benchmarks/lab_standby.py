"""What following the journal costs: a copy, what of it is sent, and what the standby writes.

    python -m benchmarks.lab_standby [JOBS ...]

For journals of so many jobs, each with an estimate of 4 kB: the processor time of one copy on the
head that leads, the bytes that one changed job sends, the time until the standby has it on its
disk, without the network. Takes over at the end, and says how long the journal takes to stand.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import zlib
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.state import Journal
from gpuconsole.state.backup.backups import install
from gpuconsole.state.backup.copies import CopyStore, Held, digest_of_all, make_copy

ROUNDS = 20


def measure(folder: Path, count: int) -> dict[str, float]:
    """Return the figures for a journal of so many jobs."""
    journal = Journal(folder / "lead", clock=time.time)
    estimate = {"layers": "x" * 4096}
    journal.add_all(
        [
            Job(f"{number}job", Task(f"job-{number}", script="train.py"), "ann", JobState.QUEUED,
                float(number), estimate=estimate)
            for number in range(count)
        ]
    )  # fmt: skip
    store = CopyStore(folder / "standby")
    before: tuple[bytes, ...] = ()
    cpu_s, stored_s, sent = 0.0, 0.0, 0
    for turn in range(ROUNDS + 1):
        began = time.process_time()
        copy = make_copy(folder / "lead")
        took = time.process_time() - began
        numbers = [
            number
            for number, digest in enumerate(copy.digests)
            if number >= len(before) or before[number] != digest
        ]
        data = {number: copy.read([number]) for number in numbers}
        began = time.perf_counter()
        held = Held(journal.id, 1, True, time.time(), copy.size)
        store.take(held, data, digest_of_all(copy.digests))
        if turn:
            # The first copy is whole.
            cpu_s += took
            stored_s += time.perf_counter() - began
            sent += len(zlib.compress(b"".join(data.values()), 1))
        before = copy.digests
        job = journal.jobs()[turn * 7 % count]
        journal.save(job, replace(job, detail=f"turn {turn}"))
    began = time.perf_counter()
    install(folder / "standby", store.written(), time.time(), made_at=0.0, hold=False)
    taken = Journal(folder / "standby", clock=time.time)
    assert len(taken.jobs()) == count
    took_s = time.perf_counter() - began
    return {
        "journal_mib": copy.size / 2**20,
        "copy_cpu_ms": 1e3 * cpu_s / ROUNDS,
        "sent_kib": sent / 1024 / ROUNDS,
        "stored_ms": 1e3 * stored_s / ROUNDS,
        "taken_over_ms": 1e3 * took_s,
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", type=int, nargs="*", default=[100, 1000, 10_000])
    options = parser.parse_args(arguments)
    print("jobs  journal MiB  copy ms (cpu)  sent KiB  stored ms  taken over ms")
    for count in options.jobs:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(Path(folder), count)
        widths = {"journal_mib": 12, "copy_cpu_ms": 14, "sent_kib": 9, "stored_ms": 10}
        row = "".join(f" {found[name]:>{width}.1f}" for name, width in widths.items())
        print(f"{count:>5}{row} {found['taken_over_ms']:>14.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
