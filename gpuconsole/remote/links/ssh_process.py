"""One command over an SSH connection: framed, paused while it is not read, ended when closed."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
from collections.abc import Sequence

from gpuconsole.core.wording import msg
from gpuconsole.errors import UnreachableError
from gpuconsole.remote.links.errors import started_nothing
from gpuconsole.remote.links.line_reader import ChunkQueue, LineQueue
from gpuconsole.remote.links.protocol import ERROR_TAIL, LINE_LIMIT
from gpuconsole.remote.links.ssh_library import asyncssh
from gpuconsole.remote.links.wakeups import Wakeups
from gpuconsole.waiting import within

NOISE_LIMIT = 1024 * 1024
"""Bytes that start-up files may print before the host is given up."""
# `read` takes exactly one line, byte by byte: what follows is left for the command itself.
REMOTE_COMMAND = """exec /bin/sh -c 'IFS= read -r l; eval "$l"'"""


def script(argv: Sequence[str], nonce: str) -> bytes:
    """Return the line that starts `argv` and marks the beginning of its output and errors."""
    if any("\0" in word for word in argv):
        raise ValueError("an argument holds a NUL byte")
    # The script is one line, so a newline within an argument comes out of a variable.
    words = " ".join(shlex.quote(word).replace("\n", "'\"$n\"'") for word in argv)
    line = f"n=$(printf '\\nx');n=${{n%x}};echo {nonce};echo {nonce} >&2;exec {words}\n"
    return line.encode("utf-8", "surrogateescape")


class Cleared:
    """Bytes after the line that is the nonce; everything before it is dropped."""

    def __init__(self, nonce: str) -> None:
        self._mark = nonce.encode() + b"\n"
        self._noise = b""
        self.begun = False

    def feed(self, data: bytes) -> bytes:
        """Return what in a chunk is the command's; ValueError on endless noise."""
        if self.begun:
            return data
        self._noise += data
        where = self._noise.find(self._mark)
        if where < 0:
            if len(self._noise) > NOISE_LIMIT:
                raise ValueError("start-up files print without end")
            return b""
        self.begun = True
        rest = self._noise[where + len(self._mark) :]
        self._noise = b""
        return rest

    @property
    def noise(self) -> bytes:
        """What came instead of the command's output, for a message."""
        return self._noise[-400:]


CLOSE_GRACE_S = 1.0


class SshSession(asyncssh.SSHClientSession[bytes]):
    """A running command. `lines` chooses whether its output comes in lines or in chunks; who reads
    lines is woken by `wakeups`, if there are any."""

    def __init__(self, host: str, lines: bool, wakeups: Wakeups | None = None) -> None:
        nonce = secrets.token_hex(16)
        self._host = host
        self._nonce = nonce
        self._output = Cleared(nonce)
        self._errors = Cleared(nonce)
        self._tail = b""
        self._fault = ""
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self.queue = (
            LineQueue(LINE_LIMIT, self._pause, wakeups) if lines else ChunkQueue(self._pause)
        )
        self.closed = asyncio.Event()
        self._lost: Exception | None = None

    @classmethod
    async def start(
        cls,
        connection: asyncssh.SSHClientConnection,
        host: str,
        argv: Sequence[str],
        *,
        lines: bool,
        wakeups: Wakeups | None = None,
    ) -> SshSession:
        """Start a command on an open connection."""
        session = cls(host, lines, wakeups)
        first = script(argv, session._nonce)
        await connection.create_session(
            lambda: session, REMOTE_COMMAND, encoding=None, request_pty=False
        )
        session.write(first)
        return session

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """Learn the channel."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Take output or errors; noise before the nonce is dropped."""
        try:
            if datatype == asyncssh.EXTENDED_DATA_STDERR:
                self._tail = (self._tail + self._errors.feed(data))[-ERROR_TAIL:]
            elif cleared := self._output.feed(data):
                self.queue.feed(cleared)
        except ValueError as error:
            self._fault = str(error)
            self._abort()

    def eof_received(self) -> bool:
        """Note the end of the output."""
        self.queue.end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The command has ended, or the connection."""
        self._lost = exc
        self.queue.end()
        self.closed.set()

    def write(self, data: bytes) -> None:
        """Send bytes to the command."""
        if self._channel is not None and not self._channel.is_closing():
            with contextlib.suppress(BrokenPipeError, OSError):
                self._channel.write(data)

    def write_eof(self) -> None:
        """Close the command's input."""
        if self._channel is not None and not self._channel.is_closing():
            with contextlib.suppress(BrokenPipeError, OSError):
                self._channel.write_eof()

    async def read_line(self) -> bytes | None:
        """Return the next line of output."""
        return await self.queue.next()

    @property
    def exit_status(self) -> int | None:
        """How the command ended."""
        return None if self._channel is None else self._channel.get_returncode()

    @property
    def error_tail(self) -> bytes:
        """The last bytes of standard error; what start-up files said when nothing else came."""
        return self._tail or (b"" if self._output.begun else self._errors.noise)

    @property
    def lost(self) -> Exception | None:
        """What broke the connection under the command."""
        return self._lost

    async def finish(self) -> int:
        """Wait for the end; UnreachableError when the link broke or the shell never began."""
        await self.closed.wait()
        status = self.exit_status
        if self.lost is not None or (status is None and self._output.begun):
            reason = str(self.lost) if self.lost else "the connection ended"
            raise UnreachableError(
                "Link lost", msg("{host}: {reason}.", host=self._host, reason=reason)
            )
        if not self._output.begun:
            raise started_nothing(self._host, self._fault, self._output.noise + self._errors.noise)
        assert status is not None
        return status

    async def close(self) -> None:
        """Close the command's input, give it a moment, then close the channel."""
        self.write_eof()
        self.queue.end()
        with contextlib.suppress(asyncio.TimeoutError):
            await within(CLOSE_GRACE_S, self.closed.wait())
        self._abort()

    def kill(self) -> None:
        """Kill the command, as far as the far sshd passes signals on."""
        if self._channel is not None and not self._channel.is_closing():
            with contextlib.suppress(OSError):
                self._channel.kill()
        self._abort()

    def _abort(self) -> None:
        if self._channel is not None:
            self._channel.abort()

    def _pause(self, pause: bool) -> None:
        if self._channel is not None:
            if pause:
                self._channel.pause_reading()
            else:
                self._channel.resume_reading()
