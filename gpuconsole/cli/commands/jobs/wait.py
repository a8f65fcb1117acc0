"""`wait`: the end of a job or a sweep, awaited."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.commands.jobs.changed import line, tell_all
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note
from gpuconsole.cli.sessions import drive
from gpuconsole.core.jobs import Job, JobState

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@click.argument("job", shell_complete=shell_completion.jobs(*shell_completion.LIVE))
@common
def wait(job: str) -> int:
    """Wait for the end of a job or a sweep; exit 0 if all succeeded."""

    async def work(session: Session) -> list[Job]:
        group = session.group(job)
        for each in group:
            if not each.state.ended and not options().as_json:
                note(line(each))
        return list(await asyncio.gather(*(session.wait(each.id) for each in group)))

    ended = drive(work)
    tell_all(job, ended)
    return 0 if all(each.state is JobState.SUCCEEDED for each in ended) else 1
