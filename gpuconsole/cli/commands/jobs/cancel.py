"""`cancel`: end a job or a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.commands.jobs.changed import tell_all
from gpuconsole.cli.options import common
from gpuconsole.cli.sessions import drive
from gpuconsole.core.jobs import Job

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@click.argument("job", shell_complete=shell_completion.jobs(*shell_completion.LIVE))
@common
def cancel(job: str) -> int:
    """End a job or a sweep: SIGTERM, a grace time, SIGKILL.

    A waiting job only leaves the queue.
    """

    async def work(session: Session) -> list[Job]:
        group = session.group(job)
        # Of a sweep, what has ended stays; one job that has ended is a mistake worth telling.
        left = [each for each in group if not each.state.ended] or group
        return await session.queue.cancel_all(each.id for each in left)

    tell_all(job, drive(work))
    return 0
