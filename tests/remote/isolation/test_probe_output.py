"""Lines of a measured process, in bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gpuconsole.errors import RefusedError
from gpuconsole.remote.isolation.probe_output import Bounds, lines


async def given(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def read(*chunks: bytes, bounds: Bounds | None = None) -> list[bytes]:
    return [line async for line in lines(given(*chunks), bounds or Bounds())]


async def test_lines_are_put_together_from_any_pieces() -> None:
    assert await read(b"on", b"e\ntw", b"", b"o\n\nrest") == [b"one", b"two", b"", b"rest"]


async def test_a_line_without_an_end_is_not_held_for_ever() -> None:
    bounds = Bounds(line_bytes=1000)
    found = await read(b"x" * 600, b"x" * 400 + b"\n", b"y" * 1000, bounds=bounds)
    assert [len(line) for line in found] == [1000, 1000]
    with pytest.raises(RefusedError, match="a line of more"):
        await read(b"x" * 600, b"x" * 401, bounds=bounds)
    with pytest.raises(RefusedError, match="a line of more"):
        await read(b"\n" + b"x" * 1001 + b"\n", bounds=bounds)


async def test_neither_many_lines_nor_much_in_all_is_read_on() -> None:
    assert len(await read(b"\n" * 10, bounds=Bounds(lines=10))) == 10
    with pytest.raises(RefusedError, match="more than 10 lines"):
        await read(b"\n" * 5, b"\n" * 6, bounds=Bounds(lines=10))
    with pytest.raises(RefusedError, match="more than 1 MiB"):
        await read(*[b"x" * 2**19 + b"\n"] * 3, bounds=Bounds(all_bytes=2**20))


async def test_others_have_their_turn_between_what_has_come_already() -> None:
    turns: list[str] = []

    async def other() -> None:
        turns.append("other")

    work = asyncio.ensure_future(other())
    turns += [line.decode() async for line in lines(given(b"one\n", b"two\n"))]
    await work
    assert turns == ["other", "one", "two"]
