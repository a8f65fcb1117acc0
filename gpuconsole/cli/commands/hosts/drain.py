"""Hosts on which nothing new may start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, tell
from gpuconsole.cli.sessions import drive
from gpuconsole.core.wording import msg

if TYPE_CHECKING:
    from gpuconsole.session.session import Session
    from gpuconsole.state import Drain


@click.command()
@click.argument("host", shell_complete=shell_completion.hosts)
@click.option("--reason", default="", metavar="TEXT", help="The reason that `why` and lists show.")
@common
def drain(host: str, reason: str) -> int:
    """Let no new job start on a host; running jobs continue.

    It applies to every console of this queue, until `gpuconsole undrain`.
    """

    async def work(session: Session) -> tuple[Drain | None, list[str]]:
        before = await session.drains.drain(host, reason, session.user)
        return before, [
            job.id
            for job in session.jobs()
            if job.state.active and job.attempt and host in {p.host for p in job.attempt.parts}
        ]

    before, running = drive(work)
    if options().as_json:
        reason_now = reason or (before.reason if before is not None else "")
        print_document({"host": host, "drained": True, "reason": reason_now, "running": running})
        return 0
    tell(msg("{host} takes no new jobs.", host=host) if before is None else _again(before, reason))
    if running:
        note(msg("Still there: {jobs}", jobs=", ".join(running)))
    return 0


def _again(before: Drain, reason: str) -> str:
    """Say what became of a reason that was given before."""
    if reason:
        end = "that is replaced by the reason given now"
    else:
        end = "that reason is kept" if before.reason else "no reason is given"
    return msg(
        "{host} was drained already ({before_text}): {end_text}.",
        host=before.host, before_text=before.text, end_text=end,
    )  # fmt: skip


@click.command()
@click.argument("host", shell_complete=shell_completion.hosts)
@common
def undrain(host: str) -> int:
    """Let jobs start on a drained host, or one set aside, again."""

    async def work(session: Session) -> None:
        await session.drains.undrain(host)

    drive(work)
    if options().as_json:
        print_document({"host": host, "drained": False})
    else:
        tell(msg("{host} takes jobs again.", host=host))
    return 0
