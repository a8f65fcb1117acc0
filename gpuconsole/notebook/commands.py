"""The words of the magics, read as the command line's are: one command each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from gpuconsole.cli.commands.jobs.why import blocker_text
from gpuconsole.cli.commands.plan import submit as submit_command
from gpuconsole.cli.options import Options, ScriptCommand
from gpuconsole.cli.output import text
from gpuconsole.cli.tasks import build_task
from gpuconsole.cli.views import fleet
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.notebook.completion import job_words
from gpuconsole.notebook.display import TAIL, Screen
from gpuconsole.notebook.kernel_session import Desk, Opening
from gpuconsole.notebook.views import View, plain_view, report_view

Function = TypeVar("Function", bound=Callable[..., object])
_TASK = frozenset(
    parameter.name for parameter in submit_command.submit.params
) - {"inventory", "state", "read_only", "as_json", "sweep_axes", "hold", "yes",
     "changes"}  # fmt: skip
_DIR = click.Path(file_okay=False, path_type=Path)


@dataclass(slots=True, kw_only=True)
class Cell(Options):
    """What a magic works on: the kernel's desk and screen, and the cell's source, if it has one."""

    desk: Desk
    screen: Screen
    source: str = ""


_cell = click.make_pass_decorator(Cell)


def _jobs(
    context: click.Context, parameter: click.Parameter, beginning: str
) -> list[CompletionItem]:
    room = context.find_root().obj
    return job_words(room.desk, beginning) if isinstance(room, Cell) else []


def _task_words(command: click.Command) -> click.Command:
    """Give a command what `gpuconsole submit` takes to describe a task."""
    command.params[:0] = [param for param in submit_command.submit.params if param.name in _TASK]
    return command


def _following(function: Function) -> Function:
    """Give a command's function the options of following a job."""
    function = click.option(
        "--cancel-on-interrupt", is_flag=True, help="Interrupting the cell ends the job too."
    )(function)
    return click.option(
        "--tail", type=click.IntRange(1, 10_000), default=TAIL, show_default=True, metavar="N",
        help="Lines of the log that stay on the page.",
    )(function)  # fmt: skip


@_task_words
@click.command("%%gpuconsole", cls=ScriptCommand)
@click.option("--submit", "submitting", is_flag=True, help="Queue it, and follow it to its end.")
@click.option("--no-follow", is_flag=True, help="With --submit: do not wait for it.")
@_following
@_cell
def cell_words(cell: Cell, /, submitting: bool, **said: Any) -> None:
    """Say what the cell's script needs and where it fits; with --submit, run it there.

    The source is never run here. Where the cell's body is blank, a script may be named instead.
    """
    _estimate(cell, submitting=submitting, **said)


@click.group("%gpuconsole", no_args_is_help=True)
def line_words() -> None:
    """Look at the lab and its queue from a notebook.

    %%gpuconsole above a cell estimates that cell's script, and %%gpuconsole --submit runs it.
    """


@line_words.command("open")
@click.option("--demo", is_flag=True, help="The simulated lab.")
@click.option(
    "--speed", type=click.FloatRange(0.1, 100.0), default=1.0, metavar="X",
    help="Lab seconds a second, with --demo.",
)  # fmt: skip
@click.option(
    "--inventory", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="The hosts; else $GPUCONSOLE_INVENTORY, else your own inventory.",
)  # fmt: skip
@click.option("--state", type=_DIR, metavar="DIR", help="Folder of the queue and its logs.")
@click.option("--read-only", is_flag=True, help="Look only: refuse every change.")
@_cell
def open_lab(cell: Cell, /, demo: bool, speed: float, **said: Any) -> None:
    """Choose the lab for the cells that follow; else it is your own."""
    cell.desk.open(Opening(demo=demo, speed=speed, **said))
    _status(cell)


@line_words.command("close")
@_cell
def close(cell: Cell) -> None:
    """Stop polling the hosts; jobs run on."""
    cell.desk.close()


@line_words.command("status")
@_cell
def status(cell: Cell) -> None:
    """Show one picture of the fleet."""
    _status(cell)


def _status(cell: Cell) -> None:
    snapshot = cell.desk.lab().status()
    cell.screen.show(plain_view(fleet.fleet(snapshot, snapshot.taken_at)))


@line_words.command("jobs")
@click.argument("job", required=False, shell_complete=_jobs)
@_cell
def jobs(cell: Cell, /, job: str | None) -> None:
    """List the queue, or one job."""
    lab = cell.desk.lab()
    listed = lab.jobs() if job is None else (lab.job(job),)
    if listed:
        cell.screen.show(plain_view([fleet.jobs(listed, lab.now())]))
    else:
        cell.screen.show(plain_view([text("The queue is empty.")]))


@line_words.command("why")
@click.argument("job", shell_complete=_jobs)
@_cell
def why(cell: Cell, /, job: str) -> None:
    """Explain the state of a job, and what would help."""
    said = cell.desk.lab().why(job).as_json()
    lines = [text(f"{said['state']}: {said['reason']}", "bold")]
    lines += [text(f"  held up by {blocker_text(blocker)}") for blocker in said["blockers"]]
    if said["estimated_start"]:
        lines.append(text(f"  estimated start {said['estimated_start']}"))
    lines += [text(f"  → {option}") for option in said["options"]]
    cell.screen.show(plain_view(lines))


@line_words.command("logs")
@click.argument("job", shell_complete=_jobs)
@click.option("-n", "--tail", type=click.IntRange(min=0), metavar="N", help="Last N lines only.")
@click.option("--rank", type=click.IntRange(min=0), default=0, metavar="N", help="Of a gang.")
@_cell
def logs(cell: Cell, /, job: str, tail: int | None, rank: int) -> None:
    """Print the log of a job's latest attempt as it is now."""
    for line in deque(cell.desk.lab().logs(job, rank=rank), maxlen=tail):
        print(line)


@line_words.command("follow")
@click.argument("job", shell_complete=_jobs)
@_following
@_cell
def follow(cell: Cell, /, job: str, tail: int, cancel_on_interrupt: bool) -> None:
    """Follow a job and its log to its end. Interrupting ends the following, not the job."""
    _follow(cell, cell.desk.lab().job(job), tail, cancel_on_interrupt)


@line_words.command("cancel")
@click.argument("job", shell_complete=_jobs)
@_cell
def cancel(cell: Cell, /, job: str) -> None:
    """End a job: SIGTERM, a grace time, SIGKILL."""
    cell.screen.show(plain_view([text(fleet.job(cell.desk.lab().cancel(job)))]))


@line_words.command("fetch")
@click.argument("job", shell_complete=_jobs)
@click.option("--to", "folder", type=_DIR, default=Path(), metavar="DIR", help="Else here.")
@_cell
def fetch(cell: Cell, /, job: str, folder: Path) -> None:
    """Copy a job's results folder here."""
    cell.screen.show(plain_view([text(str(cell.desk.lab().fetch(job, folder)))]))


@_task_words
@line_words.command("preflight", cls=ScriptCommand)
@_cell
def preflight(cell: Cell, /, **said: Any) -> None:
    """Predict a script's memory: where it fits, with which batch. Nothing is run."""
    _estimate(cell, submitting=False, no_follow=True, tail=TAIL, cancel_on_interrupt=False, **said)


@_task_words
@line_words.command("submit", cls=ScriptCommand)
@click.option("--no-follow", is_flag=True, help="Do not wait for it.")
@_following
@_cell
def submit(cell: Cell, /, **said: Any) -> None:
    """Queue a script, and follow it to its end."""
    _estimate(cell, submitting=True, **said)


def _estimate(
    cell: Cell, *, submitting: bool, no_follow: bool, tail: int, cancel_on_interrupt: bool,
    force: bool, **said: Any,
) -> None:  # fmt: skip
    """Show preflight's answer for a task, and queue it where that is asked for."""
    task = _task(cell, **said)
    if submitting:
        # Without a lab there is nothing to estimate for.
        cell.desk.lab()
    report = cell.desk.preflight(task)
    simulated = not cell.desk.homeless and cell.desk.lab().simulated
    cell.screen.show(report_view(report, simulated))
    if not submitting:
        if not cell.desk.homeless and not cell.desk.lab().read_only:
            cell.screen.offer("Submit", lambda: _queued(cell, task, force))
        return
    job = cell.desk.lab().submit(task, force=force)
    if no_follow:
        cell.screen.show(plain_view([text(fleet.job(job))]))
    else:
        _follow(cell, job, tail, cancel_on_interrupt)


def _queued(cell: Cell, task: Task, force: bool) -> View:
    """Queue a task with its answer on the page, and say how to follow it."""
    job = cell.desk.lab().submit(task, force=force)
    follows = msg("`{line}` follows it.", line=f"%gpuconsole follow {job.id}")
    return plain_view([text(fleet.job(job)), text(follows)])


def _task(cell: Cell, /, script: Path | None, task_file: Path | None, **said: Any) -> Task:
    if not cell.source.strip():
        return build_task(script, task_file, **said)
    if script is not None:
        raise UsageError(
            "Two scripts",
            msg("The cell has a source of its own, and the line names {script}.", script=script),
            msg("For the file write `%gpuconsole preflight {script}`.", script=script),
        )
    said["name"] = said["name"] or "cell"
    return build_task(cell.desk.script_of(cell.source, said["name"]), task_file, **said)


def _follow(cell: Cell, /, job: Job, tail: int, cancel_on_interrupt: bool) -> None:
    """Follow a job; RefusedError when it does not end well, so that no cell after it is run."""
    lab = cell.desk.lab()
    try:
        ended = cell.screen.follow(lab.follow(job.id), tail, lab.simulated) or lab.job(job.id)
    except KeyboardInterrupt:
        if cancel_on_interrupt:
            lab.cancel(job.id)
            raise RefusedError("Interrupted", msg("Job {id} was cancelled.", id=job.id)) from None
        raise RefusedError(
            "Interrupted",
            msg("Job {id} goes on; only the following ended.", id=job.id),
            msg(
                "`%gpuconsole follow {id}` goes on following, "
                "`%gpuconsole cancel {id}` ends the job.",
                id=job.id,
            ),
        ) from None
    if ended.state is not JobState.SUCCEEDED:
        raise RefusedError(
            "Job did not succeed",
            msg(
                "Job {id} {state_word}: {cause_text}",
                id=ended.id,
                state_word=ended.state.value,
                cause_text=ended.cause or "no cause is known",
            ),
            msg("`%gpuconsole logs {id}` prints its log.", id=ended.id),
        )
