"""Users of the lab's service who want more of a host than the lab gives them, on real parts."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.rig.hosts import Lab
from tests.real.rig.image import PADDLE_IMAGE
from tests.real.rig.lab_queue import RIGHTS, USERS, served
from tests.real.rig.sessions import wait_until
from tests.real.services.test_road import TRAIN

pytestmark = pytest.mark.real


@pytest.fixture
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scratch"
        (path / "bob").mkdir(parents=True)
        Path(folder).chmod(0o755)
        path.chmod(0o1777)
        (path / "bob" / "notes").write_text("of bob")
        (path / "bob").chmod(0o700)
        os.chown(path / "bob", 3001, 3001)
        yield path


def test_what_is_shipped_is_never_written_into_what_is_mounted(
    docker_lab: Lab, tmp_path: Path, scratch: Path
) -> None:
    """The engine unpacks a project as root: into a folder of the host it would write as root."""
    head = docker_lab.add(accounts=USERS)
    head.start_engine()
    rights = RIGHTS.replace("[/data]", f"['{scratch}:rw']")
    before = [(path.stat().st_uid, path.stat().st_mode) for path in (scratch, scratch / "bob")]
    with served(docker_lab, head, tmp_path, docker_lab.inventory() + rights, TRAIN) as service:
        project = service.script.parent
        (project / "inner" / "bob").mkdir(parents=True)
        (project / "inner" / "bob" / "notes").write_text("of ada")
        task = project / "task.yaml"
        for target in ("/workspace", "/gpuconsole", "//workspace", "/results"):
            task.write_text(f"task:\n  script: train.py\n  mounts: ['{scratch}:{target}:rw']\n")
            done = service.run("ada", "submit", "--task", str(task), "--force")
            assert done.returncode == 2, done.stdout + done.stderr
        task.write_text(
            f"task:\n  script: train.py\n  mounts: ['{scratch}:/workspace/inner:rw']\n"
            "  args: ['--steps', '2']\n"
        )
        job = service.json("ada", "submit", "--task", str(task), "--force")["job"]
        wait_until(
            lambda: service.state_of(job) in ("succeeded", "failed"), what="the job has ended"
        )
        assert service.state_of(job) == "succeeded", service.json("ada", "jobs", job)
        assert (scratch / "bob" / "notes").read_text() == "of bob"
        assert [path.name for path in scratch.iterdir()] == ["bob"]
        after = [(path.stat().st_uid, path.stat().st_mode) for path in (scratch, scratch / "bob")]
        assert after == before


def test_no_image_moves_a_mount_below_the_project(
    docker_lab: Lab, tmp_path: Path, scratch: Path
) -> None:
    head = docker_lab.add(accounts=USERS)
    client = head.start_engine().client()
    made = client.create_container(PADDLE_IMAGE, command=["true"])
    link = tarfile.TarInfo("m")
    link.type, link.linkname = tarfile.SYMTYPE, "/workspace/inner"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(link)
    client.put_archive(made, "/", archive.getvalue())
    client.commit(made["Id"], repository="linked", tag="1")
    client.remove_container(made)
    rights = RIGHTS.replace("[/data]", f"['{scratch}:rw']")
    with served(docker_lab, head, tmp_path, docker_lab.inventory() + rights, TRAIN) as service:
        (service.script.parent / "inner" / "bob").mkdir(parents=True)
        (service.script.parent / "inner" / "bob" / "notes").write_text("of ada")
        task = service.script.parent / "task.yaml"
        task.write_text(
            f"task:\n  script: train.py\n  image: linked:1\n  mounts: ['{scratch}:/m:rw']\n"
        )
        job = service.json("ada", "submit", "--task", str(task), "--force")["job"]
        wait_until(lambda: service.state_of(job) == "failed", what="the job has ended")
        (told,) = service.json("ada", "jobs", job)["jobs"]
        assert "is a link in the image" in told["cause"]
        assert (scratch / "bob" / "notes").read_text() == "of bob"


def test_jobs_that_cannot_start_by_what_they_ask_for_set_no_host_aside(
    docker_lab: Lab, tmp_path: Path, scratch: Path
) -> None:
    head = docker_lab.add(accounts=USERS)
    head.start_engine()
    rights = RIGHTS.replace("[/data]", f"['{scratch}:rw', '{scratch}-none', '{scratch.parent}']")
    with served(docker_lab, head, tmp_path, docker_lab.inventory() + rights, TRAIN) as service:
        task = service.script.parent / "task.yaml"
        odd = (
            f"mounts: ['{scratch}:/etc/hosts:rw']",
            f"mounts: ['{scratch.parent}:/etc/hosts:ro']",
            f"mounts: ['{scratch.parent}:/etc/hosts/x:ro']",
            f"mounts: ['{scratch}-none:/m:ro']",
            "memory_limit: 1M",
            "shm_size: 1M",
            "env: {LD_PRELOAD: /nothing.so, PATH: /nothing}",
        )
        jobs = []
        for extra in odd:
            task.write_text(f"task:\n  script: train.py\n  {extra}\n  args: ['--steps', '1']\n")
            jobs.append(service.json("ada", "submit", "--task", str(task), "--force")["job"])
        last = service.submit("bob", "--", "--steps", "1")
        wait_until(lambda: service.state_of(last) in ("succeeded", "failed"), what="bob's end")
        assert service.state_of(last) == "succeeded"
        (host,) = service.json("bob", "status")["hosts"]
        assert not host["faults"], [one["message"] for one in host["faults"]]
