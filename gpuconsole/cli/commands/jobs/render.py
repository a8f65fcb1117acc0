"""`render`: a job, or a script that is not queued, for another engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuconsole.cli import shell_completion
from gpuconsole.cli.options import ScriptCommand, common, options, script_args
from gpuconsole.cli.output import print_document
from gpuconsole.cli.sessions import drive
from gpuconsole.cli.tasks import DeviceCount, build_task
from gpuconsole.errors import UsageError

if TYPE_CHECKING:
    from gpuconsole.core.jobs import Task
    from gpuconsole.session.session import Session


@click.command(cls=ScriptCommand)
@click.argument(
    "job", metavar="JOB|SCRIPT", required=False, shell_complete=shell_completion.jobs_or_files
)
@click.option(
    "--to", "target", type=click.Choice(["docker", "slurm", "kubernetes"]), required=True,
    help="Which engine.",
)  # fmt: skip
@click.option(
    "--task", "task_file", type=click.Path(path_type=Path), metavar="FILE",
    help="Task file (YAML) of a script.",
)  # fmt: skip
@click.option("--image", metavar="IMAGE", help="Container image of a script.")
@click.option("--devices", type=DeviceCount(), help="How many devices a script gets.")
@click.option("--hosts", type=click.IntRange(1, 64), metavar="N", help="Over how many hosts.")
@common
def render(job: str | None, target: str, task_file: Path | None, **said: Any) -> int:
    """Print how another engine would run a job.

    For a sweep --to slurm prints one array. A script is treated as by `submit`, and nothing is
    queued. What an engine cannot do, or leaves to you, is in comments at the top.
    """
    script = _script(job, task_file)
    if script is None and task_file is None:
        assert job is not None
        if script_args() or any(value is not None for value in said.values()):
            raise UsageError(
                "Wrong usage", "A job has its image, devices and arguments already.",
                "Name a script, or leave these out.",
            )  # fmt: skip
        name, text = drive(lambda session: _of_job(session, job, target), fleet=False)
    else:
        task = build_task(script, task_file, **said)
        name, text = task.name, drive(lambda s: _of_task(s, task, target), fleet=False)
    if options().as_json:
        print_document({"job": name, "target": target, "text": text})
    else:
        print(text)
    return 0


def _script(word: str | None, task_file: Path | None) -> Path | None:
    """Return the script that a word means, rather than a job."""
    if word is None:
        if task_file is None:
            raise UsageError("Nothing to render", "Neither a job nor a script is named.", "")
        return None
    path = Path(word).expanduser()
    return path if task_file is not None or path.suffix == ".py" or path.is_file() else None


async def _of_job(session: Session, job: str, target: str) -> tuple[str, str]:
    text = session.render(job, target)
    # Slurm runs a whole sweep as one array.
    group = session.group(job)
    return group[0].id if len(group) == 1 else group[0].task.sweep, text


async def _of_task(session: Session, task: Task, target: str) -> str:
    report = await session.estimates.report(task)
    return session.render_task(task, target, report=report)
