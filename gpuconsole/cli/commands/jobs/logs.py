"""`logs`: the log of a job or of a container."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options, rank_option
from gpuconsole.cli.output import print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.core.engines.host_containers import split_reference
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@click.argument("job", metavar="JOB|HOST:CONTAINER", shell_complete=shell_completion.jobs())
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the job ends.")
@click.option("-n", "--tail", type=click.IntRange(min=0), metavar="N", help="Last N lines only.")
@click.option(
    "--search", default="", metavar="TEXT", help="Only lines that contain TEXT; `a|b` is either."
)
@rank_option
@common
def logs(job: str, follow: bool, tail: int | None, search: str, rank: int) -> int:
    """Print the log of a job's latest attempt, or of any container.

    A job comes first where both have the name. Of a container, HOST:CONTAINER, the engine's own
    log is read, with the rights of your account there.
    """

    async def known(session: Session) -> str:
        try:
            return session.job(job).id
        except UsageError:
            if ":" in job:
                return ""
            raise

    job_id = drive(known, fleet=False)
    if not job_id:
        return print_log(job, follow=follow, tail=tail, search=search)

    async def work(session: Session) -> None:
        lines = session.logs(job_id, follow=follow, rank=rank)
        await print_lines(lines, {"job": job_id}, follow=follow, tail=tail, search=search)

    drive(work, fleet=follow)
    return 0


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
