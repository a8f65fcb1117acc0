"""`preempt`: stop a job that resumes from its checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.commands.jobs.changed import tell
from gpuconsole.cli.options import common
from gpuconsole.cli.sessions import drive
from gpuconsole.core.jobs import Job

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@click.argument("job", shell_complete=shell_completion.jobs("running"))
@common
def preempt(job: str) -> int:
    """Stop a running job; it resumes later from its checkpoint."""

    async def work(session: Session) -> Job:
        return await session.queue.preempt(job)

    tell(drive(work))
    return 0
