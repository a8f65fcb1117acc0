"""`replay`: a recording looked at."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.sessions import show_console
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.recording.replay_session import ReplaySession


_NEAR_S = 15.0
"""A recorded moment further from the time asked for is said to be another one."""


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--at", metavar="TIME", help="Start at: 03:00, -2h (before the end), or ISO 8601.")
@click.option(
    "--speed", type=click.FloatRange(0.1, 3600.0), metavar="N", help="Speed of the replay."
)
@common
def replay(file: Path | None, at: str | None, speed: float | None) -> int:
    """Show a recording on the console's screens.

    FILE is what `record` wrote, and plays from its beginning; without it, the latest moment that
    your own consoles recorded is shown. With --at the replay is paused there unless --speed is
    given. With --json the `status` document of that moment is printed, with its jobs and incidents.
    Times without a zone are this machine's.
    """
    from gpuconsole.cli.opening import Opening

    session = asyncio.run(_opened(file, at))
    if options().as_json:
        print_document(_document(session))
        return 0
    reel = session.reel
    for line in reel.trouble:
        note(line)
    if speed is not None or (at is None and file is not None):
        reel.play(speed or 1.0)
    with Opening() as opening:
        return show_console(session, session.settings, "", opening)


async def _opened(file: Path | None, at: str | None) -> ReplaySession:
    from gpuconsole.config import load_settings
    from gpuconsole.core.util.human_time import parse_moment
    from gpuconsole.core.util.user_dirs import state_folder
    from gpuconsole.session.recording.recorder import FOLDER
    from gpuconsole.session.recording.replay_session import open_replay

    source = file or state_folder(options().state) / FOLDER
    session = await open_replay(source, load_settings())
    reel = session.reel
    try:
        if at is not None:
            wanted = parse_moment(at, reel.last, reel.last)
            landed = await reel.seek(wanted)
            if abs(landed - wanted) > _NEAR_S:
                when = f"{datetime.fromtimestamp(landed):%Y-%m-%d %H:%M:%S}"
                note(
                    msg(
                        "Nothing was recorded at that time; the nearest moment is {when}.",
                        when=when,
                    )
                )
        elif options().as_json or file is None:
            await reel.seek(reel.last)
    except ValueError as error:
        raise UsageError("Wrong usage", _wrong("--at", error)) from error
    return session


def _document(session: ReplaySession) -> dict[str, object]:
    """Return the `status` document of the moment, with what `status` leaves to other commands."""
    from gpuconsole.core.units import iso_utc
    from gpuconsole.session.export.status import moment_document

    now, reel = session.now(), session.reel
    recorded = [{"first": iso_utc(s.first), "last": iso_utc(s.last)} for s in reel.spans]
    incidents = session.triage.incidents()
    moment = moment_document(session.snapshot(), session.jobs(), incidents, now)
    return {**moment, "recorded": recorded}


def _wrong(option: str, error: ValueError) -> str:
    return msg("{option}: {why_text}.", option=option, why_text=error.args[0])
