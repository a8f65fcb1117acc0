"""Searches and shells of users whose queue is that of the lab's service: what they see
comes through it alone, and it is killed under them."""

from __future__ import annotations

import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gpuconsole.session.ports.forwards import HOME
from tests.real.rig import terminal as rig
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab
from tests.real.rig.image import with_python_2, without_python
from tests.real.rig.lab_queue import AWAY, Service, served_on_two_hosts
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import wait_until
from tests.real.training.test_search import TRAINS, TRIALS

pytestmark = pytest.mark.real


def with_old_python(engine: LabDocker) -> str:
    return with_python_2(engine, "python2.7", "python")


@pytest.fixture
def service(docker_lab: Lab, tmp_path: Path) -> Iterator[Service]:
    with served_on_two_hosts(docker_lab, tmp_path, TRAINS) as made:
        yield made


def test_ten_trials_are_led_to_the_goal_by_the_service_which_dies_meanwhile(
    service: Service,
) -> None:
    pytest.importorskip("optuna")
    search = ("--goal", "min val_loss", "--trials", str(TRIALS), "--at-most", "3")
    done = service.run("ada", "submit", str(service.script), "--force", "--name", "train",
                       "--sweep", "lr=1e-5..1e-1:log", *search)  # fmt: skip
    assert done.returncode == 0, done.stderr

    def trials() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = service.json("ada", "jobs")["jobs"]
        return found

    def ended() -> int:
        return sum(one["state"] in ("succeeded", "cancelled", "failed") for one in trials())

    wait_until(lambda: ended() >= 3, 3 * PATIENCE_S, "three trials")
    service.kill()
    service.start()
    wait_until(lambda: ended() == TRIALS, 5 * PATIENCE_S, "all trials")
    assert {one["state"] for one in trials()} <= {"succeeded", "cancelled"}
    rows = service.json("ada", "compare", "train")["jobs"]
    assert len(rows) == TRIALS
    rates = [float(row["parameters"]["lr"]) for row in rows]
    assert len(set(rates)) == TRIALS
    assert rows[0]["best"] == min(row["best"] for row in rows)
    # Of this problem the highest rate is the best: what was learned is tried again near there.
    assert rates[0] > 1e-2
    # What a trial tried is its user's own.
    assert service.run("bob", "compare", "train").returncode != 0


def test_a_shell_outlives_the_service_that_carries_it(service: Service, tmp_path: Path) -> None:
    reason = rig.why_not()
    if reason:
        pytest.skip(reason)
    words, _ = service.command("ada", "shell", "--memory", "1g")
    with rig.Terminal(tmp_path, words, (90, 24)) as one:
        one.shows("Ctrl-P Ctrl-Q leaves it running")
        one.until(lambda text: text.rstrip().endswith(("$", "#")))
        one.type("kept=here; stty size")
        one.press("Enter")
        one.shows("24 90")
        (job,) = service.json("ada", "jobs")["jobs"]
        bob, _ = service.command("bob", "shell", job["id"], "--watch")
        assert "belongs to ada" in refused_shell(bob)
        service.kill()
        one.shows("The connection is lost; the session runs on.")
        service.start()
        # What was written is shown again, however often it was tried before.
        one.until(lambda text: "24 90" in text.rpartition("Trying again")[2])
        one.type("echo still-$kept")
        one.press("Enter")
        one.shows("still-here")
        one.type("exit")
        one.press("Enter")
        assert one.ended() == 0
    wait_until(lambda: service.state_of(job["id"]) == "succeeded", what="its devices are free")
    for engine in service.engines:
        client = engine.client()
        wait_until(lambda c=client: not c.containers(all=True), what="nothing left on the engine")


def refused_shell(words: list[str]) -> str:
    """Run a command on a terminal that is refused; return what it says."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        done = subprocess.run(
            ["script", "-qec", shlex.join(words), "/dev/null"],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        said = " ".join(done.stdout.split())
        if AWAY not in said or time.monotonic() > deadline:
            assert done.returncode == 1, said
            return said


@pytest.mark.parametrize("make", [without_python, with_old_python])
def test_a_shell_in_an_image_without_python_3_is_carried_too(
    service: Service, tmp_path: Path, make: Callable[[LabDocker], str]
) -> None:
    reason = rig.why_not()
    if reason:
        pytest.skip(reason)
    (image,) = {make(engine) for engine in service.engines}
    words, _ = service.command("ada", "shell", "--memory", "1g", "--image", image)
    (tmp_path / "a").mkdir()
    with rig.Terminal(tmp_path / "a", words, (90, 24)) as one:
        one.shows("All who look may type here.")
        one.type("kept=here; echo a-$((20+1)) $0")
        one.press("Enter")
        one.shows("a-21 /bin/bash")
        one.press("C-p", "C-q")
        one.shows("It runs on. Come back to it with: gpuconsole shell")
    (job,) = service.json("ada", "jobs")["jobs"]
    words, _ = service.command("ada", "shell", job["id"])
    (tmp_path / "b").mkdir()
    with rig.Terminal(tmp_path / "b", words, (90, 24)) as two:
        two.shows("a-21 /bin/bash")
        two.type("echo still-$kept")
        two.press("Enter")
        two.shows("still-here")
        two.type("exit")
        two.press("Enter")
        assert two.ended() == 0
    wait_until(lambda: service.state_of(job["id"]) == "succeeded", what="its devices are free")
    # What needs Python in the image says so.
    done = service.run("ada", "shell", "--detach", "--image", image)
    assert done.returncode == 0, done.stderr
    second = done.stdout.strip()
    wait_until(lambda: service.state_of(second) == "running", what="it runs")
    assert "has no Python 3.6 or later" in refused_port(service, tmp_path / "said", second)
    assert service.run("ada", "cancel", second).returncode == 0


def refused_port(service: Service, said: Path, job: str) -> str:
    """Ask a port of a job through a forward; return what its command says of that."""
    words, environment = service.command("ada", "forward", job, "7007")
    with said.open("w") as file:
        running = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=file, text=True, env=environment
        )
    try:
        assert running.stdout is not None
        address = urlsplit(running.stdout.readline())
        assert address.port, said.read_text()
        with socket.create_connection((HOME, address.port), PATIENCE_S) as link:
            assert link.recv(1) == b""
        wait_until(lambda: " has " in said.read_text(), what="it says why")
    finally:
        running.terminate()
        running.wait(PATIENCE_S)
    return " ".join(said.read_text().split())
