"""Lines out of chunks: bounded, whole, in order."""

import asyncio

import pytest

from gpuconsole.remote.links.line_reader import HIGH_WATER, LOW_WATER, LineQueue
from gpuconsole.remote.links.ssh_process import SshSession
from gpuconsole.remote.links.wakeups import Wakeups
from tests.waiting import DEADLINE_S


def queue(limit: int = 10) -> tuple[LineQueue, list[bool]]:
    pauses: list[bool] = []
    return LineQueue(limit, pauses.append), pauses


async def drain(lines: LineQueue) -> list[bytes]:
    found = []
    while (line := await lines.next()) is not None:
        found.append(line)
    return found


async def test_lines_are_joined_across_chunks() -> None:
    lines, _ = queue()
    for chunk in (b"on", b"e\ntw", b"o\n\nlast"):
        lines.feed(chunk)
    lines.end()
    assert await drain(lines) == [b"one", b"two", b"", b"last"]


async def test_an_endless_line_comes_cut_once_and_the_next_line_is_whole() -> None:
    lines, _ = queue(limit=4)
    for _ in range(1000):
        lines.feed(b"xxxxxxxx")
    lines.feed(b"x\nnext\n")
    lines.end()
    assert await drain(lines) == [b"xxxx", b"next"]


@pytest.mark.parametrize("chunk", [b"abcdefgh\nok\n", b"abcd"])
async def test_a_long_line_in_one_chunk_is_cut(chunk: bytes) -> None:
    lines, _ = queue(limit=4)
    lines.feed(chunk)
    lines.end()
    assert (await drain(lines))[0] == b"abcd"


async def test_a_flood_pauses_the_sender_until_the_reader_has_caught_up() -> None:
    lines, pauses = queue()
    lines.feed(b"x\n" * (HIGH_WATER + 1))
    assert pauses == [True]
    for _ in range(HIGH_WATER + 2 - LOW_WATER):
        await lines.next()
    assert pauses == [True, False]


async def test_a_waiting_reader_is_woken() -> None:
    lines, _ = queue()
    reader = asyncio.ensure_future(lines.next())
    await asyncio.sleep(0)
    lines.feed(b"now\n")
    assert await reader == b"now"


async def test_readers_are_woken_together() -> None:
    wakeups = Wakeups(0.02)
    lines = [LineQueue(10, lambda paused: None, wakeups) for _ in range(3)]
    woken: list[tuple[int, bytes | None]] = []

    async def read(number: int) -> None:
        woken.append((number, await lines[number].next()))

    readers = [asyncio.ensure_future(read(number)) for number in range(3)]
    await asyncio.sleep(0)
    lines[2].feed(b"c\n")
    lines[0].feed(b"a\n")
    lines[2].feed(b"d\n")
    await asyncio.sleep(0)
    assert not woken
    await asyncio.wait({readers[0], readers[2]}, timeout=DEADLINE_S)
    assert woken == [(2, b"c"), (0, b"a")]
    assert await lines[2].next() == b"d", "what is there is not waited for"
    lines[1].end()
    await asyncio.wait_for(readers[1], DEADLINE_S)
    assert woken[2:] == [(1, None)]


async def test_a_reader_that_gave_up_holds_up_nobody() -> None:
    wakeups = Wakeups(0.01)
    one, two = (LineQueue(10, lambda paused: None, wakeups) for _ in range(2))
    gone, stays = (asyncio.ensure_future(each.next()) for each in (one, two))
    await asyncio.sleep(0)
    one.feed(b"a\n")
    two.feed(b"b\n")
    gone.cancel()
    assert await asyncio.wait_for(stays, DEADLINE_S) == b"b"
    assert await one.next() == b"a", "the line waits for the next reader"


def test_who_reads_lines_of_a_command_is_woken_with_others_and_who_reads_chunks_at_once() -> None:
    wakeups = Wakeups(1.0)
    assert SshSession("a", lines=True, wakeups=wakeups).queue._wakeups is wakeups
    assert SshSession("a", lines=False, wakeups=wakeups).queue._wakeups is None
