"""Jupyter: JupyterLab on leased devices, opened and come back to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.interactive_session import (
    PICTURE_S,
    begun,
    ended_job,
    over,
    session_options,
    wanted,
)
from gpuconsole.cli.interrupts import until_interrupted
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.core.jobs import Job
from gpuconsole.core.units import format_mib
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@click.argument(
    "what", metavar="[PROJECT|NOTEBOOK|JOB]", required=False, shell_complete=shell_completion.jobs()
)
@session_options
@click.option(
    "--local-port", type=click.IntRange(1, 65535), metavar="N",
    help="Port of this machine; else 8888, or a free one.",
)  # fmt: skip
@common
def jupyter(what: str | None, local_port: int | None, **said: Any) -> int:
    """Work in JupyterLab on leased devices, or come back to it.

    As `gpuconsole shell`, but the container runs JupyterLab, with a token of its own. Its address
    on this machine is printed once it answers, and open until Ctrl-C; the session runs on. It ends
    from within (File, Shut Down), or by `gpuconsole cancel JOB`. PROJECT is a folder, a copy of
    which it works in. Of a NOTEBOOK that is its folder: what the notebook needs is printed before
    the session is queued, and the address opens it.
    """
    book = _notebook(what)
    if book is not None:
        what = str(book.parent)
    if what is not None and not Path(what).expanduser().is_dir():
        return drive(lambda session: _come_back(session, what, local_port or 0), dispatching=True)
    if what is not None:
        said["project"] = what
    asked = wanted(said)

    async def work(session: Session) -> int:
        await session.first_frames(PICTURE_S)
        if book is not None:
            note(await need_of(session, book))
        job = await session.jupyter(**asked)
        note(msg("Session {name} is {job}.", name=job.task.name, job=job.id))
        job_ = await until_interrupted(begun(session, job))
        if job_ is None:
            await session.cancel(job.id)
            note("It is cancelled.")
            return 1
        return await _use(session, job_, local_port or 0, book)

    return drive(work, dispatching=True)


def _notebook(what: str | None) -> Path | None:
    """Return the notebook that is named, None where something else is."""
    path = Path(what or "").expanduser()
    return path.absolute() if path.suffix == ".ipynb" and path.is_file() else None


async def need_of(session: Session, book: Path) -> str:
    """Say what a notebook needs on a device, by reading it; that it is not known where it is not,
    or where it cannot be read."""
    try:
        estimate = (await session.preflight(book)).estimate
    except ConsoleError as error:
        return msg("What {file} needs is not known: {why}", file=book.name, why=error.message)
    if estimate.memory is None:
        why = estimate.unknowns[0].reason if estimate.unknowns else ""
        return msg("What {file} needs is not known: {why}", file=book.name, why=why or "?")
    return msg(
        "{file} needs up to {size} on a device. More: gpuconsole preflight {path}",
        file=book.name, size=format_mib(estimate.memory.high_mib), path=book,
    )  # fmt: skip


async def _come_back(session: Session, reference: str, local_port: int) -> int:
    job = session.job(reference)
    if not job.state.ended:
        job_ = await until_interrupted(begun(session, job))
        if job_ is None:
            return 1
        job = job_
    return await _use(session, job, local_port)


async def _use(session: Session, job: Job, local_port: int, book: Path | None = None) -> int:
    """Print the address, which opens a notebook where one is named, and keep it open until Ctrl-C
    or the session's end."""
    if job.state.ended:
        raise over(session, job)
    address = await session.jupyter_address(job.id, local_port=local_port)
    if book is not None:
        address = address.replace("/lab", f"/lab/tree/{quote(book.name)}", 1)
    if options().as_json:
        print_document({"job": job.id, "name": job.task.name, "url": address})
    else:
        print(address)
        if "token=" not in address:
            note("Its token is known where it was opened; ask there.")
        note(msg("Ctrl-C closes the address, and the session runs on: gpuconsole jupyter {job}",
                 job=job.id))  # fmt: skip
    sys.stdout.flush()
    ended = await until_interrupted(ended_job(session, job))
    if ended is not None:
        note(msg("The job has ended: {state_word}.", state_word=ended.state_word))
    return 0
