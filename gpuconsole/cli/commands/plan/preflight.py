"""`preflight`: what a script will take, and where it fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuconsole.cli import measurement, shell_completion
from gpuconsole.cli.options import ScriptCommand, common, options
from gpuconsole.cli.output import note, print_document, show
from gpuconsole.cli.tasks import Changes, apply_option, build_task, task_options
from gpuconsole.core.estimate import MEASURED_TIERS, Measure, Report
from gpuconsole.core.jobs import Task
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.reading.background import AsyncReader

_TIERS = ("static", "formula", *MEASURED_TIERS)
_FLEET_WAIT_S = 3.0
"""How long it waits for hosts before it judges by the common cards."""


@click.command(cls=ScriptCommand)
@task_options
@apply_option
@click.option(
    "--tier",
    metavar="T",
    help="static, formula, or measured: meta, traced, device; else the best known.",
)
@click.option("--local", is_flag=True, help="Measure on this machine, in a sandbox.")
@click.option(
    "--host",
    default="",
    metavar="HOST",
    shell_complete=shell_completion.hosts,
    help="Measure on this host.",
)
@click.option(
    "--memory-mib",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Judge a device of N MiB instead of the fleet: no context, no threshold.",
)
@click.option("--offline", is_flag=True, help="Contact no host; answer for common devices.")
@click.option(
    "--forget-assumptions", "forget", is_flag=True, help="Forget the answers for this script."
)
@click.option(
    "--explain", is_flag=True, help="List the layers, the line of the peak, and the method."
)
@click.option("--curve", is_flag=True, help="Plot the peak against the batch size.")
@click.option(
    "--diff", "diffs", is_flag=True, help="Show what a suggestion changes in the shipped copy."
)
@common
def preflight(
    script: Path | None,
    task_file: Path | None,
    batch_size: int | None,
    backend: str | None,
    assume: tuple[tuple[str, str], ...],
    measure: Measure | None,
    yes: bool,
    changes: Changes,
    project: Path | None,
    tier: str | None,
    local: bool,
    host: str,
    memory_mib: float | None,
    offline: bool,
    forget: bool,
    explain: bool,
    curve: bool,
    diffs: bool,
) -> int:
    """Predict a Paddle script's memory: where it fits, with which batch.

    The script is read first. If that does not determine its memory, if it finds a fault that a run
    has to confirm, or if a measured tier is requested, real Paddle runs it in a sandbox for a few
    steps: on a host that has the image, or on this machine once you agree (--yes; see --measure).
    Ctrl-C ends measuring; the answer is then that of reading, unless a measured tier was requested.
    Exit 0 if a device has room; 1 if none has, if the script is wrong, or if its memory is unknown.
    Without an inventory it answers for common devices.
    """
    _require_tier(tier, local=local, host=host)
    task = build_task(
        script, task_file, assume=assume, project=project, batch_size=batch_size, backend=backend,
        measure=measure,
    )  # fmt: skip
    from gpuconsole.cli import estimate
    from gpuconsole.session.reading.background import AsyncReader

    state, writable = options().state, not options().read_only
    # One process reads the script for all that is asked of it.
    with AsyncReader(copied=True) as reader:
        remembered = estimate.recalled(task, state, forget=forget and writable)
        estimated = partial(
            estimate.estimate, memory_mib=memory_mib, inventory=options().inventory,
            offline=offline, wait_s=_FLEET_WAIT_S, state=state, remembered=remembered,
            reader=reader,
        )  # fmt: skip
        task = _changed(task, changes, estimated, reader, remembered)
        if tier in MEASURED_TIERS:
            measurement.measure(task, tier, reader, local=local, host=host, yes=yes)
        ask = partial(estimated, task, explain=explain, curve=curve)
        if tier:
            report = ask(tier=tier)
        else:
            report = measurement.climb(task, ask, reader, offline=offline, yes=yes)
    if writable:
        estimate.remember(task, state)
    _print_report(report, task, explain=explain, diffs=diffs)
    return _exit_code(report, task)


def _changed(
    task: Task,
    changes: Changes,
    estimated: Callable[..., Report],
    reader: AsyncReader,
    remembered: Mapping[str, str],
) -> Task:
    """Return the task with changes made to its shipped copy, as many steps as a suggestion says
    where the command line names none."""
    from gpuconsole.preflight.suggestion_edits import applied
    from gpuconsole.session.estimate.applying import question, steps_open, suggested_steps

    for kind, steps in changes:
        if steps_open(kind, steps):
            steps = suggested_steps(estimated(task, tier=""))
        task = applied(task, reader.ask(question(task, kind, steps, remembered)))
    return task


def _require_tier(tier: str | None, *, local: bool, host: str) -> None:
    """Raise UsageError for a tier that there is not, or a place where nothing is measured."""
    if tier is not None and tier not in _TIERS:
        raise UsageError(
            "This tier is not available",
            msg("{tier} is not one of {tiers}.", tier=repr(tier), tiers=", ".join(_TIERS)),
            "Leave --tier out for the best there is.",
        )
    if (local or host) and tier not in MEASURED_TIERS:
        raise UsageError(
            "Nothing to measure",
            "--local and --host say where a script is measured.",
            "Add --tier meta or --tier traced.",
        )


def _print_report(report: Report, task: Task, *, explain: bool, diffs: bool) -> None:
    if options().as_json:
        edits = {"edits": [edit.as_json() for edit in task.edits]} if task.edits else {}
        print_document({**report.as_json(), **edits})
        return
    from gpuconsole.cli.views import preflight as preflight_views

    show(*preflight_views.report(report, explain=explain, diffs=diffs))
    show(*preflight_views.changed_copy(task.edits))


def _exit_code(report: Report, task: Task) -> int:
    """Return 0 where a device has room or, with none to judge by, the memory is known; else 1."""
    if report.verdicts or report.estimate.errors:
        return 0 if _has_room(report) else 1
    if task.backend == "cpu":
        note("No limit was given to judge by; set one with --memory-mib N.")
        return 0 if report.estimate.memory is not None else 1
    note("No device was there to be judged; --offline answers for common cards.")
    return 1


def _has_room(report: Report) -> bool:
    return any(verdict.verdict in ("fits", "tight") for verdict in report.verdicts)
