"""Logs of any length by their lines: growing, torn, cut short, replaced, merged, searched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuconsole.session.logs.line_index import LINE_BYTES, Lines, LogIndex
from gpuconsole.session.logs.merge import MergedLog
from gpuconsole.session.logs.search import BLOCK, Search
from gpuconsole.session.logs.tail import LINE_LIMIT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "1.log"


async def read(log: Lines) -> list[str]:
    while await log.grow():
        pass
    # A rank that has fallen silent shows its last words at the next look.
    await log.grow()
    return [log.text(line) for line in range(len(log))]


async def searched(words: str, log: Lines, search: Search | None = None) -> list[int]:
    search = search or Search(words)
    while await search.go_on(log):
        pass
    return list(search.matches)


async def test_a_file_that_comes_later_is_read_as_it_grows(path: Path) -> None:
    log = LogIndex(path)
    assert await read(log) == []
    with path.open("ab", buffering=0) as file:
        file.write(b"one\ntwo\nthr")
        assert await read(log) == ["one", "two", "thr"]
        assert (len(log), log.whole) == (3, 2)
        file.write(b"ee\n")
        assert await read(log) == ["one", "two", "three"]
        assert (len(log), log.whole) == (3, 3)
        assert not await log.grow()
        file.write(b"\n\nlast")
        assert await read(log) == ["one", "two", "three", "", "", "last"]
    assert log.epoch == 0


async def test_small_chunks_find_the_same_lines(path: Path) -> None:
    path.write_bytes("".join(f"line {at} 数据\n" for at in range(500)).encode() + b"end")
    assert await read(LogIndex(path, chunk=7)) == await read(LogIndex(path))


async def test_a_letter_torn_at_the_end_waits_for_its_rest(path: Path) -> None:
    log = LogIndex(path)
    whole = "数据".encode()
    path.write_bytes(whole[:4])
    assert await read(log) == ["数"]
    path.write_bytes(whole)
    assert await read(log) == ["数据"]
    path.write_bytes(whole[:4] + b"\n")
    assert await read(log) == ["数\ufffd"], "a whole line has no rest to wait for"


async def test_a_log_that_was_cut_short_or_replaced_begins_anew(path: Path) -> None:
    log = LogIndex(path)
    path.write_bytes(b"a\n" * 100)
    await read(log)
    path.write_bytes(b"b\n")
    assert await read(log) == ["b"]
    assert log.epoch == 1
    other = path.with_suffix(".new")
    other.write_bytes(b"another\nlonger\n")
    os.replace(other, path)
    assert await read(log) == ["another", "longer"]
    assert log.epoch == 2
    path.unlink()
    assert await read(log) == []
    assert log.epoch == 3


@pytest.mark.parametrize("rest", [b"other\n", b"another, and more of it\n", b"first\n" * 2])
async def test_a_log_replaced_by_one_with_an_equal_beginning_begins_anew(
    path: Path, rest: bytes
) -> None:
    log, head = LogIndex(path), b"Loading the data set\n" * 10
    path.write_bytes(head + b"epoch 1\nfirst\n")
    assert (await read(log))[10:] == ["epoch 1", "first"]
    other = path.with_suffix(".new")
    other.write_bytes(head + b"epoch 2\n" + rest)
    os.replace(other, path)
    assert (await read(log))[10:] == ["epoch 2", *rest.decode().splitlines()]
    assert log.epoch == 1


async def test_a_copy_that_goes_on_is_read_on(path: Path) -> None:
    log = LogIndex(path)
    path.write_bytes(b"a\nb\n")
    await read(log)
    other = path.with_suffix(".new")
    other.write_bytes(b"a\nb\nc\n")
    os.replace(other, path)
    assert await read(log) == ["a", "b", "c"]
    assert log.epoch == 0


async def test_long_and_overwritten_lines_are_cut(path: Path) -> None:
    bar = b"".join(b"\r%d%%" % at for at in range(101)) * 500
    path.write_bytes(b"y" * (LINE_BYTES * 3) + b"\n" + bar + b"\n" + bar)
    log = LogIndex(path)
    first, second, third = await read(log)
    assert first == "y" * (LINE_LIMIT - 1) + "…"
    assert second == third == "100%"
    assert (
        all(len(raw) <= LINE_BYTES for raw in log.reader(0, 3)()) or path.stat().st_size < 1 << 22
    )


async def test_hostile_bytes_are_harmless(path: Path) -> None:
    path.write_bytes(b"\x1b]0;owned\x07[red]boo[/red]\x1b[2J\xff\n\x00\xe2\x80\xaeevil\r\n")
    assert await read(LogIndex(path)) == ["[red]boo[/red]\ufffd", "evil"]


async def test_a_folder_in_its_place_is_told(path: Path) -> None:
    path.mkdir()
    log = LogIndex(path)
    assert await read(log) == []
    assert "cannot be read" in log.trouble


async def test_words_are_found_with_no_regard_to_capitals(path: Path) -> None:
    path.write_bytes(b"one\nTwo WARN\n\x1b[31mer\x1b[0mror: x\n12%\rwarn\rdone\na.b\n")
    log = LogIndex(path)
    await read(log)
    assert await searched("warn", log) == [1], "what was written over is not shown"
    assert await searched("WARN|error", log) == [1, 2]
    assert await searched(".", log) == [4], "a full stop is one"
    assert await searched("|", log) == []


async def test_a_search_goes_on_with_the_log(path: Path) -> None:
    log, search = LogIndex(path), Search("needle")
    with path.open("ab", buffering=0) as file:
        file.write(b"x\nneedle\nnee")
        await read(log)
        assert await searched("", log, search) == [1]
        file.write(b"dle")
        await read(log)
        assert await searched("", log, search) == [1, 2]
        file.write(b"work\n" + b"x\n" * (2 * BLOCK) + b"needle\n")
        await read(log)
        assert await searched("", log, search) == [1, 2, 2 * BLOCK + 3]
    path.write_bytes(b"needle\n")
    await read(log)
    assert await searched("", log, search) == [0]


async def test_matches_are_gone_through_both_ways_and_around(path: Path) -> None:
    path.write_bytes(b"".join(b"needle\n" if at % 10 == 5 else b"x\n" for at in range(30)))
    log, search = LogIndex(path), Search("needle")
    assert search.after(0) is None
    assert search.before(0) is None
    await read(log)
    assert await searched("", log, search) == [5, 15, 25]
    assert [search.after(at) for at in (0, 5, 6, 26)] == [5, 5, 15, 5]
    assert [search.before(at) for at in (0, 5, 6, 30)] == [25, 25, 5, 25]
    assert [search.place(at) for at in (5, 6, 25)] == [1, 0, 3]


async def test_ranks_are_merged_by_arrival(tmp_path: Path) -> None:
    paths = [tmp_path / "1.log", tmp_path / "1.1.log"]
    paths[0].write_bytes(b"a1\na2\na3\na4\n")
    paths[1].write_bytes(b"b1\nb2\n")
    log = MergedLog(paths)
    assert await read(log) == ["a1", "b1", "a2", "a3", "b2", "a4"]
    with paths[1].open("ab") as file:
        file.write(b"b3\n")
    assert (await read(log))[6:] == ["b3"]
    with paths[0].open("ab") as file:
        file.write(b"a5\n")
    assert (await read(log))[6:] == ["b3", "a5"]
    assert [log.prefix(line) for line in range(8)] == [
        "r0",
        "r1",
        "r0",
        "r0",
        "r1",
        "r0",
        "r1",
        "r0",
    ]
    assert await searched("b", log) == [1, 4, 6]
    assert [raw.strip() for raw in log.reader(2, 8)()] == [b"a2", b"a3", b"b2", b"a4", b"b3", b"a5"]


async def test_a_rank_that_fell_silent_shows_its_last_words(tmp_path: Path) -> None:
    paths = [tmp_path / "1.log", tmp_path / "1.1.log"]
    paths[0].write_bytes(b"a1\nKilled")
    log = MergedLog(paths)
    assert await read(log) == ["a1", "Killed"]
    paths[0].write_bytes(b"again\n")
    assert await read(log) == ["again"]
    assert log.epoch == 1
