"""A command in a running container, through the engine's exec: terminal, streams, exit code.

The engine hands over the connection on which it was asked to start (`exec_start`): with a
terminal the bytes of it, without one frames that say which output they are of.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping

import docker

from gpuconsole.core.engines.processes import Said
from gpuconsole.errors import ConsoleError, EngineError
from gpuconsole.remote.docker.exec_guard import MARK, ExecGuard
from gpuconsole.remote.docker.exec_start import Made, started
from gpuconsole.remote.docker.logs import HEADER
from gpuconsole.remote.docker.thread_pool import DockerCalls

CHUNK = 32 * 1024
LEAVE = "ctrl-^,ctrl-^"
"""Keys by which the engine itself would let go, instead of its Ctrl-P Ctrl-Q: until the second
comes it holds the first back, and Ctrl-P is the line before in every shell."""
_STDERR = 2
_SETTLE_TRIES, _SETTLE_S = 50, 0.1
"""How often, and after which pause (s), an engine is asked again if it does not know the exit code
of a command yet after the end of its output, or a terminal is not there yet."""


def made(
    client: docker.APIClient,
    container: str,
    words: tuple[str, ...],
    terminal: bool,
    typing: bool,
    user: str,
    mark: str,
) -> Made:
    """Make a command ready, with a mark in its environment; nothing runs yet."""
    created = client.exec_create(
        container, list(words), stdin=typing, tty=terminal, user=user, detach_keys=LEAVE,
        environment={MARK: mark},
    )  # fmt: skip
    return Made(str(created["Id"]), str(client.api_version))


class DockerCommand:
    """A command in a container. Implements `core.engines.host_containers.Command`."""

    def __init__(
        self, calls: DockerCalls, command: Made, guard: ExecGuard, *, terminal: bool, watched: bool
    ) -> None:
        """`watched` has the guard begin with the command, else only when it is to be ended."""
        self._calls = calls
        self._guard, self._watched = guard, watched
        self._over = True
        self._made = command
        self._terminal = terminal
        self._doing = f"running a command ({command.id[:12]})"
        self._frames = _Frames()
        self._waiting: list[Said] = []
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def start(self, size: tuple[int, int] | None = None) -> None:
        """Begin; with a terminal, of so many columns and rows."""
        if self._watched:
            await self._guard.watch()
        self._over = False
        self._reader, self._writer = await started(
            self._calls, self._doing, self._made, tty=self._terminal, size=size
        )
        if size is not None:
            # Before any input: what is typed ahead runs in a window of the right size.
            await self.resize(*size)

    async def read(self) -> Said | None:
        """Return what it says next; None at the end, and also where the way broke: `exit_code`
        tells."""
        while not self._waiting:
            chunk = await self._chunk()
            if not chunk:
                return None
            self._waiting = [Said(chunk)] if self._terminal else list(self._frames.feed(chunk))
        return self._waiting.pop(0)

    async def write(self, data: bytes) -> None:
        """Send it input; returns once there is room for more."""
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._writer.write(data)
                await self._writer.drain()

    async def write_eof(self) -> None:
        """Say that there is no more input."""
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._writer.write_eof()

    async def resize(self, columns: int, rows: int) -> None:
        """Tell its terminal a new size."""
        if not self._terminal:
            return
        for _ in range(_SETTLE_TRIES):
            try:
                await self._calls.run(
                    self._doing, _resize, self._made.id, max(1, columns), max(1, rows)
                )
            except EngineError:
                # It has not begun yet, or it has ended.
                if await self._ended():
                    return
                await asyncio.sleep(_SETTLE_S)
            else:
                return

    async def exit_code(self) -> int | None:
        """Return how it ended; None where it goes on without an output. UnreachableError where
        the host went away meanwhile."""
        for _ in range(_SETTLE_TRIES):
            code = await self._calls.run(self._doing, _code, self._made.id)
            if code is not None:
                break
            await asyncio.sleep(_SETTLE_S)
        self._over = True
        return code

    async def leave(self) -> None:
        """Let it run on once it is closed."""
        self._over = True

    async def close(self) -> None:
        """End the connection, and a command that still runs and is not to run on."""
        await (self._guard.leave() if self._over else self._guard.end())
        self._over = True
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()

    async def _chunk(self) -> bytes:
        try:
            return await self._reader.read(CHUNK) if self._reader is not None else b""
        except OSError:
            return b""

    async def _ended(self) -> bool:
        try:
            return await self._calls.run(self._doing, _code, self._made.id) is not None
        except ConsoleError:
            return True


class _Frames:
    """Takes framed output apart; holds no more than a header, whatever that claims."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._left = 0
        self._error = False

    def feed(self, chunk: bytes) -> Iterator[Said]:
        """Give the pieces in this chunk, in their order."""
        at = 0
        while at < len(chunk):
            if self._left:
                piece = chunk[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                yield Said(piece, self._error)
                continue
            take = chunk[at : at + HEADER - len(self._header)]
            at += len(take)
            self._header += take
            if len(self._header) == HEADER:
                self._error = self._header[0] == _STDERR
                self._left = int.from_bytes(self._header[4:], "big")
                self._header.clear()


def _resize(client: docker.APIClient, command: str, columns: int, rows: int) -> None:
    client.exec_resize(command, height=rows, width=columns)


def _code(client: docker.APIClient, command: str) -> int | None:
    details: Mapping[str, object] = client.exec_inspect(command)
    code = details.get("ExitCode")
    return code if isinstance(code, int) and not details.get("Running") else None
