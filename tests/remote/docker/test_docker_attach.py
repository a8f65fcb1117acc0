"""The engine's own terminal of a session: what comes from a user's console is bounded, and what an
engine writes without headers is passed on as it is."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from gpuconsole.core.engines import terminals
from gpuconsole.core.engines.terminals import Frames, frame, hello
from gpuconsole.remote import docker_attach
from gpuconsole.remote.docker.logs import Demultiplexer
from gpuconsole.remote.docker_attach import BareTerminal


class Calls:
    """Notes what an engine is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    async def run(self, doing: str, function: Any, *args: Any) -> Any:
        self.asked.append((function.__name__, *args[1:]))
        return 3.0 if function is docker_attach.idle_s else None


class Raw:
    """An engine's connection."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    async def read(self) -> bytes:
        return b""

    async def write(self, data: bytes) -> None:
        self.written += data

    async def close(self) -> None:
        self.closed = True


def made(tail: bytes = b"") -> tuple[BareTerminal, Calls, Raw]:
    calls, raw = Calls(), Raw()

    async def written() -> bytes:
        return tail

    terminal = BareTerminal(cast(Any, calls), "c" * 64, cast(Any, raw), written)
    return terminal, calls, raw


async def test_a_viewer_is_shown_what_was_written_and_types_in_its_own_size() -> None:
    terminal, calls, raw = made(b"before\x1b[6n\r\n")
    await terminal.write(hello(100, 30, "ada", watch=False))
    await terminal.write(frame(terminals.INPUT, b"ls\n") + frame(terminals.SIZE, b"9999999 0"))
    assert raw.written == b"ls\n"
    assert calls.asked == [("_resize", 100, 29), ("_resize", 100, 30), ("_resize", 4096, 1)]
    # What asks a terminal to answer is not shown once more.
    assert next(Frames().feed(await terminal.read())) == (terminals.OUTPUT, b"before\r\n")
    assert next(Frames().feed(await terminal.read())) == (terminals.NOTICE, docker_attach.SHARED)


async def test_one_who_watches_types_nothing_and_changes_no_size() -> None:
    terminal, calls, raw = made()
    await terminal.write(hello(100, 30, "bob", watch=True))
    await terminal.write(frame(terminals.INPUT, b"rm\n") + frame(terminals.SIZE, b"10 10"))
    assert (raw.written, calls.asked) == (b"", [])


async def test_its_state_is_told_and_a_notice_is_one_clean_line() -> None:
    terminal, calls, _ = made()
    await terminal.write(frame(terminals.ASK, b""))
    kind, body = next(Frames().feed(await terminal.read()))
    assert (kind, json.loads(body)) == (terminals.STATE, {"idle_s": 3.0, "viewers": 0})
    await terminal.write(frame(terminals.NOTICE, b"ends\x1b]0;soon\x07 in\n5m" + b"x" * 1000))
    name, text = calls.asked[-1]
    assert name == "_print"
    assert len(text) <= 300
    assert text.isprintable()


@pytest.mark.parametrize(
    "data",
    [
        frame(terminals.HELLO, b"{}"),
        frame(terminals.HELLO, b"[1]"),
        frame(terminals.HELLO, b'{"watch": false, "columns": "x", "rows": 1}'),
        frame(terminals.HELLO, b"\xff"),
        b"H\xff\xff\xff\xff",
    ],
)
async def test_what_is_malformed_ends_the_stream(data: bytes) -> None:
    terminal, _, _ = made()
    await terminal.write(data)
    assert await terminal.read() == b""


@pytest.mark.parametrize("size", [1, 3, 100])
def test_output_of_a_terminal_has_no_headers(size: int) -> None:
    text = b"$ ls\r\n\x01\x00\x00\x00\x00\x00\x00\x02ab"
    frames = Demultiplexer()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert b"".join(piece for chunk in pieces for piece in frames.feed(chunk)) == text
