"""Before a start: estimate a script, and queue it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuconsole.cli import completing, measuring
from gpuconsole.cli.options import ScriptCommand, common, options
from gpuconsole.cli.output import note, print_document, show
from gpuconsole.cli.tasks import (
    DeviceCount,
    Label,
    Pair,
    TaskValue,
    Variable,
    build_task,
    task_options,
)
from gpuconsole.core.estimate import MEASURED_TIERS, Measure, Report, Trial
from gpuconsole.core.jobs import Job, Task
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.session.session import Session

_TIERS = ("static", "formula", *MEASURED_TIERS)
_NOBODY = "No console starts jobs now: run `gpuconsole dispatch`, or leave one open."
_FLEET_WAIT_S = 3.0
"""How long preflight waits for hosts before it judges by the common cards."""


@click.command(cls=ScriptCommand)
@task_options
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
    shell_complete=completing.hosts,
    help="Measure on this host.",
)
@click.option(
    "--memory-mib",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Judge a card of N MiB instead of the fleet: no context, no threshold.",
)
@click.option("--offline", is_flag=True, help="Ask no host; answer for common cards.")
@click.option(
    "--forget-assumptions", "forget", is_flag=True, help="Forget the answers for this script."
)
@click.option(
    "--explain", is_flag=True, help="List the layers, where the peak comes, and the method."
)
@click.option("--curve", is_flag=True, help="Plot the peak against the batch size.")
@common
def preflight(
    script: Path | None,
    task_file: Path | None,
    batch_size: int | None,
    backend: str | None,
    assume: tuple[tuple[str, str], ...],
    measure: Measure | None,
    yes: bool,
    project: Path | None,
    tier: str | None,
    local: bool,
    host: str,
    memory_mib: float | None,
    offline: bool,
    forget: bool,
    explain: bool,
    curve: bool,
) -> int:
    """Predict a Paddle script's memory: where it fits, with which batch.

    The script is read first. Where that does not tell its memory, where it finds a fault that a
    run has to confirm, or where a measured tier is asked for, real Paddle runs it in a sandbox for
    a few steps: on a host that has the image, or on this machine once you agree (--yes; see
    --measure). Ctrl-C ends measuring, and what reading tells is the
    answer, unless a measured tier was asked for. Exit 0 when a device has room; 1 when none has,
    when the script is wrong, or when memory cannot be told. Without an inventory it answers for
    cards that are common in labs.
    """
    _require_tier(tier, local=local, host=host)
    task = build_task(
        script, task_file, assume=assume, project=project, batch_size=batch_size, backend=backend,
        measure=measure,
    )  # fmt: skip
    from gpuconsole.cli import answers, estimating
    from gpuconsole.session.reading.background import AsyncReader

    state, writable = options().state, not options().read_only
    # One process reads the script for all that is asked of it.
    with AsyncReader() as reader:
        if tier in MEASURED_TIERS:
            measuring.measure(task, tier, reader, local=local, host=host, yes=yes)
        ask = partial(
            estimating.estimate, task, memory_mib=memory_mib, inventory=options().inventory,
            offline=offline, wait_s=_FLEET_WAIT_S, state=state, explain=explain, curve=curve,
            remembered=answers.recalled(task, state, forget=forget and writable), reader=reader,
        )  # fmt: skip
        if tier:
            found = ask(tier=tier)
        else:
            found = measuring.climb(task, ask, reader, offline=offline, yes=yes)
    if writable:
        answers.remember(task, state)
    _print_report(found, explain=explain)
    return _exit_code(found, task)


def _require_tier(tier: str | None, *, local: bool, host: str) -> None:
    """Raise UsageError for a tier that there is not, or a place where nothing is measured."""
    if tier is not None and tier not in _TIERS:
        raise UsageError(
            "This tier is not available",
            f"{tier!r} is not one of {', '.join(_TIERS)}.",
            "Leave --tier out for the best there is.",
        )
    if (local or host) and tier not in MEASURED_TIERS:
        raise UsageError(
            "Nothing to measure",
            "--local and --host say where a script is measured.",
            "Add --tier meta or --tier traced.",
        )


def _print_report(found: Report, *, explain: bool) -> None:
    if options().as_json:
        print_document(found.as_json())
        return
    from gpuconsole.cli import preflight_views

    show(*preflight_views.report(found, explain=explain))


def _exit_code(found: Report, task: Task) -> int:
    """Return 0 where a device has room or, with none to judge by, the memory is known; else 1."""
    if found.verdicts or found.estimate.errors:
        return 0 if _has_room(found) else 1
    if task.backend == "cpu":
        note("No limit was given to judge by; --memory-mib N gives one.")
        return 0 if found.estimate.memory is not None else 1
    note("No device was there to be judged; --offline answers for common cards.")
    return 1


@click.command(cls=ScriptCommand)
@task_options
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
    help="Variables whose values are secret: K=V lines, readable by you alone.",
)  # fmt: skip
@click.option(
    "--ship", type=click.Path(dir_okay=False, path_type=Path), multiple=True, metavar="FILE",
    help="File of the project that goes along though it is ignored or looks secret.",
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
    help="Most hosts that its devices may spread over, as many on each.",
)
@click.option("--account", metavar="NAME", help="What the use is counted for beside you.")
@click.option(
    "--after",
    multiple=True,
    metavar="JOB",
    shell_complete=completing.jobs(),
    help="Job or sweep that must succeed first.",
)
@click.option(
    "--deadline", type=TaskValue("deadline", "time"), help="When it is needed: 2030-01-31T18:00."
)
@click.option(
    "--run-time",
    "run_time_s",
    type=TaskValue("run_time", "duration"),
    help="How long it runs: 90m; else told from earlier runs.",
)
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
    "--retries", type=TaskValue("retries", "n", int), help="Tries unasked after a foreign cause."
)
@click.option(
    "--sweep",
    "sweep_axes",
    multiple=True,
    metavar="NAME=VALUES",
    help="Queue it for each value: lr=1e-3,1e-4 or seed=0..3; several are crossed.",
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
@click.option("--force", is_flag=True, help="Queue it even if it will not fit, or is unknown.")
@click.option("--hold", is_flag=True, help="Queue it held; `gpuconsole release` lets it go.")
@common
def submit(
    script: Path | None,
    task_file: Path | None,
    force: bool,
    hold: bool,
    yes: bool,
    sweep_axes: tuple[str, ...],
    **said: Any,
) -> int:
    """Queue a script to run in a container where it fits.

    The script's project folder is shipped, without what .gitignore and .gpuconsoleignore leave out
    and what looks secret, by name or content; that is said. Where reading it does not tell its
    memory it is measured first (see --measure). Prints the job's id; of a sweep its name, by which
    `jobs`, `wait`, `cancel`, `hold` and `release` take all of it.
    """
    task = build_task(script, task_file, **said)
    if sweep_axes:
        return _submit_sweep(task, sweep_axes, force=force, hold=hold, yes=yes)
    job, nobody, warnings = _queue(task, force=force, hold=hold, yes=yes)
    tiers = (job.estimate or {}).get("tiers", [])
    if options().as_json:
        more = {"estimate_mib": job.estimate_mib, "tiers": tiers, "warnings": list(warnings)}
        print_document({"job": job.id, "name": job.task.name, "state": job.state.value, **more})
    else:
        print(job.id)
        if len(tiers) > 1:
            for line in measuring.lines(Trial(**tier) for tier in tiers):
                note(line)
        _warn(warnings)
        note(f"Follow it with: gpuconsole logs -f {job.id}")
        if nobody and not hold:
            note(_NOBODY)
    return 0


def _submit_sweep(task: Task, axes: tuple[str, ...], *, force: bool, hold: bool, yes: bool) -> int:
    from gpuconsole.cli.sessions import drive
    from gpuconsole.core.sweeps import read_axes

    crossed = read_axes(axes)

    async def work(session: Session) -> tuple[tuple[Job, ...], bool, tuple[str, ...]]:
        await session.first_frames(_FLEET_WAIT_S)
        with measuring.watching(yes=yes) as user:
            jobs = await session.queue.sweep(task, crossed, force=force, hold=hold, user=user)
        return jobs, not session.dispatcher, session.warnings(jobs[0].id)

    jobs, nobody, warnings = drive(work)
    name = jobs[0].task.sweep
    if options().as_json:
        listed = [
            {"job": job.id, "name": job.task.name, "state": job.state.value,
             "estimate_mib": job.estimate_mib}
            for job in jobs
        ]  # fmt: skip
        print_document({"sweep": name, "jobs": listed, "warnings": list(warnings)})
        return 0
    print(name)
    _warn(warnings)
    note(f"{len(jobs)} jobs are queued. See them with: gpuconsole jobs {name}")
    if nobody and not hold:
        note(_NOBODY)
    return 0


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        note(f"Warning: {warning}")


def _queue(task: Task, *, force: bool, hold: bool, yes: bool) -> tuple[Job, bool, tuple[str, ...]]:
    from gpuconsole.cli.sessions import drive

    async def work(session: Session) -> tuple[Job, bool, tuple[str, ...]]:
        await session.first_frames(_FLEET_WAIT_S)
        with measuring.watching(yes=yes) as user:
            job = await session.queue.submit(task, force=force, hold=hold, user=user)
        return job, not session.dispatcher, session.warnings(job.id)

    return drive(work)


def _has_room(found: Report) -> bool:
    return any(verdict.verdict in ("fits", "tight") for verdict in found.verdicts)
