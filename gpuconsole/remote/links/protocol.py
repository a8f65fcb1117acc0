"""A link to a host: run argument lists there, follow their output, reach its sockets.

`LocalLink` is this machine, `SshLink` another one; what uses a link cannot tell which it holds.
Every method raises UnreachableError when the host cannot be reached, with the reason for a person.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from gpuconsole.core.util.lazy_dataclass import dataclass

OUTPUT_LIMIT = 64 * 2**20
"""Bytes of output that `run` accepts before it abandons a runaway command."""
LINE_LIMIT = 256 * 1024
"""Bytes of a line that a channel keeps; a longer one comes cut."""
ERROR_TAIL = 4096
"""Bytes of standard error kept for messages."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended. `exit_status` is negative when a signal ended it."""

    exit_status: int
    stdout: bytes
    stderr: bytes


class Channel(Protocol):
    """A running command; its output is read line by line."""

    def write(self, data: bytes) -> None:
        """Send bytes to the command's standard input; silently dropped once it has ended."""
        ...

    async def read_line(self) -> bytes | None:
        """Return the next line of output without its end, cut at LINE_LIMIT; None at the end."""
        ...

    @property
    def exit_status(self) -> int | None:
        """How the command ended; None while it runs or when the link broke first."""
        ...

    @property
    def error_tail(self) -> bytes:
        """The last bytes of standard error."""
        ...

    @property
    def lost(self) -> Exception | None:
        """What broke the link under the command; None while all is well or it ended by itself."""
        ...

    async def close(self) -> None:
        """End the command: its input closes, then it is killed."""
        ...


class Link(Protocol):
    """Run commands on one host and reach its sockets."""

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
    ) -> Completed:
        """Run a command to its end; EngineError when it takes longer than `timeout` seconds.

        A program that is not there ends with 127, as a shell would say it.
        """
        ...

    def stream(self, argv: Sequence[str]) -> AsyncIterator[bytes]:
        """Give a command's output in chunks; EngineError at the end if it failed."""
        ...

    async def open(self, argv: Sequence[str]) -> Channel:
        """Start a command and talk with it line by line."""
        ...

    async def forward_socket(self, path: str) -> str:
        """Return the path of a local unix socket that reaches the host's unix socket `path`."""
        ...

    async def close(self) -> None:
        """End the link and everything opened through it."""
        ...
