"""What would change for the waiting jobs if the lab or its queue did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, show, table, tell, text
from gpuconsole.cli.sessions import drive
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration
from gpuconsole.core.wording import msg

if TYPE_CHECKING:
    from gpuconsole.placement.forecast.what_if import Comparison, Moved
    from gpuconsole.session.session import Session

_SHOWN = 20
"""How many jobs a person sees."""


@click.command("what-if")
@click.argument("change", nargs=-1, required=True, shell_complete=shell_completion.changes)
@common
def what_if(change: tuple[str, ...]) -> int:
    """Say when waiting jobs would start after a CHANGE.

    Nothing is changed.

    CHANGE is one of: drain HOST, add COUNT MODEL, priority JOB NUMBER.
    """
    from gpuconsole.placement.forecast.what_if import sentences
    from gpuconsole.session.queue.forecast import parse_change

    wanted = parse_change(" ".join(change))

    async def asked(session: Session) -> tuple[Comparison, float]:
        return await session.what_if(wanted.text), session.now()

    comparison, now = drive(asked)
    if options().as_json:
        print_document(_document(wanted.text, comparison))
        return 0
    for line in sentences(wanted.text, comparison):
        tell(line)
    if comparison.moved:
        shown = table("JOB", "NAME", "USER", "STARTS IN", "THEN IN", right=("STARTS IN", "THEN IN"))
        for moved in comparison.moved[:_SHOWN]:
            shown.add_row(*map(text, _cells(moved, now)))
        show(shown)
    if len(comparison.moved) > _SHOWN:
        more = len(comparison.moved) - _SHOWN
        note(msg("{n} more jobs move; see them with --json.", n=more))
    return 0


def _cells(moved: Moved, now: float) -> tuple[str, ...]:
    starts = (
        "-" if at is None else format_duration(at - now) for at in (moved.before, moved.after)
    )
    return (moved.job, clean(moved.name), clean(moved.user), *starts)


def _document(change: str, comparison: Comparison) -> dict[str, object]:
    from gpuconsole.placement.forecast.start_times import HORIZON_S

    return {
        "change": change,
        "waiting": comparison.waiting,
        "mean_wait_before_s": comparison.mean_before_s,
        "mean_wait_after_s": comparison.mean_after_s,
        "guess": comparison.guess,
        "devices_seen": comparison.seen,
        "labels_of_new_hosts": list(comparison.labels),
        "labels_lacking": list(comparison.lacking),
        "without_estimate_before": comparison.untold_before,
        "without_estimate_after": comparison.untold_after,
        "horizon_s": HORIZON_S,
        "moved": [moved.as_json() for moved in comparison.moved],
    }
