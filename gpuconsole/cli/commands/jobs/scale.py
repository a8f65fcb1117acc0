"""Scale: how many replicas a service has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.core.jobs import Job
from gpuconsole.core.wording import msg

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@click.argument("service", shell_complete=shell_completion.jobs())
@click.argument("replicas", type=click.IntRange(1, 64))
@common
def scale(service: str, replicas: int) -> int:
    """Change the number of a service's replicas.

    Further ones are queued; those that are too many get no new connections and are stopped once
    the old ones have ended.
    """

    async def work(session: Session) -> tuple[Job, ...]:
        return await session.scale(service, replicas)

    jobs = drive(work, fleet=False)
    if options().as_json:
        print_document({"service": service, "replicas": replicas})
    else:
        words = "{name}: {n} replicas wanted, {all} exist now."
        note(msg(words, name=jobs[0].task.sweep, n=replicas, all=len(jobs)))
    return 0
