"""`mcp`: the lab for programs that speak the Model Context Protocol."""

from __future__ import annotations

import asyncio
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.extras import install_command
from gpuconsole.cli.interrupts import stopping
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note
from gpuconsole.cli.sessions import drive
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.session.async_helpers import cancel_all

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@click.option("--allow-writes", is_flag=True, help="Offer submit, cancel, hold and release too.")
@click.option("--demo", is_flag=True, help="Serve the simulated lab.")
@common
def mcp(allow_writes: bool, demo: bool) -> int:
    """Serve the lab to an MCP client, such as an assistant.

    The client starts this command and speaks with it over stdin and stdout. It may look at hosts,
    devices, the queue, logs and scripts; it may change the queue only with --allow-writes, and each
    such act is in `gpuconsole audit`. It starts no jobs: the console or `gpuconsole dispatch` does.
    """
    if find_spec("mcp") is None:
        raise UsageError(
            "MCP is not installed",
            "Serving it needs the package mcp.",
            msg("Run: {command}", command=install_command("mcp")),
        )
    writes = allow_writes and not options().read_only
    if allow_writes and not writes:
        note("--read-only leaves --allow-writes without effect.")
    if demo:
        return _demo(writes)
    options().read_only = not writes

    async def work(session: Session) -> int:
        return await _serve(session, writes)

    return drive(work)


def _demo(writes: bool) -> int:
    from gpuconsole.cli.commands.run.demo import Laboratory, _fill

    async def run(lab: Laboratory) -> int:
        async with lab.session(dispatching=True) as session:
            # The client does not wait for its jobs: they come into the queue while it looks.
            filling = asyncio.ensure_future(_fill(lab))
            try:
                return await _serve(session, writes)
            finally:
                await cancel_all([filling])

    options().read_only = False
    with tempfile.TemporaryDirectory(prefix="gpuconsole-mcp-") as folder:
        return asyncio.run(run(Laboratory(6, 7, 1.0, Path(folder))))


async def _serve(session: Session, writes: bool) -> int:
    from gpuconsole.mcp.server import serve

    stop = asyncio.Event()
    with stopping(stop):
        await serve(session, stop, writes=writes)
    return 0
