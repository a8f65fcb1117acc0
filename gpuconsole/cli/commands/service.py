"""The console itself, and the dispatcher without one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.scraping import Scraping, token_options
from gpuconsole.cli.sessions import drive, open_session, show_console
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.core.events import Event
    from gpuconsole.session.lab_service.service import LabService
    from gpuconsole.session.session import Session


def open_console() -> int:
    """Open the console on the inventory that the options name."""
    chosen = options()
    return show_console(open_session(chosen, dispatching=not chosen.read_only), site="")


@click.command()
@click.option(
    "--metrics", "listen", metavar="HOST:PORT", help="Serve metrics to Prometheus there too."
)
@token_options
@click.option("--lab", is_flag=True, help="Serve this queue to everybody in the lab.")
@click.option(
    "--socket", "path", type=click.Path(path_type=Path), metavar="PATH",
    help="With --lab: the socket that consoles reach it by.",
)  # fmt: skip
@common
def dispatch(
    listen: str | None,
    token_file: Path | None,
    token_age: float | None,
    lab: bool,
    path: Path | None,
) -> int:
    """Start and follow queued jobs until SIGTERM.

    For a systemd unit or a tmux window. One dispatcher at a time works on a queue; a second
    one stands by. Jobs run on when it ends.
    """
    scraping = _scraping(listen, token_file, token_age)
    if path is not None and not lab:
        raise UsageError("Wrong usage", "A socket serves the lab's queue.", "Add --lab.")

    async def work(session: Session) -> dict[str, int]:
        told = 0

        def tell(event: Event) -> None:
            nonlocal told
            told += 1
            note(f"{event.severity}: {event.subject}: {event.message}")
            if session.lost is not None:
                stop.set()

        stop = asyncio.Event()
        unsubscribe = session.subscribe(tell)
        with stopping(stop):
            async with contextlib.AsyncExitStack() as stack:
                if scraping is not None:
                    address = await stack.enter_async_context(scraping.serving(session))
                    note(f"Metrics: {address}")
                if lab:
                    served = await stack.enter_async_context(_lab_service(session, path))
                    note(f"The lab's queue: {served.path}")
                note(f"Dispatching for {session.user}; stop with SIGTERM or Ctrl-C.")
                await stop.wait()
        unsubscribe()
        if session.lost is not None:
            raise session.lost
        return {"events": told, "jobs": len(session.jobs())}

    counts = drive(work, dispatching=True, own_queue=lab)
    if options().as_json:
        print_document({"stopped": True, **counts})
    else:
        note("Stopped; running jobs run on.")
    return 0


def _lab_service(session: Session, path: Path | None) -> LabService:
    from gpuconsole.session.lab_service.connections import make_room
    from gpuconsole.session.lab_service.protocol import SOCKET
    from gpuconsole.session.lab_service.service import LabService

    make_room()
    return LabService(session, path or SOCKET)


def _scraping(
    listen: str | None, token_file: Path | None, token_age: float | None
) -> Scraping | None:
    if listen is not None:
        return Scraping(listen, token_file, token_age)
    if token_file is not None or token_age is not None:
        raise UsageError("Wrong usage", "A token guards metrics.", "Add --metrics HOST:PORT.")
    return None


@contextlib.contextmanager
def stopping(stop: asyncio.Event) -> Iterator[None]:
    """Set the event at a signal that asks to end, instead of being interrupted."""
    from gpuconsole.tui.signals import ending

    with ending(lambda _: stop.set()):
        yield
