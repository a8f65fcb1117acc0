"""`submit`: queue a script, a sweep or a search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuconsole.cli import measurement, shell_completion
from gpuconsole.cli.options import ScriptCommand, common, options
from gpuconsole.cli.output import note, print_document
from gpuconsole.cli.tasks import (
    Changes,
    DeviceCount,
    Label,
    Pair,
    TaskValue,
    Variable,
    apply_option,
    build_task,
    task_options,
)
from gpuconsole.core.estimate import Trial
from gpuconsole.core.jobs import Job, Task
from gpuconsole.core.wording import joined, msg, sentences
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

_NO_DISPATCHER = "No console starts jobs now: run `gpuconsole dispatch`, or leave one open."
_FLEET_WAIT_S = 3.0
"""How long it waits for hosts before it judges by the common cards."""


@click.command(cls=ScriptCommand)
@task_options
@apply_option
@click.option("--name", metavar="NAME", help="What the queue calls it; else the script's name.")
@click.option("--image", metavar="IMAGE", help="Container image; else the host's default.")
@click.option(
    "--devices", type=DeviceCount(), help="How many; auto = one, or what sharding needs to fit."
)
@click.option("--priority", type=click.IntRange(-1000, 1000), metavar="N", help="Higher is first.")
@click.option(
    "--env",
    type=Variable(),
    multiple=True,
    metavar="K[=V]",
    help="Environment variable; K alone takes its value from here, and hides it.",
)
@click.option(
    "--env-file", type=click.Path(dir_okay=False, path_type=Path), multiple=True, metavar="FILE",
    help="Secret variables: K=V lines, readable by you alone.",
)  # fmt: skip
@click.option(
    "--ship", type=click.Path(dir_okay=False, path_type=Path), multiple=True, metavar="FILE",
    help="File of the project that is shipped although it is ignored or looks secret.",
)  # fmt: skip
@click.option(
    "--mount",
    type=TaskValue("mounts", "src:dst[:ro|rw]", lambda text: [text]),
    multiple=True,
    help="Folder of the host; ro by default.",
)
@click.option("--label", type=Pair(), multiple=True, metavar="K=V", help="Label a host must have.")
@click.option(
    "--not-label", type=Label(), multiple=True, metavar="K[=V]", help="Label a host must not have."
)
@click.option(
    "--hosts",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Largest number of hosts for its devices, with the same number on each.",
)
@click.option(
    "--account",
    metavar="NAME",
    help="Account, such as a project, for which the use is counted too.",
)
@click.option(
    "--after",
    multiple=True,
    metavar="JOB",
    shell_complete=shell_completion.jobs(),
    help="Job or sweep that must succeed first; afterany:JOB must end, afternotok:JOB must fail.",
)
@click.option(
    "--cancel-if-failed",
    is_flag=True,
    default=None,
    help="Cancel it if a job of --after can no longer end as required; else it waits.",
)
@click.option(
    "--deadline", type=TaskValue("deadline", "time"), help="When it is needed: 2030-01-31T18:00."
)
@click.option(
    "--run-time",
    "run_time_s",
    type=TaskValue("run_time", "duration"),
    help="Expected run time: 90m; else predicted from earlier runs.",
)
@click.option(
    "--time-limit",
    "time_limit_s",
    type=TaskValue("time_limit", "duration"),
    help="Longest run time: 8h; then it gets SIGTERM, later SIGKILL.",
)
@click.option(
    "--stop-if", multiple=True, metavar="RULE",
    help="End it when its log breaks this rule: 'loss is nan', 'loss > 10 after 100 steps', "
    "'no better val_loss for 5 epochs'.",
)  # fmt: skip
@click.option("--share", is_flag=True, default=None, help="It may share its device.")
@click.option("--exclusive", is_flag=True, default=None, help="Only an empty device will do.")
@click.option(
    "--checkpoint-dir",
    metavar="DIR",
    help="Where the script keeps checkpoints; the same for all its attempts.",
)
@click.option(
    "--auto-batch",
    is_flag=True,
    default=None,
    help="Out of memory: try again with a batch that fits.",
)
@click.option(
    "--retries",
    type=TaskValue("retries", "n", int),
    help="Automatic retries after a cause outside the job.",
)
@click.option(
    "--sweep",
    "sweep_axes",
    multiple=True,
    metavar="NAME=VALUES",
    help="Queue it for each value: lr=1e-3,1e-4 or seed=0..3; several are crossed.",
)
@click.option(
    "--goal", metavar="GOAL",
    help="Search for the best values of --sweep with Optuna: 'min val_loss', 'max acc'.",
)  # fmt: skip
@click.option("--trials", type=click.IntRange(1, 1000), metavar="N", help="Trials of the search.")
@click.option(
    "--at-most", type=TaskValue("at_most", "n", int), help="Jobs of the sweep that run at once."
)
@click.option(
    "--network", type=click.Choice(["none", "lab", "full"]), help="What the container may reach."
)
@click.option(
    "--shm-size", "shm_size_mib", type=TaskValue("shm_size", "size"), help="Size of /dev/shm: 8g."
)
@click.option(
    "--memory-limit",
    "memory_limit_mib",
    type=TaskValue("memory_limit", "size"),
    help="Host memory: 32g.",
)
@click.option(
    "--force", is_flag=True, help="Queue it even if it will not fit, or if that is unknown."
)
@click.option("--hold", is_flag=True, help="Queue it on hold; `gpuconsole release` lets it start.")
@common
def submit(
    script: Path | None,
    task_file: Path | None,
    force: bool,
    hold: bool,
    yes: bool,
    sweep_axes: tuple[str, ...],
    changes: Changes,
    goal: str | None,
    trials: int | None,
    **said: Any,
) -> int:
    """Queue a script to run in a container where it fits.

    The script's project folder is shipped, without what .gitignore and .gpuconsoleignore exclude
    and what looks secret, by name or content; such files are listed. If reading the script does not
    determine its memory, it is measured first (see --measure). Prints the job's id, or the name of
    a sweep, which `jobs`, `wait`, `cancel`, `hold` and `release` accept for all of its jobs.
    """
    task = build_task(script, task_file, **said)
    if said["at_most"] is not None and not sweep_axes:
        raise UsageError("No sweep", "--at-most is for the jobs of a sweep.", "Add --sweep.")
    if task.service is not None and (sweep_axes or goal is not None or trials is not None):
        raise UsageError(
            "Not for a service", "A service is no sweep and no search.",
            "`replicas:` in its task file says how many run.",
        )  # fmt: skip
    if goal is not None or trials is not None:
        return _submit_search(
            task, sweep_axes, changes, goal=goal, trials=trials, force=force, hold=hold, yes=yes
        )
    if sweep_axes:
        return _submit_sweep(task, sweep_axes, changes, force=force, hold=hold, yes=yes)
    if task.service is not None and not sweep_axes:
        return _submit_service(task, changes, force=force, hold=hold, yes=yes)
    job, no_dispatcher, warnings = _queue(task, changes, force=force, hold=hold, yes=yes)
    tiers = (job.estimate or {}).get("tiers", [])
    if options().as_json:
        more = {"estimate_mib": job.estimate_mib, "tiers": tiers, "warnings": list(warnings)}
        print_document({"job": job.id, "name": job.task.name, "state": job.state.value, **more})
    else:
        print(job.id)
        if len(tiers) > 1:
            for line in measurement.lines(Trial(**tier) for tier in tiers):
                note(line)
        _warn(warnings)
        _note_edits(job.task)
        note(msg("Follow it with: gpuconsole logs -f {job}", job=job.id))
        if no_dispatcher and not hold:
            note(_NO_DISPATCHER)
    return 0


def _note_edits(task: Task) -> None:
    """Say where the shipped copy differs from the script."""
    if task.edits:
        places = ", ".join(f"{Path(edit.file).name}:{edit.line}" for edit in task.edits)
        words = "The shipped copy is changed at {places}; your file stays as it is."
        note(msg(words, places=places))


def _submit_sweep(
    task: Task,
    axes: tuple[str, ...],
    changes: Changes,
    *,
    force: bool,
    hold: bool,
    yes: bool,
) -> int:
    from gpuconsole.cli.sessions import drive
    from gpuconsole.core.submission.sweeps import read_axes

    crossed = read_axes(axes)

    async def work(session: Session) -> tuple[tuple[Job, ...], bool, tuple[str, ...]]:
        await session.first_frames(_FLEET_WAIT_S)
        changed = await _applied(session, task, changes)
        with measurement.watching(yes=yes) as user:
            jobs = await session.queue.sweep(changed, crossed, force=force, hold=hold, user=user)
        return jobs, not session.dispatcher, session.warnings(jobs[0].id)

    _tell_sweep(*drive(work), hold=hold)
    return 0


def _submit_service(task: Task, changes: Changes, *, force: bool, hold: bool, yes: bool) -> int:
    from gpuconsole.cli.sessions import drive

    async def work(session: Session) -> tuple[tuple[Job, ...], bool, tuple[str, ...]]:
        await session.first_frames(_FLEET_WAIT_S)
        changed = await _applied(session, task, changes)
        with measurement.watching(yes=yes) as user:
            jobs = await session.queue.serve(changed, force=force, hold=hold, user=user)
        return jobs, not session.dispatcher, session.warnings(jobs[0].id)

    jobs, no_dispatcher, warnings = drive(work)
    name = jobs[0].task.sweep
    if options().as_json:
        print_document({"service": name, "jobs": _listed(jobs), "warnings": list(warnings)})
        return 0
    print(name)
    _warn(warnings)
    note(msg("Reach it with: gpuconsole forward {name}", name=name))
    note(msg("See its replicas with: gpuconsole services {name}", name=name))
    if no_dispatcher and not hold:
        note(_NO_DISPATCHER)
    return 0


def _submit_search(
    task: Task,
    axes: tuple[str, ...],
    changes: Changes,
    *,
    goal: str | None,
    trials: int | None,
    force: bool,
    hold: bool,
    yes: bool,
) -> int:
    from gpuconsole.cli.extras import install_command
    from gpuconsole.cli.sessions import drive
    from gpuconsole.core.submission.tuning import Goal, read_space
    from gpuconsole.session.dispatch.optuna_study import has_optuna

    if goal is None or trials is None or not axes or hold:
        raise UsageError(
            "Wrong search",
            "A search takes --goal, --trials and --sweep, and starts by itself.",
            "Write: --goal 'min val_loss' --trials 30 --sweep lr=1e-5..1e-1:log",
        )
    Goal.of(goal)
    read_space(axes)

    async def work(session: Session) -> tuple[tuple[Job, ...], bool, tuple[str, ...]]:
        if not session.elsewhere and not has_optuna():
            raise UsageError(
                "Optuna is not installed",
                "A search is led by Optuna, which the console that starts jobs needs.",
                msg("Run: {command}", command=install_command("tune")),
            )
        await session.first_frames(_FLEET_WAIT_S)
        changed = await _applied(session, task, changes)
        with measurement.watching(yes=yes) as user:
            jobs = await session.queue.search(changed, axes, goal, trials, force=force, user=user)
        return jobs, not session.dispatcher, session.warnings(jobs[0].id)

    _tell_sweep(*drive(work), hold=hold)
    return 0


def _tell_sweep(
    jobs: Sequence[Job], no_dispatcher: bool, warnings: Sequence[str], *, hold: bool
) -> None:
    name = jobs[0].task.sweep
    if options().as_json:
        print_document({"sweep": name, "jobs": _listed(jobs), "warnings": list(warnings)})
        return
    print(name)
    _warn(warnings)
    queued = msg("{n} jobs are queued.", n=len(jobs))
    note(sentences(queued, msg("See them with: gpuconsole jobs {name}", name=name)))
    if no_dispatcher and not hold:
        note(_NO_DISPATCHER)


def _listed(jobs: Sequence[Job]) -> list[dict[str, object]]:
    return [
        {"job": job.id, "name": job.task.name, "state": job.state.value,
         "estimate_mib": job.estimate_mib}
        for job in jobs
    ]  # fmt: skip


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        note(joined(": ", ("Warning", warning)))


async def _applied(session: Session, task: Task, changes: Changes) -> Task:
    """Return a task with changes made in its shipped copy."""
    for kind, steps in changes:
        task = await session.estimates.applied(task, kind, steps)
    return task


def _queue(
    task: Task, changes: Changes, *, force: bool, hold: bool, yes: bool
) -> tuple[Job, bool, tuple[str, ...]]:
    from gpuconsole.cli.sessions import drive

    async def work(session: Session) -> tuple[Job, bool, tuple[str, ...]]:
        await session.first_frames(_FLEET_WAIT_S)
        changed = await _applied(session, task, changes)
        with measurement.watching(yes=yes) as user:
            job = await session.queue.submit(changed, force=force, hold=hold, user=user)
        return job, not session.dispatcher, session.warnings(job.id)

    return drive(work)
