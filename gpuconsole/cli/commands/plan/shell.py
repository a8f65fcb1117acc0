"""Shell: a terminal on leased devices, opened, left and come back to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from gpuconsole.cli.output import error_text, note, print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, RefusedError, UnreachableError, UsageError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

_AGAIN_S = 2.0
"""Rest before a terminal that was lost is looked for again."""


@click.command()
@click.argument(
    "what", metavar="[PROJECT|JOB]", required=False, shell_complete=shell_completion.jobs()
)
@session_options
@click.option("--watch", is_flag=True, help="Look at JOB's terminal, and do not type.")
@click.option("--detach", is_flag=True, help="Open it, print its id, and do not attach.")
@common
def shell(what: str | None, watch: bool, detach: bool, **said: Any) -> int:
    """Work in a shell on leased devices, or come back to it.

    A session is a job: it waits for its devices, runs in a container, and holds them until its
    shell ends (`exit`, Ctrl-D) or it is cancelled. PROJECT is a folder, a copy of which it works
    in. Ctrl-P Ctrl-Q leaves it running; `gpuconsole shell JOB` comes back, from any machine. If
    several look at it, the last to come types. A connection that is lost is made again.
    """
    _require_terminal(detach=detach)
    if what is not None and not Path(what).expanduser().is_dir():
        return drive(lambda session: _come_back(session, what, watch=watch), dispatching=True)
    if watch:
        raise UsageError("Nothing to watch", "--watch is for a session's JOB.", "Name the job.")
    if what is not None:
        said["project"] = what
    asked = wanted(said)

    async def work(session: Session) -> int:
        await session.first_frames(PICTURE_S)
        job = await session.shell(**asked)
        return _print(job, session) if detach else await _opened(session, job)

    return drive(work, dispatching=not detach)


def _require_terminal(*, detach: bool) -> None:
    from gpuconsole.local_terminal import Ends

    if not detach and not Ends().are_terminal:
        raise UsageError(
            "No terminal",
            "A shell needs a terminal to be typed in and shown on.",
            "Without one: --detach opens it; `gpuconsole submit` runs a script.",
        )


def _print(job: Job, session: Session) -> int:
    if options().as_json:
        print_document({"job": job.id, "name": job.task.name, "state": job.state.value})
    else:
        print(job.id)
        note(msg("Come back to it with: gpuconsole shell {job}", job=job.id))
        if not session.dispatcher:
            note("No console starts jobs now: run `gpuconsole dispatch`, or leave one open.")
    return 0


async def _opened(session: Session, job: Job) -> int:
    """Wait for a new session's place, then use it; Ctrl-C before that takes it back."""
    note(msg("Session {name} is {job}.", name=job.task.name, job=job.id))
    job_ = await until_interrupted(begun(session, job))
    if job_ is None:
        await session.cancel(job.id)
        note("It is cancelled.")
        return 1
    return await _use(session, job_, watch=False)


async def _come_back(session: Session, reference: str, *, watch: bool) -> int:
    from gpuconsole.session.interactive.shells import require_session

    job = session.job(reference)
    require_session(job)
    if not job.state.ended:
        job_ = await until_interrupted(begun(session, job))
        if job_ is None:
            return 1
        job = job_
    return await _use(session, job, watch=watch)


async def _use(session: Session, job: Job, *, watch: bool) -> int:
    """Attach until the shell ends or is left; a connection that is lost is made again."""
    if job.state.ended:
        raise over(session, job)
    note("Ctrl-P Ctrl-Q leaves it running, `exit` ends it.")
    was_lost = False
    while True:
        try:
            left, lost = await _converse(session, job, watch=watch)
        except (UnreachableError, RefusedError) as error:
            # Just after it was lost it may be out of sight once more, and cannot be attached to.
            if isinstance(error, RefusedError) and not was_lost:
                raise
            note(error_text(error))
            left, lost = False, True
        if left:
            note(msg("It runs on. Come back to it with: gpuconsole shell {job}", job=job.id))
            return 0
        if not lost:
            # Its devices are given back while somebody dispatches, as this command does.
            await until_interrupted(ended_job(session, job))
            return 0
        was_lost = True
        note("The connection is lost; the session runs on. Trying again; Ctrl-C leaves it.")
        back = await until_interrupted(_back(session, job))
        if back is None:
            return 0
        if back.state.ended:
            raise over(session, back)
        job = back


async def _converse(session: Session, job: Job, *, watch: bool) -> tuple[bool, bool]:
    """Attach once; return whether it was left, and whether the way to it broke."""
    from gpuconsole.local_terminal import Ends, converse

    ends = Ends()
    terminal = await session.attach(job.id, *ends.size, watch=watch)
    try:
        left = await converse(terminal, terminal=True, ends=ends)
        return left, terminal.lost and not left
    finally:
        await terminal.close()


async def _back(session: Session, job: Job) -> Job:
    """Return the session once it can be reached again, or has ended."""
    while True:
        await asyncio.sleep(_AGAIN_S)
        job = session.job(job.id)
        if job.state.ended:
            return job
        if job.state is JobState.RUNNING:
            try:
                probe = await session.attach(job.id, watch=True)
            except ConsoleError:
                continue
            await probe.close()
            return job
