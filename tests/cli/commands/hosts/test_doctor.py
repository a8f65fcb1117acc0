"""`gpuconsole doctor`: what this machine has and lacks."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gpuconsole.cli import main
from gpuconsole.remote.check_findings import Finding
from gpuconsole.session import doctor
from gpuconsole.session.doctor import Machine, Terminal
from tests.waiting import wait_until

WIDE = Terminal("xterm-256color", 120, 36, "utf-8", True)
Examine = Callable[..., dict[str, Finding]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(variable, str(folder))
    for variable in ("GPUCONSOLE_INVENTORY", "SSH_AUTH_SOCK"):
        monkeypatch.delenv(variable, raising=False)
    return folder


@pytest.fixture
def examine(home: Path) -> Examine:
    def go(
        environ: Mapping[str, str] | None = None,
        *,
        terminal: Terminal = WIDE,
        state: Path | None = None,
        inventory: Path | None = None,
    ) -> dict[str, Finding]:
        machine = Machine(environ or {}, terminal, inventory, state, "pip install {}".format)
        return {found.step: found for found in asyncio.run(doctor.examine(machine))}

    return go


def key(folder: Path, passphrase: str = "") -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / "id_ed25519"
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    return path


needs_openssh = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None or shutil.which("ssh-agent") is None,
    reason="OpenSSH is not installed",
)


def test_an_empty_home_has_warnings_and_no_failure(examine: Examine, home: Path) -> None:
    found = examine()
    results = {step: finding.result for step, finding in found.items()}
    assert results["gpuconsole"] == results["terminal"] == results["symbols"] == "ok"
    assert results["known hosts"] == results["ssh keys"] == results["inventory"] == "warn"
    assert results["state folder"] == results["settings"] == "ok"
    assert "fail" not in results.values()
    assert found["inventory"].remedy == "Write one: gpuconsole init"
    assert "ssh-keygen" in found["ssh keys"].remedy
    assert list(home.iterdir()) == [], "nothing is written"


@pytest.mark.parametrize(
    ("terminal", "step", "result", "words"),
    [
        (Terminal("dumb", 120, 36, "utf-8", True), "terminal", "warn", "no terminal that draws"),
        (Terminal("xterm", 79, 36, "utf-8", True), "terminal", "warn", "79x36 is small"),
        (Terminal("xterm", 200, 23, "utf-8", True), "terminal", "warn", "200x23 is small"),
        (Terminal("xterm", 80, 24, "UTF-8", True), "terminal", "ok", "xterm, 80x24"),
        (Terminal("xterm", 80, 24, "ascii", True), "symbols", "warn", "Output is in ascii"),
        (Terminal("", 80, 24, "ascii", False), "terminal", "skip", "not to a terminal"),
    ],
)
def test_the_terminal_is_looked_at(
    examine: Examine, terminal: Terminal, step: str, result: str, words: str
) -> None:
    found = examine(terminal=terminal)[step]
    assert (found.result, words in found.message) == (result, True), found


@needs_openssh
def test_a_key_that_opens_is_fine_and_a_passphrase_needs_the_agent(
    examine: Examine, home: Path
) -> None:
    path = key(home / ".ssh", "secret words")
    locked = examine()["ssh keys"]
    assert (locked.result, "id_ed25519 with a passphrase" in locked.message) == ("warn", True)
    assert "ssh-add" in locked.remedy
    path.unlink()
    key(home / ".ssh")
    assert examine()["ssh keys"] == Finding("ssh keys", "ok", "id_ed25519")


@needs_openssh
def test_the_agent_is_asked_for_its_keys(examine: Examine, home: Path) -> None:
    elsewhere, address = key(home / "elsewhere"), home / "agent"
    environ = {"SSH_AUTH_SOCK": str(address)}
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(address)], stdout=-3) as agent:
        try:
            wait_until(address.exists)
            empty = examine(environ)["ssh keys"]
            add = ["ssh-add", "-q", str(elsewhere)]
            subprocess.run(add, env={**os.environ, **environ}, check=True)
            found = examine(environ)["ssh keys"]
        finally:
            agent.terminate()
    assert (empty.result, empty.message) == ("warn", "the SSH agent holds 0 keys")
    assert found == Finding("ssh keys", "ok", "the SSH agent holds 1 key")
    assert examine(environ)["ssh keys"].message == "There is no key.", "it has ended"


def test_files_that_others_may_change_are_failures(examine: Examine, home: Path) -> None:
    (home / ".ssh").mkdir(mode=0o700)
    config = home / ".ssh" / "config"
    config.write_text("Host gpu-01\n  HostName 127.0.0.1\n")
    config.chmod(0o600)
    (home / ".ssh" / "known_hosts").touch()
    state = home / "state"
    state.mkdir(mode=0o700)
    fine = examine(state=state)
    assert fine["ssh config"].message == f"{config} names 1 host."
    assert fine["known hosts"].result == fine["state folder"].result == "ok"
    config.chmod(0o666)
    state.chmod(0o755)
    found = examine(state=state)
    assert found["ssh config"].result == found["state folder"].result == "fail"
    assert found["state folder"].remedy.endswith(f"chmod 700 {state}")


def test_wrong_files_name_their_place(examine: Examine, home: Path) -> None:
    inventory = home / "lab.yaml"
    inventory.write_text("version: 1\nhosts:\n  - {name: a, adress: b}\n")
    settings = home / "gpuconsole"
    settings.mkdir(mode=0o700)
    (settings / "config.yaml").write_text("symbls: ascii\n")
    found = examine(inventory=inventory)
    for step in ("inventory", "settings"):
        assert found[step].result == "fail"
        assert ".yaml:" in found[step].message


def test_a_full_disk_and_an_old_paddle_are_told(
    examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage._replace(free=5 * 2**20))
    versions = {"paddlepaddle-gpu": "2.6.1", "docker": "7.1.0"}

    def version(name: str) -> str:
        if name not in versions:
            raise doctor.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(doctor.metadata, "version", version)
    found = examine()
    assert (found["state folder"].result, found["paddle"].result) == ("warn", "warn")
    assert found["paddle"].remedy.endswith("pip install paddle")
    del versions["paddlepaddle-gpu"]
    assert examine()["paddle"].result == "skip"


def test_a_failure_is_exit_code_1(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    shared.chmod(0o755)
    assert main(["doctor", "--state", str(shared)]) == 1
    said = capsys.readouterr().out
    assert "  fail  state folder: Folder is open to others" in said
    assert f"→ Look at what is in it, then run: chmod 700 {shared}" in said
    assert sys.executable in said
