"""A job that writes a large log: its end and its device wait for none of it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState
from gpuconsole.session.logs.follow import is_being_copied, log_file
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, wait_until

pytestmark = pytest.mark.real

LINES = 600_000
SCRIPT = f"""
import sys
for number in range({LINES}):
    print("step", number, "x" * 50)
"""
GROWTH_MIB = 64
"""What a dispatcher may need more for a log of any length."""


def _peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


@pytest.mark.fault(
    "A job writes 36 MiB of log and ends",
    "Its end is named and its device free at once; the log is whole, memory bounded",
)
def test_a_flood_of_lines_holds_up_neither_end_nor_device(docker_lab: Lab, tmp_path: Path) -> None:
    host = docker_lab.add()
    engine = host.start_engine()
    desk = Desk(docker_lab, tmp_path)
    submit = desk.command("submit", "--force", str(desk.script(SCRIPT)))
    job_id = subprocess.check_output(submit, text=True).split()[0]
    with desk.journal() as journal:
        dispatcher = subprocess.Popen(desk.command("dispatch"), stderr=subprocess.DEVNULL)
        try:

            def state() -> JobState:
                job = journal.job(job_id)
                assert job is not None
                return job.state

            wait_until(lambda: state() is JobState.RUNNING, what="the job runs")
            before = _peak_mib(dispatcher.pid)
            wait_until(lambda: state().ended, what="the job's end")
            path = log_file(desk.state, job_id, 1)
            leases = engine.client().containers(all=True, filters={"name": "gpuconsole-lease-"})
            assert leases == [], "the device is free"
            assert state() is JobState.SUCCEEDED
            client = engine.client()
            wait_until(lambda: not client.containers(all=True), what="the log is whole")
            wait_until(lambda: not is_being_copied(path), what="the copy is finished")
            assert _peak_mib(dispatcher.pid) < before + GROWTH_MIB
        finally:
            dispatcher.terminate()
            dispatcher.wait(PATIENCE_S)
    expected = hashlib.sha256()
    for number in range(LINES):
        expected.update(b"step %d %s\n" % (number, b"x" * 50))
    assert hashlib.sha256(path.read_bytes()).digest() == expected.digest()
