"""Lines of a log printed: all, the last, or those that hold some words; of a job or a container."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

from gpuconsole.cli.options import options
from gpuconsole.cli.output import print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.core.engines.host_containers import split_reference

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


async def print_lines(
    lines: AsyncIterator[str],
    about: Mapping[str, object],
    *,
    follow: bool,
    tail: int | None,
    search: str,
) -> None:
    """Print lines as they come; the last `tail` only where nothing is followed. With --json they
    go into one document that also says what `about` does."""
    from gpuconsole.session.logs.search import Search

    pattern = Search(search).pattern if search else None
    matching = (line async for line in lines if pattern is None or pattern.search(line))
    if options().as_json:
        last_lines = deque([line async for line in matching], maxlen=tail)
        print_document({**about, "lines": list(last_lines)})
        return
    if tail is not None and not follow:
        for line in deque([line async for line in matching], maxlen=tail):
            print(line)
        return
    async for line in matching:
        print(line, flush=follow)


def print_log(reference: str, *, follow: bool, tail: int | None, search: str) -> int:
    """Print the log of a container, `HOST:CONTAINER`; only its host is contacted."""
    host, wanted = split_reference(reference)

    async def work(session: Session) -> None:
        container = await session.containers.find(host, wanted)
        # Of what is searched the last lines are those that match: all have to be read.
        asked = None if search else tail
        log = session.containers.log_lines(container, follow=follow, tail=asked)
        async with aclosing(log) as lines:
            about = {"host": host, "container": container.name, "id": container.id}
            await print_lines(lines, about, follow=follow, tail=tail, search=search)

    drive(work, links=False, own_queue=True)
    return 0
