"""A process somewhere else, by its input and output: what an engine's exec or attach leads to."""

from __future__ import annotations

from typing import Protocol

from gpuconsole.core.util.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of a process's output."""

    data: bytes
    error: bool = False
    """Whether it is of the standard error; on a terminal both are one."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that was run to its end."""

    exit_code: int | None
    """None where it goes on without an output."""
    stdout: bytes = b""
    """The first 4 MiB of what it wrote."""
    stderr: bytes = b""


class Process(Protocol):
    """Talk with a process. Every method may raise UnreachableError or EngineError."""

    async def read(self) -> Said | None:
        """Return what it says next, in pieces as they come; None once it has ended."""
        ...

    async def write(self, data: bytes) -> None:
        """Send it input; dropped once it has ended."""
        ...

    async def write_eof(self) -> None:
        """Say that there is no more input."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """Tell its terminal a new size, in cells; nothing where it has none or has ended."""
        ...

    async def exit_code(self) -> int | None:
        """Return how it ended, after its last output; None where that is not known."""
        ...

    async def close(self) -> None:
        """End the conversation. What becomes of the process is for who made it to say."""
        ...
