"""`gpuconsole status`, `check` and `init`: hosts out of reach, and inventories that are wrong."""

from __future__ import annotations

import io
import re
import shutil
import sys
from pathlib import Path

import pytest

from gpuconsole.errors import ConsoleError
from gpuconsole.remote.inventory import load_inventory, parse_inventory
from tests.cli.command_line import Lab, Run


def test_status_with_a_host_down_is_done_and_says_so(run: Run, lab: Lab) -> None:
    answer = run("status", *lab, "--json")
    assert answer.code == 0
    [host] = answer.document["hosts"]
    assert (host["name"], host["state"], host["devices"]) == ("gone", "down", [])
    assert "refuse" in host["error"]
    assert "gone" in run("status", *lab).out


def test_check_finds_the_fault_and_names_the_remedy(run: Run, lab: Lab) -> None:
    answer = run("check", *lab, "--json")
    assert answer.code == 1
    assert answer.document["ok"] is False
    steps = {found["step"]: found for found in answer.document["hosts"][0]["findings"]}
    assert steps["tcp"]["result"] == "fail"
    assert steps["tcp"]["remedy"]
    assert "→" in run("check", "gone", *lab).out


def test_check_of_an_unknown_host_is_wrong_usage(run: Run, lab: Lab) -> None:
    assert run("check", "other", *lab, "--json").code == 2


def test_trust_of_a_host_out_of_reach_is_code_3(run: Run, lab: Lab) -> None:
    assert run("check", "--trust", "gone", "--yes", *lab, "--json").code == 3
    assert run("check", "--trust", "gone", "--read-only", *lab, "--json").code == 2


def test_init_writes_an_inventory_that_check_reads(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host a100-01\n  HostName 10.0.0.11\n")
    target = tmp_path / "made.yaml"
    words = ("init", "--ssh-config", config, "--output", target, "--json")
    assert run(*words).document == {"inventory": str(target), "hosts": ["a100-01"]}
    again = run(*words)
    assert again.code == 2
    assert "--force" in again.document["error"]["hint"]
    assert run(*words, "--force").code == 0
    assert run(*words, "--force", "--read-only").code == 2


def test_init_without_any_host_writes_a_template(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    target = tmp_path / "made.yaml"
    answer = run("init", "--output", target)
    assert answer.code == 0
    assert "remove the #" in answer.err
    text = target.read_text()
    with pytest.raises(ConsoleError, match="hosts"):
        parse_inventory(text, "made.yaml")
    # The example is one as soon as its marks are gone.
    head, hosts, example = text.partition("hosts:\n")
    filled = head + hosts + re.sub(r"(?m)^#  ", "  ", example)
    (host,) = parse_inventory(filled, "made.yaml").hosts
    assert host.name == "a100-01"
    assert run("init", "--output", target, "--json").code == 2
    assert run("init", "--ssh-config", tmp_path / "none", "--output", target).code == 2


@pytest.mark.parametrize(
    ("typed", "name", "user"), [("ops@gpu-01", "gpu-01", "ops"), ("10.0.0.7", "10.0.0.7", "")]
)
def test_init_asks_for_a_first_host_at_a_terminal(
    typed: str, name: str, user: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    ssh = tmp_path / ".ssh"
    ssh.mkdir()
    (ssh / "config").write_text("Host *\n  User x\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{typed}\n"))
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    target = tmp_path / "made.yaml"
    assert run("init", "--output", target).code == 0
    (host,) = load_inventory(target).hosts
    assert (host.name, host.user) == (name, user or host.user)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version: 1\nhosts: [\n", "inventory.yaml:"),
        ("version: 1\nhosts:\n  - {name: a, adress: b}\n", "address"),
        ("version: 9\nhosts:\n  - {name: a}\n", "inventory.yaml:1"),
        ("", "inventory.yaml"),
    ],
    ids=["malformed", "unknown key", "version", "empty"],
)
def test_a_wrong_inventory_names_its_place(run: Run, lab: Lab, text: str, words: str) -> None:
    Path(lab[1]).write_text(text)
    for command in ("status", "jobs", "check"):
        answer = run(command, *lab)
        assert answer.code == 2
        assert words in answer.err


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_without_inventory_and_gpu_the_demo_is_offered(run: Run) -> None:
    answer = run("status", "--json")
    assert answer.code == 2
    assert "gpuconsole demo" in answer.document["error"]["hint"]
    assert run().code == 2
