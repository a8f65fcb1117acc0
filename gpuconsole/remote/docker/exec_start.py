"""An exec of an engine, started, or a terminal attached to: its connection, taken over from HTTP
(`Upgrade: tcp`).

The bounds are those of `docker.transport`: of the head in bytes and in time; what follows is read
no faster than it is taken.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError
from gpuconsole.remote.docker.errors import translated, unreachable
from gpuconsole.remote.docker.thread_pool import CALL_TIMEOUT_S, DockerCalls
from gpuconsole.remote.docker.transport import ERROR_BYTES
from gpuconsole.waiting import within


@dataclass(frozen=True, slots=True)
class Made:
    """A command that an engine has made ready."""

    id: str
    version: str
    """Of the engine's API."""


async def started(
    calls: DockerCalls, doing: str, command: Made, *, tty: bool, size: tuple[int, int] | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Start a command, with a terminal of so many columns and rows; return its connection.

    EngineError where the engine refuses or its answer cannot be read, UnreachableError where the
    way to it breaks.
    """
    wanted: dict[str, object] = {"Detach": False, "Tty": tty}
    if tty and size is not None:
        wanted["ConsoleSize"] = [size[1], size[0]]
    return await taken_over(calls, doing, f"/v{command.version}/exec/{command.id}/start", wanted)


async def taken_over(
    calls: DockerCalls, doing: str, path: str, wanted: Mapping[str, object] | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request and take over its connection, with a JSON body if there is one.
    Errors: see `started`."""
    reader, writer = await calls.connection(doing)
    try:
        writer.write(_request(path, wanted))
        head = await within(CALL_TIMEOUT_S, reader.readuntil(b"\r\n\r\n"))
        if _status(head, calls.host, doing) not in (101, 200):
            said = await within(CALL_TIMEOUT_S, reader.read(ERROR_BYTES))
            raise translated(_reason(said), calls.host, doing)
    except (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError) as error:
        writer.close()
        raise unreachable(calls.host, doing, error) from error
    except BaseException:
        writer.close()
        raise
    return reader, writer


def _status(head: bytes, host: str, doing: str) -> int:
    try:
        return int(head.split(b" ", 2)[1])
    except (ValueError, IndexError) as error:
        raise EngineError(
            "Docker's answer cannot be read", msg("{host}, while {doing}.", host=host, doing=doing)
        ) from error


def _request(path: str, wanted: Mapping[str, object] | None) -> bytes:
    body = b"" if wanted is None else json.dumps(wanted).encode()
    lines = (
        f"POST {path} HTTP/1.1",
        "Host: docker",
        "Content-Type: application/json",
        "Connection: Upgrade",
        "Upgrade: tcp",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _reason(body: bytes) -> str:
    """Return an engine's reason."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    reason = document.get("message") if isinstance(document, Mapping) else None
    return clean(str(reason or body.decode(errors="replace")), 500)
