"""`release`: let a held job or sweep start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.commands.jobs.changed import tell_all
from gpuconsole.cli.options import common
from gpuconsole.cli.sessions import drive
from gpuconsole.core.jobs import Job, JobState

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@click.argument("job", shell_complete=shell_completion.jobs("held"))
@common
def release(job: str) -> int:
    """Release a held job, or those of a sweep, into the queue."""

    async def work(session: Session) -> list[Job]:
        group = session.group(job)
        held = [each for each in group if each.state is JobState.HELD] or group[:1]
        return await session.queue.release_all(each.id for each in held)

    tell_all(job, drive(work, fleet=False))
    return 0
