"""Train `rl_based` from what the lab has run."""

from __future__ import annotations

from pathlib import Path

import click

from gpuconsole.cli.commands.plan.simulate import FORMATS
from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import print_document, tell
from gpuconsole.errors import ReadOnlyError

MOST_MINUTES = 30.0
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option("--lab", "lab_file", type=_FILE, metavar="FILE", help="The hosts; else your own.")
@click.option(
    "--trace",
    "trace_files",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="Jobs to learn from; else those that ended in your queue. May be given again.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="native", help="Columns of the traces."
)
@click.option(
    "--until-day",
    type=click.FloatRange(min=1),
    metavar="N",
    help="Ignore what a trace has after this day.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(0.1, MOST_MINUTES),
    default=10.0,
    metavar="N",
    help="Longest training, in minutes; 10 by default.",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of the random numbers.")
@common
def learn(
    lab_file: Path | None,
    trace_files: tuple[Path, ...],
    form: str,
    until_day: float | None,
    minutes: float,
    seed: int,
) -> int:
    """Train the policy rl_based on past jobs and judge it.

    Says whether it beats weighted.

    Past windows are simulated repeatedly with other weights (policy search). The latest windows are
    held out; the weights are used only if those show a gain. Ctrl-C ends the training and judges
    what was found.
    """
    if options().read_only:
        raise ReadOnlyError("Read-only", "`learn` writes the trained weights.", "Drop --read-only.")
    from gpuconsole.cli import training

    result = training.run(
        training.material(lab_file, trace_files, form, until_day), minutes=minutes, seed=seed
    )
    if options().as_json:
        print_document(result.as_json())
    else:
        tell(*result.lines())
    return 0 if result.trained.verdict.passed else 1
