"""What hosts and scripts may print: escape sequences, markup, endless lines, bytes without sense.

The console runs in a real terminal here, whose title and screen an escape sequence would change.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.real.rig import terminal
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, let_go
from tests.real.rig.terminal import Terminal

pytestmark = pytest.mark.skipif(bool(terminal.why_not()), reason=terminal.why_not() or "-")

ESCAPES = "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[2J\x1b[31mbad\x1b[0m[red]boo[/red]"
CLEANED = "bad[red]boo[/red]"

SCRIPT = r"""
import os, sys, time
out = sys.stdout.buffer

def say(line):
    out.write(line + b"\n")
    out.flush()

say(b"begin")
say(b"\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[2J\x1b[31mbad\x1b[0m[red]boo[/red] title")
say("\x90q#0;2;0;0;0~\x9c\x9b31m c1".encode())
say("\u202egnp.exe \u2066 marks".encode())
say(b"[link=http://evil][/] [@click=app.quit]press[/] markup")
say(b"a\0b\0c nul")
say(b"\xff\xfe\xc3\x28 invalid \xed\xa0\x80")
for part in range(160):
    out.write(b"x" * 65536)
say(b" tail of the long line")
say(b"loading\rloading 50%\rloaded")
while not os.path.exists(os.path.join(os.environ["GPUCONSOLE_RESULTS"], "go")):
    time.sleep(0.05)
say(b"end")
raise RuntimeError("\x1b]0;owned\x07[red]why[/red]")
"""
MOST_MIB = 300.0
"""Memory a console may hold after all this; it has about 100 without."""
SHOWN = [
    "begin",
    f"{CLEANED} title",
    " c1",
    "gnp.exe  marks",
    "[link=http://evil][/] [@click=app.quit]press[/] markup",
    "abc nul",
]


def harmless(text: str) -> bool:
    """Whether a text has no control but the ends of its lines."""
    return all(letter == "\n" or letter.isprintable() for letter in text)


def untouched(console: Terminal) -> bool:
    """Whether no escape sequence has reached the terminal."""
    return "owned" not in console.ask("#{pane_title} #{buffer_sample}")


@pytest.mark.fault("Process names with escape sequences", "Shown clean on every screen")
def test_a_hostile_process_is_shown_harmlessly(docker_lab: Lab, tmp_path: Path) -> None:
    host = docker_lab.add()
    host.start_engine()
    desk = Desk(docker_lab, tmp_path / "desk")
    named = ["bash", "-c", 'exec -a "$0" sleep 600', f"{ESCAPES} train.py"]
    process = host.popen(named)
    try:
        host.driver.set({"0.procs": f"{process.pid}:9000", "0.used_mib": 9000, "0.util": 90})
        done = subprocess.run(
            desk.command("status", "--json"), capture_output=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr
        text = done.stdout.decode("ascii" if b"\\u" in done.stdout else "utf-8")
        assert harmless(text)
        device = json.loads(text)["hosts"][0]["devices"][0]
        (shown,) = device["processes"]
        assert shown["command"] == f"{CLEANED} train.py 600"
        plain = subprocess.run(
            desk.command("status"), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert harmless(plain.stdout)
        with Terminal(tmp_path, desk.command(), (120, 36)) as console:
            console.shows(host.name, "A100", "bad[red]boo[/red")
            console.press("Enter")
            console.shows("[red]boo[/red]", "8.8 GiB")
            assert untouched(console)
            console.press("Escape")
            console.shows("Fleet: utilisation")
            console.press("q")
            assert console.ended() == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.fault(
    "A script prints escape sequences and binary data",
    "Shown clean; the stored log is byte for byte",
)
def test_a_script_that_prints_anything_is_shown_harmlessly(docker_lab: Lab, tmp_path: Path) -> None:
    host = docker_lab.add()
    host.start_engine()
    desk = Desk(docker_lab, tmp_path / "desk")
    script = desk.script(SCRIPT, "[red]job[bold].py")
    with Terminal(tmp_path, desk.command(), (120, 36)) as console:
        console.shows(host.name, "A100")
        console.press("4")
        console.shows("Name a script")
        console.type(str(script))
        # It asks the environment before it raises at its end: preflight shows that, and accuses it
        # of nothing.
        console.shows("UNKNOWN", "[red]job[bold].py:23  the script raises")
        assert untouched(console)
        console.press("C-s")
        console.shows("Queue > [red]job[bold]")
        console.shows("running", "xxxxxxxx", "loaded")
        screen = console.text
        assert "loading" not in screen
        for line in SHOWN:
            assert line in screen
        assert untouched(console)
        with desk.journal() as journal:
            (job,) = journal.jobs()
        let_go(host, job)
        console.shows("failed", "RuntimeError: [red]why[/red]")
        # Wrapped, searched, listed and explained, it stays text.
        console.press("W")
        console.shows("wrap ON")
        console.press("/")
        console.type("nul")
        console.until(lambda text: re.search("1 lines? match", text))
        # The first clears what was typed, the second leaves.
        console.press("Escape")
        console.until(lambda text: "/ nul" not in text)
        console.press("Escape")
        console.until(lambda text: "only those" not in text)
        console.press("2")
        console.shows("[red]job[bold]", "[red]why[/red]")
        assert untouched(console)
        assert console.peak_mib() < MOST_MIB
        console.press("q")
        assert console.ended() == 0

    said = subprocess.run(
        desk.command("logs", job.id), capture_output=True, timeout=PATIENCE_S, check=True
    )
    text = said.stdout.decode()
    assert harmless(text)
    lines = text.splitlines()
    assert lines[: len(SHOWN)] == SHOWN
    assert [len(line) for line in lines if line.startswith("xx")] == [4096]
    assert {"loaded", "end", "RuntimeError: [red]why[/red]"} <= set(lines)
    for words in (["jobs", "--json"], ["why", job.id, "--json"], ["jobs"], ["why", job.id]):
        answer = subprocess.run(
            desk.command(*words), capture_output=True, timeout=PATIENCE_S, check=True
        )
        assert harmless(answer.stdout.decode())
        assert b"owned" not in answer.stdout
