"""`compare`: jobs or the jobs of a sweep side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.commands.jobs.curve_options import csv_option, require_metrics, write_csv
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, show
from gpuconsole.cli.sessions import drive

if TYPE_CHECKING:
    from gpuconsole.core.training.curves import Compared
    from gpuconsole.session.session import Session


@click.command()
@click.argument("jobs", nargs=-1, required=True, shell_complete=shell_completion.jobs())
@click.option(
    "--metric", metavar="NAME", default="", help="By which they are ranked and plotted: val_loss."
)
@csv_option
@common
def compare(jobs: tuple[str, ...], metric: str, csv_file: Path | None) -> int:
    """Compare jobs, or those of a sweep, by what they log.

    A row for each job: the options in which they differ, the metric last and at its best, the time
    of a step, the most memory, the state; the best job first. Below it the metric is plotted.
    """

    async def work(session: Session) -> tuple[tuple[Compared, ...], bool]:
        return await session.compare(jobs), session.simulated_jobs

    compared, simulated = drive(work, fleet=False)
    from gpuconsole.core.training.curves import Written, chosen_metric, csv_text, ranked

    if metric:
        names = {name for each in compared for name in each.curves.curves}
        require_metrics((metric,), names)
    metric = metric or chosen_metric(compared)
    rows = ranked(compared, metric)
    if csv_file is not None:
        written = (Written(row.job.id, row.job.task.name, row.curves) for row in rows)
        write_csv(csv_file, csv_text(written, (metric,) if metric else ()))
    if options().as_json:
        listed = [_row(row, metric) for row in rows]
        print_document({"metric": metric or None, "simulated": simulated, "jobs": listed})
    elif csv_file is None:
        from gpuconsole.cli.views import curves as curve_views

        show(*curve_views.comparison(rows, metric, simulated=simulated))
        if not metric:
            note("No log of these jobs reports anything of training in a form that is known.")
    return 0


def _row(compared: Compared, metric: str) -> dict[str, object]:
    from gpuconsole.core.training.curves import figures

    job, row_figures = compared.job, figures(compared, metric)
    return {
        "job": job.id,
        "name": job.task.name,
        "state": job.state.value,
        "cause": job.cause or None,
        "parameters": dict(compared.parameters),
        "last": _number(row_figures.last),
        "best": _number(row_figures.best),
        "best_at": row_figures.best_at,
        "step_s": row_figures.step_s,
        "peak_mib": row_figures.peak_mib,
    }


def _number(value: float | None) -> float | str | None:
    """Return a value as JSON has it; one that is no number as its name."""
    import math

    return value if value is None or math.isfinite(value) else str(value)
