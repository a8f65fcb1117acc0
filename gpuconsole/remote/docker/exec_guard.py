"""Ends a command in a container that has lost its console: Docker itself lets it run on.

A second exec beside the command waits for the end of its own input, which the engine closes when
the connection breaks, and then ends what carries the command's mark (`inside/end.sh`). So it works
when the console was killed and when the SSH connection was cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets

import docker

from gpuconsole.errors import ConsoleError
from gpuconsole.remote.docker.exec_start import Made, started
from gpuconsole.remote.docker.thread_pool import CALL_TIMEOUT_S, DockerCalls
from gpuconsole.remote.inside import source
from gpuconsole.waiting import within

MARK = "GPUCONSOLE_EXEC"
"""The environment variable with the mark of a command."""
GRACE_S = 5
"""Between SIGHUP and SIGKILL."""
_LEAVE = b"leave\n"


def new_mark() -> str:
    """Return a mark that no other process has."""
    return secrets.token_hex(16)


class ExecGuard:
    """The guard of one command. In an image without `sh` there is none: the command runs on."""

    def __init__(self, calls: DockerCalls, container: str, user: str, mark: str) -> None:
        self._calls = calls
        self._container, self._user, self._mark = container, user, mark
        self._doing = f"guarding a command in {container[:12]}"
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def watch(self) -> None:
        """Begin to watch: from now on a broken connection ends the command. Errors of the engine
        are raised; that the image has no `sh` is none."""
        exec_ = await self._calls.run(
            self._doing, _made, self._container, self._user, f"{MARK}={self._mark}"
        )
        self._reader, self._writer = await started(self._calls, self._doing, exec_, tty=False)

    async def leave(self) -> None:
        """Let the command run on."""
        await self._close(_LEAVE)

    async def end(self) -> None:
        """End the command, as a broken connection does; nothing where the host is away."""
        with contextlib.suppress(ConsoleError):
            if self._writer is None:
                await self.watch()
        await self._close(b"")

    async def _close(self, word: bytes) -> None:
        writer, self._writer = self._writer, None
        if writer is None or self._reader is None:
            return
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            writer.write(word)
            writer.write_eof()
            if word:
                # A connection that ends before the guard has heard the word is a broken one.
                await within(CALL_TIMEOUT_S, self._reader.read(1))
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _made(client: docker.APIClient, container: str, user: str, mark: str) -> Made:
    words = ["sh", "-c", source("end.sh"), "sh", mark, str(GRACE_S)]
    answer = client.exec_create(container, words, stdin=True, stdout=True, stderr=False, user=user)
    return Made(str(answer["Id"]), str(client.api_version))
