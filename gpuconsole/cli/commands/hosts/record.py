"""`record`: a recording for a colleague."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.core.wording import msg, name, sentences

if TYPE_CHECKING:
    from gpuconsole.session.session import Session


@click.command()
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A new file; else one in this folder, named after the time.",
)
@click.option(
    "--seconds", type=click.FloatRange(1.0), metavar="N", help="Stop after this many seconds."
)
@common
def record(out: Path | None, seconds: float | None) -> int:
    """Record the fleet into one file that can be sent to a colleague.

    Nothing is started or changed. Stops with Ctrl-C, SIGTERM or after --seconds. Every console also
    records what it sees; `replay` without a file shows that.
    """
    from gpuconsole.state.recording.file_format import SUFFIX

    named = out or Path(f"gpuconsole-{datetime.now():%Y%m%dT%H%M%S}{SUFFIX}")
    document = drive(lambda session: _record(session, named, seconds))
    if options().as_json:
        print_document(document)
    else:
        print(named)
        mib = document["bytes"] / 2**20
        size = name(f"{document['seconds']:.0f} s, {mib:.1f} MiB.")
        note(sentences(size, msg("Look at it: gpuconsole replay {path}", path=named)))
    return 0


async def _record(session: Session, path: Path, seconds: float | None) -> dict[str, Any]:
    from gpuconsole.cli.interrupts import stopping
    from gpuconsole.session.recording.recorder import record_into

    stop = asyncio.Event()
    with stopping(stop):
        note(msg("Recording into {path}; stop with Ctrl-C.", path=path))
        recording = await record_into(session, path, stop, seconds)
    return {"file": str(path), "seconds": round(recording.seconds, 3), "bytes": recording.size}
