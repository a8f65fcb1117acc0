"""The console lends its terminal to a command in a container, and has it back afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.rig import terminal as tmux
from tests.real.rig.hosts import Lab
from tests.real.rig.image import PADDLE_IMAGE
from tests.real.rig.sessions import Desk
from tests.real.rig.terminal import Terminal

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def _terminal() -> None:
    if reason := tmux.why_not():
        pytest.skip(reason)


def test_the_demo_has_a_shell_in_which_nothing_is_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpuconsole", "demo", "--state", str(tmp_path / "state")]
    with Terminal(tmp_path, ["env", "GPUCONSOLE_NO_TOUR=1", *command], (120, 36)) as console:
        console.shows("SIMULATED", "C containers")
        console.press("C")
        console.shows("by host", "running")
        console.press("X")
        console.shows("Run in ")
        console.press("Enter")
        console.shows("SIMULATED #", "Ctrl-P Ctrl-Q leaves it running.")
        console.type("ls")
        console.press("Enter")
        console.shows("`ls` is not run")
        console.type("exit 3")
        console.press("Enter")
        console.shows("by host")
        # A toast may have given way to news of the lab; the list has it.
        console.type(":messages")
        console.shows("Messages of this session")
        console.press("Enter")
        console.shows("ended with exit code 3")
        console.press("q")
        console.until(lambda text: "messages of this session" not in text)
        console.press("q")
        assert console.ended() == 0


def test_a_shell_on_a_real_host_has_the_size_of_the_window_and_the_console_goes_on(
    docker_lab: Lab, tmp_path: Path
) -> None:
    host = docker_lab.add(devices=1)
    docker = host.start_engine().client()
    options = docker.create_host_config(network_mode="none")
    docker.start(
        docker.create_container(
            PADDLE_IMAGE, ["sh", "-c", "echo from inside; sleep 600"], name="theirs",
            host_config=options,
        )
    )  # fmt: skip
    desk = Desk(docker_lab, tmp_path / "desk")
    command = ["env", "GPUCONSOLE_NO_TOUR=1", *desk.command()]
    with Terminal(tmp_path, command, (100, 30)) as console:
        console.shows("C containers")
        console.press("C")
        console.shows("theirs", "running")
        console.press("X")
        console.shows("Run in theirs?")
        console.press("Enter")
        console.shows("leaves it running.", "\n#")
        console.type("tty; stty size; echo $((6 * 7))")
        console.press("Enter")
        console.shows("/dev/pts/", "30 100", "42")
        console.type("exit")
        console.press("Enter")
        console.shows("theirs", "by host")
        console.press("L")
        console.shows("log of", "from inside")
        # What ends the container ends its log, and the screen says so.
        docker.remove_container("theirs", force=True)
        console.shows("was removed while its log was read")
        console.press("Escape")
        console.shows("0 containers")
        console.press("q")
        assert console.ended() == 0
    found = subprocess.run(desk.command("audit"), capture_output=True, check=True, env=os.environ)
    assert b"exec" in found.stdout
    assert b"theirs" in found.stdout


def test_a_session_is_opened_and_entered_with_one_key_and_the_console_is_back_after_it(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "gpuconsole", "demo", "--state", str(tmp_path / "state")]
    with Terminal(tmp_path, ["env", "GPUCONSOLE_NO_TOUR=1", *command], (120, 36)) as console:
        console.shows("SIMULATED", "C containers")
        console.press("B")
        console.shows("Open a session?", "JupyterLab")
        console.press("Enter")
        console.shows("It runs. B enters it.", "B session")
        console.press("B")
        console.shows("leaves it running, `exit` ends it.", "(simulated) $")
        console.type("exit")
        console.press("Enter")
        console.shows("r retry")
        assert "B session" not in console.text
        console.press("q")
        assert console.ended() == 0
