"""The tutorial followed to the letter, as someone does who has never seen the product.

Commands, files and what they print come from the page itself.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.rig import terminal
from tests.real.rig.hosts import USER, Lab, LabHost
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.terminal import Terminal
from tests.real.services.test_road import TRAIN

PAGE = Path(__file__).parents[3] / "docs" / "tutorial.md"
OWN = ("XDG_", "GPUCONSOLE_", "SSH_")
"""Names of variables that begin so lead to the files and keys of someone else."""
STEPS = 7
"""What is run and printed on the page, in blocks."""

pytestmark = pytest.mark.skipif(bool(terminal.why_not()), reason=terminal.why_not() or "-")


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)


def steps(block: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a block, each with the lines that it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip() != "…":
            found[-1][1].append(line)
    return found


def as_printed(line: str) -> str:
    """Return a pattern for a line of the page: what holds a figure or an id may be another, and
    lines may be folded elsewhere."""
    words = [r"\S+" if re.search(r"\d", word) else re.escape(word) for word in line.split()]
    return r"\s+".join(words)


class Stranger:
    """A home folder in which SSH to one host works, a project, and nothing else."""

    def __init__(self, lab: Lab, host: LabHost, folder: Path) -> None:
        self.home = folder / "home"
        ssh = self.home / ".ssh"
        ssh.mkdir(parents=True, mode=0o700)
        (ssh / "known_hosts").write_text(host.host_key_line())
        (ssh / "config").write_text(
            f"Host {host.name}\n  HostName {host.address}\n  User {USER}\n"
            f"  IdentityFile {lab.key}\n"
        )
        self.project = folder / "project"
        self.project.mkdir()
        (self.project / "train.py").write_text(TRAIN)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
        path = f"{Path(sys.executable).parent}:{kept.get('PATH', '')}"
        self.env = kept | {"HOME": str(self.home), "PATH": path, "COLUMNS": "80"}

    @property
    def inventory(self) -> Path:
        return self.home / ".config" / "gpuconsole" / "inventory.yaml"

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command line of the page."""
        return subprocess.run(
            command, shell=True, cwd=self.project, env=self.env, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
        )  # fmt: skip

    def follow(self, block: str) -> None:
        """Run the commands of a block, and find all lines in what they print, in their order."""
        for command, lines in steps(block):
            printed, at = self.run(command).stdout, 0
            for line in lines:
                found = re.compile(as_printed(line)).search(printed, at)
                assert found, f"`{line}` is not printed by `{command}`:\n{printed}"
                at = found.end()


@pytest.fixture
def host(docker_lab: Lab) -> LabHost:
    made = docker_lab.add()
    made.start_engine()
    return made


def test_each_step_prints_what_the_page_says(
    docker_lab: Lab, host: LabHost, tmp_path: Path
) -> None:
    runs = blocks("console")
    assert len(runs) == STEPS, "a block without a step of this test, or a step without a block"
    stranger = Stranger(docker_lab, host, tmp_path)
    init, *others = runs

    stranger.follow(init)
    assert f"name: {host.name}" in stranger.inventory.read_text()
    (inventory,) = blocks("yaml")
    assert f"address: {host.name} " in inventory
    image = re.search(r"image: (\S+)", inventory)
    assert image
    inventory = inventory.replace(image[1], "lab/paddle:1")
    # The rig's engine listens elsewhere.
    stranger.inventory.write_text(f"{inventory}    docker_socket: {host.socket}\n")

    check, status, *others = others
    stranger.follow(check)
    look(stranger, tmp_path, host)
    stranger.follow(status)
    for block in others:
        stranger.follow(block)

    assert "`gpuconsole fetch first`" in PAGE.read_text("utf-8")
    assert stranger.run("gpuconsole fetch first").returncode == 0
    assert list(stranger.project.rglob("result.json"))


def look(stranger: Stranger, folder: Path, host: LabHost) -> None:
    """Open the console, the host, and leave, by the keys that the page names."""
    unset = [f"--unset={name}" for name in os.environ if name.startswith(OWN)]
    home = f"HOME={stranger.home}"
    command = ["env", *unset, home, sys.executable, "-m", "gpuconsole"]
    with Terminal(folder, command, (120, 36)) as console:
        console.shows(host.name, "A100")
        # The tour greets who comes for the first time.
        console.shows("leaves the tour")
        console.press("Escape")
        console.until(lambda text: "leaves the tour" not in text)
        console.press("Enter")
        console.shows(f"Fleet > {host.name}")
        console.press("Escape")
        console.until(lambda text: f"Fleet > {host.name}" not in text)
        console.press("q")
        assert console.ended() == 0


def test_a_batch_that_is_too_large_ends_with_one(docker_lab: Lab, tmp_path: Path) -> None:
    stranger = Stranger(docker_lab, docker_lab.add(), tmp_path)
    text = PAGE.read_text("utf-8")
    assert "leads to exit code 1 and suggestions" in " ".join(text.split())
    (command,) = [
        command for block in blocks("console") for command, _ in steps(block)
        if "--batch-size 8000000" in command
    ]  # fmt: skip
    assert stranger.run(command).returncode == 1
