"""The program that keeps a terminal in a container: run here, with a real shell."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconsole.core.engines import terminals
from gpuconsole.remote import inside
from gpuconsole.remote.inside import terminal
from tests.waiting import DEADLINE_S


class Looking:
    """One who looks at the terminal."""

    def __init__(self, path: Path, user: str = "ada", *, watch: bool = False) -> None:
        self.link = socket.socket(socket.AF_UNIX)
        self.link.settimeout(DEADLINE_S)
        end = time.monotonic() + DEADLINE_S
        while self.link.connect_ex(str(path)):
            assert time.monotonic() < end
            time.sleep(0.01)
        self.frames = terminals.Frames()
        self.written = b""
        self.notices: list[str] = []
        self.states: list[terminals.TerminalState] = []
        self.code: int | None = None
        self.over = False
        self.link.sendall(terminals.hello(80, 24, user, watch=watch))

    def type(self, words: str) -> None:
        self.link.sendall(terminals.frame(terminals.INPUT, words.encode()))

    def hear(self) -> None:
        data = self.link.recv(65536)
        self.over = not data
        for kind, body in self.frames.feed(data):
            if kind == terminals.OUTPUT:
                self.written += body
            elif kind == terminals.NOTICE:
                self.notices.append(body.decode())
            elif kind == terminals.STATE:
                self.states.append(terminals.state_of(body))
            elif kind == terminals.END:
                self.code = int(body)

    def until(self, words: str) -> None:
        """Hear on until something is written."""
        while words.encode() not in self.written:
            assert not self.over, self.written
            self.hear()

    def state(self) -> terminals.TerminalState:
        self.link.sendall(terminals.frame(terminals.ASK, b""))
        before = len(self.states)
        while len(self.states) == before:
            self.hear()
        return self.states[-1]

    def until_noticed(self, words: str) -> None:
        while not any(words in one for one in self.notices):
            assert not self.over, self.notices
            self.hear()

    def until_over(self) -> int | None:
        while not self.over:
            self.hear()
        return self.code


class Kept:
    """A terminal that is kept."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.path = folder / "t"
        words = [sys.executable, "-IS", "-c", inside.source("terminal.py"), str(self.path)]
        home = {"PATH": os.environ["PATH"], "HOME": str(folder), "PS1": "$ ", **env}
        self.log = (folder / "log").open("w+b")
        self.process = subprocess.Popen(words, stdout=self.log, env=home, cwd=folder)
        self.looking: list[Looking] = []

    def look(self, user: str = "ada", *, watch: bool = False) -> Looking:
        made = Looking(self.path, user, watch=watch)
        self.looking.append(made)
        return made


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    with keep(tmp_path) as made:
        yield made


@contextlib.contextmanager
def keep(folder: Path, **env: str) -> Iterator[Kept]:
    made = Kept(folder, **env)
    try:
        yield made
    finally:
        for one in made.looking:
            one.link.close()
        made.process.kill()
        made.process.wait()
        made.log.close()


def test_both_ends_have_the_same_letters() -> None:
    for name in ("HELLO", "INPUT", "SIZE", "ASK", "OUTPUT", "NOTICE", "END", "STATE", "HEAD"):
        assert getattr(terminal, name) == getattr(terminals, name)
    assert terminal.frame(b"I", b"abc") == terminals.frame(b"I", b"abc")


def test_the_shell_and_its_variables_outlive_who_looks(kept: Kept) -> None:
    first = kept.look()
    first.type("kept=yes; echo $((40+2))\n")
    first.until("42\r\n")
    first.link.close()
    second = kept.look()
    # What was written before is shown once more.
    second.until("42\r\n")
    second.type("echo still-$kept\n")
    second.until("still-yes\r\n")
    second.type("exit 3\n")
    assert second.until_over() == 3
    # How a shell ended is its user's matter; the job has done what it was for.
    assert kept.process.wait(DEADLINE_S) == 0
    kept.log.seek(0)
    assert b"still-yes" in kept.log.read()


def test_one_types_and_the_others_watch(kept: Kept) -> None:
    ada = kept.look("ada")
    ada.type("echo $((1+1))$((1+1))\n")
    ada.until("22\r\n")
    watching = kept.look("carl", watch=True)
    watching.type("echo $((3+3))$((3+3))\n")
    bob = kept.look("bob")
    ada.until_noticed("bob types now; you watch.")
    ada.type("echo $((2+2))$((2+2))\n")
    bob.type("echo $((4+4))$((4+4))\n")
    for one in (ada, bob, watching):
        one.until("88\r\n")
        assert b"66" not in one.written
        assert b"44" not in one.written
    assert bob.state().viewers == 3
    bob.link.close()
    ada.until_noticed("You type again.")
    ada.type("echo $((5+5))$((5+5))\n")
    watching.until("1010\r\n")


def test_the_size_is_that_of_who_types(kept: Kept) -> None:
    ada = kept.look()
    ada.link.sendall(terminals.size(132, 50))
    ada.type("stty size\n")
    ada.until("50 132\r\n")
    kept.look("carl", watch=True).link.sendall(terminals.size(20, 5))
    ada.type("echo a; stty size; echo b\n")
    ada.until("50 132\r\nb")


def test_a_program_that_reads_nothing_holds_up_nobody(kept: Kept) -> None:
    ada = kept.look()
    ada.type("stty -echo -icanon; sleep 600 &\n")
    ada.type("head -c 1 /dev/zero | cat >/dev/null; (yes | head -c 5000000; echo; echo don''e)\n")
    # Typed while it writes: neither waits for the other.
    for _ in range(50):
        ada.type("x" * 10_000)
    ada.until("done\r\n")


def test_who_is_far_behind_is_shown_the_last_anew(kept: Kept) -> None:
    slow, ada = kept.look("carl", watch=True), kept.look("ada")
    ada.type("head -c 8000000 /dev/zero | tr '\\0' 'z' | fold -w 70; echo the-''end\n")
    ada.until("the-end\r\n")
    slow.until("the-end\r\n")
    assert len(slow.written) < 8_000_000


def test_idle_is_since_something_was_typed(kept: Kept) -> None:
    ada = kept.look()
    ada.type("echo $((1+1))$((1+1))\n")
    ada.until("22\r\n")
    first = ada.state().idle_s
    # What a program writes is no use of it.
    ada.type("sleep 0.3; echo $((3+3))$((3+3))\n")
    ada.until("66\r\n")
    watching = kept.look("carl", watch=True)
    watching.type("x")
    assert watching.state().idle_s >= 0.3 > first - 0.3
    before = ada.state().idle_s
    ada.type(" ")
    assert ada.state().idle_s < before


def test_a_sentence_of_ours_reaches_all(kept: Kept) -> None:
    ada, other = kept.look(), kept.look("carl", watch=True)
    ada.state()
    other.state()
    kept.look("x").link.sendall(terminals.frame(terminals.NOTICE, b"It ends in 5 min."))
    ada.until_noticed("It ends in 5 min.")
    other.until_noticed("It ends in 5 min.")


def test_what_asks_a_terminal_is_not_shown_again(kept: Kept) -> None:
    ada = kept.look()
    ada.type("printf 'a\\033[6n\\033[>c\\033]11;?\\007b-%s\\n' end\n")
    ada.until("b-end")
    again = kept.look("bob")
    again.until("ab-end")


def test_it_ends_when_it_is_told_to(kept: Kept) -> None:
    ada = kept.look()
    ada.type("echo $((1+1))$((1+1))\n")
    ada.until("22\r\n")
    kept.process.send_signal(signal.SIGTERM)
    assert ada.until_over() == 128 + signal.SIGHUP
    assert ada.notices == ["This session is being ended."]
    assert kept.process.wait(DEADLINE_S) == 0


def test_a_shell_that_misses_the_signal_is_asked_again(tmp_path: Path) -> None:
    shell = tmp_path / "shell"
    lines = (
        "#!/bin/sh",
        "trap 'trap - HUP; echo missed' HUP",
        "echo ready",
        "while sleep 0.05; do :; done",
    )
    shell.write_text("\n".join(lines))
    shell.chmod(0o755)
    with keep(tmp_path, SHELL=str(shell)) as kept:
        ada = kept.look()
        ada.until("ready")
        kept.process.send_signal(signal.SIGTERM)
        ada.until("missed")
        assert ada.until_over() == 128 + signal.SIGHUP


def test_nonsense_ends_only_who_says_it(kept: Kept) -> None:
    ada = kept.look()
    for words in (
        b"H\0\0\0\1{",
        b"S\0\0\0\3a b",
        b"I\xff\xff\xff\xff",
        b"H\0\0\0\2[]",
        b"Zxxxxxxxxx",
    ):
        wrong = socket.socket(socket.AF_UNIX)
        wrong.settimeout(DEADLINE_S)
        wrong.connect(str(kept.path))
        wrong.sendall(words)
        if words[:1] != b"Z":
            assert wrong.recv(10) == b""
        wrong.close()
    ada.type("echo $((1+1))$((1+1))\n")
    ada.until("22\r\n")


def test_a_shell_that_is_not_there_is_said(tmp_path: Path) -> None:
    program = inside.source("terminal.py").replace('("/bin/bash", "/bin/sh")', '("/no/shell",)')
    done = subprocess.run(
        [sys.executable, "-IS", "-c", program, str(tmp_path / "t")],
        stdout=subprocess.PIPE, timeout=DEADLINE_S, env={}, check=False,
    )  # fmt: skip
    assert done.returncode == 127
    assert b"The image has no shell: neither $SHELL nor /no/shell." in done.stdout
