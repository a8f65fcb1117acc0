"""What happened on a host lately: incidents, and jobs that began and ended there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from gpuconsole.core.fleet import Host
from gpuconsole.tui.ink import Ink
from gpuconsole.tui.picture import Picture
from gpuconsole.tui.presentation.cells import Piece, fit

Lines = list[list[Piece]]
MOST = 50
Event = tuple[float, str, str, bool]
"""When, a word for what kind, what, and whether it is bad."""


def event_lines(ink: Ink, picture: Picture, host: Host, width: int) -> Lines:
    """Return the newest events first, or a sentence."""
    found = sorted(_events(ink, picture, host), key=lambda event: -event[0])[:MOST]
    if not found:
        words = ink.say("Nothing has happened here since the console was opened.")
        return [[(words, ink.muted)]]
    return [
        [
            (datetime.fromtimestamp(at).strftime("%m-%d %H:%M:%S") + "  ", ink.muted),
            (fit(ink.say(kind), 9), ink.text),
            (fit(what, max(8, width - 25)), ink.bad if bad else ink.text),
        ]
        for at, kind, what, bad in found
    ]


def _events(ink: Ink, picture: Picture, host: Host) -> Iterator[Event]:
    say = ink.say
    for one in picture.incidents:
        if one.host != host.name:
            continue
        where = "" if one.index is None else f"gpu {one.index}: "
        yield one.since, one.severity.value, f"{where}{say(one.title)}", True
        if one.ended_at is not None:
            yield one.ended_at, "over", f"{where}{say(one.title)}", False
    for job in picture.jobs:
        for attempt in job.attempts:
            parts = [part for part in attempt.parts if part.host == host.name]
            if not parts:
                continue
            indexes = ",".join(str(index) for index in parts[0].device_indexes)
            place = f" on gpu {indexes}" if indexes else ""
            if attempt.started_at is not None:
                words = say(f"{job.task.name} started{place}")
                yield attempt.started_at, "job", words, False
            if attempt.ended_at is not None:
                words = say(f"{job.task.name} ended{place}")
                words += f": {say(attempt.cause)}" if attempt.cause else ""
                yield attempt.ended_at, "job", words, bool(attempt.exit_code)
