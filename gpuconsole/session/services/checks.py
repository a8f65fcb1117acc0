"""One health check of a replica, made from within its container."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gpuconsole.core.containers import ByteStream, Engine
from gpuconsole.core.engines.host_containers import ContainerAccess
from gpuconsole.core.services import HealthCheck, Service
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration
from gpuconsole.core.wording import msg
from gpuconsole.errors import EngineError, NotHereError, RefusedError, UsageError
from gpuconsole.waiting import within

MOST_BYTES = 64 * 1024
"""Of what a check answers; the rest is not read."""
_LONGEST = 300
"""Letters of an answer that are kept."""
_TABLES = ("cat", "/proc/net/tcp", "/proc/net/tcp6")
_TABLES_S = 10.0


async def failure(engine: Engine, container: str, service: Service) -> str:
    """Ask a replica whether it is well; return what is wrong, as a sentence, or "".

    UnreachableError or EngineError where the engine cannot be asked: that is not the replica's.
    """
    check = service.check
    try:
        return await within(check.timeout_s, _asked(engine, container, service))
    except asyncio.TimeoutError:
        return msg("No answer within {time}.", time=format_duration(check.timeout_s))
    except (RefusedError, UsageError) as error:
        # Nothing listens, or the image lacks what a check needs.
        return clean(f"{error.message}", _LONGEST)


async def open_tables(engine: Engine, container: str) -> str | None:
    """Return the container's tables of TCP connections; None where they cannot be read."""
    access: ContainerAccess | None = getattr(engine, "containers", None)
    if access is None:
        return None
    try:
        code, text = await within(_TABLES_S, _run(access, container, _TABLES))
    except (asyncio.TimeoutError, RefusedError, EngineError, UsageError):
        return None
    # Without IPv6 there is one table, and `cat` complains of the other.
    return text if code in (0, 1) and "local_address" in text else None


async def _asked(engine: Engine, container: str, service: Service) -> str:
    check = service.check
    if check.kind == "command":
        return await _command(engine, container, check)
    stream = await engine.connect(container, str(service.check_port))
    try:
        return await _http(stream, check) if check.kind == "http" else ""
    finally:
        await stream.close()


async def _http(stream: ByteStream, check: HealthCheck) -> str:
    request = f"GET {check.path} HTTP/1.0\r\nHost: 127.0.0.1\r\nUser-Agent: gpuconsole\r\n\r\n"
    await stream.write(request.encode())
    said = b""
    while len(said) < MOST_BYTES and (data := await stream.read()):
        said += data
    head, _, body = said.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    words = status.split(" ", 2)
    if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
        return clean(f"It does not answer as HTTP: {status!r}.", _LONGEST) if said else _EMPTY
    if 200 <= int(words[1]) < 400:
        return ""
    more = clean(body.decode("utf-8", errors="replace").strip(), _LONGEST)
    answered = msg("GET {path}: {status}", path=check.path, status=" ".join(words[1:]))
    return clean(f"{answered}: {more}" if more else f"{answered}.", _LONGEST)


_EMPTY = "It closed the connection without an answer."


async def _command(engine: Engine, container: str, check: HealthCheck) -> str:
    access: ContainerAccess | None = getattr(engine, "containers", None)
    if access is None:
        raise NotHereError(
            "No command can be run there", "The engine of its host runs none in containers."
        )
    code, text = await _run(access, container, check.command)
    if code == 0:
        return ""
    said = clean(text.strip()[-_LONGEST:], _LONGEST)
    ended = msg("The check ended with exit code {n}", n="?" if code is None else code)
    return f"{ended}: {said}" if said else f"{ended}."


async def _run(
    access: ContainerAccess, container: str, words: Sequence[str]
) -> tuple[int | None, str]:
    """Run a command in a container to its end; return its exit code, and what it wrote."""
    process = await access.command(container, words, terminal=False, typing=False, watched=False)
    said = bytearray()
    try:
        await process.start()
        while (piece := await process.read()) is not None:
            said += piece.data[: max(0, MOST_BYTES - len(said))]
        return await process.exit_code(), said.decode("utf-8", errors="replace")
    finally:
        await process.close()
