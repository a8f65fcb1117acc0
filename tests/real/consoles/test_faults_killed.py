"""Consoles killed while a job is out of sight, and while its image is on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState
from gpuconsole.state import Journal
from tests.real.rig import forks
from tests.real.rig.hosts import Lab
from tests.real.rig.image import paddle_image
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.registry import NAME, Registry
from tests.real.rig.sessions import COUNT, Desk, let_go, ran_once


class Watched:
    """A job that real consoles dispatch, seen through the journal beside them."""

    def __init__(self, desk: Desk, journal: Journal, job_id: str) -> None:
        self._desk, self._journal, self._id = desk, journal, job_id

    @property
    def job(self) -> Job:
        """The job as the journal has it now."""
        found = self._journal.job(self._id)
        assert found is not None
        return found

    def until(self, moment: Callable[[Job], bool], act: Callable[[], None] = lambda: None) -> None:
        """Dispatch in a console of its own, act, and SIGKILL the console at the moment."""
        console = subprocess.Popen(self._desk.command("dispatch"), stderr=subprocess.DEVNULL)
        try:
            act()
            deadline = time.monotonic() + PATIENCE_S
            while not moment(job := self.job):
                assert time.monotonic() < deadline, f"still {job.state}: {job.detail}"
                time.sleep(0.002)
        finally:
            os.kill(console.pid, signal.SIGKILL)
            console.wait()


def submit(desk: Desk, *options: str) -> str:
    """Submit the counting script; its id. The journal exists from then on."""
    words = ("submit", "--force", "--json", *options, str(desk.script(COUNT)))
    said = forks.typed(desk.command(*words), PATIENCE_S)
    assert said.returncode == 0, said.stderr
    job_id: str = json.loads(said.stdout)["job"]
    return job_id


def _is(*states: JobState) -> Callable[[Job], bool]:
    return lambda job: job.state in states


def _says(word: str) -> Callable[[Job], bool]:
    return lambda job: job.state is JobState.LAUNCHING and word in job.detail


@pytest.mark.fault(
    "The console is killed while a host is out of sight",
    "The next console finds the job again; it was started once",
)
async def test_killed_while_the_host_is_out_of_sight(docker_lab: Lab, tmp_path: Path) -> None:
    host = docker_lab.add()
    host.start_engine()
    desk = Desk(docker_lab, tmp_path / "desk")
    job_id = submit(desk)
    with desk.journal() as journal:
        watched = Watched(desk, journal, job_id)
        watched.until(_is(JobState.RUNNING))
        # As in a reboot of its network: the connection is reset at once.
        host.stop_sshd()
        watched.until(_is(JobState.UNKNOWN))
        host.start_sshd()
        watched.until(_is(JobState.RUNNING))
        watched.until(_is(JobState.SUCCEEDED), lambda: let_go(host, watched.job))
        job = watched.job
    async with desk.session() as session:
        await ran_once(session, job, tmp_path / "out")


@pytest.mark.fault(
    "The console is killed during a pull",
    "The next one pulls on and starts the job once",
)
async def test_killed_while_the_image_is_pulled(docker_lab: Lab, tmp_path: Path) -> None:
    host = docker_lab.add()
    engine = host.start_engine()
    with host.in_network(lambda: Registry("ann", "s3cret")) as registry:
        _log_in(registry)
        image = f"{registry.address}/{NAME}:1"
        desk = Desk(docker_lab, tmp_path / "desk")
        job_id = submit(desk, "--image", image)
        with desk.journal() as journal:
            watched = Watched(desk, journal, job_id)
            watched.until(_says("pulling"))
            left = watched.job
            assert left.state is JobState.LAUNCHING
            assert left.attempt is not None
            assert left.attempt.starting_at is None
            # Nothing is claimed for an hour's pull.
            assert engine.client().containers(all=True) == []
            # The registry's image runs nothing; by now one that does is there under its name.
            paddle_image(engine, image)
            watched.until(_is(JobState.RUNNING))
            watched.until(_is(JobState.SUCCEEDED), lambda: let_go(host, watched.job))
            job = watched.job
    async with desk.session() as session:
        await ran_once(session, job, tmp_path / "out")


def _log_in(registry: Registry) -> None:
    folder = Path(os.environ["HOME"]) / ".docker"
    folder.mkdir()
    auths = {registry.address: {"auth": registry.login}}
    (folder / "config.json").write_text(json.dumps({"auths": auths}))
