"""`status`: the hosts and their devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import print_document, show
from gpuconsole.cli.sessions import drive
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.session.export.status import status_document

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


_PICTURE_WAIT_S = 5.0


@click.command()
@common
def status() -> int:
    """Show one picture of the fleet."""

    async def work(session: Session) -> tuple[FleetSnapshot, float]:
        return await session.first_frames(_PICTURE_WAIT_S), session.now()

    snapshot, now = drive(work)
    if options().as_json:
        print_document(status_document(snapshot, now))
    else:
        from gpuconsole.cli.views import fleet

        show(*fleet.fleet(snapshot, now))
    return 0
