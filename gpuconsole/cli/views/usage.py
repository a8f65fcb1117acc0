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


def report(usage: UsageReport, now: float) -> Iterator[RenderableType]:
    """Draw a report."""
    if usage.idle:
        yield said(idle_sentence(usage.idle), "bold yellow")
        idle = table("IDLE FOR", "GPUS", "USER", "JOB", "MODEL", "HOST", right=("IDLE FOR", "GPUS"))
        for lease in usage.idle:
            since = format_duration(now - lease.since)
            held = (since, str(lease.devices), lease.user, lease.name, lease.model, lease.host)
            idle.add_row(*map(text, held))
        yield idle
        yield text("")
    keys = usage.query.by
    shown = table(*(say(key).upper() for key in keys), *FIGURES, right=FIGURES)
    for row in usage.rows[:SHOWN]:
        words = (
            text(word) if word else said(word_of(key, word))
            for key, word in zip(keys, row.words, strict=True)
        )
        shown.add_row(*words, *map(text, cells(row.sums, usage.currency)))
    if len(usage.rows) > SHOWN:
        left = f"{len(usage.rows) - SHOWN:,}"
        more = msg("{n} more rows: see them with --csv or --json.", n=left)
    else:
        more = ""
    if len(usage.rows) > 1:
        blank = ("",) * (len(keys) - 1)
        total = (say("total"), *blank, *cells(usage.total, usage.currency))
        shown.add_row(*(text(cell, "bold") for cell in total))
    yield shown
    for line in (*filter(None, (more,)), *notes(usage)):
        yield said(line, "dim")
