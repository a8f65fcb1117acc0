"""The console itself, and the dispatcher without one."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.interrupts import stopping
from gpuconsole.cli.metrics_server import Scraping, token_options
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.sessions import awaited_session, drive, show_console
from gpuconsole.core.wording import joined, msg, name
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.core.events import Event
    from gpuconsole.session.session import Session
    from gpuconsole.session.standby.lead import Lead


def open_console() -> int:
    """Open the console on the inventory that the options name."""
    from gpuconsole.cli.opening import Opening

    chosen = options()
    with Opening() as opening:
        from gpuconsole.config import combined, load_settings
        from gpuconsole.remote.inventory import open_inventory

        lab = open_inventory(chosen.inventory, os.environ)
        opening.show([host.name for host in lab.hosts])
        settings = combined(load_settings(), lab.lab)
        return show_console(awaited_session(chosen, lab, settings), settings, "", opening)


def _seconds(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Read a duration such as `30s`."""
    if text is None:
        return None
    from pydantic import TypeAdapter, ValidationError

    from gpuconsole.yamldoc.values import Seconds

    try:
        return TypeAdapter(Seconds).validate_python(text)
    except ValidationError as error:
        raise click.BadParameter(error.errors()[0]["msg"]) from error


@click.command()
@click.option(
    "--metrics", "listen", metavar="HOST:PORT", help="Serve metrics to Prometheus there too."
)
@token_options
@click.option("--lab", is_flag=True, help="Serve this queue to all users of the lab.")
@click.option(
    "--socket", "path", type=click.Path(path_type=Path), metavar="PATH",
    help="With --lab: the socket for consoles.",
)  # fmt: skip
@click.option(
    "--standby", is_flag=True, help="With --lab: follow the leading head, and take over from it."
)
@click.option(
    "--take-over-after", "after_s", metavar="TIME", callback=_seconds,
    help="With --standby: take over after the other head was silent for this time.",
)  # fmt: skip
@common
def dispatch(
    listen: str | None,
    token_file: Path | None,
    token_age: float | None,
    job_labels: bool,
    lab: bool,
    path: Path | None,
    standby: bool,
    after_s: float | None,
) -> int:
    """Start and follow queued jobs until SIGTERM.

    For a systemd unit or a tmux window. One dispatcher at a time works on a queue; a second one
    waits. Jobs continue when it ends.
    """
    scraping = _scraping(listen, token_file, token_age, job_labels)
    _require_lab(lab, path, standby, after_s)
    if not lab:

        async def alone(session: Session) -> dict[str, int]:
            stop = asyncio.Event()
            with stopping(stop):
                return await _work(session, stop, scraping)

        counts = drive(alone, dispatching=True)
    else:
        from gpuconsole.cli.lab_head import run_head

        async def leading(session: Session, stop: asyncio.Event, lead: Lead) -> dict[str, int]:
            return await _work(session, stop, scraping, lead, path)

        counts = run_head(leading, path, standby=standby, after_s=after_s)
    if options().as_json:
        print_document({"stopped": True, **counts})
    else:
        note("Stopped; running jobs continue.")
    return 0


async def _work(
    session: Session,
    stop: asyncio.Event,
    scraping: Scraping | None,
    lead: Lead | None = None,
    path: Path | None = None,
) -> dict[str, int]:
    """Dispatch until `stop`, with `lead` for everybody; return the figures reported at the end."""
    from gpuconsole.core.events import worded

    reported = 0

    def tell(event: Event) -> None:
        nonlocal reported
        reported += 1
        job = next((job.task.name for job in session.jobs() if job.id == event.subject), "")
        note(joined(": ", (event.severity, name(event.subject), worded(event, job))))
        if session.lost is not None:
            stop.set()

    unsubscribe = session.subscribe(tell)
    async with contextlib.AsyncExitStack() as stack:
        if scraping is not None:
            address = await stack.enter_async_context(scraping.serving(session))
            note(msg("Metrics: {address}", address=address))
        if lead is not None:
            from gpuconsole.cli.lab_head import lab_service

            served = await stack.enter_async_context(lab_service(session, path, lead))
            note(msg("The lab's queue: {path}", path=served.path))
        note(msg("Dispatching for {user}; stop with SIGTERM or Ctrl-C.", user=session.user))
        await stop.wait()
    unsubscribe()
    if session.lost is not None:
        raise session.lost
    return {"events": reported, "jobs": len(session.jobs())}


def _require_lab(lab: bool, path: Path | None, standby: bool, after_s: float | None) -> None:
    """Raise UsageError for an option that says nothing without another one."""
    if path is not None and not lab:
        raise UsageError("Wrong usage", "A socket serves the lab's queue.", "Add --lab.")
    if standby and not lab:
        raise UsageError("Wrong usage", "A standby follows the lab's queue.", "Add --lab.")
    if after_s is not None and not standby:
        raise UsageError("Wrong usage", "A standby takes over after a time.", "Add --standby.")


def _scraping(
    listen: str | None, token_file: Path | None, token_age: float | None, job_labels: bool
) -> Scraping | None:
    if listen is not None:
        return Scraping(listen, token_file, token_age, job_labels)
    if job_labels:
        raise UsageError("Wrong usage", "Labels are those of metrics.", "Add --metrics HOST:PORT.")
    if token_file is not None or token_age is not None:
        raise UsageError("Wrong usage", "A token guards metrics.", "Add --metrics HOST:PORT.")
    return None
