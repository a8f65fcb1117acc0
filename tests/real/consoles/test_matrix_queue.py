"""Many jobs: none is lost and none is started twice, however many there are and whatever breaks."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState
from tests.real.consoles.test_matrix_consoles import dispatching
from tests.real.rig.hosts import USER, Lab, LabHost
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, wait_until

pytestmark = pytest.mark.real

JOBS = int(os.environ.get("GPUCONSOLE_MATRIX_JOBS", "40"))
"""Short jobs; 2,000 take half an hour."""
SWEEP = 1000
"""The most jobs of one sweep."""
SHORT = """
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
seed = parser.parse_args().seed
with open(os.path.join(os.environ["GPUCONSOLE_RESULTS"], "runs"), "a") as runs:
    runs.write("ran\\n")
print("seed", seed)
"""


def runs(host: LabHost) -> Counter[str]:
    """Return how often each job ran on a host, past the console."""
    said = host.run(["grep", "-rHc", "--include=runs", "ran", f"/home/{USER}"])
    rows = (line.rpartition(":") for line in said.stdout.decode().splitlines())
    return Counter({path: int(count) for path, _, count in rows})


def submitted(desk: Desk, count: int) -> set[str]:
    """Queue so many short jobs, in sweeps named `s1`, `s1001` and so on; their ids."""
    swept, jobs = str(desk.script(SHORT)), []
    for first in range(1, count + 1, SWEEP):
        values = f"seed={first}..{min(first + SWEEP - 1, count)}"
        words = ("--json", "--sweep", values, "--name", f"s{first}", swept)
        said = subprocess.check_output(desk.command("submit", "--force", *words))
        jobs += [job["job"] for job in json.loads(said)["jobs"]]
    assert len(jobs) == len(set(jobs)) == count
    return set(jobs)


@pytest.mark.fault(
    "Short jobs in a row on two hosts while consoles are killed among them",
    "Every job ends, none is lost, none is started twice",
)
def test_short_jobs_all_end_once(
    docker_lab: Lab, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    for _ in range(2):
        docker_lab.add().start_engine()
    desk = Desk(docker_lab, tmp_path)
    wanted = submitted(desk, JOBS)
    with desk.journal() as journal:

        def ended() -> int:
            return sum(job.state.ended for job in journal.jobs())

        for part in (JOBS // 4, JOBS // 2):
            # Killed at whatever it was doing when so many had ended.
            console = subprocess.Popen(desk.command("dispatch"), stderr=subprocess.DEVNULL)
            try:
                wait_until(lambda part=part: ended() >= part, 240 + JOBS * 5, "a part of them")
            finally:
                console.kill()
                console.wait(PATIENCE_S)
        with dispatching(desk):
            wait_until(lambda: ended() == JOBS, 240 + JOBS * 5, "the rest")
        states = Counter(job.state for job in journal.jobs())
        assert {job.id for job in journal.jobs()} == wanted
        assert states == {JobState.SUCCEEDED: JOBS}
        assert all(len(job.attempts) == 1 for job in journal.jobs())
    counts = runs(docker_lab.hosts[0]) + runs(docker_lab.hosts[1])
    assert len(counts) == JOBS
    assert set(counts.values()) == {1}
    figure = f"{JOBS:,} submitted, {JOBS:,} ended, 0 lost, 0 started twice, 2 consoles killed"
    record_property("figure", figure)


@pytest.mark.fault(
    "5,000 jobs are submitted at once",
    "All are in the queue, in order, and it is listed and emptied again",
)
def test_five_thousand_jobs_are_queued(
    docker_lab: Lab, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    docker_lab.add()
    desk = Desk(docker_lab, tmp_path)
    wanted = submitted(desk, 5000)
    listed = json.loads(subprocess.check_output(desk.command("jobs", "--json", "--all")))["jobs"]
    assert len(listed) == 5000
    assert {job["id"] for job in listed} == wanted
    assert {job["state"] for job in listed} == {"queued"}
    for first in range(1, 5001, SWEEP):
        subprocess.run(desk.command("cancel", f"s{first}"), check=True, capture_output=True)
    with desk.journal() as journal:
        assert {job.state for job in journal.jobs()} == {JobState.CANCELLED}
    record_property("figure", "5,000 queued, 5,000 listed, 5,000 cancelled")
