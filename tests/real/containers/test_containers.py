"""Containers that are no job of this queue: listed, read, searched and entered, over real SSH."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.real.rig.docker import LabDocker
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.image import PADDLE_IMAGE
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, wait_until
from tests.real.rig.teletype import Teletype

pytestmark = pytest.mark.real
NO_SHELL = "lab/empty:1"


class Site:
    """Two hosts, one without an engine, and a user's desk."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.host: LabHost = lab.add(devices=1)
        self.engine: LabDocker = self.host.start_engine()
        self.broken: LabHost = lab.add(devices=1)
        self.desk = Desk(lab, folder)
        self.docker = self.engine.client()

    def begin(self, name: str, *command: str, **options: Any) -> str:
        """Start a container of somebody else."""
        config = options.pop("config", None)
        host_config = self.docker.create_host_config(network_mode="none", **(config or {}))
        made = self.docker.create_container(
            PADDLE_IMAGE, list(command), name=name, host_config=host_config, **options
        )
        self.docker.start(made["Id"])
        return str(made["Id"])

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        """Run a command of the console without a terminal."""
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            self.desk.command(*words), capture_output=True, timeout=PATIENCE_S, check=False,
            **options,
        )  # fmt: skip

    def acts(self) -> Sequence[dict[str, Any]]:
        """Return the audit, the latest first."""
        found: Sequence[dict[str, Any]] = json.loads(self.run("audit", "--json").stdout)["acts"]
        return found


@pytest.fixture
def site(docker_lab: Lab, tmp_path: Path) -> Site:
    return Site(docker_lab, tmp_path / "desk")


def test_all_containers_are_listed_and_a_broken_host_says_why(site: Site) -> None:
    held = site.begin("theirs", "sleep", "600")
    done = site.begin("over", "sh", "-c", "exit 3")
    site.docker.wait(done)
    found = site.run("containers", "--json")
    assert found.returncode == 0, found.stderr
    first, second = json.loads(found.stdout)["hosts"]
    assert [one["name"] for one in first["containers"]] == ["theirs"]
    assert first["containers"][0]["id"] == held
    assert first["containers"][0]["job"] is None
    assert first["error"] is None
    assert second["containers"] == []
    assert "no Docker socket" in second["error"]
    shown = site.run("containers", "--all")
    assert {b"theirs", b"over"} <= set(shown.stdout.replace(b":", b" ").split())
    assert b"no Docker socket" in b" ".join(shown.stdout.split())
    alone = site.run("containers", "--host", site.broken.name)
    assert alone.returncode == 3
    assert b"no Docker socket" in alone.stderr


def test_a_log_is_read_searched_and_followed_to_its_end(site: Site) -> None:
    name, go = "chatty", "/tmp/go"
    words = f"for n in 1 2 3; do echo line $n; echo wrong $n >&2; done; until test -e {go}; do"
    site.begin(name, "sh", "-c", f"{words} sleep 0.1; done; printf '\\033[2Jlast\\n'")
    where = f"{site.host.name}:{name}"

    def lines(*more: str) -> list[str]:
        found = site.run("logs", where, *more)
        assert found.returncode == 0, found.stderr
        return found.stdout.decode().splitlines()

    wait_until(lambda: len(lines()) == 6, what="the log")
    assert sorted(lines()) == [f"line {n}" for n in "123"] + [f"wrong {n}" for n in "123"]
    assert lines("--search", "WRONG") == ["wrong 1", "wrong 2", "wrong 3"]
    assert sorted(lines("--search", "line 1|wrong 3")) == ["line 1", "wrong 3"]
    assert len(lines("--tail", "2")) == 2
    assert lines("--search", "line", "--tail", "1") == ["line 3"]
    # By a beginning of its name, and as a document.
    document = json.loads(site.run("logs", f"{site.host.name}:cha", "--json").stdout)
    assert (document["container"], len(document["lines"])) == (name, 6)
    follow = subprocess.Popen(
        site.desk.command("logs", where, "-f"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert follow.stdout is not None
    assert follow.stdout.readline()
    site.docker.exec_start(site.docker.exec_create(name, ["touch", go])["Id"])
    rest, errors = follow.communicate(timeout=PATIENCE_S)
    assert (follow.returncode, errors) == (0, b"")
    # What would clear the reader's screen is taken out.
    assert rest.decode().splitlines()[-1] == "last"


def test_a_log_of_a_terminal_and_one_that_nobody_keeps(site: Site) -> None:
    site.docker.wait(site.begin("typed", "sh", "-c", "tty; echo two", tty=True))
    found = site.run("logs", f"{site.host.name}:typed")
    assert found.stdout.decode().splitlines() == ["/dev/pts/0", "two"]
    kept = {"config": {"log_config": {"Type": "none"}}}
    site.begin("silent", "sleep", "600", **kept)
    refused = site.run("logs", f"{site.host.name}:silent")
    assert refused.returncode == 1
    assert b"its log driver is `none`" in refused.stderr


def test_a_container_removed_while_its_log_is_followed_is_reported(site: Site) -> None:
    made = site.begin("going", "sh", "-c", "echo here; sleep 600")
    follow = subprocess.Popen(
        site.desk.command("logs", f"{site.host.name}:going", "-f"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert follow.stdout is not None
    assert follow.stdout.readline() == b"here\n"
    site.docker.remove_container(made, force=True)
    _, errors = follow.communicate(timeout=PATIENCE_S)
    assert follow.returncode == 1
    assert b"was removed while its log was read" in errors


def test_a_terminal_inside_knows_its_size_hears_keys_and_hands_on_its_exit_code(
    site: Site,
) -> None:
    site.begin("theirs", "sleep", "600")
    where = f"{site.host.name}:theirs"
    command = site.desk.command("exec", where, "-it", "--", "sh")
    with Teletype(command, os.environ) as terminal:
        terminal.press(b"tty; stty size\r")
        terminal.shows("/dev/pts/", "36 120")
        waits = 'until [ "$(stty size)" = "20 90" ]; do sleep 0.1; done; echo resized $((40 + 2))'
        terminal.press(f"{waits}\r".encode())
        terminal.resize(90, 20)
        terminal.shows("resized 42")
        # Ctrl-C ends what runs in the container, and not the shell there nor the command here.
        terminal.press(b"sleep 599\r")
        wait_until(lambda: b"sleep 599" in processes(site), what="the command")
        terminal.press(b"\x03")
        wait_until(lambda: b"sleep 599" not in processes(site), what="its end")
        terminal.press(b"echo still $((40 + 2))\r")
        terminal.shows("still 42")
        # No key is held back, to see whether another follows with which it would leave.
        terminal.press(b"\x10")
        terminal.shows("^P")
        terminal.press(b"\x15exit 7\r")
        assert terminal.ended() == 7
        assert terminal.unrestored() == {}
    (act,) = site.acts()
    assert (act["verb"], act["subject"], act["refused"]) == ("exec", where, None)
    assert act["detail"].endswith(": sh")


def test_keys_leave_a_command_that_runs_on(site: Site) -> None:
    site.begin("theirs", "sleep", "600")
    command = site.desk.command("exec", f"{site.host.name}:theirs", "-it", "--", "sleep", "598")
    with Teletype(command, os.environ) as terminal:
        wait_until(lambda: b"sleep 598" in processes(site), what="the command")
        terminal.until_raw()
        terminal.press(b"\x10\x11")
        assert terminal.ended() == 0
        assert terminal.unrestored() == {}
        assert "runs on" in terminal.text
    assert b"sleep 598" in processes(site)


STUBBORN = """
trap 'echo hung up' HUP
nohup sleep 597 >/dev/null &
echo ready
while :; do sleep 596; done
"""
"""Handles SIGHUP and runs on; what it began under nohup ignores it."""


def test_a_console_that_is_killed_ends_its_command_and_what_that_began(site: Site) -> None:
    site.begin("theirs", "sleep", "600")
    words = ("exec", f"{site.host.name}:theirs", "-it", "--", "sh", "-c", STUBBORN)
    with Teletype(site.desk.command(*words), os.environ) as terminal:
        terminal.shows("ready")
        wait_until(lambda: b"sleep 596" in processes(site), what="the command")
        terminal.process.kill()
        # As a terminal's end does: what was begun under nohup is meant to run on. The command
        # outlives SIGHUP, so all of what ends it is waited for, and not a moment between two of its
        # processes.
        meant = [["sleep", "597"], ["sleep", "600"]]
        wait_until(lambda: command_lines(site) == meant, what="its end, and that of what ended it")


def test_a_command_without_a_terminal_ends_with_the_one_that_ran_it(site: Site) -> None:
    site.begin("theirs", "sleep", "600")
    command = site.desk.command("exec", f"{site.host.name}:theirs", "--", "sleep", "595")
    running = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    wait_until(lambda: b"sleep 595" in processes(site), what="the command")
    running.send_signal(signal.SIGINT)
    running.wait(PATIENCE_S)
    wait_until(lambda: b"sleep 595" not in processes(site), what="its end")
    assert [act["detail"].partition(": ")[2] for act in site.acts()] == [
        "sleep 595: ended, as its terminal was closed",
        "sleep 595",
    ]


def test_what_a_command_that_ended_well_began_runs_on(site: Site) -> None:
    site.begin("theirs", "sleep", "600")
    where = f"{site.host.name}:theirs"
    done = site.run("exec", where, "--", "sh", "-c", "sleep 594 >/dev/null 2>&1 & echo begun")
    assert (done.returncode, done.stdout) == (0, b"begun\n")
    asked = site.run("exec", where, "--", "sh", "-c", "echo $GPUCONSOLE_EXEC")
    assert len(asked.stdout.strip()) == 32
    assert b"sleep 594" in processes(site)


def command_lines(site: Site) -> list[list[str]]:
    """Return the words of each command in the container, sorted."""
    return sorted(line.split() for line in processes(site).decode().splitlines())


def processes(site: Site) -> bytes:
    """Return the command lines in the container."""
    found = site.docker.top("theirs", "-efww")["Processes"] or []
    return "\n".join(row[-1] for row in found).encode()


def test_streams_stay_apart_and_bytes_whole(site: Site) -> None:
    site.begin("theirs", "sleep", "600")
    where = f"{site.host.name}:theirs"
    apart = site.run("exec", where, "--", "sh", "-c", "echo out; echo wrong >&2; exit 5")
    assert (apart.returncode, apart.stdout, apart.stderr) == (5, b"out\n", b"wrong\n")
    document = json.loads(
        site.run("exec", where, "--json", "--", "sh", "-c", "echo a; exit 4").stdout
    )
    assert document == {"exit_code": 4, "stdout": "a\n", "stderr": ""}
    data = bytes(range(256)) * 4096
    back = site.run("exec", where, "-i", "--", "cat", input=data, stdin=None)
    assert (back.returncode, len(back.stdout)) == (0, len(data))
    assert back.stdout == data
    # No shell between: signs are words.
    plain = site.run("exec", where, "--", "printf", "%s", "$HOME; echo `id` 'x'")
    assert plain.stdout == b"$HOME; echo `id` 'x'"


def test_programs_that_are_not_there_and_containers_that_do_not_run_are_said_plainly(
    site: Site,
) -> None:
    site.begin("theirs", "sleep", "600")
    site.docker.wait(site.begin("over", "true"))
    host = site.host.name
    missing = site.run("exec", f"{host}:theirs", "--", "nosuchprogram")
    # Docker 20.10 says 126 of it, later ones 127.
    assert missing.returncode in (126, 127)
    assert b"was not found in the container" in missing.stderr
    assert b"-it -- sh" in missing.stderr
    shut = site.run("exec", f"{host}:theirs", "--", "/etc/passwd")
    assert shut.returncode in (126, 127)
    over = site.run("exec", f"{host}:over", "--", "true")
    assert over.returncode == 1
    assert b"is exited" in over.stderr
    read_only = site.run("--read-only", "exec", f"{host}:theirs", "--", "true")
    assert read_only.returncode == 2
    assert b"Read-only" in read_only.stderr
    nobody = site.run("exec", f"{host}:nosuch", "--", "true")
    assert nobody.returncode == 2
    away = site.run("exec", f"{site.broken.name}:theirs", "--", "true")
    assert away.returncode == 3
    assert b"no Docker socket" in away.stderr
    verbs = [(act["subject"], bool(act["refused"])) for act in site.acts()]
    assert verbs == [(f"{host}:over", True), (f"{host}:theirs", False), (f"{host}:theirs", False)]


def test_a_host_that_goes_while_a_command_runs_gives_the_terminal_back(site: Site) -> None:
    site.begin("theirs", "sleep", "600")
    command = site.desk.command("exec", f"{site.host.name}:theirs", "-it", "--", "sh")
    with Teletype(command, os.environ) as terminal:
        terminal.press(b"echo in $((40 + 2))\r")
        terminal.shows("in 42")
        site.host.stop_sshd()
        assert terminal.ended() == 3
        assert terminal.unrestored() == {}
        assert site.host.name in terminal.text.rpartition("in 42")[2]
    # The engine is still there, and has ended it.
    wait_until(lambda: processes(site).split() == [b"sleep", b"600"], what="the end of the shell")
    site.host.start_sshd()
