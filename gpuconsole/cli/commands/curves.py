"""What training says: the curves of a job, and jobs or the jobs of a sweep side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuconsole.cli import completing
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import note, print_document, show
from gpuconsole.cli.sessions import drive
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.core.jobs import Job
    from gpuconsole.core.training.curves import Compared, Curves
    from gpuconsole.session.session import Session

_NOTHING = "Its log reports nothing of training in a form that is known."
_FORMS = "Own forms are set as `metrics: patterns:` in the settings."
_csv = click.option(
    "--csv", "csv_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write the points into this file; `-` prints them.",
)  # fmt: skip
_metrics = click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="Only this one, such as val_loss."
)


@click.command()
@click.argument("job", shell_complete=completing.jobs())
@_metrics
@click.option(
    "--attempt", type=click.IntRange(min=1), metavar="N", help="Of this attempt; else the latest."
)
@_csv
@common
def curves(job: str, metrics: tuple[str, ...], attempt: int | None, csv_file: Path | None) -> int:
    """Plot loss, accuracy and step time of a job, read from its log.

    Plain prints are read (`epoch 3 step 20 loss: 0.12`), and what Model.fit, PaddleClas,
    PaddleDetection, PaddleSeg, PaddleOCR, PaddleNLP and tqdm write. Of a job over several hosts the
    log of rank 0 is read. Exit 1 where the log reports nothing.
    """

    async def work(session: Session) -> tuple[Job, Curves]:
        return session.job(job), await session.curves(job, attempt)

    found, made = drive(work, fleet=False)
    _require_metrics(metrics, made.curves)
    if csv_file is not None:
        from gpuconsole.core.training.curves import Written, csv_text

        _write(csv_file, csv_text([Written(found.id, found.task.name, made)], metrics))
    if options().as_json:
        document = made.as_json()
        kept = [one for one in document["metrics"] if not metrics or one["name"] in metrics]
        print_document({"job": found.id, "name": found.task.name, **document, "metrics": kept})
    elif csv_file is None and made:
        from gpuconsole.cli import curve_views

        show(*curve_views.curves(made, metrics))
    if not made:
        note(_NOTHING)
        note(_FORMS)
    return 0 if made else 1


@click.command()
@click.argument("jobs", nargs=-1, required=True, shell_complete=completing.jobs())
@click.option(
    "--metric", metavar="NAME", default="", help="By which they are ranked and plotted: val_loss."
)
@_csv
@common
def compare(jobs: tuple[str, ...], metric: str, csv_file: Path | None) -> int:
    """Compare jobs, or those of a sweep, by what they log.

    A row for each job: the options in which they differ, the metric last and at its best, the time
    of a step, the most memory, the state; the best job first. Below it the metric is plotted.
    """

    async def work(session: Session) -> tuple[Compared, ...]:
        return await session.compare(jobs)

    found = drive(work, fleet=False)
    from gpuconsole.core.training.curves import Written, chosen_metric, csv_text, ranked

    if metric:
        names = {name for one in found for name in one.curves.curves}
        _require_metrics((metric,), names)
    metric = metric or chosen_metric(found)
    rows = ranked(found, metric)
    if csv_file is not None:
        written = (Written(one.job.id, one.job.task.name, one.curves) for one in rows)
        _write(csv_file, csv_text(written, (metric,) if metric else ()))
    if options().as_json:
        print_document({"metric": metric or None, "jobs": [_row(one, metric) for one in rows]})
    elif csv_file is None:
        from gpuconsole.cli import curve_views

        show(*curve_views.comparison(rows, metric))
        if not metric:
            note("No log of these jobs reports anything of training in a form that is known.")
    return 0


def _row(one: Compared, metric: str) -> dict[str, Any]:
    from gpuconsole.core.training.curves import figures

    job, found = one.job, figures(one, metric)
    return {
        "job": job.id,
        "name": job.task.name,
        "state": job.state.value,
        "cause": job.cause or None,
        "parameters": dict(one.parameters),
        "last": _number(found.last),
        "best": _number(found.best),
        "best_at": found.best_at,
        "step_s": found.step_s,
        "peak_mib": found.peak_mib,
    }


def _number(value: float | None) -> float | str | None:
    """Return a value as JSON has it; one that is no number as its name."""
    import math

    return value if value is None or math.isfinite(value) else str(value)


def _require_metrics(wanted: Sequence[str], known: Any) -> None:
    """Raise UsageError for a metric that no log reports."""
    missing = [name for name in wanted if name not in known]
    if missing:
        raise UsageError(
            "No such metric",
            msg("{name} is not reported.", name=missing[0]),
            msg("Reported are: {names}.", names=", ".join(sorted(known)) or "none"),
        )


def _write(path: Path, text: str) -> None:
    """Write a file, or with `-` print it."""
    if str(path) == "-":
        print(text, end="")
        return
    try:
        path.expanduser().write_text(text, encoding="utf-8")
    except OSError as error:
        words = msg("{path} cannot be written ({why}).", path=path, why=error.strerror)
        raise UsageError("File not written", words, "Name another file.") from None
    note(msg("{n} points are in {path}.", n=text.count("\n") - 1, path=path))
