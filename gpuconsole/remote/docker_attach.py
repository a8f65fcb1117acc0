"""A container's own terminal, attached to: for sessions in images without Python.

Where an image has Python, `inside.terminal` keeps a session's terminal in the container. Where it
has none, the container gets a terminal of the engine, which runs on while no viewer is attached.
The protocol is the same (`core.engines.terminals`), so that callers need not know which of the two
it is. The engine reports less: it does not know who types, so that all viewers may type unless they
only watch, and the time of the last input is that of the last output.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import posixpath
from collections import deque
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime

import docker

from gpuconsole.core.engines import terminals
from gpuconsole.core.engines.terminals import Frames, frame
from gpuconsole.core.text import clean
from gpuconsole.errors import ConsoleError
from gpuconsole.remote.docker.errors import checked, status_of
from gpuconsole.remote.docker.exec_start import taken_over
from gpuconsole.remote.docker.logs import Demultiplexer
from gpuconsole.remote.docker.status import engine_time
from gpuconsole.remote.docker.thread_pool import DockerCalls
from gpuconsole.remote.docker.transport import BoundedClient
from gpuconsole.remote.docker_streams import RawStream
from gpuconsole.remote.inside import PYTHONS, terminal

OPTIONS = {"tty": True, "stdin_open": True, "stop_signal": "SIGHUP"}
"""Of a container with a terminal of its own: an interactive shell ignores SIGTERM."""
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where an engine looks for programs if an image does not say."""
MOST_FOLDERS = 32
KEPT = terminal.KEPT
"""Bytes of what was written that are shown to those who come."""
LARGEST = 4096
"""Columns or rows of a window."""
LEAVE = "ctrl-^,ctrl-^"
SHARED = b"All who look may type here. Enter shows the prompt."
_STAT = "X-Docker-Container-Path-Stat"
"""The header in which an engine describes a path: JSON in base64."""
_PRINT = 'printf "\n%s\n" "$1" >/proc/1/fd/1'
_SETTLE_TRIES, _SETTLE_S = 50, 0.1
"""How often, and after which pause (s), an engine is asked again whether a container has ended
after the end of its output."""


def lacks_python(client: docker.APIClient, container: str) -> bool:
    """Return True if a container that is created has no Python on its PATH, or Python 2 alone."""
    details = client.inspect_container(container)["Config"]
    pairs = (str(item).partition("=") for item in details.get("Env") or ())
    path = next((value for name, _, value in pairs if name == "PATH"), "") or USUAL_PATH
    folders = [folder for folder in path.split(":") if folder.startswith("/")][:MOST_FOLDERS]
    return not any(
        _has_python(client, container, posixpath.join(folder, name))
        for folder in folders
        for name in PYTHONS
    )


def has_terminal(client: docker.APIClient, container: str) -> bool:
    """Return True if the engine holds a terminal for a container."""
    return bool(client.inspect_container(container)["Config"].get("Tty"))


async def attach(
    calls: DockerCalls, container: str, tail: Callable[[], Awaitable[bytes]]
) -> BareTerminal:
    """Attach to a container's terminal; `tail` reads the end of what was written before.

    EngineError where the engine refuses, UnreachableError where the way to it breaks.
    """
    doing = f"attaching to {container[:12]}"
    version = await calls.run(doing, lambda client: str(client.api_version))
    wanted = f"stream=1&stdin=1&stdout=1&stderr=1&detachKeys={LEAVE.replace('^', '%5E')}"
    path = f"/v{version}/containers/{container}/attach?{wanted}"
    reader, writer = await taken_over(calls, doing, path)
    return BareTerminal(calls, container, RawStream(reader, writer, framed=False), tail)


class BareTerminal:
    """One who looks at a container's terminal. Implements `core.containers.ByteStream`."""

    def __init__(
        self,
        calls: DockerCalls,
        container: str,
        raw: RawStream,
        tail: Callable[[], Awaitable[bytes]],
    ) -> None:
        self._calls, self._container = calls, container
        self._doing = f"using the terminal of {container[:12]}"
        self._raw = raw
        self._tail = tail
        self._heard = Frames()
        self._answers: deque[bytes] = deque()
        self._answered = asyncio.Event()
        self._reading: asyncio.Future[bytes] | None = None
        self._watch = True
        self._over = False

    async def read(self) -> bytes:
        """Return the next frame; b"" at the end, also where the way broke."""
        while not self._answers:
            if self._over:
                return b""
            self._answered.clear()
            await self._something()
        return self._answers.popleft()

    async def write(self, data: bytes) -> None:
        """Take frames. What is malformed ends the stream; what the engine refuses is dropped."""
        try:
            for kind, body in self._heard.feed(data):
                with contextlib.suppress(ConsoleError):
                    await self._take(kind, body)
        except (ValueError, KeyError, TypeError):
            self._over = True
            self._answered.set()

    async def write_eof(self) -> None:
        """Does nothing: the end of input does not end the shell."""

    async def close(self) -> None:
        """Detach; the shell runs on."""
        self._over = True
        self._answered.set()
        if self._reading is not None:
            self._reading.cancel()
        await self._raw.close()

    async def _something(self) -> None:
        """Wait for output, for an answer to a frame, or for the end."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._raw.read())
        answered = asyncio.ensure_future(self._answered.wait())
        try:
            await asyncio.wait((self._reading, answered), return_when=asyncio.FIRST_COMPLETED)
        finally:
            answered.cancel()
        if not self._reading.done() or self._reading.cancelled():
            return
        data, self._reading = self._reading.result(), None
        if data:
            self._answers.append(frame(terminals.OUTPUT, data))
            return
        self._over = True
        code = await self._exit_code()
        if code is not None:
            self._answers.append(frame(terminals.END, code))

    async def _take(self, kind: bytes, body: bytes) -> None:
        if kind == terminals.HELLO:
            said = json.loads(body)
            self._watch = bool(said["watch"])
            await self._show(int(said["columns"]), int(said["rows"]))
        elif kind == terminals.INPUT and not self._watch:
            await self._raw.write(body)
        elif kind == terminals.SIZE and not self._watch:
            columns, rows = map(int, body.split())
            await self._resize(columns, rows)
        elif kind == terminals.ASK:
            idle = await self._calls.run(self._doing, idle_s, self._container)
            self._answer(terminals.STATE, json.dumps({"idle_s": idle, "viewers": 0}).encode())
        elif kind == terminals.NOTICE:
            text = clean(body.decode(errors="replace"), 300)
            await self._calls.run(self._doing, _print, self._container, text)

    async def _show(self, columns: int, rows: int) -> None:
        """Show what was written before, and have a program that fills the window draw again."""
        written = await self._tail()
        if written:
            self._answer(terminals.OUTPUT, terminal.QUERIES.sub(b"", written))
        if self._watch:
            return
        self._answer(terminals.NOTICE, SHARED)
        await self._resize(columns, max(1, rows - 1))
        await self._resize(columns, rows)

    def _answer(self, kind: bytes, body: bytes) -> None:
        self._answers.append(frame(kind, body))
        self._answered.set()

    async def _resize(self, columns: int, rows: int) -> None:
        columns, rows = (min(max(1, cells), LARGEST) for cells in (columns, rows))
        await self._calls.run(self._doing, _resize, self._container, columns, rows)

    async def _exit_code(self) -> bytes | None:
        """Return how the shell ended, as a frame has it; None where it runs on, or that is not
        known."""
        for _ in range(_SETTLE_TRIES):
            try:
                code = await self._calls.run(self._doing, _code, self._container)
            except ConsoleError:
                return None
            if code is not None:
                return code
            await asyncio.sleep(_SETTLE_S)
        return None


def idle_s(client: BoundedClient, container: str) -> float:
    """Return how long ago something was written on a container's terminal, or it began, by the
    engine's own clock; 0 where it does not say."""
    params = {"stdout": 1, "stderr": 1, "tail": 1, "timestamps": 1}
    url = f"{client.base_url}/v{client.api_version}/containers/{container}/logs"
    response = checked(client.get(url, params=params, timeout=client.timeout))
    line = b"".join(Demultiplexer().feed(response.content))
    first = line.split(b" ", 1)[0].decode("ascii", "replace")
    try:
        began = first or str(client.inspect_container(container)["State"]["StartedAt"])
        now = parsedate_to_datetime(response.headers["Date"]).timestamp()
        return max(0.0, now - engine_time(began))
    except (KeyError, ValueError, TypeError):
        return 0.0


def written(tail: bytes) -> bytes:
    """Return the end of a terminal's output from the beginning of a line on."""
    return tail if len(tail) < KEPT else tail[tail.find(b"\n") + 1 :]


def _has_python(client: docker.APIClient, container: str, path: str) -> bool:
    """Return True if a path is there and is not Python 2: a link to it, or a file beside which
    `python2` lies."""
    target = _target(client, container, path)
    if target is None or posixpath.basename(target).startswith("python2"):
        return False
    # What has a version in its name is that one.
    plain = posixpath.basename(target or path) == "python"
    return not plain or _target(client, container, f"{path}2") is None


def _target(client: docker.APIClient, container: str, path: str) -> str | None:
    """Return what a link leads to, "" for what is no link, and None where there is nothing."""
    url = f"{client.base_url}/v{client.api_version}/containers/{container}/archive"
    response = client.head(url, params={"path": path}, timeout=client.timeout)
    if response.status_code == 404:
        return None
    checked(response)
    try:
        said = json.loads(base64.b64decode(response.headers.get(_STAT, "")))
        return str(said["linkTarget"])
    except (ValueError, KeyError, TypeError):
        return ""


def _resize(client: docker.APIClient, container: str, columns: int, rows: int) -> None:
    client.resize(container, height=rows, width=columns)


def _print(client: docker.APIClient, container: str, text: str) -> None:
    """Write a sentence on the terminal of a container's first program."""
    words = ["/bin/sh", "-c", _PRINT, "sh", text]
    created = client.exec_create(container, words, stdout=False, stderr=False)
    client.exec_start(created["Id"], detach=True)


def _code(client: docker.APIClient, container: str) -> bytes | None:
    """Return a container's exit code; b"" where it is gone, None while it runs."""
    try:
        state = client.inspect_container(container)["State"]
    except docker.errors.APIError as error:
        if status_of(error) == 404:
            return b""
        raise
    return None if state.get("Running") else str(int(state.get("ExitCode") or 0)).encode()
