"""What was asked of the lab's queue, by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, show
from gpuconsole.cli.sessions import drive

if TYPE_CHECKING:
    from gpuconsole.core.lab_service.audit import Act
    from gpuconsole.session.session import Session


@click.command()
@click.option(
    "-n", "--limit", type=click.IntRange(1, 10_000), default=50, metavar="N", show_default=True,
    help="The latest N requests.",
)  # fmt: skip
@click.option(
    "--own", is_flag=True, help="Those of your own queue, though the inventory names the lab's."
)
@common
def audit(limit: int, own: bool) -> int:
    """Show the requests to the lab's queue, also those refused.

    Operators see all requests, other users their own. A queue of one's own records the commands
    that were run in containers: `gpuconsole exec`.
    """

    async def work(session: Session) -> tuple[tuple[Act, ...], float]:
        return await session.audit(limit), session.now()

    listed, now = drive(work, fleet=False, own_queue=own)
    if options().as_json:
        print_document({"acts": [act.as_json() for act in listed]})
        return 0
    if not listed:
        note("There are no entries.")
        return 0
    from gpuconsole.cli.views import fleet

    show(fleet.acts(listed, now))
    return 0
