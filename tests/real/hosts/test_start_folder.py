"""A script starts where its user stands, as a job and where it is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.jobs import JobState
from tests.real.probe.test_measuring import TRAIN
from tests.real.rig.hosts import Lab
from tests.real.rig.sessions import Desk, job_is

pytestmark = pytest.mark.real

SCRIPT = """
import os, sys

assert sys.argv[0] == "train.py", sys.argv
assert os.path.basename(os.getcwd()) == "tools", os.getcwd()
with open("../configs/net.yml") as settings:
    assert settings.read() == "depth: 3"
with open("seen", "w") as beside:
    beside.write("in the project")
"""


async def test_a_job_and_its_measurement_start_in_the_users_folder(
    docker_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker_lab.add().start_engine()
    desk = Desk(docker_lab, tmp_path)
    (desk.project / "pyproject.toml").touch()
    (desk.project / "configs").mkdir()
    (desk.project / "configs" / "net.yml").write_text("depth: 3")
    (desk.project / "tools").mkdir()
    task = replace(desk.task(SCRIPT + TRAIN, "tools/train"), name="train")
    monkeypatch.chdir(desk.project / "tools")
    async with desk.session() as session:
        await session.first_frames(30)
        await session.estimates.measure(task, "meta", lambda *told: None)
        assert (await session.estimates.report(task)).estimate.tier == "meta"
        job = await session.queue.submit(task)
        assert job.task.folder == "tools"
        # Wherever its console stands then.
        monkeypatch.chdir(tmp_path)
        assert (await job_is(session, job, JobState.SUCCEEDED)).state is JobState.SUCCEEDED
