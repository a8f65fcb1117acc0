"""`containers`: every container of every host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import print_document, show
from gpuconsole.cli.sessions import drive
from gpuconsole.errors import UnreachableError

if TYPE_CHECKING:
    from gpuconsole.core.engines.host_containers import HostContainers
    from gpuconsole.session.session import Session


_PICTURE_S = 5.0
"""How long frames are waited for, which say who uses which devices."""


@click.command()
@click.option(
    "--host", "hosts", multiple=True, metavar="HOST", shell_complete=shell_completion.hosts,
    help="Only those of this host; may be repeated.",
)  # fmt: skip
@click.option("-a", "--all", "stopped", is_flag=True, help="Show those that do not run too.")
@common
def containers(hosts: tuple[str, ...], stopped: bool) -> int:
    """List the containers on every host, of all users.

    What your account may see on each host, asked now. A host that cannot be asked is listed with
    the reason, and changes nothing for the others.
    """

    async def work(session: Session) -> tuple[tuple[HostContainers, ...], float]:
        await session.first_frames(_PICTURE_S, hosts[0] if len(hosts) == 1 else "")
        return await session.containers.listing(hosts, stopped=stopped), session.now()

    listings, now = drive(work, own_queue=True)
    if options().as_json:
        print_document({"hosts": [each.as_json() for each in listings]})
    else:
        from gpuconsole.cli.views import fleet

        show(*fleet.containers(listings, now))
    if hosts and all(each.error for each in listings):
        if options().as_json:
            return UnreachableError.exit_code
        raise UnreachableError("No host could be asked", listings[0].error, listings[0].hint)
    return 0
