"""`jobs`: the queue, or one job, or the jobs of one sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, show
from gpuconsole.cli.sessions import drive
from gpuconsole.core.jobs import Job
from gpuconsole.core.wording import msg

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


_RECENT = 20
"""How many ended jobs a person sees without --all."""


@click.command()
@click.argument("job", required=False, shell_complete=shell_completion.jobs())
@click.option("--all", "show_all", is_flag=True, help="Show every ended job too.")
@common
def jobs(job: str | None, show_all: bool) -> int:
    """List the queue, or one job, or the jobs of one sweep.

    What waits, what runs, and what ended lately.
    """

    async def work(session: Session) -> tuple[tuple[Job, ...], float]:
        return session.jobs() if job is None else session.group(job), session.now()

    listed, now = drive(work, fleet=False)
    if options().as_json:
        print_document({"jobs": [job_.as_json() for job_ in listed]})
        return 0
    if not listed:
        note("The queue is empty. Queue a script with: gpuconsole submit SCRIPT")
        return 0
    from gpuconsole.cli.views import fleet

    ended = [each for each in listed if each.state.ended]
    hidden = set() if show_all or job is not None else {each.id for each in ended[:-_RECENT]}
    show(fleet.jobs([each for each in listed if each.id not in hidden], now))
    if hidden:
        note(msg("{n} older jobs are not shown; see them with --all.", n=len(hidden)))
    return 0
