"""What takes a link to a host, done by the lab's service for users who have none: images, devices
that measure, calibration, and clearing."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.real.rig.docker import LabDocker
from tests.real.rig.gpu import driver_tells, gpu_image
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.image import PADDLE_IMAGE
from tests.real.rig.lab_queue import RIGHTS, USERS, Service, served
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.registry import NAME, Registry
from tests.real.rig.sessions import wait_until
from tests.real.services.test_road import TRAIN

pytestmark = pytest.mark.real


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join(f"{done.stdout} {done.stderr}".split())


def _acts(service: Service) -> set[tuple[str, str, bool]]:
    acts = service.json("eve", "audit")["acts"]
    assert all(act["from"].startswith("sshd") for act in acts)
    return {(act["user"], act["verb"], bool(act["refused"])) for act in acts}


def _image(service: Service, user: str, *words: str, status: int = 0) -> Any:
    """Run a command on images and return its document."""
    done = service.run(user, "image", *words, "--json")
    assert done.returncode == status, done.stderr + done.stdout + service.said()
    return json.loads(done.stdout)


@pytest.fixture
def registry(docker_lab: Lab) -> Iterator[tuple[LabHost, Registry]]:
    """Give a host for the service, and a registry that its engine alone can reach."""
    head = docker_lab.add(accounts=USERS)
    with head.in_network(lambda: Registry("lab", "s3cret")) as served_there:
        yield head, served_there


def test_users_fetch_images_within_the_policy_and_may_call_it_off(
    docker_lab: Lab, registry: tuple[LabHost, Registry], tmp_path: Path
) -> None:
    head, hub = registry
    head.start_engine()
    image = f"{hub.address}/{NAME}:1"
    # The login is the service's own: users have none.
    (tmp_path / ".docker").mkdir()
    auths = {hub.address: {"auth": hub.login}}
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": auths}))
    rights = RIGHTS + f"    images: ['{hub.address}/team/*', 'lab/*']\n"
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(
            served(docker_lab, head, tmp_path, docker_lab.inventory() + rights, TRAIN)
        )
        client = docker.APIClient(f"unix://{head.socket}")
        stack.callback(client.close)

        def there() -> list[Any]:
            return [one for one in client.images() if image in (one["RepoTags"] or ())]

        done = service.run("ada", "image", "pull", f"{hub.address}/other/x:1")
        assert done.returncode == 1
        assert "is not allowed here" in _said(done)
        # One that is called off leaves nothing.
        hub.pause_s = 2.0
        command, environment = service.command("bob", "image", "pull", image)
        pulling = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
        )
        assert pulling.stderr is not None
        for line in pulling.stderr:
            if f"pulling {image}" in line:
                break
        pulling.send_signal(signal.SIGINT)
        assert pulling.wait(PATIENCE_S) != 0
        pulling.stderr.close()
        wait_until(lambda: hub.cut > 0, what="the engine pulls no more")
        assert not there()
        hub.pause_s = 0.05
        done = service.run("ada", "image", "pull", image)
        assert done.returncode == 0, done.stderr + service.said()
        assert f"{head.name}: pulling {image}" in done.stderr
        assert there()
        # What the service knows of it is what its users see.
        listed = _image(service, "bob", "list")
        names = {one["name"] for one in listed["hosts"][0]["images"]}
        assert {image, PADDLE_IMAGE} <= names
        pinned = _image(service, "bob", "pin", image)
        assert "@sha256:" in pinned["reference"]
        found = _image(service, "ada", "check", PADDLE_IMAGE, "--host", head.name, status=1)
        assert found["paddle"].startswith("3.")
        assert "A100" in found["given"]
        assert client.containers(all=True) == []
        assert _acts(service) == {
            ("ada", "pull", True),
            ("bob", "pull", False),
            ("ada", "pull", False),
            ("ada", "check", False),
        }


def test_an_operator_copies_an_image_between_hosts(docker_lab: Lab, tmp_path: Path) -> None:
    head, other = docker_lab.add(accounts=USERS), docker_lab.add()
    head.start_engine()
    other.start_engine(paddle=False)
    docker_lab.connect()
    inventory = docker_lab.inventory() + RIGHTS
    with served(docker_lab, head, tmp_path, inventory, TRAIN) as service:
        copy = ("image", "copy", PADDLE_IMAGE, "--from", head.name, "--to", other.name)
        assert "for the lab's operators" in _said(service.run("bob", *copy))
        done = service.run("eve", *copy)
        assert done.returncode == 0, done.stderr + service.said()
        assert "looking at what arrived" in done.stderr
        listed = _image(service, "ada", "list", "--host", other.name)
        assert [one["name"] for one in listed["hosts"][0]["images"]] == [PADDLE_IMAGE]
        assert _acts(service) == {("bob", "copy", True), ("eve", "copy", False)}


@pytest.fixture
def devices(docker_lab: Lab, tmp_path: Path) -> Iterator[tuple[Service, LabDocker]]:
    """Give a service over devices that are stood in by the processor."""
    head = docker_lab.add(accounts=USERS)
    head.driver.set(total_mib=4096)
    engine = head.start_engine()
    image = gpu_image(engine)
    inventory = docker_lab.inventory(image=image)
    rights = RIGHTS.replace("    priority", "    measure_on_device: [ada]\n    priority")
    with served(docker_lab, head, tmp_path, inventory + rights, TRAIN) as service:
        yield service, engine


def test_an_idle_device_measures_for_who_has_the_right(
    devices: tuple[Service, LabDocker],
) -> None:
    service, engine = devices
    words = ("preflight", str(service.script), "--tier", "device", "--host", service.head.name)
    found = service.json("ada", *words)
    assert found["tier"] == "device"
    assert "NVIDIA A100-SXM4-40GB (driver " in " ".join(found["notes"])
    client = engine.client()
    with contextlib.closing(client):
        # The container is gone, and with it the device's lease.
        assert client.containers(all=True) == []
    done = service.run("bob", *words)
    assert done.returncode == 1
    assert "without a device alone" in _said(done)
    # One that is in use is not taken.
    for index in range(len(service.head.uuids)):
        service.head.driver.set({f"{index}.procs": "1:900", f"{index}.used_mib": 900})

    def refused() -> bool:
        return "No device is idle" in _said(service.run("ada", *words))

    wait_until(refused, what="the device is seen to be in use")
    assert {("ada", "measure", False), ("bob", "measure", True)} <= _acts(service)


def test_operators_calibrate_for_all_and_users_clear_their_own(
    devices: tuple[Service, LabDocker],
) -> None:
    service, engine = devices
    host = service.head.name
    done = service.run("ada", "calibrate", host, "--device", "1")
    assert done.returncode == 1
    assert "for the lab's operators" in _said(done)
    with driver_tells(engine, service.head, 460):
        found = service.json("eve", "calibrate", host, "--device", "1")
    assert 380 < found["context_mib"] < 460
    answer = service.json("ada", "preflight", str(service.script))
    assert answer["memory"]["context_mib"] == found["context_mib"]
    job = service.submit("ada", "--", "--steps", "2")
    assert service.run("ada", "wait", job).returncode == 0, service.said()
    for user in ("ada", "bob", "eve"):
        assert set(service.json(user, "prune")["hosts"]) == {host}
    # Results stay.
    assert service.run("ada", "fetch", job, "--to", str(service.folder / "out")).returncode == 0
    assert {
        ("ada", "calibrate", True),
        ("eve", "calibrate", False),
        ("ada", "prune", False),
        ("bob", "prune", False),
        ("eve", "prune", False),
    } <= _acts(service)
