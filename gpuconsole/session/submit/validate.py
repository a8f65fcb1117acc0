"""From a task to a queued job: is it whole, will it fit, what has to travel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.estimate import Report, Verdict
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.services import Service
from gpuconsole.core.submission.projects import start_folder
from gpuconsole.core.units import format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import joined, msg
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.placement import STEPS, need_on
from gpuconsole.preflight.batch_sizes import require_batch_size
from gpuconsole.session.dispatch.attempt.container_spec import require_targets
from gpuconsole.session.dispatch.slurm_jobs import cluster_of


@dataclass(frozen=True, slots=True)
class Packed:
    """What was packed: the script's path inside, and what was left out, as sentences."""

    script: str
    skipped: tuple[str, ...] = ()


Packer = Callable[[Task, Path, float], Packed]
"""Packs the project of a task into a file, of so many MiB at most."""


def completed(task: Task) -> Task:
    """Return the task with absolute paths; UsageError when it cannot be run at all."""
    if not task.script:
        raise UsageError(
            "No script", msg("Task {name} names no script.", name=task.name), "Set `script:`."
        )
    script = Path(task.script).expanduser()
    if not script.is_file():
        raise UsageError(
            "No such script", msg("{path} is not a file.", path=script), "Check the path."
        )
    if script.suffix == ".ipynb":
        raise UsageError(
            "A notebook cannot be submitted",
            msg("{script}: Python runs scripts; preflight alone reads notebooks.", script=script),
            "Export it first: jupyter nbconvert --to script NOTEBOOK.",
        )
    require_batch_size(task.batch_size)
    if task.devices is not None and task.devices < 1:
        raise UsageError(
            "No devices",
            msg("The task asks for {devices}.", devices=task.devices),
            "Use 1 or more.",
        )
    require_targets(task)
    project = str(Path(task.project).expanduser().resolve()) if task.project else ""
    ship = tuple(str(Path(name).expanduser().resolve()) for name in task.ship)
    return replace(task, script=str(script.resolve()), project=project, ship=ship)


def require_service(task: Task) -> Service:
    """Return what a task says of its service; UsageError where it is none that can be kept running
    here."""
    if task.service is None:
        raise UsageError(
            "Not a service",
            msg("Task {name} says nothing of a service.", name=task.name),
            "Write `type: service` and `service:` into its task file.",
        )
    wrong = {
        "on several hosts": task.hosts > 1,
        "in a sweep": bool(task.goal or task.sweep),
        "with another batch size after it ran out of memory": task.auto_batch,
    }
    for what, is_so in wrong.items():
        if is_so:
            raise UsageError(
                "Not for a service",
                msg("A replica of a service does not run {what_text}.", what_text=what),
                "Remove that from its task; `replicas:` says how many there are.",
            )
    if cluster_of(task):
        raise UsageError(
            "Not on a Slurm cluster",
            "The console has no way into what Slurm runs on a node.",
            "Name hosts with an engine of their own with --label.",
        )
    return task.service


def pack_task(
    task: Task, target: Path, limit_mib: float, pack: Packer
) -> tuple[Task, tuple[str, ...]]:
    """Pack the task's project into `target`; returns the task that runs what was packed, in the
    user's current working folder, and what was left out."""
    script = Path(task.script)
    packed = pack(task, target, limit_mib)
    if not task.script:
        return task, packed.skipped
    root = script.parents[len(Path(packed.script).parts) - 1]
    folder = start_folder(root, task.folder, Path.cwd())
    return replace(task, project=str(root), folder=folder), packed.skipped


def refuse_hopeless(task: Task, report: Report) -> None:
    """Raise RefusedError when the script itself is wrong, or no device could ever hold it."""
    estimate = report.estimate
    if estimate.errors:
        fault = estimate.errors[0]
        raise RefusedError(
            "The script will fail",
            msg(
                "{file}:{line}: {message}", file=fault.file, line=fault.line, message=fault.message
            ),
            "Correct it, or submit with --force.",
        )
    # Only devices of the task's own back end can ever run it.
    judged = [
        verdict
        for verdict in report.verdicts
        if verdict.verdict != "unknown" and verdict.backend == estimate.backend
    ]
    hopeless = all(verdict.verdict in ("will-not-fit", "will-fail") for verdict in judged)
    if judged and hopeless and not _fits_divided(task, report, judged):
        raise RefusedError("It will not fit", _too_large(report, judged), _remedy(report, judged))


def refuse_unknown(report: Report) -> None:
    """Raise RefusedError if no tier could determine the memory."""
    if report.estimate.memory is not None or not report.estimate.script:
        return
    reasons = joined(
        "; ", (joined(": ", (trial.tier, trial.why)) for trial in report.trials if trial.why)
    )
    raise RefusedError(
        "Its memory is unknown",
        msg("This lab queues no such jobs. {reasons}.", reasons=reasons),
        "Answer what preflight asks with --assume, or submit with --force.",
    )


def new_job(job_id: str, task: Task, user: str, now: float, report: Report) -> Job:
    """Return the job of a task, ready to be added to the journal."""
    memory = report.estimate.memory
    return Job(
        id=job_id,
        task=task,
        user=user,
        state=JobState.QUEUED,
        submitted_at=now,
        queued_at=now,
        estimate_mib=None if memory is None else memory.high_mib,
        estimate=report.as_json(),
    )


def _fits_divided(task: Task, report: Report, judged: list[Verdict]) -> bool:
    """Tell whether it may still fit when devices share it."""
    memory = report.estimate.memory
    if memory is None or task.distributed_strategy != "sharding":
        return False
    need = need_on(task, memory.high_mib, memory.optimizer_mib, task.devices or STEPS[-1])
    return any(verdict.limit_mib is not None and need <= verdict.limit_mib for verdict in judged)


def _too_large(report: Report, judged: list[Verdict]) -> str:
    best = max(judged, key=lambda verdict: verdict.limit_mib or 0.0)
    memory = report.estimate.memory
    need = "" if memory is None else f"up to {format_mib(memory.high_mib)} are needed, "
    return (
        f"On every device of the fleet {need or 'memory would run out: '}"
        f"{format_mib(best.limit_mib)} may be used on the largest ({best.device} of {best.host})."
    )


def _remedy(report: Report, judged: list[Verdict]) -> str:
    if report.suggestions:
        return f"{report.suggestions[0].text} Or submit with --force."
    batch = max((verdict.max_batch_size or 0 for verdict in judged), default=0)
    return f"A batch of {batch} would fit." if batch else "Use a smaller model, or --force."
