"""`priority`: which of the waiting jobs come first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.commands.jobs.changed import tell_all
from gpuconsole.cli.options import common
from gpuconsole.cli.output import say
from gpuconsole.cli.sessions import drive
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.wording import msg

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@click.argument("job", shell_complete=shell_completion.jobs(*shell_completion.WAITING))
@click.argument("number", type=click.IntRange(-1000, 1000))
@common
def priority(job: str, number: int) -> int:
    """Change the priority of a waiting job or sweep; higher is first.

    Write a negative number after `--`.
    """

    async def work(session: Session) -> list[Job]:
        group = session.group(job)
        waiting = (JobState.QUEUED, JobState.HELD)
        able = [each for each in group if each.state in waiting] or group[:1]
        return await session.queue.set_priority_all([each.id for each in able], number)

    said = msg("priority {n}", n=number)
    tell_all(job, drive(work, fleet=False), f", {say(said)}")
    return 0
