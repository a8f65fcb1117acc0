"""The program that ends a command left by a console that is gone: run here, on real processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest

from gpuconsole.remote import inside
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs Linux's /proc")
MARK = f"GPUCONSOLE_EXEC={os.urandom(16).hex()}"
SHELLS = [shell for shell in ("sh", "bash", "zsh") if shutil.which(shell)]
DEAF = ("sh", "-c", "trap : HUP; echo ready; while :; do sleep 0.1; done")
HEARS = ("sh", "-c", "echo ready; sleep 600")


@pytest.fixture
def begun() -> Iterator[list[subprocess.Popen[bytes]]]:
    made: list[subprocess.Popen[bytes]] = []
    yield made
    for process in made:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def begin(made: list[subprocess.Popen[bytes]], *words: str, mark: str) -> subprocess.Popen[bytes]:
    name, _, value = mark.partition("=")
    env = {**os.environ, "ABOVE": "two\nlines", name: value}
    process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE)
    made.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def guard(shell: str, said: bytes, left: str = "1") -> None:
    words = [shell, "-c", inside.source("end.sh"), "sh", MARK, left]
    subprocess.run(words, input=said, check=True, timeout=DEADLINE_S)


@pytest.mark.parametrize("shell", SHELLS)
def test_what_has_the_mark_is_hung_up_and_then_killed(
    shell: str, begun: list[subprocess.Popen[bytes]]
) -> None:
    hears, deaf = begin(begun, *HEARS, mark=MARK), begin(begun, *DEAF, mark=MARK)
    other = begin(begun, *HEARS, mark="GPUCONSOLE_EXEC=another")
    left = begin(begun, "nohup", *HEARS, mark=MARK)
    guard(shell, b"")
    assert hears.wait(DEADLINE_S) == -signal.SIGHUP
    assert deaf.wait(DEADLINE_S) == -signal.SIGKILL
    assert (other.poll(), left.poll()) == (None, None)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_that_was_left_runs_on(shell: str, begun: list[subprocess.Popen[bytes]]) -> None:
    process = begin(begun, *HEARS, mark=MARK)
    guard(shell, b"leave\n")
    assert process.poll() is None
