"""A log's file holds the container's output byte for byte, and never shrinks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gpuconsole.core.containers import LogTail
from gpuconsole.session.logs.follow import (
    CopyMark,
    complete_log,
    follow_log,
    is_being_copied,
    log_file,
)
from gpuconsole.session.logs.tail import LINE_LIMIT, LineReader, tail


async def stream(*chunks: bytes, look: Callable[[], None] = lambda: None) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
        look()


async def test_bytes_are_written_as_they_come(tmp_path: Path) -> None:
    path = log_file(tmp_path, "job", 1)
    seen: list[bytes] = []
    raw = b"a\r\n\x1b[0m\x00\xff"
    await follow_log(path, stream(raw, b"b", look=lambda: seen.append(path.read_bytes())))
    assert seen == [raw, raw + b"b"]
    assert [file.name for file in path.parent.iterdir()] == ["1.log"]


async def test_adoption_rewrites_without_ever_showing_less(tmp_path: Path) -> None:
    path = log_file(tmp_path, "job", 1)
    await follow_log(path, stream(b"one two "))
    seen: list[bytes] = []
    await follow_log(
        path,
        stream(b"one ", b"two ", b"three", look=lambda: seen.append(path.read_bytes())),
    )
    assert seen == [b"one two ", b"one two ", b"one two three"]


async def test_a_stream_that_breaks_off_early_loses_nothing(tmp_path: Path) -> None:
    path = log_file(tmp_path, "job", 1)
    await follow_log(path, stream(b"one two "))

    async def broken() -> AsyncIterator[bytes]:
        yield b"one"
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await follow_log(path, broken())
    await follow_log(path, stream(b"one"))
    assert path.read_bytes() == b"one two "
    assert [file.name for file in path.parent.iterdir()] == ["1.log"]


LONG = b"".join(b"line %06d\n" % number for number in range(60_000))
"""A log of which a tail is a part."""
TAIL = LogTail(LONG[-(256 << 10) :], whole=False)


@pytest.mark.parametrize("ending", ["cancelled", "grown"])
async def test_of_two_copies_of_a_log_the_later_goes_on(tmp_path: Path, ending: str) -> None:
    """A console that has lost the role without knowing it yet takes nothing from its heir."""
    path = log_file(tmp_path, "job", 1)
    await follow_log(path, stream(b"0123456789"))
    began, go = [asyncio.Event(), asyncio.Event()], [asyncio.Event(), asyncio.Event()]

    async def copied(place: int, *rest: bytes) -> AsyncIterator[bytes]:
        yield b"01"
        began[place].set()
        await go[place].wait()
        for chunk in rest:
            yield chunk

    copies = []
    for place, rest in enumerate(([b"23456789"], [b"23456789", b"abc"])):
        copies.append(asyncio.ensure_future(follow_log(path, copied(place, *rest))))
        await began[place].wait()
    go[0].set() if ending == "grown" else copies[0].cancel()
    with pytest.raises((asyncio.CancelledError, FileExistsError)):
        await copies[0]
    assert path.read_bytes() == b"0123456789"
    go[1].set()
    await copies[1]
    assert path.read_bytes() == b"0123456789abc"
    assert [file.name for file in path.parent.iterdir()] == ["1.log"]


@pytest.mark.parametrize("lacking", [0, 1, 4000, 100_000])
def test_what_only_the_tail_has_is_added(tmp_path: Path, lacking: int) -> None:
    path = tmp_path / "1.log"
    path.write_bytes(LONG[: len(LONG) - lacking])
    assert complete_log(path, TAIL)
    assert path.read_bytes() == LONG


@pytest.mark.parametrize("held", [b"", LONG[:5000], LONG[: len(LONG) // 2]])
def test_a_copy_that_is_far_behind_is_left_to_be_read_again(tmp_path: Path, held: bytes) -> None:
    path = tmp_path / "1.log"
    path.write_bytes(held)
    assert not complete_log(path, TAIL)
    assert path.read_bytes() == held


def test_a_log_that_repeats_itself_is_not_completed_by_a_guess(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_bytes(b"loss nan\n" * 50_000)
    assert not complete_log(path, LogTail(b"loss nan\n" * 30_000, whole=False))
    assert path.stat().st_size == 450_000


def test_a_tail_that_is_all_replaces_what_is_shorter_only(tmp_path: Path) -> None:
    path = log_file(tmp_path, "job", 1)
    assert complete_log(path, LogTail(b"one\ntwo\n", whole=True))
    assert path.read_bytes() == b"one\ntwo\n"
    # The engine has dropped the oldest lines.
    assert complete_log(path, LogTail(b"two\n", whole=True))
    assert path.read_bytes() == b"one\ntwo\n"
    assert [file.name for file in path.parent.iterdir()] == ["1.log"]


def test_a_copy_is_seen_while_its_process_lives(tmp_path: Path) -> None:
    path = log_file(tmp_path, "job", 1)
    assert not is_being_copied(path)
    mark = CopyMark(path)
    assert is_being_copied(path)
    mark.remove()
    assert not is_being_copied(path)
    # What a process that was killed left behind says nothing.
    path.with_suffix(".copying").touch()
    assert not is_being_copied(path)


def test_lines_are_cleaned_and_bounded() -> None:
    reader = LineReader()
    assert reader.feed(b"a\nb\x1b[31mc\nd") == ["a", "bc"]
    assert reader.feed(b"e\n") == ["de"]
    for _ in range(160):
        assert reader.feed(b"x" * 65536) == []
    (line,) = reader.feed(b"\nnext\n")[:1]
    assert len(line) == LINE_LIMIT
    assert line.endswith("…")
    assert reader.rest() == []


async def test_tailing_goes_on_through_a_replacement_and_to_the_next_attempt(
    tmp_path: Path,
) -> None:
    paths = [tmp_path / "1.log", tmp_path / "2.log"]
    steps = [
        lambda: paths[0].write_bytes(b"one\ntw"),
        lambda: (tmp_path / "new").write_bytes(b"one\ntwo\nthree\n"),
        lambda: (tmp_path / "new").rename(paths[0]),
        lambda: paths[1].write_bytes(b"again"),
    ]
    done = 0

    async def pause() -> None:
        nonlocal done
        steps[done]()
        done += 1

    lines = [
        line
        async for line in tail(
            lambda: paths[0] if done < 4 else paths[1], lambda: done == len(steps), pause
        )
    ]
    assert lines == ["one", "two", "three", "again"]
