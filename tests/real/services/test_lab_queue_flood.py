"""The lab's service under a flood: hundreds of jobs of users who compete, and a service that is
killed in each state of its jobs.

`GPUCONSOLE_FLOOD` says how many jobs, 200 where it is not set.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import docker
import pytest

from gpuconsole.core.containers import LABEL_PREFIX
from gpuconsole.core.jobs import ENDED, Job, JobState
from gpuconsole.state import Journal
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab
from tests.real.rig.lab_queue import RIGHTS, USERS, Service, served
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import wait_until

pytestmark = pytest.mark.real

FLOOD = int(os.environ.get("GPUCONSOLE_FLOOD") or 200)
DEVICES = 16
BUSY = 13
"""Devices that a stream of jobs keeps busy: four fifths."""
MINUTE_S = 60.0
SLEEP = """
import argparse
import signal
import time

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--deaf", action="store_true")
parser.add_argument("--stream", type=int, default=0)
options = parser.parse_args()
if 0 < options.seed <= options.stream:
    # The first of a stream end one after the other, as where it has flowed for long.
    options.seconds *= options.seed / options.stream
if options.deaf:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(options.seconds)
print("slept", flush=True)
"""
KNOWN = ("--force", "--measure", "never")
"""Nobody asks what the memory of a script is that only sleeps."""


@dataclass
class Starts:
    """Every container that the engine has started for a job, by the engine's own word."""

    client: docker.APIClient
    jobs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        wanted = {"type": "container", "event": "start"}
        self._events = self.client.events(decode=True, filters=wanted)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        for event in self._events:
            labels = event["Actor"]["Attributes"]
            if job := labels.get(f"{LABEL_PREFIX}job"):
                self.jobs.append(job)

    def close(self) -> None:
        """Listen no longer."""
        self._events.close()
        self._thread.join(PATIENCE_S)
        self.client.close()


@dataclass
class Flooded:
    """A service, the engine's word on what it started, and its journal as it is on its disk."""

    service: Service
    starts: Starts
    journal: Journal

    def jobs(self, *states: JobState) -> list[Job]:
        """Return the jobs that are in one of the states; without states all."""
        return [job for job in self.journal.jobs() if not states or job.state in states]

    def sweep(self, user: str, count: int, seconds: float, *words: str, stream: int = 0) -> str:
        """Queue so many jobs as a user, the first `stream` of them shorter one by one; returns the
        sweep's name."""
        service = self.service
        options = ("--seconds", str(seconds), "--stream", str(stream))
        sweep = ("--sweep", f"seed=1..{count}", *KNOWN, *words, "--", *options)
        return str(service.json(user, "submit", str(service.script), *sweep)["sweep"])

    def job(self, job_id: str) -> Job:
        """Return a job as the journal has it now."""
        found = self.journal.job(job_id)
        assert found is not None
        return found

    def wait_for(self, job_id: str, *states: JobState) -> None:
        """Wait until a job is in one of the states."""
        wait_until(
            lambda: self.job(job_id).state in states,
            within_s=10 * PATIENCE_S,
            what=f"{job_id} is {states}: {self.service.said()}",
        )

    def end_container(self, job_id: str) -> None:
        """End a job's container as its program's own end does."""
        wanted = {"label": f"{LABEL_PREFIX}job={job_id}"}
        for container in self.starts.client.containers(filters=wanted):
            self.starts.client.kill(container["Id"])

    def kill_when(self, condition: Callable[[], object], what: str) -> None:
        """Kill the service the moment a condition holds, and start it again."""
        wait_until(condition, what=what)
        self.service.kill()
        self.service.start()


@pytest.fixture
def flooded(docker_lab: Lab, tmp_path: Path) -> Iterator[Flooded]:
    head = docker_lab.add(devices=DEVICES, accounts=USERS)
    engine: LabDocker = head.start_engine()
    inventory = docker_lab.inventory(poll_interval=0.5) + RIGHTS
    with served(docker_lab, head, tmp_path, inventory, SLEEP) as service:
        starts = Starts(engine.client())
        journal = Journal(service.folder / "queue", clock=lambda: 0.0, read_only=True)
        try:
            yield Flooded(service, starts, journal)
        finally:
            journal.close()
            starts.close()


def test_hundreds_of_jobs_of_three_users_while_the_service_is_killed(flooded: Flooded) -> None:
    service = flooded.service
    flooded.sweep("ada", 3 * FLOOD // 5, 0.5)
    flooded.kill_when(lambda: flooded.jobs(JobState.QUEUED), "jobs wait")
    flooded.sweep("bob", FLOOD // 5, 0.5)
    flooded.sweep("cy", FLOOD // 5 - 2, 0.5)
    known = {job.id: job.user for job in flooded.jobs()}
    assert len(known) == 3 * FLOOD // 5 + 2 * (FLOOD // 5) - 2
    before = len(flooded.starts.jobs)
    waiting = Counter(job.user for job in flooded.jobs(JobState.QUEUED))
    flooded.kill_when(lambda: flooded.jobs(JobState.LAUNCHING), "one is launched")
    flooded.kill_when(lambda: flooded.jobs(JobState.RUNNING), "one runs")
    ended = len(flooded.jobs(JobState.SUCCEEDED))
    flooded.kill_when(lambda: len(flooded.jobs(JobState.SUCCEEDED)) > ended, "one has just ended")

    # One that ends while nobody looks, and one that is being ended.
    unseen, unwanted = (
        service.submit("dot", *KNOWN, "--priority", "9", "--", "--seconds", "3600", *deaf)
        for deaf in ((), ("--deaf",))
    )
    flooded.wait_for(unseen, JobState.RUNNING)
    flooded.wait_for(unwanted, JobState.RUNNING)
    service.kill()
    flooded.end_container(unseen)
    service.start()
    flooded.wait_for(unseen, *ENDED)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(service.run, "dot", "cancel", unwanted)
        flooded.kill_when(lambda: flooded.job(unwanted).cancel_requested, "it is to end")
        asked.result()
    flooded.wait_for(unwanted, *ENDED)
    assert flooded.job(unwanted).state is JobState.CANCELLED

    wait_until(
        lambda: len(flooded.jobs(*ENDED)) == len(known) + 2,
        within_s=20 * PATIENCE_S,
        what="all have ended",
    )
    assert Counter(flooded.job(job).state for job in known) == {JobState.SUCCEEDED: len(known)}
    # None lost, none started twice.
    assert Counter(flooded.starts.jobs) == Counter(job.id for job in flooded.jobs())
    # Who came later did not wait for all of who came first.
    served = [known[job] for job in flooded.starts.jobs[before:] if job in known]
    contested = served[: waiting["bob"] + waiting["cy"]]
    print("started while all three had jobs waiting:", Counter(contested))
    assert contested.count("ada") < len(contested) / 2


def test_a_large_job_starts_within_a_minute_beside_a_stream_of_one_minute_jobs(
    flooded: Flooded,
) -> None:
    """User A asks for 8 devices with a priority; one-minute jobs of user B, more of which always
    wait, keep four fifths of the devices busy."""
    service = flooded.service
    flooded.sweep("bob", 80, MINUTE_S, "--at-most", str(BUSY), stream=BUSY)
    wait_until(
        lambda: len(flooded.jobs(JobState.RUNNING)) >= BUSY,
        within_s=10 * PATIENCE_S,
        what="four fifths are busy",
    )
    large = service.submit("dot", *KNOWN, "--devices", "8", "--priority", "100")
    queued_at = flooded.job(large).queued_at
    busy = [job for job in flooded.jobs() if job.user == "bob" and _ran_at(job, queued_at)]
    flooded.wait_for(large, JobState.RUNNING, *ENDED)
    first = flooded.job(large).attempts[0].started_at
    assert first is not None
    passed = [job for job in flooded.jobs() if job.user == "bob" and _began(job, queued_at, first)]
    print(
        f"{len(busy)} devices were busy; the large job started after {first - queued_at:.0f} s; "
        f"{len(passed)} jobs went first"
    )
    assert len(busy) >= BUSY - 2
    # Before the last of the one-minute jobs that ran when it was queued ends: within a minute.
    assert first < max(_start(job) + MINUTE_S for job in busy)
    # Those that waited stay behind it, but where one should end before the devices are free.
    late = [job for job in passed if job.attempts[0].created_at > queued_at]
    assert len(late) <= DEVICES - BUSY


def _start(job: Job) -> float:
    return (job.attempts[0].started_at if job.attempts else None) or float("inf")


def _began(job: Job, since: float, until: float) -> bool:
    return since < _start(job) < until


def _ran_at(job: Job, moment: float) -> bool:
    return _start(job) <= moment and not job.state.ended
