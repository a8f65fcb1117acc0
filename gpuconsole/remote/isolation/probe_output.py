"""Lines of what a measured process writes: in bounds, and never at the cost of other tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a measured process may write. Progress is a few hundred short lines."""

    line_bytes: int = 32 * 2**20
    """The longest line: a recording is one."""
    all_bytes: int = 64 * 2**20
    lines: int = 20_000


BOUNDS = Bounds()


async def lines(
    chunks: AsyncIterator[bytes], bounds: Bounds = BOUNDS
) -> AsyncGenerator[bytes, None]:
    """Give the lines in chunks of bytes, without their ends. RefusedError beyond the bounds."""
    pieces: list[bytes] = []
    size = whole = count = 0
    async for chunk in chunks:
        # What has come already is read without waiting: others have their turn here.
        await asyncio.sleep(0)
        head, *more = chunk.split(b"\n")
        pieces.append(head)
        size += len(head)
        whole += len(chunk)
        count += len(more)
        _check(max(size, max(map(len, more), default=0)), whole, count, bounds)
        for start in more:
            yield b"".join(pieces)
            pieces, size = [start], len(start)
    if any(pieces):
        yield b"".join(pieces)


def _check(size: int, whole: int, count: int, bounds: Bounds) -> None:
    if size > bounds.line_bytes:
        words = f"a line of more than {bounds.line_bytes // 2**20} MiB"
    elif whole > bounds.all_bytes:
        words = f"more than {bounds.all_bytes // 2**20} MiB"
    elif count > bounds.lines:
        words = f"more than {bounds.lines} lines"
    else:
        return
    raise RefusedError(
        "The measurement broke off",
        msg("The measured process wrote {words}.", words=words),
        "The static tier answers without running the script.",
    )
