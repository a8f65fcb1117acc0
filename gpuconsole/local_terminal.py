"""This machine's terminal, joined to a process elsewhere: raw mode, its size, keys that leave.

Commands use it, and the console while it is suspended. The terminal is as it was afterwards,
however it ends: by an error, a cancellation, SIGTERM or SIGHUP.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from gpuconsole.core.engines.processes import Process
from gpuconsole.core.util.lazy_dataclass import dataclass

CHUNK = 32 * 1024
LEAVE = b"\x10\x11"
"""Ctrl-P Ctrl-Q, as Docker has it."""
USUAL_SIZE = (80, 24)


@dataclass(frozen=True, slots=True)
class Ends:
    """The numbers of the files that a process is joined to."""

    input: int = 0
    output: int = 1
    error: int = 2

    @property
    def are_terminal(self) -> bool:
        """Whether a person types at one end and reads at the other."""
        return os.isatty(self.input) and os.isatty(self.output)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal that is written to."""
        with contextlib.suppress(OSError):
            columns, rows = os.get_terminal_size(self.output)
            if columns and rows:
                return columns, rows
        return USUAL_SIZE


class LeaveKeys:
    """Finds the keys that leave a process among what is typed.

    What is typed is passed on all the same, so that each of them alone does there what it does.
    """

    def __init__(self, keys: bytes = LEAVE) -> None:
        """Without `keys` nothing leaves."""
        self._keys = keys
        self._before = b""

    def feed(self, data: bytes) -> bool:
        """Return whether the last of the keys is in `data`, after the others."""
        if not self._keys:
            return False
        typed = self._before + data
        self._before = typed[max(0, len(typed) - len(self._keys) + 1) :]
        return self._keys in typed


async def converse(
    process: Process,
    *,
    terminal: bool,
    typing: bool = True,
    ends: Ends | None = None,
    leave: bytes = LEAVE,
) -> bool:
    """Join this machine's ends to a process until it ends; returns True if the keys that leave were
    pressed.

    With `terminal` every key goes to the process, Ctrl-C too, and it learns of the window's size.
    Without `typing` it gets no input. Errors of the process are raised with the terminal restored;
    BrokenPipeError if its output was closed. The caller closes the process.
    """
    ends = ends or Ends()
    with contextlib.ExitStack() as held:
        if terminal:
            held.enter_context(raw(ends.input))
            held.enter_context(_resizing(process, ends))
        typed = _Typed(ends.input)
        keys = LeaveKeys(leave if terminal else b"")
        showing = asyncio.ensure_future(_show(process, ends))
        works: set[asyncio.Future[bool]] = {showing}
        if typing:
            works.add(asyncio.ensure_future(_type(process, typed, keys)))
        try:
            return await _first_that_decides(works, showing)
        finally:
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            await typed.close()


async def _first_that_decides(
    works: set[asyncio.Future[bool]], showing: asyncio.Future[bool]
) -> bool:
    """Return True once somebody left, False once the process has ended."""
    left = set(works)
    while True:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        if showing in done:
            return showing.result()
        if any(work.result() for work in done):
            return True


async def _show(process: Process, ends: Ends) -> bool:
    while (said := await process.read()) is not None:
        # A terminal that is stopped by Ctrl-S must not hold up what else this program does.
        await asyncio.to_thread(_write, ends.error if said.error else ends.output, said.data)
    return False


async def _type(process: Process, typed: _Typed, keys: LeaveKeys) -> bool:
    while data := await typed.read():
        if keys.feed(data):
            return True
        await process.write(data)
    await process.write_eof()
    return False


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(file, view) :]
        except BlockingIOError:
            select.select([], [file], [])


class _Typed:
    """Reads a file of any kind beside the event loop; the wait can be cancelled."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._hear, self._wake = os.pipe()
        self._reading: asyncio.Future[bytes] | None = None

    async def read(self) -> bytes:
        """Return what is typed next; b"" at the end."""
        self._reading = asyncio.get_running_loop().run_in_executor(None, self._next)
        return await asyncio.shield(self._reading)

    async def close(self) -> None:
        """Stop waiting."""
        os.write(self._wake, b".")
        if self._reading is not None:
            await asyncio.wait((self._reading,))
        os.close(self._hear)
        os.close(self._wake)

    def _next(self) -> bytes:
        # A terminal that is gone, or an input that was closed, has no more to say.
        with contextlib.suppress(OSError, ValueError):
            ready, _, _ = select.select([self._file, self._hear], [], [])
            if self._hear not in ready:
                return os.read(self._file, CHUNK)
        return b""


@contextlib.contextmanager
def raw(file: int) -> Iterator[None]:
    """Take every key as it is typed, also those that would end a program."""
    before = termios.tcgetattr(file)

    def restore() -> None:
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(file, termios.TCSANOW, before)

    def end(number: int, _frame: FrameType | None) -> None:
        restore()
        os._exit(128 + number)

    with _handling((signal.SIGTERM, signal.SIGHUP), end):
        try:
            # Not flushed: what was typed ahead is for the process.
            tty.setraw(file, termios.TCSANOW)
            yield
        finally:
            restore()


@contextlib.contextmanager
def _resizing(process: Process, ends: Ends) -> Iterator[None]:
    """Tell the process the size of the terminal now, and whenever it changes."""
    loop = asyncio.get_running_loop()
    telling: set[asyncio.Task[None]] = set()
    size = None

    async def tell() -> None:
        # A size that does not arrive is no reason to end a conversation.
        with contextlib.suppress(Exception):
            await process.resize(*ends.size)

    def changed() -> None:
        nonlocal size
        if ends.size != size:
            size = ends.size
            task = asyncio.ensure_future(tell())
            telling.add(task)
            task.add_done_callback(telling.discard)

    changed()
    here = threading.current_thread() is threading.main_thread()
    before: Any = signal.getsignal(signal.SIGWINCH) if here else None
    if here:
        loop.add_signal_handler(signal.SIGWINCH, changed)
    try:
        yield
    finally:
        if here:
            loop.remove_signal_handler(signal.SIGWINCH)
            signal.signal(signal.SIGWINCH, before if before is not None else signal.SIG_DFL)
        for task in tuple(telling):
            task.cancel()


@contextlib.contextmanager
def _handling(
    numbers: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Handle signals without a handler; existing handlers are kept, as they end the program in good
    order."""
    taken = []
    if threading.current_thread() is threading.main_thread():
        taken = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
