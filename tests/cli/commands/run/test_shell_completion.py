"""What a shell is offered: from files alone, quickly, and nothing when they are broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.state import Journal
from tests.cli.command_line import in_process
from tests.waiting import DEADLINE_S

Complete = Callable[..., list[str]]
INVENTORY = (
    "version: 1\nhosts:\n  - {name: a100-01, address: h1}\n  - {name: a100-02, address: h2}\n"
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Give a state folder with a queue of four."""
    journal = Journal(tmp_path / "state", clock=time.time)
    for place, state in enumerate((JobState.QUEUED, JobState.RUNNING, JobState.SUCCEEDED)):
        journal.add(Job(f"2p{place}job", Task(f"train-{place}"), "ann", state, 0.0))
    swept = Task("train-3", sweep="tune")
    journal.add(Job("3pjob", swept, "ann", JobState.HELD, 0.0))
    journal.close()
    return tmp_path / "state"


@pytest.fixture
def complete(state: Path, tmp_path: Path) -> Complete:
    """Give what a shell does at a Tab: a fresh process, as it starts one."""
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(INVENTORY)

    def ask(*words: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "gpuconsole"],
            env={
                **os.environ,
                "_GPUCONSOLE_COMPLETE": "fish_complete",
                "COMP_WORDS": " ".join(["gpuconsole", *words]),
                "COMP_CWORD": words[-1] if words else "",
                "GPUCONSOLE_INVENTORY": str(inventory),
            },
            capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        assert done.stderr == ""
        assert done.returncode == 0
        items = (line.split(",", 1)[1] for line in done.stdout.splitlines() if line)
        return [item.split("\t")[0] for item in items]

    return ask


def test_commands_and_options(complete: Complete) -> None:
    assert complete("wh") == ["what-if", "why"]
    assert "--json" in complete("status", "--j")


def test_jobs_by_what_can_be_done_to_them(complete: Complete, state: Path) -> None:
    where = ("--state", str(state))
    assert complete(*where, "why", "") == ["3pjob", "2p2job", "2p1job", "2p0job", "tune"]
    assert complete(*where, "why", "2p1") == ["2p1job"]
    assert complete(*where, "cancel", "2") == ["2p1job", "2p0job"]
    assert complete(*where, "release", "") == ["3pjob", "tune"]
    assert complete(*where, "preempt", "") == ["2p1job"]
    assert complete(*where, "logs", "tu") == ["tune"]


def test_hosts_and_changes(complete: Complete, state: Path) -> None:
    assert complete("drain", "a100") == ["a100-01", "a100-02"]
    assert complete("check", "a100-01", "a") == ["a100-01", "a100-02"]
    assert complete("what-if", "") == ["drain", "add", "priority"]
    assert complete("what-if", "drain", "") == ["a100-01", "a100-02"]
    assert complete("--state", str(state), "what-if", "priority", "") == ["3pjob", "2p0job", "tune"]
    assert "GeForce_RTX_3090" in complete("what-if", "add", "2", "geforce")


@pytest.mark.parametrize("text", ["", "hosts: [", "hosts: 3", "- a", "hosts:\n  - {nam: x}", "\0"])
def test_a_broken_inventory_offers_nothing(complete: Complete, tmp_path: Path, text: str) -> None:
    (tmp_path / "inventory.yaml").write_text(text)
    assert complete("drain", "") == []


def test_a_broken_journal_offers_nothing(complete: Complete, state: Path) -> None:
    (state / "journal.sqlite").write_bytes(b"no database at all" * 100)
    assert complete("--state", str(state), "why", "") == []
    assert complete("--state", str(state / "nowhere"), "why", "") == []
    assert not (state / "nowhere").exists()


def test_a_tab_pays_for_no_session(state: Path) -> None:
    probe = (
        "import os, sys; os.environ.update(_GPUCONSOLE_COMPLETE='bash_complete', "
        f"COMP_WORDS='gpuconsole --state {state} why 2', COMP_CWORD='4')\n"
        "from gpuconsole.cli import main\nmain([])\n"
        "heavy = ('pydantic', 'rich', 'gpuconsole.session.session', 'textual')\n"
        "sys.stderr.write(repr([m for m in heavy if m in sys.modules]))"
    )
    done = in_process(probe)
    assert "2p1job" in done.stdout
    assert done.stderr == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_document_too(shell: str) -> None:
    command = [sys.executable, "-m", "gpuconsole", "completion", shell]
    plain = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert "_GPUCONSOLE_COMPLETE" in plain.stdout
    done = subprocess.run(
        [*command, "--json"], capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
    document = json.loads(done.stdout)
    assert document == {"shell": shell, "script": plain.stdout.removesuffix("\n")}


def _install(home: Path, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "gpuconsole", "completion", *argv],
        env={**kept, "HOME": str(home), **more},
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_it_is_installed_once_behind_what_is_there(tmp_path: Path, shell: str) -> None:
    started = tmp_path / f".{shell}rc"
    started.write_text("alias ll='ls -l'")
    for _ in range(2):
        done = _install(tmp_path, "--install", SHELL=f"/bin/{shell}")
        assert done.returncode == 0, done.stderr
        assert str(started) in done.stderr
    text = started.read_text()
    assert text.startswith("alias ll='ls -l'\n")
    assert text.count(f"gpuconsole completion {shell}") == 1


def test_a_shell_that_starts_with_it_completes(tmp_path: Path) -> None:
    _install(tmp_path, "bash", "--install")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--rcfile", str(tmp_path / ".bashrc"), "-ic", "complete -p gpuconsole"],
        env={"HOME": str(tmp_path), "PATH": path},
        capture_output=True, text=True, timeout=DEADLINE_S, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "_gpuconsole_completion" in done.stdout


def test_fish_has_a_file_of_its_own(tmp_path: Path) -> None:
    done = _install(tmp_path, "fish", "--install", XDG_CONFIG_HOME=str(tmp_path / "conf"))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "conf/fish/completions/gpuconsole.fish").read_text()
    assert "complete" in text


def test_a_shell_that_is_unknown_has_to_be_named(tmp_path: Path) -> None:
    done = _install(tmp_path, "--install", SHELL="/bin/ksh")
    assert done.returncode == 2
    assert "bash, zsh, fish" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_left_and_said(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").mkdir()
    done = _install(tmp_path, "bash", "--install")
    assert done.returncode == 2
    assert "not installed" in done.stderr
