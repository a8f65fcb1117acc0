"""What answers at a Docker socket may send anything, for ever: it costs bounded memory and time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import socket
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from gpuconsole.errors import ConsoleError, EngineError, UnreachableError
from gpuconsole.remote.docker import thread_pool
from gpuconsole.remote.docker.engine import DockerEngine
from gpuconsole.remote.docker.transport import (
    ANSWER_BYTES,
    ANSWER_VALUES,
    BoundedClient,
    Wires,
)
from gpuconsole.remote.links.local import LocalLink

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
VERSION = b'{"ApiVersion": "1.41", "Version": "20.10", "Components": []}'
WITHIN_S = 120
"""Far more than any of these calls takes; without a bound they never end."""
MEMORY = 6 * ANSWER_BYTES


def sized(body: bytes, status: bytes = OK) -> bytes:
    return status + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunk(body: bytes) -> bytes:
    return b"%x\r\n" % len(body) + body + b"\r\n"


class Hostile:
    """A server on a unix socket that answers `version` well and all else with `answer`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answer: Callable[[], Iterator[bytes]] = lambda: iter([sized(b"[]")])
        self.greeting: Callable[[], object] = lambda: None
        """What comes before the answer to `version`."""
        self.requests: list[bytes] = []
        self.connections = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        # The number of a closed socket is used again: nobody may be about to accept from it.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join(WITHIN_S)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            while head := self._head(connection):
                self.requests.append(head)
                if b"/version" in head.split(b"\r\n", 1)[0]:
                    self.greeting()
                    connection.sendall(sized(VERSION))
                    continue
                for piece in self.answer():
                    connection.sendall(piece)

    @staticmethod
    def _head(connection: socket.socket) -> bytes:
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(65536)
            if not piece:
                return b""
            head += piece
        return head


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Hostile]:
    server = Hostile(tmp_path / "engine.sock")
    yield server
    server.close()


@pytest.fixture
async def engine(hostile: Hostile) -> AsyncIterator[DockerEngine]:
    engine = DockerEngine(LocalLink("box"), "box", str(hostile.path))
    yield engine
    await engine.close()


def endless_list() -> Iterator[bytes]:
    yield CHUNKED
    yield chunk(b"[")
    for _ in itertools.repeat(None):
        yield chunk(b'{"Id": "x", "Labels": {}},' * 2000)


def endless_headers() -> Iterator[bytes]:
    yield OK
    for number in itertools.count():
        yield b"X-%d: %s\r\n" % (number, b"x" * 1000)


def endless_header() -> Iterator[bytes]:
    yield OK + b"X-Long: "
    for _ in itertools.repeat(None):
        yield b"x" * 65536


def endless_continue() -> Iterator[bytes]:
    for _ in itertools.repeat(None):
        yield b"HTTP/1.1 100 Continue\r\n\r\n" * 1000


def huge_length() -> Iterator[bytes]:
    yield OK + b"Content-Length: 9999999999999999999\r\n\r\n["
    for _ in itertools.repeat(None):
        yield b" " * 65536


def endless_trailer() -> Iterator[bytes]:
    yield CHUNKED + b"2\r\n[]\r\n0\r\n"
    for _ in itertools.repeat(None):
        yield (b"X: " + b"y" * 8000 + b"\r\n") * 10


def endless_error() -> Iterator[bytes]:
    yield b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n"
    for _ in itertools.repeat(None):
        yield chunk(b"no such file or directory " * 2000)


def deep() -> Iterator[bytes]:
    yield sized(b"[" * 100_000)


def empties() -> Iterator[bytes]:
    yield sized(b"[" + b"{}," * ANSWER_VALUES + b"{}]")


def redirect() -> Iterator[bytes]:
    yield b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 0\r\n\r\n"


def nonsense() -> Iterator[bytes]:
    yield sized(b"<html>")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (endless_list, f"sent more than {ANSWER_BYTES // 1024} KiB"),
        (huge_length, f"sent more than {ANSWER_BYTES // 1024} KiB"),
        (endless_trailer, f"sent more than {ANSWER_BYTES // 1024} KiB"),
        (endless_continue, "sent more than 256 KiB"),
        (endless_header, "the connection broke"),
        (endless_headers, "the connection broke"),
        (endless_error, "sent more than 64 KiB"),
        (deep, "nested too deep"),
        (empties, f"sent more than {ANSWER_VALUES} objects and lists"),
        (redirect, "the connection broke"),
        (nonsense, "not JSON"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_an_answer_without_end_costs_bounded_memory_and_is_named(
    hostile: Hostile, engine: DockerEngine, answer: Callable[[], Iterator[bytes]], said: str
) -> None:
    hostile.answer = answer
    tracemalloc.start()
    try:
        with pytest.raises(ConsoleError) as caught:
            await asyncio.wait_for(engine.leases(), WITHIN_S)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(caught.value, (EngineError, UnreachableError))
    assert said in caught.value.message
    assert "box" in caught.value.message
    assert peak < MEMORY
    # The next call of an engine that is itself again succeeds.
    hostile.answer = lambda: iter([sized(b"[]")])
    assert await asyncio.wait_for(engine.leases(), WITHIN_S) == ()


async def test_what_is_packed_is_not_unpacked(hostile: Hostile, engine: DockerEngine) -> None:
    import gzip

    body = gzip.compress(b"[" + b" " * 2**20 + b"]")
    hostile.answer = lambda: iter([sized(body, OK + b"Content-Encoding: gzip\r\n")])
    with pytest.raises(EngineError, match="not JSON"):
        await asyncio.wait_for(engine.leases(), WITHIN_S)


async def test_cookies_are_not_kept(hostile: Hostile, engine: DockerEngine) -> None:
    hostile.answer = lambda: iter([sized(b"[]", OK + b"Set-Cookie: a=b\r\n")])
    await asyncio.wait_for(engine.running(), WITHIN_S)
    await asyncio.wait_for(engine.running(), WITHIN_S)
    assert not any(b"ookie" in head for head in hostile.requests)


def drops() -> Iterator[bytes]:
    yield OK + b"Content-Length: 1000000\r\n\r\n"
    for _ in itertools.repeat(None):
        time.sleep(0.02)
        yield b" "


def head_in_drops() -> Iterator[bytes]:
    yield OK + b"X: "
    for _ in itertools.repeat(None):
        time.sleep(0.02)
        yield b"x"


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda engine: engine.leases(), id="list"),
        pytest.param(lambda engine: engine.inspect("c"), id="inspect"),
        pytest.param(lambda engine: engine.info(), id="info"),
        pytest.param(lambda engine: engine.stop("c", 0), id="stop"),
        pytest.param(lambda engine: engine.remove("c"), id="remove"),
        pytest.param(lambda engine: engine.images.list(), id="images"),
    ],
)
async def test_an_answer_that_comes_in_drops_costs_its_timeout(
    hostile: Hostile,
    engine: DockerEngine,
    call: Callable[[DockerEngine], Awaitable[object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_pool, "CALL_TIMEOUT_S", 0.5)
    for hostile.answer in (drops, head_in_drops):
        with pytest.raises(UnreachableError, match="no answer in time"):
            await asyncio.wait_for(call(engine), WITHIN_S)


async def test_an_archive_that_comes_in_drops_costs_its_timeout(
    hostile: Hostile, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_pool, "CALL_TIMEOUT_S", 0.5)
    stat = b"X-Docker-Container-Path-Stat: e30=\r\n"

    def archive() -> Iterator[bytes]:
        yield OK + stat + b"Transfer-Encoding: chunked\r\n\r\n"
        for _ in itertools.repeat(None):
            time.sleep(0.02)
            yield chunk(b"\0")

    hostile.answer = archive
    with pytest.raises(UnreachableError, match="no answer in time"):
        await asyncio.wait_for(engine.read_files("c", "/reports"), WITHIN_S)


async def test_a_log_may_be_silent_longer_than_an_answer_but_its_head_may_not(
    hostile: Hostile, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_pool, "CALL_TIMEOUT_S", 0.5)

    def slow_log() -> Iterator[bytes]:
        yield CHUNKED
        time.sleep(1.5)
        yield chunk(b"\1\0\0\0\0\0\0\2hi") + b"0\r\n\r\n"

    hostile.answer = slow_log
    read = [piece async for piece in engine.logs("c", follow=True)]
    assert b"".join(read) == b"hi"

    hostile.answer = head_in_drops
    with pytest.raises(UnreachableError, match="no answer in time"):
        async for _ in engine.logs("c", follow=True):
            pass


async def test_a_log_without_end_is_read_in_bounded_memory(
    hostile: Hostile, engine: DockerEngine
) -> None:
    frame = b"\1\0\0\0\0\0\xff\xf8" + b"x" * 65528

    def flood() -> Iterator[bytes]:
        yield CHUNKED
        for _ in itertools.repeat(None):
            yield chunk(frame)

    hostile.answer = flood
    read = 0
    tracemalloc.start()
    try:
        async with contextlib.aclosing(engine.logs("c", follow=True)) as log:
            async for piece in log:
                read += len(piece)
                if read > 2 * ANSWER_BYTES:
                    break
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read > 2 * ANSWER_BYTES
    assert peak < ANSWER_BYTES


async def test_leaving_ends_a_call_that_hangs(hostile: Hostile, engine: DockerEngine) -> None:
    asked = threading.Event()
    leave = threading.Event()

    def hang() -> Iterator[bytes]:
        asked.set()
        leave.wait(WITHIN_S)
        yield b""

    hostile.answer = hang
    hanging = asyncio.ensure_future(engine.leases())
    try:
        assert await asyncio.to_thread(asked.wait, WITHIN_S)
        await engine.close()
        with pytest.raises(ConsoleError):
            await asyncio.wait_for(hanging, WITHIN_S)
        assert not leave.is_set()
    finally:
        leave.set()


def test_a_client_that_is_forgotten_leaves_no_connection(hostile: Hostile) -> None:
    wires = Wires()
    client = BoundedClient(str(hostile.path), 60, wires)
    client.containers()
    sockets = wires._sockets
    assert len(sockets) == 1
    del client
    gc.collect()
    assert not sockets


@pytest.fixture
def frozen(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Give an engine that takes requests and answers none until the event is set."""
    monkeypatch.setattr(thread_pool, "PING_S", 0.3)
    thawed = threading.Event()

    def hang() -> Iterator[bytes]:
        thawed.wait(WITHIN_S)
        yield sized(b"[]")

    hostile.answer = hang
    yield thawed
    thawed.set()


async def test_a_frozen_engine_is_told_by_a_ping_past_all_calls_that_hang(
    hostile: Hostile, engine: DockerEngine, frozen: threading.Event
) -> None:
    hanging = [asyncio.ensure_future(engine.leases()) for _ in range(thread_pool.THREADS + 2)]
    for _ in range(3):
        with pytest.raises(UnreachableError, match="box, while asking for a sign of life: no ans"):
            await asyncio.wait_for(engine.ping(), WITHIN_S)
    assert not any(call.done() for call in hanging)
    frozen.set()
    await asyncio.wait_for(engine.ping(), WITHIN_S)
    assert await asyncio.wait_for(asyncio.gather(*hanging), WITHIN_S) == [()] * len(hanging)


async def test_an_engine_that_is_frozen_from_the_start_gets_one_thread_and_one_connection(
    hostile: Hostile, engine: DockerEngine, frozen: threading.Event
) -> None:
    hostile.greeting = lambda: frozen.wait(WITHIN_S)
    for _ in range(5):
        with pytest.raises(UnreachableError, match="no answer in time"):
            await asyncio.wait_for(engine.ping(), WITHIN_S)
    assert hostile.connections == 1
    frozen.set()
    hostile.answer = lambda: iter([sized(b"[]")])
    assert await asyncio.wait_for(engine.leases(), WITHIN_S) == ()
