"""Byte streams both ways through an engine: one connection of its own for each (`exec_start`)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import docker

from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import NotHereError, RefusedError
from gpuconsole.remote.docker.errors import unreachable
from gpuconsole.remote.docker.exec_start import Made, started
from gpuconsole.remote.docker.logs import Demultiplexer
from gpuconsole.remote.docker.thread_pool import CALL_TIMEOUT_S, DockerCalls
from gpuconsole.remote.inside import PYTHONS, source
from gpuconsole.remote.inside.port_relay import CONNECTED
from gpuconsole.waiting import within

CHUNK = 64 * 1024
NO_PROGRAM = (126, 127)
"""How a command ends that could not be started: not allowed to run, or not there."""
UNKNOWN_OPTION = 2
"""How Python 2 ends, which does not know ours."""


class RawStream:
    """What an engine and the console say to each other on one connection.

    Implements `core.containers.ByteStream`.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, framed: bool
    ) -> None:
        """`framed` is for output without a terminal, which the engine puts into frames."""
        self._reader, self._writer = reader, writer
        self._frames = Demultiplexer() if framed else None

    async def read(self) -> bytes:
        """Return what came; b"" at the end, also where the way broke."""
        while True:
            try:
                chunk = await self._reader.read(CHUNK)
            except OSError:
                return b""
            if self._frames is None or not chunk:
                return chunk
            if piece := b"".join(self._frames.feed(chunk)):
                return piece

    async def write(self, data: bytes) -> None:
        """Send bytes; returns once there is room for more. Dropped where the way broke."""
        with contextlib.suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()

    async def write_eof(self) -> None:
        """Say that nothing more comes."""
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    async def close(self) -> None:
        """End the connection."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class DialedStream:
    """A connection inside a container, through `inside.port_relay`.

    Implements `core.containers.ByteStream`.
    """

    def __init__(self, raw: RawStream, rest: bytes) -> None:
        self._raw = raw
        self._rest = rest

    async def read(self) -> bytes:
        """Return what came; b"" at the end."""
        rest, self._rest = self._rest, b""
        return rest or await self._raw.read()

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        if data:
            await self._raw.write(len(data).to_bytes(4, "big") + data)

    async def write_eof(self) -> None:
        """Say that nothing more comes."""
        await self._raw.write(bytes(4))

    async def close(self) -> None:
        """End the connection."""
        await self._raw.close()


async def dial(calls: DockerCalls, container: str, target: str) -> DialedStream:
    """Connect to a port or unix socket inside a running container.

    RefusedError where nothing listens there, NotHereError where the container has no Python.
    """
    short = container[:12]
    doing = f"connecting to {target} of {short}"
    for python in PYTHONS:
        # -I and -S: nothing of the job's own Python takes part, and none of its modules.
        command = (python, "-IS", "-c", source("port_relay.py"), target)
        command_ = await calls.run(doing, _made, container, command)
        raw = await opened(calls, doing, command_)
        try:
            head = await within(CALL_TIMEOUT_S, raw.read())
        except asyncio.TimeoutError as error:
            await raw.close()
            raise unreachable(calls.host, doing, error) from error
        except BaseException:
            await raw.close()
            raise
        if head[:1] == CONNECTED:
            return DialedStream(raw, head[1:])
        await raw.close()
        status = await calls.run(doing, _status, command_.id)
        if status not in NO_PROGRAM and (head or status != UNKNOWN_OPTION):
            raise _refused(calls.host, target, head)
    raise NotHereError(
        "The image has no Python 3",
        msg(
            "{short} on {host} has no Python 3.6 or later, through which its ports are reached.",
            short=short,
            host=calls.host,
        ),
        "Use an image that has Python 3.6 or later.",
    )


async def opened(calls: DockerCalls, doing: str, command_: Made) -> RawStream:
    """Start a command that was made ready, and return what it reads and writes."""
    reader, writer = await started(calls, doing, command_, tty=False)
    return RawStream(reader, writer, framed=True)


def _made(client: docker.APIClient, container: str, command: Sequence[str]) -> Made:
    # The command's error output is not requested: it would be mixed into its output.
    created = client.exec_create(container, list(command), stdin=True, stdout=True, stderr=False)
    return Made(str(created["Id"]), str(client.api_version))


def _status(client: docker.APIClient, command: str) -> int | None:
    exit_code: int | None = client.exec_inspect(command).get("ExitCode")
    return exit_code


def _refused(host: str, target: str, head: bytes) -> RefusedError:
    said = clean(head[1:].decode(errors="replace"), 200) or "it ended without a word"
    if target.isdigit():
        return RefusedError(
            "Nothing listens there",
            msg(
                "Port {target} of the container on {host}: {said}.",
                target=target,
                host=host,
                said=said,
            ),
            "It may not have begun yet, or listen on another port: look at the job's log.",
        )
    return RefusedError(
        "No connection",
        msg("{value} on {host}: {said}.", value=clean(target, 200), host=host, said=said),
    )
