"""A stream in a file: whole while it is small, its newer part when it is not, gone when closed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

from gpuconsole.session.containers.service import Spool
from gpuconsole.session.logs.line_index import LogIndex


async def chunks(pieces: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
    for piece in pieces:
        yield piece


async def read(index: LogIndex) -> list[str]:
    while await index.grow():
        pass
    return [index.text(line) for line in range(len(index))]


async def test_what_comes_is_read_as_lines_and_the_file_goes() -> None:
    spool = Spool()
    await spool.fill(chunks([b"on", b"e\ntwo\x1b[2J\n"]))
    assert await read(LogIndex(spool.path)) == ["one", "two"]
    assert spool.path.stat().st_mode & 0o077 == 0
    spool.close()
    assert not spool.path.parent.exists()


async def test_the_older_part_is_dropped_at_a_line_and_the_index_begins_again() -> None:
    spool = Spool(most=1000)
    index = LogIndex(spool.path)
    await spool.fill(chunks(f"line {n:04}\n".encode() for n in range(50)))
    assert (await read(index))[0] == "line 0000"
    await spool.fill(chunks(f"line {n:04}\n".encode() for n in range(50, 200)))
    lines = await read(index)
    assert lines[-1] == "line 0199"
    assert lines == [f"line {n:04}" for n in range(200 - len(lines), 200)]
    assert 40 < len(lines) <= 100
    assert spool.path.stat().st_size <= 1000
    spool.close()


async def test_a_hundred_mebibytes_without_an_end_are_one_line_of_bounded_length() -> None:
    spool = Spool(most=8 << 20)
    await spool.fill(chunks(b"x" * (1 << 20) for _ in range(100)))
    assert spool.path.stat().st_size <= 8 << 20
    (line,) = await read(LogIndex(spool.path))
    assert len(line) <= 4096
    spool.close()
