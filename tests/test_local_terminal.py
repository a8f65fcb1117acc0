"""A terminal joined to a process: every key passes, sizes are passed on, and all is restored."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconsole.core.engines.processes import Said
from gpuconsole.errors import UnreachableError
from gpuconsole.local_terminal import LEAVE, Ends, LeaveKeys, converse
from tests.waiting import until, wait_until


class Far:
    """A process that keeps what it is sent and says what a test sets."""

    def __init__(self) -> None:
        self.heard = b""
        self.ended_input = False
        self.sizes: list[tuple[int, int]] = []
        self.says: asyncio.Queue[Said | Exception | None] = asyncio.Queue()

    async def read(self) -> Said | None:
        said = await self.says.get()
        if isinstance(said, Exception):
            raise said
        return said

    async def write(self, data: bytes) -> None:
        self.heard += data

    async def write_eof(self) -> None:
        self.ended_input = True

    async def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    async def exit_code(self) -> int | None:
        return 0

    async def close(self) -> None:
        pass


class Pty:
    """A pseudo terminal and what came out of it."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        self.size(80, 24)
        self.ends = Ends(self.slave, self.slave, self.slave)
        self.before = termios.tcgetattr(self.slave)

    def size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def restored(self) -> bool:
        return termios.tcgetattr(self.slave) == self.before


@pytest.fixture
def pty() -> Iterator[Pty]:
    made = Pty()
    yield made
    for end in (made.master, made.slave):
        with contextlib.suppress(OSError):
            os.close(end)


@pytest.fixture
async def far() -> Far:
    return Far()


async def test_every_key_passes_and_the_terminal_is_restored(pty: Pty, far: Far) -> None:
    joined = asyncio.ensure_future(converse(far, terminal=True, ends=pty.ends))
    await until(lambda: not pty.restored, "raw mode")
    os.write(pty.master, b"ls\r\x03\x1a\x04")
    await until(lambda: far.heard == b"ls\r\x03\x1a\x04", "keys")
    far.says.put_nowait(Said(b"one\r\ntwo"))
    assert await asyncio.to_thread(os.read, pty.master, 100) == b"one\r\ntwo"
    far.says.put_nowait(None)
    assert await joined is False
    assert pty.restored
    assert far.sizes == [(80, 24)]


async def test_a_new_size_is_told(pty: Pty, far: Far) -> None:
    joined = asyncio.ensure_future(converse(far, terminal=True, ends=pty.ends))
    await until(lambda: far.sizes == [(80, 24)], "the first size")
    pty.size(132, 50)
    os.kill(os.getpid(), signal.SIGWINCH)
    await until(lambda: far.sizes == [(80, 24), (132, 50)], "the second size")
    far.says.put_nowait(None)
    await joined
    assert signal.getsignal(signal.SIGWINCH) is signal.SIG_DFL


async def test_keys_leave_and_each_of_them_alone_does_not(pty: Pty, far: Far) -> None:
    joined = asyncio.ensure_future(converse(far, terminal=True, ends=pty.ends))
    await until(lambda: not pty.restored, "raw mode")
    os.write(pty.master, b"\x11\x10a\x11\x10")
    await until(lambda: far.heard == b"\x11\x10a\x11\x10", "keys")
    os.write(pty.master, b"\x11")
    assert await joined is True
    assert pty.restored


@pytest.mark.parametrize("terminal", [True, False])
async def test_a_way_that_breaks_is_raised_with_the_terminal_restored(
    pty: Pty, far: Far, terminal: bool
) -> None:
    far.says.put_nowait(UnreachableError("Host lost", "It went away."))
    with pytest.raises(UnreachableError):
        await converse(far, terminal=terminal, ends=pty.ends)
    assert pty.restored


async def test_a_cancelled_conversation_restores_the_terminal(pty: Pty, far: Far) -> None:
    joined = asyncio.ensure_future(converse(far, terminal=True, ends=pty.ends))
    await until(lambda: not pty.restored, "raw mode")
    joined.cancel()
    with pytest.raises(asyncio.CancelledError):
        await joined
    assert pty.restored


async def test_without_a_terminal_a_file_is_sent_whole_and_both_outputs_stay_apart(
    far: Far, tmp_path: Path
) -> None:
    sent = bytes(range(256)) * 1000 + LEAVE
    (tmp_path / "in").write_bytes(sent)
    names = [os.open(tmp_path / "in", os.O_RDONLY)]
    names += [os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT) for name in ("out", "err")]
    joined = asyncio.ensure_future(converse(far, terminal=False, ends=Ends(*names)))
    await until(lambda: far.ended_input, "the end of the input")
    assert far.heard == sent
    for said in (Said(b"out"), Said(b"wrong", error=True), None):
        far.says.put_nowait(said)
    assert await joined is False
    assert (tmp_path / "out").read_bytes() == b"out"
    assert (tmp_path / "err").read_bytes() == b"wrong"
    assert far.sizes == []


async def test_a_reader_that_has_gone_is_a_broken_pipe(far: Far) -> None:
    hear, say = os.pipe()
    os.close(hear)
    far.says.put_nowait(Said(b"x"))
    null = os.open(os.devnull, os.O_RDONLY)
    with pytest.raises(BrokenPipeError):
        await converse(far, terminal=False, typing=False, ends=Ends(null, say, say))


PROGRAM = """
import asyncio, signal
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the tests run under nohup
from gpuconsole.local_terminal import converse
from tests.test_local_terminal import Far
asyncio.run(converse(Far(), terminal=True))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_program_restores_the_terminal(
    pty: Pty, number: signal.Signals
) -> None:
    ends = {"stdin": pty.slave, "stdout": pty.slave, "stderr": subprocess.DEVNULL}
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], **ends)
    wait_until(lambda: not pty.restored, "raw mode")
    program.send_signal(number)
    assert program.wait(timeout=120) == 128 + number
    assert pty.restored


def test_keys_that_leave_are_found_over_several_pieces() -> None:
    keys = LeaveKeys(b"abc")
    assert [keys.feed(piece) for piece in (b"a", b"b", b"ab", b"xab", b"c")] == [
        False, False, False, False, True
    ]  # fmt: skip
    assert not LeaveKeys(b"").feed(b"anything")
