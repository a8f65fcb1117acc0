"""`fetch`: a job's results copied here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.core.units import MIB, format_mib
from gpuconsole.core.wording import msg

if TYPE_CHECKING:
    from gpuconsole.core.containers import ResultFile
    from gpuconsole.session.results import FetchedResults
    from gpuconsole.session.session import Session


_LEFT_OUT = 20
"""How many things that could not be copied a person sees; --json has more."""


@click.command()
@click.argument("job", shell_complete=shell_completion.jobs())
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Where the results folder is made; else here.",
)
@click.option("--list", "listing", is_flag=True, help="Only list what there is to copy.")
@common
def fetch(job: str, folder: Path, listing: bool) -> int:
    """Copy a job's results folder here."""
    if listing:
        return _list_results(job)

    target = folder.expanduser().absolute()

    async def work(session: Session) -> tuple[str, FetchedResults]:
        return session.job(job).id, await session.fetch_results(job, target)

    job_id, fetched = drive(work)
    left = fetched.left_out
    if options().as_json:
        named = [{"name": omission.name, "reason": omission.reason} for omission in left.named]
        print_document(
            {
                "job": job_id,
                "folder": str(fetched.folder),
                "left_out": named,
                "left_out_count": left.count,
            }
        )
        return 0
    print(fetched.folder)
    if left.count:
        note(msg("Left out of them: {n}", n=left.count))
    for line in left.lines(_LEFT_OUT):
        note("  " + line)
    return 0


def _list_results(reference: str) -> int:
    async def work(session: Session) -> tuple[str, tuple[ResultFile, ...]]:
        return session.job(reference).id, await session.results(reference)

    job_id, files = drive(work)
    if options().as_json:
        listed = [{"name": file.name, "size_bytes": file.size_bytes} for file in files]
        print_document({"job": job_id, "files": listed})
        return 0
    for file in files:
        print(f"{format_mib(file.size_bytes / MIB):>10}  {file.name}")
    note(msg("{n} files of {job}", n=len(files), job=job_id))
    return 0
