"""`logs`: the log of a job or of a container."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common
from gpuconsole.cli.sessions import drive
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
@click.option(
    "--rank",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Of a gang: the number of the host.",
)
@common
def logs(job: str, follow: bool, tail: int | None, search: str, rank: int) -> int:
    """Print the log of a job's latest attempt, or of any container.

    A job comes first where both have the name. Of a container, HOST:CONTAINER, the engine's own
    log is read, with the rights of your account there.
    """
    from gpuconsole.cli import container_logs

    async def known(session: Session) -> str:
        try:
            return session.job(job).id
        except UsageError:
            if ":" in job:
                return ""
            raise

    job_id = drive(known, fleet=False)
    if not job_id:
        return container_logs.print_log(job, follow=follow, tail=tail, search=search)

    async def work(session: Session) -> None:
        lines = session.logs(job_id, follow=follow, rank=rank)
        await container_logs.print_lines(
            lines, {"job": job_id}, follow=follow, tail=tail, search=search
        )

    drive(work, fleet=follow)
    return 0
