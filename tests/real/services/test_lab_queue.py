"""The lab's service on real parts: accounts over real SSH, real containers, and a service that
dies."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

import gpuconsole
from tests.real.rig.hosts import Lab
from tests.real.rig.lab_queue import RIGHTS, USERS, Service, served
from tests.real.rig.sessions import wait_until
from tests.real.services.test_road import TRAIN

pytestmark = pytest.mark.real


@pytest.fixture
def service(docker_lab: Lab, tmp_path: Path) -> Iterator[Service]:
    head = docker_lab.add(accounts=USERS)
    head.start_engine()
    with served(docker_lab, head, tmp_path, docker_lab.inventory() + RIGHTS, TRAIN) as made:
        yield made


def test_users_over_ssh_share_one_queue_and_act_on_their_own(service: Service) -> None:
    job = service.submit("ada", "--name", "first", "--", "--steps", "30")
    listed = service.json("bob", "jobs")["jobs"]
    assert [(one["id"], one["user"], one["script"]) for one in listed] == [(job, "ada", "")]
    for user, words, refused in (
        ("bob", ("cancel", job), "belongs to ada; you are bob"),
        ("cy", ("priority", job, "9"), "belongs to ada"),
        ("ada", ("priority", job, "9"), "priorities up to 0"),
        ("bob", ("drain", service.head.name), "only an operator may do that"),
    ):
        done = service.run(user, *words)
        assert done.returncode == 1, done.stderr
        assert refused.lower() in " ".join(done.stderr.split()).lower()
    assert service.run("bob", "fetch", job).returncode != 0
    assert service.run("ada", "wait", job).returncode == 0, service.said()
    lines = service.run("ada", "logs", job).stdout.splitlines()
    assert [line for line in lines if line.startswith("step=30/30")]
    assert service.run("bob", "logs", job).returncode == 1
    out = service.folder / "out"
    assert service.run("ada", "fetch", job, "--to", str(out)).returncode == 0
    assert json.loads(next(out.rglob("result.json")).read_text())["steps"] == 30
    acts = service.json("eve", "audit")["acts"]
    assert {(act["user"], act["verb"], bool(act["refused"])) for act in acts} == {
        ("ada", "submit", False),
        ("bob", "cancel", True),
        ("cy", "priority", True),
        ("ada", "priority", True),
        ("bob", "drain", True),
        ("bob", "results", True),
        ("bob", "log", True),
    }
    assert all(act["from"].startswith("sshd") for act in acts)
    assert {act["user"] for act in service.json("bob", "audit")["acts"]} == {"bob"}


def test_a_program_has_the_calls_of_commands_on_the_labs_queue_through_the_api(
    service: Service,
) -> None:
    inventory, state = service.folder / "ada.yaml", service.folder / "state-ada"
    with gpuconsole.open_blocking(inventory, state=state) as lab:
        assert lab.user == "ada"
        assert lab.status().hosts
        job = lab.submit(service.script, args=["--steps", "30"], name="first")
        lines = [line for update in lab.follow(job.id) for line in update.lines]
        assert [line for line in lines if line.startswith("step=30/30")]
        assert lab.wait("first").state is gpuconsole.JobState.SUCCEEDED
        assert {file.name for file in lab.results("first")} >= {"result.json"}
        folder = lab.fetch("first", service.folder / "out")
        assert json.loads((folder / "result.json").read_text())["steps"] == 30
        (row,) = lab.report().rows
        assert (row.words, row.sums.attempts) == (("ada",), 1)
        assert [act.verb for act in lab.audit()] == ["submit"]
        with pytest.raises(gpuconsole.RefusedError, match="Only an operator"):
            lab.drain(service.head.name, "new cooler")
        assert lab.incidents() is not None
        assert "docker run" in lab.render("first")


def test_what_the_lab_forbids_is_refused_by_the_service(service: Service) -> None:
    task = service.folder / "project" / "task.yaml"
    for extra, refused in (
        ("mounts: [/etc:/etc:ro]", "Mounting /etc is not allowed"),
        ("mounts: [/data:/data:rw]", "for writing is not allowed"),
        ("priority: 5", "priorities up to 0"),
        ("network: full", "`network: full` is not allowed"),
    ):
        task.write_text(f"task:\n  script: train.py\n  {extra}\n")
        done = service.run("ada", "submit", "--task", str(task))
        assert done.returncode == 1, done.stdout
        assert refused in " ".join(done.stderr.split())
    assert service.json("ada", "jobs")["jobs"] == []
    task.write_text("task:\n  script: train.py\n  priority: 5\n")
    assert service.json("dot", "submit", "--task", str(task))["job"]


def test_a_service_that_dies_loses_nothing(service: Service) -> None:
    job = service.submit("ada", "--", "--steps", "400")
    wait_until(lambda: service.state_of(job) == "running", what="it runs")
    service.kill()
    done = service.run("ada", "cancel", job)
    assert done.returncode == 3
    assert "Jobs that run go on" in " ".join(done.stderr.split())
    assert service.run("ada", "submit", str(service.script)).returncode == 3
    service.start()
    assert service.run("ada", "wait", job).returncode == 0, service.said()
    (one,) = service.json("bob", "jobs")["jobs"]
    assert (one["state"], one["attempt"]) == ("succeeded", 1)


def test_where_the_sshd_forwards_no_sockets_a_relay_does(service: Service) -> None:
    with (service.head.root / "sshd_config").open("a") as config:
        config.write("Match User ada\n  AllowStreamLocalForwarding no\n")
    service.head.stop_sshd()
    service.head.start_sshd()
    job = service.submit("ada", "--", "--steps", "3")
    assert service.run("ada", "wait", job).returncode == 0, service.said()
    assert service.json("bob", "jobs", job)["jobs"][0]["user"] == "ada"
    acts = service.json("ada", "audit")["acts"]
    assert [act["user"] for act in acts] == ["ada"]


def test_a_container_runs_as_its_user_where_the_lab_says_so(
    docker_lab: Lab, tmp_path: Path
) -> None:
    head = docker_lab.add(accounts=USERS)
    head.start_engine()
    # Only root can give a user their folder on a host.
    inventory = docker_lab.inventory().replace(f"user: {head.user}", "user: root")
    inventory += RIGHTS + "    run_as: user\n    ids: {bob: '3001:3002'}\n"
    with served(docker_lab, head, tmp_path, inventory, TRAIN) as service:
        service.script.write_text(TRAIN + "print('ids', os.getuid(), os.getgid())\n")
        ada, bob = (service.submit(user, "--", "--steps", "2") for user in ("ada", "bob"))
        for user, job, ids in (
            ("ada", ada, f"{head.uid + 1} {head.uid + 1}"),
            ("bob", bob, "3001 3002"),
        ):
            assert service.run(user, "wait", job).returncode == 0, service.said()
            assert f"ids {ids}" in service.run(user, "logs", job).stdout
            out = service.folder / user
            assert service.run(user, "fetch", job, "--to", str(out)).returncode == 0
            assert json.loads(next(out.rglob("result.json")).read_text())["steps"] == 2


def test_a_script_is_measured_on_a_host_its_user_cannot_reach(service: Service) -> None:
    where = ("--tier", "meta", "--host", service.head.name)
    found = service.json("ada", "preflight", str(service.script), *where)
    assert found["tier"] == "meta"
    assert {verdict["host"] for verdict in found["verdicts"]} == {service.head.name}
    assert found["memory"]["total_mib"] > 0
    # What was in the container is gone with it.
    client = docker.APIClient(f"unix://{service.head.socket}")
    with contextlib.closing(client):
        assert client.containers(all=True) == []
    task = service.folder / "project" / "task.yaml"
    task.write_text("task:\n  script: train.py\n  mounts: [/etc:/etc:ro]\n")
    done = service.run("ada", "preflight", "--task", str(task), *where)
    assert done.returncode == 1, done.stdout
    assert "Mounting /etc is not allowed" in " ".join(done.stderr.split())


def test_the_memory_of_a_submitted_script_is_measured_through_the_service(
    service: Service,
) -> None:
    # Reading does not tell how wide it is, and Paddle may lack where the user sits.
    wide = "int(str(__import__('time').time())[0]) * 8"
    script = TRAIN.replace("Conv2D(3, 8, 3", f"Conv2D(3, {wide}, 3")
    service.script.write_text(script.replace("Linear(8 *", f"Linear({wide} *"))
    job = service.json("ada", "submit", str(service.script), "--hold", "--yes")
    tiers = {tier["tier"]: tier for tier in job["tiers"]}
    assert (tiers["meta"]["outcome"], tiers["meta"]["host"]) == ("answered", service.head.name)
    assert service.json("bob", "jobs", job["job"])["jobs"][0]["estimate_mib"] > 0
