"""The terminal lent to a process elsewhere, while the console goes on beside it unseen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gpuconsole.local_terminal import Ends, converse

if TYPE_CHECKING:
    from textual.app import App

    from gpuconsole.core.engines.processes import Process

_TOP = "\x1b[H\x1b[2J"


def can_lend(app: App[Any]) -> bool:
    """Return whether the console draws on a terminal that it can lend: not in a browser."""
    driver = app._driver
    return driver is not None and driver.can_suspend


async def lend(app: App[Any], process: Process, title: str) -> bool:
    """Join the terminal to a process until it ends; returns True where it was left running.

    Textual reads keys from stdin and draws on stderr, and so does the process.
    """
    with app.suspend():
        error = sys.__stderr__
        if error is not None:
            error.write(f"{_TOP}{title}\r\n\r\n")
            error.flush()
        return await converse(process, terminal=True, ends=Ends(0, 2, 2))
