"""Where a script starts: where its user is, for jobs and measurements alike."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import HostAccount
from gpuconsole.core.engines.batch_job import Batch, Script, batch_script
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.submission.projects import start_folder
from gpuconsole.errors import UsageError
from gpuconsole.placement import launch_command
from gpuconsole.session.dispatch.attempt.checkpoint import pack_parents
from gpuconsole.session.dispatch.attempt.container_spec import (
    checkpoint_path,
    container_spec,
    start_path,
)
from gpuconsole.session.dispatch.slurm_jobs import batch_spec
from gpuconsole.session.submit.validate import Packed, pack_task
from gpuconsole.simulated_lab.container_script import script_fault

TASK = Task("train", "/p/tools/train.py", args=("-c", "../x.yml"), project="/p", folder="tools")


def test_it_is_the_users_own_where_that_is_in_the_project(tmp_path: Path) -> None:
    inside = tmp_path / "p" / "tools"
    inside.mkdir(parents=True)
    assert start_folder(tmp_path / "p", None, inside) == "tools"
    assert start_folder(tmp_path / "p", None, tmp_path / "p") == ""
    assert start_folder(tmp_path / "p", None, tmp_path) == ""
    # Of a job it is known, wherever the console is that tries it again.
    assert start_folder(tmp_path / "p", "", inside) == ""
    assert start_folder(tmp_path / "p", "tools", tmp_path) == "tools"


def test_a_submitted_task_knows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "p" / "tools" / "train.py"
    script.parent.mkdir(parents=True)
    script.touch()
    monkeypatch.chdir(script.parent)
    task = Task("train", str(script))

    def pack(task: Task, target: Path, limit_mib: float) -> Packed:
        return Packed("tools/train.py")

    packed, _ = pack_task(task, tmp_path / "bundle", 1.0, pack)
    assert (packed.project, packed.folder) == (str(tmp_path / "p"), "tools")
    monkeypatch.chdir(tmp_path)
    again, _ = pack_task(packed, tmp_path / "bundle", 1.0, pack)
    assert again.folder == "tools"


@pytest.mark.parametrize(
    ("folder", "script"),
    [(None, "tools/train.py"), ("", "tools/train.py"), ("tools", "train.py"),
     ("conf/a", "../../tools/train.py")],
)  # fmt: skip
def test_the_command_names_the_script_from_there(folder: str | None, script: str) -> None:
    command = launch_command(replace(TASK, folder=folder), 1)
    assert command == ("python", script, "-c", "../x.yml")


def test_the_container_starts_there_and_its_home_stays() -> None:
    attempt = Attempt(1, "a", container_name="gpuconsole-j-1-n")
    job = Job("j", replace(TASK, backend="cpu"), "ann", JobState.LAUNCHING, 0.0,
              attempts=(attempt,))  # fmt: skip
    spec = container_spec(
        job, attempt, command=launch_command(TASK, 1), image="paddle", journal="J", host=None,
        account=HostAccount(1, 1, "/r"), settings=LabSettings(),
    )  # fmt: skip
    assert spec.working_dir == "/workspace/tools"
    assert spec.env["HOME"] == "/workspace"


def test_checkpoints_of_a_relative_folder_lie_there_too() -> None:
    task = replace(TASK, checkpoint_dir="kept")
    assert checkpoint_path(task) == "/workspace/tools/kept"
    assert checkpoint_path(replace(task, folder="")) == "/workspace/kept"
    attempt = Attempt(1, "slurm", container_name="gpuconsole-j-1-n")
    job = Job("j", task, "ann", JobState.LAUNCHING, 0.0, attempts=(attempt,))
    batch = Batch(link=(checkpoint_path(task), "/shared/j"))
    account = HostAccount(1, 1, "/r")
    spec = batch_spec(job, attempt, batch, image="", account=account, journal="J")
    assert spec.batch is not None
    assert spec.batch.link == ("kept", account.checkpoint_dir)


@pytest.mark.parametrize("folder", ["..", "a/../..", "/etc"])
def test_a_folder_outside_the_project_is_refused(folder: str) -> None:
    with pytest.raises(UsageError, match="working folder"):
        start_path(replace(TASK, folder=folder))


def test_folders_that_nothing_was_packed_of_are_made(tmp_path: Path) -> None:
    target = tmp_path / "parents.tar"
    assert not pack_parents(replace(TASK, folder=""), target)
    assert pack_parents(replace(TASK, folder="a/b", checkpoint_dir="c/d"), target)
    with tarfile.open(target) as tar:
        assert tar.getnames() == ["a", "a/b", "a/b/c"]


def test_a_run_of_slurm_starts_there() -> None:
    text = batch_script(Script("n", ("python", "train.py"), start="my tools", folder="/runs/n"))
    assert "cd \"$run/work\"'/my tools' || finish 125" in text


def test_the_simulated_lab_finds_the_script_from_there(tmp_path: Path) -> None:
    bundle = tmp_path / "b.tar"
    with tarfile.open(bundle, "w") as tar:
        tar.addfile(tarfile.TarInfo("tools/train.py"))
    assert script_fault(bundle, ("python", "train.py"), "/workspace/tools") == ""
    assert "No such file" in script_fault(bundle, ("python", "train.py"))
