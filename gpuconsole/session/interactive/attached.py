"""A terminal that is kept in a container, as one who looks at it has it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from gpuconsole.core.containers import ByteStream
from gpuconsole.core.engines import terminals
from gpuconsole.core.engines.processes import Said
from gpuconsole.core.engines.terminals import Frames, TerminalState
from gpuconsole.core.text import clean
from gpuconsole.waiting import within

ANSWER_S = 20.0
LONGEST_INPUT = 64 * 1024
"""Bytes of a frame of what is typed."""


class AttachedTerminal:
    """A `core.engines.processes.Process`. `lost` tells, after the end, that the way to it broke
    while its shell runs on."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._frames = Frames()
        self._heard: deque[tuple[bytes, bytes]] = deque()
        self._code: int | None = None
        self.lost = False

    async def begin(self, columns: int, rows: int, user: str, *, watch: bool) -> None:
        """Say who looks: from now on it shows what is written, and takes what is typed."""
        await self._stream.write(terminals.hello(columns, rows, user, watch=watch))

    async def read(self) -> Said | None:
        """Return what is written next; None once the shell has ended, or the way broke."""
        while (heard := await self._next()) is not None:
            kind, body = heard
            if kind == terminals.OUTPUT:
                return Said(body)
            if kind == terminals.NOTICE:
                return Said(notice(body.decode(errors="replace")))
            if kind == terminals.END:
                with contextlib.suppress(ValueError):
                    self._code = int(body)
                return None
        self.lost = True
        return None

    async def write(self, data: bytes) -> None:
        """Type."""
        for at in range(0, len(data), LONGEST_INPUT):
            piece = data[at : at + LONGEST_INPUT]
            await self._stream.write(terminals.frame(terminals.INPUT, piece))

    async def write_eof(self) -> None:
        """Does nothing: the end of input does not end the shell."""

    async def resize(self, columns: int, rows: int) -> None:
        """Tell the size of the window, in cells."""
        await self._stream.write(terminals.size(columns, rows))

    async def exit_code(self) -> int | None:
        """Return how the shell ended; None where that is not known."""
        return self._code

    async def state(self) -> TerminalState:
        """Query the state. ValueError for a malformed answer, TimeoutError for none."""
        await self._stream.write(terminals.frame(terminals.ASK, b""))
        return await within(ANSWER_S, self._state())

    async def say(self, text: str) -> None:
        """Show a sentence to all who look."""
        await self._stream.write(terminals.frame(terminals.NOTICE, text.encode()))

    async def close(self) -> None:
        """Leave it; the shell runs on."""
        with contextlib.suppress(OSError):
            await self._stream.close()

    async def _state(self) -> TerminalState:
        while (heard := await self._next()) is not None:
            if heard[0] == terminals.STATE:
                return terminals.state_of(heard[1])
        raise ValueError("the terminal has ended")

    async def _next(self) -> tuple[bytes, bytes] | None:
        while not self._heard:
            data = await self._stream.read()
            if not data:
                return None
            try:
                self._heard.extend(self._frames.feed(data))
            except ValueError:
                return None
        return self._heard.popleft()


def notice(text: str) -> bytes:
    """Return a sentence of ours as it is shown between what a shell writes."""
    return f"\r\n\x1b[7m gpuconsole: {clean(text, 300)} \x1b[0m\r\n".encode()


async def asked(stream: ByteStream) -> TerminalState | None:
    """Return the state of the terminal behind a stream, and close it; None if it does not
    answer."""
    terminal = AttachedTerminal(stream)
    try:
        return await terminal.state()
    except (ValueError, asyncio.TimeoutError):
        return None
    finally:
        await terminal.close()
