"""A log's file holds the container's output byte for byte, and never shrinks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gpuconsole.session.follow import follow_log, log_file, read_tail
from gpuconsole.session.tail import LINE_LIMIT, LineReader, tail


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


def test_a_tail_is_text_whatever_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    assert read_tail(path, 10) == ""
    path.write_bytes(b"0123456789abc\xff")
    assert read_tail(path, 4) == "abc�"


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
