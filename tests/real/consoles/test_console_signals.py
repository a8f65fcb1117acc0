"""A signal ends the console as a person would: the terminal is as before, the parts are ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.state import Journal
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk
from tests.real.rig.teletype import Teletype

pytestmark = pytest.mark.real
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def begun(console: Teletype) -> None:
    """Wait until the terminal is the console's: nothing is drawn, and no session is there yet."""
    console.until(lambda written: b"\x1b[?1049h" in written)


def opened(console: Teletype) -> None:
    """Wait until the console shows the lab."""
    console.shows("Fleet", "a100-01", "free")


def asking(console: Teletype) -> None:
    """Open a dialog."""
    opened(console)
    console.press(b":")
    console.shows("type to find hosts")


@pytest.mark.fault(
    "SIGTERM, SIGHUP or SIGINT to the console",
    "The terminal is restored, the parts end, the exit code names the signal",
)
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("moment", [begun, opened, asking])
def test_a_signal_restores_the_terminal_and_ends_the_parts(
    tmp_path: Path, moment: Callable[[Teletype], None], number: signal.Signals
) -> None:
    with console(tmp_path) as terminal:
        moment(terminal)
        terminal.signal(number)
        assert terminal.ended() == 128 + number
        assert terminal.unrestored() == {}
        assert terminal.left_behind() == []
        assert "Traceback" not in terminal.text
    assert nobody_dispatches(tmp_path)


@pytest.mark.fault(
    "The terminal of the console is closed",
    "The console ends",
)
def test_a_terminal_that_is_closed_ends_the_console(tmp_path: Path) -> None:
    with console(tmp_path) as terminal:
        opened(terminal)
        terminal.hang_up()
        assert terminal.ended() == 128 + signal.SIGHUP
        assert terminal.left_behind() == []
    assert nobody_dispatches(tmp_path)


def test_its_agents_end_with_it(lab: Lab, tmp_path: Path) -> None:
    host = lab.add()
    desk = Desk(lab, tmp_path / "desk")
    with Teletype(desk.command(), os.environ) as terminal:
        terminal.shows(host.name, "A100")
        wait(host.agents)
        terminal.signal(signal.SIGTERM)
        assert terminal.ended() == 128 + signal.SIGTERM
        assert terminal.unrestored() == {}
        assert terminal.left_behind() == []
        wait(lambda: not host.agents())
    with desk.journal() as journal:
        assert journal.role().owner == ""


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def console(folder: Path) -> Teletype:
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    words = [sys.executable, "-m", "gpuconsole", "--state", str(folder / "state"), "demo"]
    return Teletype(words, {**os.environ, **home})


def nobody_dispatches(folder: Path) -> bool:
    """Return whether the role was given back, or never taken."""
    if not (folder / "state" / "journal.sqlite").exists():
        return True
    journal = Journal(folder / "state", clock=time.time, read_only=True)
    try:
        return journal.role().owner == ""
    finally:
        journal.close()
