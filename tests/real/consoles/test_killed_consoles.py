"""A console killed with SIGKILL at every stage of a job, on a real host and engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.state import Journal
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S

pytestmark = pytest.mark.real

SCRIPT = """
import os, time
with open(os.path.join(os.environ["GPUCONSOLE_RESULTS"], "runs"), "a") as runs:
    runs.write("ran\\n")
for step in range(20):
    print("step", step, flush=True)
    time.sleep(0.1)
"""


class Desk:
    """A user's machine, and the journal as seen beside its consoles."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        (folder / "inventory.yaml").write_text(lab.inventory())
        self.folder = folder
        self.script = folder / "project" / "train.py"
        self.script.parent.mkdir()
        self.script.write_text(SCRIPT)

    def command(self, *words: str) -> list[str]:
        """Return a command line."""
        places = ["--inventory", str(self.folder / "inventory.yaml")]
        places += ["--state", str(self.folder / "state")]
        return [sys.executable, "-m", "gpuconsole", *places, *words]

    def run(self, *words: str) -> str:
        """Run a command that succeeds; its standard output."""
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kill_when(self, journal: Journal, job_id: str, moment: Callable[[Job], bool]) -> Job:
        """Dispatch until the moment has come, then SIGKILL; the job as the console left it."""
        console = subprocess.Popen(self.command("dispatch"), stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + PATIENCE_S
            while True:
                job = journal.job(job_id)
                assert job is not None
                if moment(job):
                    break
                assert time.monotonic() < deadline, f"still {job.state}: {job.detail}"
                time.sleep(0.001)
        finally:
            os.kill(console.pid, signal.SIGKILL)
            console.wait()
        left = journal.job(job_id)
        assert left is not None
        return left


def _says(word: str) -> Callable[[Job], bool]:
    return lambda job: job.state is JobState.LAUNCHING and word in job.detail


@pytest.mark.fault(
    "SIGKILL of the console in each state of a job",
    "The job ends once, with a whole log, in one attempt",
)
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(lambda job: job.state is JobState.QUEUED, id="queued"),
        pytest.param(lambda job: job.state is JobState.LAUNCHING, id="chosen"),
        pytest.param(_says("claiming"), id="claiming"),
        pytest.param(_says("starting"), id="creating"),
        pytest.param(
            lambda job: job.attempt is not None and job.attempt.starting_at is not None,
            id="starting",
        ),
        pytest.param(lambda job: job.state is JobState.RUNNING, id="running"),
    ],
)
def test_nothing_is_lost_and_nothing_runs_twice(
    docker_lab: Lab, tmp_path: Path, moment: Callable[[Job], bool]
) -> None:
    docker_lab.add().start_engine()
    desk = Desk(docker_lab, tmp_path)
    job_id = desk.run("submit", "--force", str(desk.script)).split()[0]
    journal = Journal(tmp_path / "state", clock=time.time, read_only=True)
    left = desk.kill_when(journal, job_id, moment)
    assert not left.state.ended

    desk.run("wait", job_id)
    job = journal.job(job_id)
    assert job is not None
    assert (job.state, len(job.attempts)) == (JobState.SUCCEEDED, 1)
    log = desk.run("logs", job_id).splitlines()
    assert log == [f"step {number}" for number in range(20)]
    desk.run("fetch", job_id, "--to", str(tmp_path / "out"))
    assert (tmp_path / "out" / job_id / "runs").read_text() == "ran\n"
    journal.close()
