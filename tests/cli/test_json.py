"""`--json` everywhere: each command answers, and refuses, with one document on stdout."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from gpuconsole.cli import main
from gpuconsole.cli.entry import sections
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.state import Journal

SCRIPT = "import paddle\nnet = paddle.nn.Linear(4, 4)\nnet(paddle.rand([2, 4])).sum().backward()\n"
INVENTORY = (
    "version: 1\nhosts:\n  - {name: gone, address: 127.0.0.1, port: 9, user: nobody}\n"
    "  - {name: drained, address: 127.0.0.1, port: 9, user: nobody}\n"
)

ASKED: dict[str, tuple[str, ...]] = {
    "init": ("--output", "new.yaml", "--ssh-config", "ssh_config"),
    "check": (),
    "status": (),
    "calibrate": ("--reliability",),
    "drain": ("gone", "--reason", "hot"),
    "undrain": ("drained",),
    "record": ("--out", "new.gpuconsole", "--seconds", "1"),
    "replay": ("new.gpuconsole",),
    "incidents": (),
    "report": ("--by", "user,month"),
    "journal check": (),
    "journal backups": (),
    "journal restore": ("--yes",),
    "journal adopt": (),
    "image list": (),
    "image pull": ("paddle:3", "--host", "gone"),
    "image pin": ("paddle:3",),
    "image check": ("paddle:3", "--host", "gone"),
    "image copy": ("paddle:3", "--from", "gone", "--to", "drained"),
    "image dockerfile": ("train.py",),
    "preflight": ("train.py", "--offline"),
    "submit": ("train.py", "--force"),
    "containers": ("--host", "gone"),
    "exec": ("gone:theirs",),
    "what-if": ("drain", "gone"),
    "simulate": ("--policy", "fifo_strict", "--window-days", "0.01"),
    "learn": ("--minutes", "0.1"),
    "jobs": (),
    "logs": ("ended",),
    "wait": ("ended",),
    "why": ("held",),
    "cancel": ("held",),
    "preempt": ("queued",),
    "retry": ("ended",),
    "hold": ("queued",),
    "release": ("held",),
    "priority": ("queued", "7"),
    "fetch": ("ended",),
    "prune": (),
    "audit": (),
    "doctor": (),
    "notify": (),
    "takeover": ("--socket", "nowhere.sock"),
    "forward": ("queued", "8080"),
    "services": (),
    "scale": ("queued", "2"),
    "shell": ("--detach",),
    "curves": ("ended",),
    "compare": ("ended", "queued"),
    "render": ("train.py", "--to", "docker"),
    "demo": ("--headless", "--speed", "100"),
    "completion": ("fish",),
}
"""What is asked of each command; an answer or a clear no, but one document."""
REFUSED = {
    "image pin": 3,
    "image check": 3,
    "image copy": 3,
    "learn": 2,
    "journal restore": 2,
    "preempt": 1,
    "fetch": 1,
    "prune": 3,
    "takeover": 3,
    "exec": 2,
    "forward": 1,
    "scale": 2,
}
"""Those that have to say no here, with their exit code: no host answers, there is no backup."""
NO = {"check": 1, "containers": 3, "image list": 3, "image pull": 3, "preflight": 1, "curves": 1}
"""Those with an answer that is itself a no."""
UNTIL_STOPPED = {"dispatch", "serve", "metrics", "jupyter", "mcp"}
"""They run until they are stopped. `serve` and `metrics` print where they are at once, `jupyter`
where it is once its job runs, `dispatch` what it did at its end; `mcp` speaks its protocol. Their
own tests read the documents."""


def leaves() -> Iterator[tuple[str, click.Command]]:
    """Give every command that does something, with its words."""

    def below(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            for name, inner in command.commands.items():
                yield from below(f"{words} {name}", inner)
        else:
            yield words, command

    for _, commands in sections():
        for command in commands:
            yield from below(str(command.name), command)


NAMES = [name for name, _ in leaves()]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a working folder with a script, an inventory of hosts that refuse, and a queue."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUCONSOLE_INVENTORY", str(tmp_path / "inventory.yaml"))
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "ssh_config").write_text("Host a100\n  HostName 10.0.0.1\n")
    journal = Journal(tmp_path / "state", clock=time.time)
    task = Task("queued", script=str(tmp_path / "train.py"))
    journal.add(Job("1queued", task, "ann", JobState.QUEUED, 1.0))
    journal.add(Job("2held", Task("held"), "ann", JobState.HELD, 2.0))
    attempt = Attempt(1, "gone", ("GPU-1",), (0,), "c", started_at=3.0, ended_at=4.0, exit_code=0)
    ended = Job("3ended", Task("ended"), "ann", JobState.SUCCEEDED, 2.0, attempts=(attempt,))
    journal.add(ended)
    journal.drain("drained", "hot", "ann")
    journal.close()
    return tmp_path


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the only thing on stdout."""
    code = main([*words, "--state", "state", "--json"])
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    document = json.loads(said.out)
    assert isinstance(document, dict)
    return code, document


def test_every_command_is_asked_or_said_to_run_on() -> None:
    assert set(ASKED) | UNTIL_STOPPED == set(NAMES)
    assert not set(ASKED) & UNTIL_STOPPED


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_the_option(name: str) -> None:
    command = dict(leaves())[name]
    assert any("--json" in parameter.opts for parameter in command.params)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_usage_is_one_document(
    name: str, lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = asked(capsys, *name.split(), "--no-such-option")
    assert code == 2
    assert set(document) == {"error"}
    assert set(document["error"]) == {"title", "message", "hint"}


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_is_one_document(
    name: str, lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "replay":
        main(["record", *ASKED["record"], "--state", "state"])
        capsys.readouterr()
    code, document = asked(capsys, *name.split(), *ASKED[name])
    assert code == (REFUSED | NO).get(name, 0), document
    if name in REFUSED:
        assert set(document) == {"error"}
        assert set(document["error"]) == {"title", "message", "hint"}
    else:
        assert document
        assert "error" not in document


def test_the_console_itself_has_no_document(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = asked(capsys)
    assert code == 2
    assert set(document) == {"error"}
