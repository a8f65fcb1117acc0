"""Signals that end the program: a console closes as if a person had left it, so that the terminal
is restored and everything that runs for it ends.

A terminal that is closed sends SIGHUP and takes nothing more; what is still written then goes
nowhere, instead of stopping those who write.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import termios
from collections.abc import Callable, Iterator

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_STANDARD = (0, 1, 2)


@contextlib.contextmanager
def ending(leave: Callable[[int], None]) -> Iterator[None]:
    """Call `leave` with the exit code that shells expect when a signal asks the program to end.

    Needs a running event loop in the main thread. Signals that the caller of the program had
    ignored, as nohup does, stay ignored.
    """
    loop = asyncio.get_running_loop()

    def hear(number: signal.Signals) -> None:
        if number is signal.SIGHUP:
            _leave_lost_terminal()
        leave(128 + number)

    heard = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heard:
        loop.add_signal_handler(number, hear, number)
    try:
        yield
    finally:
        for number in heard:
            loop.remove_signal_handler(number)


def _leave_lost_terminal() -> None:
    """Connect the standard files to nothing if they are a terminal that has been closed."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in _STANDARD:
        try:
            termios.tcgetattr(file)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                os.dup2(nothing, file)
    os.close(nothing)
