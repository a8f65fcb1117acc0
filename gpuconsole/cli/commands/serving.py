"""`serve`: the console in a browser."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.commands.service import stopping
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.core.places import state_dir
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

PORT = 8765


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True,
    help="Port on 127.0.0.1; 0 takes any that is free.",
)  # fmt: skip
@click.option("--write", is_flag=True, help="Let viewers submit, cancel and change what they see.")
@click.option("--demo", is_flag=True, help="Serve the simulated lab.")
@common
def serve(port: int, write: bool, demo: bool) -> int:
    """Serve the console to browsers on this machine.

    On loopback only, behind a token in the address that is printed; from elsewhere through
    `ssh -L 8765:127.0.0.1:8765 HOST`. Viewers can only look unless --write is given. All of them
    share one session: hosts are polled once.
    """
    _require_parts()
    if write and options().read_only:
        raise UsageError("Wrong usage", "--write and --read-only contradict each other.", "")
    if demo:
        return _serve_demo(port, write)
    options().read_only = not write

    async def work(session: Session) -> int:
        state = options().state or state_dir()
        return await _serve(session, state.expanduser(), port, write, site="")

    return drive(work, dispatching=write)


def _serve_demo(port: int, write: bool) -> int:
    from gpuconsole.cli.commands.lab import Laboratory, _fill

    async def run(lab: Laboratory) -> int:
        await _fill(lab)
        async with lab.session(dispatching=True) as session:
            return await _serve(session, lab.state, port, write, site="demo")

    with tempfile.TemporaryDirectory(prefix="gpuconsole-serve-") as folder:
        return asyncio.run(run(Laboratory(6, 7, 1.0, Path(folder))))


async def _serve(session: Session, state: Path, port: int, write: bool, *, site: str) -> int:
    from gpuconsole.session.share import Share
    from gpuconsole.web.guard import Guard
    from gpuconsole.web.server import served

    guard, stop = Guard(), asyncio.Event()
    # A folder of our own, mode 0700: who reaches the socket sees what a viewer sees.
    with tempfile.TemporaryDirectory(prefix="gpuconsole-") as folder, stopping(stop):
        socket = Path(folder) / "session"
        viewer = [
            sys.executable, "-m", "gpuconsole.cli.viewer", str(socket), str(state),
            "write" if write else "look",
        ]  # fmt: skip
        async with Share(session, socket, site), served(guard, viewer, port) as found:
            note(f"Serving {'with writing' if write else 'to look only'}. Open in a browser:")
            address = guard.address(found)
            if options().as_json:
                print_document({"address": address, "writable": write})
                sys.stdout.flush()
            else:
                print(address, flush=True)
            note("Whoever has this address may come in. Stop with Ctrl-C.")
            await stop.wait()
    return 0


def _require_parts() -> None:
    from importlib.util import find_spec

    if find_spec("textual_serve") is None:
        raise UsageError(
            "The web page is not installed",
            "`gpuconsole serve` needs textual-serve.",
            "Run: pip install 'gpuconsole[serve]'",
        )
