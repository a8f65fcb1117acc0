"""`hold`: keep a job or a sweep from starting."""

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
@click.argument("job", shell_complete=shell_completion.jobs(*shell_completion.WAITING))
@common
def hold(job: str) -> int:
    """Keep a queued job or sweep from starting; release a held one."""

    async def work(session: Session) -> list[Job]:
        group = session.group(job)
        queued = [each for each in group if each.state is JobState.QUEUED]
        held = [each for each in group if each.state is JobState.HELD]
        return await session.queue.hold_all(each.id for each in queued or held or group[:1])

    tell_all(job, drive(work, fleet=False))
    return 0
