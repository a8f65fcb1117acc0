"""Completion in real shells: a Tab in bash and zsh, fish's own answer."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.state import Journal
from tests.real.rig import terminal
from tests.real.rig.terminal import Terminal

START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
READ = {
    "bash": 'eval "$(gpuconsole completion bash)"',
    "zsh": 'autoload -U compinit; compinit -u -D; eval "$(gpuconsole completion zsh)"',
    "fish": "gpuconsole completion fish | source",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a user with one job, one host, and gpuconsole on the path."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HISTFILE", "")
    state = Path(os.environ["XDG_STATE_HOME"]) / "gpuconsole"
    journal = Journal(state, clock=time.time)
    journal.add(Job("2pzmc60wg1", Task("train"), "ann", JobState.RUNNING, 0.0))
    journal.close()
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("version: 1\nhosts:\n  - {name: basement-07, address: h1}\n")
    monkeypatch.setenv("GPUCONSOLE_INVENTORY", str(inventory))
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("shell", START)
def test_a_tab_completes_commands_jobs_and_hosts(shell: str, home: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    if reason := terminal.why_not():
        pytest.skip(reason)
    with Terminal(home, START[shell], (100, 20)) as screen:
        screen.type(READ[shell])
        screen.press("Enter")
        # What is typed before the shell has read it all would be completed by nothing.
        screen.type("echo r''eady")
        screen.press("Enter")
        screen.until(lambda text: "\nready" in text)
        for typed, whole in (
            ("gpuconsole incid", "gpuconsole incidents"),
            ("gpuconsole why 2pz", "gpuconsole why 2pzmc60wg1"),
            ("gpuconsole drain base", "gpuconsole drain basement-07"),
            ("gpuconsole render trai", "gpuconsole render train.py"),
            ("gpuconsole submit --after 2p", "gpuconsole submit --after 2pzmc60wg1"),
        ):
            screen.type(typed)
            screen.press("Tab")
            screen.shows(whole)
            screen.press("C-u")
