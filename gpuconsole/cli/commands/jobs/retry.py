"""`retry`: queue an ended job again."""

from __future__ import annotations

from pathlib import Path
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
@click.argument("job", shell_complete=shell_completion.jobs("unknown", *shell_completion.ENDED))
@click.option(
    "--env-file", type=click.Path(dir_okay=False, path_type=Path), multiple=True, metavar="FILE",
    help="Its secret variables, which are removed when a job ends.",
)  # fmt: skip
@common
def retry(job: str, env_file: tuple[Path, ...]) -> int:
    """Queue an ended job again, or what did not succeed of a sweep."""
    from gpuconsole.cli.tasks import secrets_in

    secrets = secrets_in(env_file)

    async def lost(session: Session) -> bool:
        return any(each.state is JobState.UNKNOWN for each in session.group(job))

    async def work(session: Session) -> list[Job]:
        group = session.group(job)
        bad = [each for each in group if each.state.ended and each.state is not JobState.SUCCEEDED]
        return [await session.queue.retry(each.id, secrets=secrets) for each in bad or group[:1]]

    # Only the inventory tells that a host is gone for good.
    tell_all(job, drive(work, fleet=drive(lost, fleet=False)))
    return 0
