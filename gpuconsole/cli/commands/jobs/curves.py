"""`curves`: the training curves of a job."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.commands.jobs.curve_options import (
    FORMS,
    NOTHING,
    csv_option,
    metric_option,
    require_metrics,
    write_csv,
)
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, show
from gpuconsole.cli.sessions import drive
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.core.jobs import Job
    from gpuconsole.core.training.curves import Curves
    from gpuconsole.session.session import Session


@click.command()
@click.argument("job", shell_complete=shell_completion.jobs())
@metric_option
@click.option(
    "--attempt", type=click.IntRange(min=1), metavar="N", help="Of this attempt; else the latest."
)
@click.option(
    "--rank",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Of this host of a gang; 0 is the first.",
)
@click.option(
    "--visualdl",
    is_flag=True,
    help="Ask its host for VisualDL's scalars too; asked anyway where the log reports nothing.",
)
@csv_option
@common
def curves(
    job: str,
    metrics: tuple[str, ...],
    attempt: int | None,
    rank: int,
    visualdl: bool,
    csv_file: Path | None,
) -> int:
    """Plot what a job logs: loss, accuracy, step time.

    Plain prints are read (`epoch 3 step 20 loss: 0.12`), and what Model.fit, PaddleClas,
    PaddleDetection, PaddleSeg, PaddleOCR, PaddleNLP and tqdm write; and the scalars of VisualDL's
    LogWriter below the job's results. Exit 1 where nothing is reported.
    """

    async def work(session: Session, *, ask: bool) -> tuple[Job, Curves, bool]:
        curves = await session.curves(job, attempt, rank, ask=ask)
        return session.job(job), curves, session.simulated_jobs

    job_, job_curves, simulated = drive(partial(work, ask=visualdl), fleet=visualdl)
    if not job_curves and not visualdl and job_.attempt is not None:
        with suppress(UsageError):  # Without an inventory there is no host to ask.
            job_, job_curves, simulated = drive(partial(work, ask=True))
    require_metrics(metrics, job_curves.curves)
    if csv_file is not None:
        from gpuconsole.core.training.curves import Written, csv_text

        write_csv(csv_file, csv_text([Written(job_.id, job_.task.name, job_curves)], metrics))
    if options().as_json:
        document = job_curves.as_json()
        metrics_shown = [
            metric for metric in document["metrics"] if not metrics or metric["name"] in metrics
        ]
        head = {"job": job_.id, "name": job_.task.name, "simulated": simulated}
        print_document({**head, **document, "metrics": metrics_shown})
    elif csv_file is None and job_curves:
        from gpuconsole.cli.views import curves as curve_views

        show(*curve_views.curves(job_curves, metrics, simulated=simulated))
    if not job_curves:
        note(NOTHING)
        note(FORMS)
    return 0 if job_curves else 1
