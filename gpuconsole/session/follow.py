"""An attempt's log as a file: the container's output from its beginning, byte for byte."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

from gpuconsole.session.entry import Entry


def log_file(state: Path, job_id: str, attempt: int, rank: int = 0) -> Path:
    """Return where an attempt's log lies; each host of a gang has its own."""
    return state / "logs" / job_id / (f"{attempt}.{rank}.log" if rank else f"{attempt}.log")


async def follow_log(path: Path, chunks: AsyncIterator[bytes]) -> None:
    """Write the chunks into `path`, which at no moment holds less than it did before.

    Every stream begins at the container's first byte, so what an earlier console had written is
    written again beside it, and takes its place once it has grown as long. A stream that ends
    before that (the link broke) changes nothing. OSError when the file cannot be written.
    """
    before = _size_in_made_folder(path)
    fresh = path.with_suffix(".log.new")
    placed = False
    with fresh.open("wb", buffering=0) as file:
        try:
            placed = _place(file, fresh, path, before)
            async for chunk in chunks:
                _write_all(file, chunk)
                placed = placed or _place(file, fresh, path, before)
        finally:
            if not placed:
                fresh.unlink(missing_ok=True)


async def follow_part(entry: Entry, path: Path, chunks: AsyncIterator[bytes]) -> None:
    """Follow a log; a disk that takes no more is told, and keeps no job from its end."""
    try:
        async with contextlib.aclosing(chunks):  # type: ignore[type-var]
            await follow_log(path, chunks)
    except OSError as error:
        entry.say(f"its log cannot be stored: {error.strerror}")


def read_tail(path: Path, size: int) -> str:
    """Return the last `size` bytes of a file as text; "" where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - size))
            return file.read(size).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _size_in_made_folder(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path.stat().st_size if path.exists() else 0


def _place(file: IO[bytes], fresh: Path, path: Path, before: int) -> bool:
    if file.tell() < before:
        return False
    os.replace(fresh, path)
    return True


def _write_all(file: IO[bytes], chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[file.write(view) :]
