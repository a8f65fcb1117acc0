"""The commands of the pages on containers, training and sweeps, typed as they are written there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.real.rig import forks
from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab
from tests.real.rig.image import PADDLE_IMAGE, PROGRAMS, paddle_image
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, wait_until
from tests.real.rig.teletype import Teletype
from tests.test_pages import ROOT, commands_of

HOST, CONTAINER = "a100-01", "ocr-serving"
"""As the pages call them."""
TRAIN = """
import argparse, time

parser = argparse.ArgumentParser()
for name in ("--lr", "--seed", "--width", "--layers"):
    parser.add_argument(name, type=float, default=1.0)
options = parser.parse_args()
for epoch in range(1, 4):
    loss = options.lr + 1.0 / epoch
    print(f"epoch {epoch} loss: {loss:.4f} val_loss: {loss:.4f} val_acc: {1 / loss:.4f}")
"""
NVIDIA_SMI = "#!/bin/sh\necho 'GPU 0: a device'\n"
Check = Callable[[str], object]


class User:
    """Someone in the folder of a project, with the inventory and the queue of a desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.env = {
            **os.environ, "PATH": path, "COLUMNS": "200",
            "GPUCONSOLE_INVENTORY": str(desk.inventory), "GPUCONSOLE_STATE": str(desk.state),
        }  # fmt: skip

    def types(self, line: str) -> str:
        """Run a line and return what it prints."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], cwd=self.desk.project, env=self.env, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}: {done.returncode} {done.stderr}"
        return done.stdout

    def in_terminal(self, line: str) -> None:
        """Run a line that is a shell on a terminal, use it and leave it."""
        command = ["bash", "-c", f"cd {self.desk.project}; {line}"]
        with Teletype(command, self.env) as terminal:
            terminal.shows("# ")
            terminal.press(b"echo $((40 + 2)); exit\r")
            assert terminal.ended() == 0, terminal.text
            assert "\n42" in terminal.text.replace("\r", "")

    def jobs(self) -> dict[str, str]:
        """Return the states of all jobs by name."""
        done = forks.typed(self.desk.command("jobs", "--json"), PATIENCE_S)
        found = json.loads(done.stdout)["jobs"]
        return {job["name"]: job["state"] for job in found}

    def page(self, name: str, checks: dict[str, Check], **stand_for: str) -> None:
        """Type the blocks of a page; each line has its check, and each check its line."""
        lines = [
            " ".join(command.line.partition(" #")[0].split())
            for command in commands_of(ROOT / "docs" / name)
            if command.in_block
        ]
        assert lines == list(checks)
        for line, check in checks.items():
            for word, value in stand_for.items():
                line = re.sub(rf"\b{word}\b", value, line)
            check(line)


@pytest.fixture
def engine(docker_lab: Lab) -> LabDocker:
    """Give the engine of the first of two hosts, which is called as on the pages."""
    docker_lab.add().name = HOST
    docker_lab.add()
    path = f"/opt/lab/bin:/usr/bin:/bin:{PROGRAMS}"
    engines = [host.start_engine(paddle=False) for host in docker_lab.hosts]
    for engine in engines:
        paddle_image(engine, programs={"nvidia-smi": NVIDIA_SMI}, env={"PATH": path})
    return engines[0]


@pytest.fixture
def user(engine: LabDocker, docker_lab: Lab, tmp_path: Path) -> Iterator[User]:
    """Give a user of two hosts, whose jobs are started by another console."""
    user = User(Desk(docker_lab, tmp_path / "desk", "lab:\n  gang_network: host\n"))
    user.desk.script(TRAIN)
    said = tmp_path / "dispatcher.log"
    with said.open("wb") as log:
        process = subprocess.Popen(user.desk.command("dispatch"), stdout=log, stderr=log)
    try:
        wait_until(lambda: "Dispatching for" in said.read_text(), what="it dispatches")
        yield user
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def prints(user: User, *words: str) -> Check:
    """Return the check that a line prints words."""

    def check(line: str) -> None:
        printed = user.types(line)
        assert all(word in printed for word in words), f"{line}: {printed}"

    return check


def test_containers_are_listed_read_and_entered(user: User, engine: LabDocker) -> None:
    client = engine.client()
    endless = "rm -f /tmp/go; echo ready; echo timeout; until test -e /tmp/go; do sleep 0.1; done"
    plain = client.create_host_config(network_mode="none")
    made = client.create_container(
        PADDLE_IMAGE, ["sh", "-c", endless], name=CONTAINER, host_config=plain
    )
    client.start(made["Id"])
    data = user.desk.project / "data"
    data.mkdir()
    (data / "a.txt").write_text("a")
    # A job over two hosts that runs on.
    user.desk.script("import time\nprint('begun', flush=True)\ntime.sleep(900)\n", "wait.py")
    user.types("gpuconsole submit wait.py --name train --hosts 2 --devices 4 --force")
    wait_until(lambda: user.jobs().get("train") == "running", what="it runs")
    shell = f"gpuconsole exec {HOST}:{CONTAINER}"

    def followed(line: str) -> None:
        go = f"{shell} -- touch /tmp/go"
        printed = user.types(f"(sleep 1; {go}) & {line}; wait")
        assert printed.split() == ["ready", "timeout"]
        client.start(made["Id"])

    user.page("containers.md", {
        "gpuconsole containers": prints(user, CONTAINER, HOST),
        f"gpuconsole containers --host {HOST} -a": prints(user, CONTAINER),
        "gpuconsole containers --json": prints(user, f'"{CONTAINER}"'),
        f"gpuconsole logs {HOST}:{CONTAINER} --tail 100": prints(user, "ready"),
        f"gpuconsole logs {HOST}:{CONTAINER} -f": followed,
        f"gpuconsole logs {HOST}:ocr --search 'error|timeout'": prints(user, "timeout"),
        shell: user.in_terminal,
        "gpuconsole exec train -- nvidia-smi": prints(user, "a device"),
        "gpuconsole exec train --rank 1 -- ps ax": prints(user, "wait.py"),
        f"{shell} -it -- bash": user.in_terminal,
        f"{shell} -- nvidia-smi -L": prints(user, "a device"),
        f"tar c data | {shell} -i -- tar x -C /tmp": lambda line: (
            user.types(line), prints(user, "a")(f"{shell} -- cat /tmp/data/a.txt"),
        ),
    })  # fmt: skip


def test_what_training_says_is_plotted_compared_and_ends_a_job(user: User) -> None:
    user.types("gpuconsole submit train.py --name one --force")
    user.types("gpuconsole submit train.py --sweep lr=1,2 --name SWEEP --force")
    for name in ("one", "SWEEP"):
        user.types(f"gpuconsole wait {name}")

    def exported(line: str) -> None:
        user.types(line)
        rows = (user.desk.project / "loss.csv").read_text().splitlines()
        assert len(rows) == 1 + 3
        assert all("val_loss" in row for row in rows[1:])

    user.page("training-metrics.md", {
        "gpuconsole curves JOB": prints(user, "val_loss", "val_acc"),
        "gpuconsole curves JOB --metric val_loss --csv loss.csv": exported,
        "gpuconsole compare SWEEP": prints(user, "lr", "BEST"),
        "gpuconsole compare JOB JOB --metric val_acc --json": prints(user, '"val_acc"'),
        'gpuconsole submit train.py --stop-if "loss is nan"'
        ' --stop-if "no better val_loss for 5 epochs"': lambda line: user.types(f"{line} --force"),
    }, JOB="one")  # fmt: skip
    user.types("gpuconsole wait train")


def test_a_sweep_and_a_search(user: User) -> None:
    pytest.importorskip("optuna")

    def swept(line: str) -> None:
        assert user.types(f"{line} --force").split() == ["train"]
        user.types("gpuconsole wait train")
        assert list(user.jobs().values()) == 8 * ["succeeded"]

    def searched(line: str) -> None:
        user.types(f"{line} --name search --force")
        wait_until(
            lambda: list(user.jobs().values()).count("succeeded") > 8 + 3, what="trials have ended"
        )
        user.types("gpuconsole cancel search")
        states = user.jobs()
        assert len(states) == 8 + 30
        assert set(states.values()) <= {"succeeded", "cancelled", "running"}
        compared = json.loads(user.types("gpuconsole compare search --json"))["jobs"]
        tried = [row for row in compared if row["best"] is not None]
        assert tried[0]["best"] == min(row["best"] for row in tried)

    user.page("sweeps.md", {
        "gpuconsole submit train.py --sweep lr=1e-3,1e-4 --sweep seed=0..3 --at-most 4": swept,
        "gpuconsole compare train": prints(user, "lr", "seed", "BEST"),
        'gpuconsole submit train.py --goal "min val_loss" --trials 30 --at-most 4'
        " --sweep lr=1e-5..1e-1:log --sweep width=64,128,256 --sweep layers=1..8": searched,
    })  # fmt: skip
