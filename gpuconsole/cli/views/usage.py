"""A report of use as tables: idle leases first, then who held and used what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuconsole.cli.output import said, say, table, text
from gpuconsole.core.units import format_duration
from gpuconsole.core.wording import msg
from gpuconsole.session.report.words import FIGURES, cells, idle_sentence, notes, word_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gpuconsole.session.report.model import UsageReport

SHOWN = 200
"""Rows that a person sees."""


def report(made: UsageReport, now: float) -> Iterator[RenderableType]:
    """Draw a report."""
    if made.idle:
        yield said(idle_sentence(made.idle), "bold yellow")
        idle = table("IDLE FOR", "GPUS", "USER", "JOB", "MODEL", "HOST", right=("IDLE FOR", "GPUS"))
        for lease in made.idle:
            since = format_duration(now - lease.since)
            held = (since, str(lease.devices), lease.user, lease.name, lease.model, lease.host)
            idle.add_row(*map(text, held))
        yield idle
        yield text("")
    keys = made.query.by
    shown = table(*(say(key).upper() for key in keys), *FIGURES, right=FIGURES)
    for row in made.rows[:SHOWN]:
        words = (
            text(word) if word else said(word_of(key, word))
            for key, word in zip(keys, row.words, strict=True)
        )
        shown.add_row(*words, *map(text, cells(row.sums, made.currency)))
    if len(made.rows) > SHOWN:
        left = f"{len(made.rows) - SHOWN:,}"
        more = msg("{n} more rows: see them with --csv or --json.", n=left)
    else:
        more = ""
    if len(made.rows) > 1:
        blank = ("",) * (len(keys) - 1)
        total = (say("total"), *blank, *cells(made.total, made.currency))
        shown.add_row(*(text(cell, "bold") for cell in total))
    yield shown
    for line in (*filter(None, (more,)), *notes(made)):
        yield said(line, "dim")
