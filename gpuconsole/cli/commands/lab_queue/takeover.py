"""Taking the lab's queue over from a head that is gone."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.core.wording import msg
from gpuconsole.errors import UnreachableError

if TYPE_CHECKING:
    from gpuconsole.session.lab_service.protocol import HeadState

LEAD_WITHIN_S = 60.0
"""How long the head here may take to serve once the hosts have given it the lead."""
_LOOK_S = 0.2


@click.command()
@click.option(
    "--force", is_flag=True,
    help="Take over with an old copy: only if the other head is certainly off.",
)  # fmt: skip
@click.option(
    "--socket", "path", type=click.Path(path_type=Path), metavar="PATH",
    help="The socket of the head here, if it is not the usual one.",
)  # fmt: skip
@common
def takeover(force: bool, path: Path | None) -> int:
    """Make the standby head on this host lead the lab's queue.

    For operators. The other head, if it is reachable, steps down and becomes the standby.
    """
    began = time.monotonic()
    state = asyncio.run(_taken_over(force, path))
    took_s = round(time.monotonic() - began, 2)
    if options().as_json:
        print_document({"leads": state.leads, "head": state.name, "took_s": took_s})
    else:
        took = f"{took_s:.1f} s"
        note(msg("{name} leads the lab's queue now, after {time}.", name=state.name, time=took))
    return 0


async def _taken_over(force: bool, path: Path | None) -> HeadState:
    from gpuconsole.session.lab_service.console.client import LabClient, LocalWay, head_at
    from gpuconsole.session.lab_service.protocol import SOCKET, Request
    from gpuconsole.session.standby.standby_server import TAKE_OVER

    way = LocalWay(path or SOCKET)
    state = await head_at(way)
    if not state.leads:
        await LabClient(way).act(Request(TAKE_OVER, text="force" if force else ""))
    deadline = time.monotonic() + LEAD_WITHIN_S
    while not state.leads:
        if time.monotonic() > deadline:
            raise UnreachableError(
                "It does not lead yet",
                msg("{name} has taken over and does not serve yet.", name=state.name),
                "Its log says why.",
            )  # fmt: skip
        await asyncio.sleep(_LOOK_S)
        try:
            state = await head_at(way)
        except UnreachableError:
            # Between standing by and leading it has no socket for a moment.
            continue
    return state
