"""The console over a long queue and a long log, in the terminal it was started in.

Started by `benchmarks.console` in a pseudo-terminal. The session is the real one over 16 hosts made
of figures; its journal and the log of its running job are written beforehand.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.console.fleet_child import MadeHosts, frames
from gpuconsole.config import LabSettings
from gpuconsole.core.images import DEFAULT_IMAGE
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.errors import RefusedError
from gpuconsole.session.context import Context
from gpuconsole.session.logs.follow import log_file
from gpuconsole.session.session import Session
from gpuconsole.session.submit.validate import Packed
from gpuconsole.state import Journal
from gpuconsole.tui import run_console

HOSTS, DEVICES = 16, 8
ENDED_SHARE = 3
"""One job in so many has ended; the others wait."""


def main() -> None:
    """Run the console until it is left."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--lines", type=int, default=0, help="of the running job's log")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder), clock=time.time)
        journal.add_all(list(jobs(options.jobs)))
        start(journal, journal.jobs()[0])
        write_log(log_file(journal.folder, _id(0), 1), options.lines)
        context = Context(
            hosts=MadeHosts(frames(HOSTS, DEVICES)),
            journal=journal,
            settings=LabSettings(),
            user="bench",
            pack=_refuse,
            default_image=lambda host: DEFAULT_IMAGE,
            dispatch=False,
            simulated=True,
        )
        run_console(Session(context))


def jobs(count: int) -> Iterator[Job]:
    """Give jobs of which some have ended and the others wait."""
    now = time.time()
    for number in range(count):
        task = Task(f"j{number:05d}", "train.py", batch_size=64, priority=count - number)
        state = JobState.SUCCEEDED if number and number % ENDED_SHARE == 0 else JobState.QUEUED
        submitted = now - count - 100 + number
        need = 8000.0 + number % 9000
        yield Job(_id(number), task, f"user{number % 7}", state, submitted, estimate_mib=need)


def start(journal: Journal, job: Job) -> None:
    """Let a job run on the first device."""
    now = time.time()
    attempt = Attempt(
        1, "n0000", ("GPU-0000-0",), (0,), job.id, "c" * 64, now - 60, now - 60, now - 59
    )
    launching = replace(job, state=JobState.LAUNCHING, attempts=(attempt,))
    journal.save(journal.save(job, launching), replace(launching, state=JobState.RUNNING))


def _id(number: int) -> str:
    return f"bench-{number:05d}"


def write_log(path: Path, lines: int) -> None:
    """Write what a training of so many steps writes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for step in range(1, lines + 1):
            word = "WARN slow" if step % 1000 == 0 else "INFO"
            file.write(
                f"{step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02} {word} "
                f"step={step:07d}/{lines} loss={3 - step / lines:.4f} lr=3.0e-4 tok/s=412881\n"
            )


def _refuse(*given: object, **more: object) -> Packed:
    raise RefusedError("Nothing is submitted here", "The hosts are made of figures.")


if __name__ == "__main__":
    main()
