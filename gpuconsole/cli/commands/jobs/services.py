"""Services: what is kept running, how its replicas are, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, show
from gpuconsole.cli.sessions import drive
from gpuconsole.core.jobs import Job

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@click.argument("service", required=False, shell_complete=shell_completion.jobs())
@common
def services(service: str | None) -> int:
    """List services and their replicas, or one service.

    Queue one with a task file of `type: service`; `forward` reaches it, `cancel` ends it.
    """

    async def work(session: Session) -> tuple[list[Sequence[Job]], float]:
        from gpuconsole.session.queue.commands import find_all
        from gpuconsole.session.services.replicas import services as grouped

        jobs = session.jobs()
        chosen = jobs if service is None else find_all(jobs, service, session.user)
        live = [group for group in grouped(chosen).values() if service or not _over(group)]
        return [[job for job in group if service or not job.state.ended] for group in live], (
            session.now()
        )

    listed, now = drive(work, fleet=False)
    if options().as_json:
        print_document({"services": [_document(group) for group in listed]})
        return 0
    if not listed:
        note("No service runs. Queue one with: gpuconsole submit --task FILE")
        return 0
    from gpuconsole.cli.views import fleet

    show(fleet.services(listed, now))
    return 0


def _over(group: Sequence[Job]) -> bool:
    return all(job.state.ended for job in group)


def _document(group: Sequence[Job]) -> dict[str, object]:
    from gpuconsole.session.services.replicas import is_member, wanted

    first = group[-1]
    service = first.task.service
    members = [job for job in group if is_member(job)]
    return {
        "name": first.task.sweep,
        "user": first.user,
        "port": service.port if service is not None else None,
        "wanted": wanted(members) if members else 0,
        "healthy": sum(job.is_healthy for job in group),
        "replicas": [job.as_json() for job in group],
    }
