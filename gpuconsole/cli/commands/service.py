"""The console itself, and the dispatcher without one."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.sessions import drive, open_session, show_console

if TYPE_CHECKING:
    from gpuconsole.core.events import Event
    from gpuconsole.session.session import Session


def open_console() -> int:
    """Open the console on the inventory that the options name."""
    chosen = options()
    return show_console(open_session(chosen, dispatching=not chosen.read_only), site="")


@click.command()
@common
def dispatch() -> int:
    """Start and follow queued jobs until SIGTERM.

    For a systemd unit or a tmux window. One dispatcher at a time works on a queue; a second
    one stands by. Jobs run on when it ends.
    """

    async def work(session: Session) -> dict[str, int]:
        told = 0

        def tell(event: Event) -> None:
            nonlocal told
            told += 1
            note(f"{event.severity}: {event.subject}: {event.message}")

        stop = asyncio.Event()
        unsubscribe = session.subscribe(tell)
        with stopping(stop):
            note(f"Dispatching for {session.user}; stop with SIGTERM or Ctrl-C.")
            await stop.wait()
        unsubscribe()
        return {"events": told, "jobs": len(session.jobs())}

    counts = drive(work, dispatching=True)
    if options().as_json:
        print_document({"stopped": True, **counts})
    else:
        note("Stopped; running jobs run on.")
    return 0


@contextlib.contextmanager
def stopping(stop: asyncio.Event) -> Iterator[None]:
    """Set the event at a signal that asks to end, instead of being interrupted."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
