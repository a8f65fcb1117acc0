"""Compare policies on a trace, without a host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli.options import common, options
from gpuconsole.cli.output import print_document, show
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.placement.simulate.compare import Comparison

FORMATS = ("native", "philly", "helios", "gavel", "openb")
_FILE = click.Path(dir_okay=False, path_type=Path)


def _width(context: click.Context, parameter: click.Parameter, value: str) -> float | None:
    """Return a width of error, or None for no predictions."""
    if value == "none":
        return None
    try:
        width = float(value)
    except ValueError:
        width = -1.0
    if not 0 <= width <= 10:
        raise click.BadParameter(f"{value!r} is not a number from 0 to 10, nor none.")
    return width


@click.command()
@click.option("--lab", "lab_file", type=_FILE, metavar="FILE", help="The hosts; else a lab of 8.")
@click.option("--trace", "trace_file", type=_FILE, metavar="FILE", help="The jobs, CSV or CSV.gz.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="native", help="Columns of the trace."
)
@click.option(
    "--rates", "rates_file", type=_FILE, metavar="FILE", help="Measured rates of gavel's models."
)
@click.option(
    "--load",
    type=click.FloatRange(0.01, 10),
    metavar="X",
    help="Thin the jobs to this share of the lab's capacity.",
)
@click.option(
    "--window-days",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Number of days to play; else to the end.",
)
@click.option(
    "--start-day", type=click.FloatRange(min=0), default=0.0, metavar="N", help="Of the trace."
)
@click.option(
    "--sigma",
    callback=_width,
    default="2",
    metavar="S|none",
    help="Error of predicted run times, log-normal; 2 by default.",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of the random numbers.")
@click.option(
    "--policy",
    "names",
    multiple=True,
    metavar="P",
    help="A policy; repeat it to compare with the first.",
)
@click.option("--sharing", is_flag=True, help="Jobs on one device may share it, two at most.")
@common
def simulate(
    lab_file: Path | None,
    trace_file: Path | None,
    form: str,
    rates_file: Path | None,
    load: float | None,
    window_days: float | None,
    start_day: float,
    sigma: float | None,
    seed: int,
    names: tuple[str, ...],
    sharing: bool,
) -> int:
    """Simulate a trace of jobs on a lab, under one policy or several.

    A simulation: no host is contacted.

    The same engine decides as for real jobs. Without arguments a synthetic trace
    runs on a made-up lab of 8 hosts.
    """
    from gpuconsole.cli import traces
    from gpuconsole.placement.simulate.workload import Cut

    cut = Cut(load, start_day, window_days, sigma=sigma)
    lab = traces.read_lab(lab_file)
    policies = traces.policies(names, lab, sharing=sharing, state=options().state)
    if trace_file is None and (form != "native" or rates_file is not None):
        raise UsageError("No trace", "--format and --rates tell of a file.", "Add --trace FILE.")
    trace = traces.read_trace(trace_file, form, rates_file)
    comparison = traces.run(trace, lab, cut, policies, seed=seed, bar=not options().as_json)
    _print(comparison)
    return 0


def _print(comparison: Comparison) -> None:
    if options().as_json:
        print_document(comparison.as_json())
    else:
        from gpuconsole.cli.views import simulation

        show(*simulation.report(comparison))
