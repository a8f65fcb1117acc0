"""The link to this machine: the same commands and sockets, without SSH."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from typing import cast

from gpuconsole.errors import EngineError
from gpuconsole.remote.links.errors import command_failed, command_too_slow, output_too_long
from gpuconsole.remote.links.line_reader import LineQueue
from gpuconsole.remote.links.protocol import ERROR_TAIL, LINE_LIMIT, OUTPUT_LIMIT, Completed
from gpuconsole.waiting import within

CHUNK = 64 * 1024
CLOSE_GRACE_S = 1.0
"""How long a command may take to end by itself after its input has closed."""


class LocalLink:
    """Run commands on this machine."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._channels: set[LocalChannel] = set()

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        """Run a command to its end."""
        try:
            process = await self._start(argv)
        except EngineError as error:
            # As a shell would on any other host.
            return Completed(127, b"", error.message.encode())
        try:
            return await within(timeout, self._complete(process, stdin, argv))
        except asyncio.TimeoutError as error:
            raise command_too_slow(self.host, argv, timeout) from error
        finally:
            await _end(process)

    async def stream(self, argv: Sequence[str]) -> AsyncIterator[bytes]:
        """Give a command's output in chunks."""
        process = await self._start(argv)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        errors = asyncio.ensure_future(_tail(process.stderr))
        try:
            while chunk := await process.stdout.read(CHUNK):
                yield chunk
            status = await process.wait()
            if status != 0:
                raise command_failed(self.host, argv, status, await errors)
        finally:
            errors.cancel()
            await _end(process)

    async def open(self, argv: Sequence[str]) -> LocalChannel:
        """Start a command and talk with it line by line."""
        channel = LocalChannel()
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.subprocess_exec(
                lambda: channel, *argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
        except OSError as error:
            raise self._cannot_start(argv, error) from error
        channel.started(transport)
        self._channels = {other for other in self._channels if other.exit_status is None}
        self._channels.add(channel)
        return channel

    async def forward_socket(self, path: str) -> str:
        """Return the socket itself."""
        return path

    async def close(self) -> None:
        """End every open command."""
        channels, self._channels = self._channels, set()
        await asyncio.gather(*(channel.close() for channel in channels))

    async def _start(self, argv: Sequence[str]) -> Process:
        try:
            return await asyncio.create_subprocess_exec(
                *argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
        except OSError as error:
            raise self._cannot_start(argv, error) from error

    def _cannot_start(self, argv: Sequence[str], error: OSError) -> EngineError:
        return command_failed(self.host, argv, 127, os.strerror(error.errno or 0).encode())

    async def _complete(self, process: Process, stdin: bytes, argv: Sequence[str]) -> Completed:
        assert process.stdin is not None
        errors = asyncio.ensure_future(_tail(process.stderr))
        output = asyncio.ensure_future(self._collect(process, argv))
        try:
            # A command may end without reading its input; how it ended is then the answer.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(stdin)
                await process.stdin.drain()
            process.stdin.close()
            stdout = await output
            return Completed(await process.wait(), stdout, await errors)
        finally:
            errors.cancel()
            output.cancel()

    async def _collect(self, process: Process, argv: Sequence[str]) -> bytes:
        assert process.stdout is not None
        output = bytearray()
        while chunk := await process.stdout.read(CHUNK):
            output += chunk
            if len(output) > OUTPUT_LIMIT:
                raise output_too_long(self.host, argv)
        return bytes(output)


class LocalChannel(asyncio.SubprocessProtocol):
    """A command on this machine; its output is read line by line."""

    def __init__(self) -> None:
        self._lines = LineQueue(LINE_LIMIT, self._pause)
        self._errors = b""
        self._transport: asyncio.SubprocessTransport | None = None
        self._ended = asyncio.Event()

    def started(self, transport: asyncio.SubprocessTransport) -> None:
        """Learn the transport; asyncio calls `connection_made` on a subclass too early to use."""
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take output (1) or errors (2)."""
        if fd == 1:
            self._lines.feed(data)
        else:
            self._errors = (self._errors + data)[-ERROR_TAIL:]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Note the end of the output."""
        if fd == 1:
            self._lines.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """The command has ended and all its pipes are closed."""
        self._lines.end()
        self._ended.set()

    def write(self, data: bytes) -> None:
        """Send bytes to the command."""
        pipe = self._pipe(0)
        if pipe is not None and not pipe.is_closing():
            cast(asyncio.WriteTransport, pipe).write(data)

    async def read_line(self) -> bytes | None:
        """Return the next line of output."""
        return await self._lines.next()

    @property
    def exit_status(self) -> int | None:
        """How the command ended."""
        return None if self._transport is None else self._transport.get_returncode()

    @property
    def error_tail(self) -> bytes:
        """The last bytes of standard error."""
        return self._errors

    @property
    def lost(self) -> Exception | None:
        """Nothing can get between this machine and itself."""
        return None

    async def close(self) -> None:
        """Close the command's input, give it a moment, then kill it and its children."""
        if self._transport is None:
            return
        pipe = self._pipe(0)
        if pipe is not None:
            pipe.close()
        self._lines.end()
        with contextlib.suppress(asyncio.TimeoutError):
            await within(CLOSE_GRACE_S, self._ended.wait())
        if self._transport.get_returncode() is None:
            _kill_group(self._transport.get_pid())
        self._transport.close()
        with contextlib.suppress(asyncio.TimeoutError):
            await within(CLOSE_GRACE_S, self._ended.wait())

    def _pipe(self, fd: int) -> asyncio.BaseTransport | None:
        return None if self._transport is None else self._transport.get_pipe_transport(fd)

    def _pause(self, pause: bool) -> None:
        pipe = self._pipe(1)
        if pipe is not None and not pipe.is_closing():
            reader = cast(asyncio.ReadTransport, pipe)
            if pause:
                reader.pause_reading()
            else:
                reader.resume_reading()


async def _tail(stream: asyncio.StreamReader | None) -> bytes:
    """Read a stream to its end and keep only its last bytes."""
    tail = b""
    while stream is not None and (chunk := await stream.read(CHUNK)):
        tail = (tail + chunk)[-ERROR_TAIL:]
    return tail


async def _end(process: Process) -> None:
    """Kill what still runs and reap it."""
    if process.returncode is None:
        _kill_group(process.pid)
        await process.wait()


def _kill_group(pid: int) -> None:
    # Each command leads its own session, so its children die with it.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
