"""A job, or the jobs of a sweep, as a batch script that a person hands to Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuconsole.core.containers import LABEL_PREFIX
from gpuconsole.core.engines.batch_job import CLUSTER_LABEL, Script, array_script, batch_script
from gpuconsole.core.jobs import Job
from gpuconsole.core.submission.after_conditions import Condition
from gpuconsole.core.submission.secrets import withheld
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_mib
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.slurm_jobs import WORDS, batch_of, command_of, require_even

_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def batch_file(context: Context, jobs: Sequence[Job]) -> str:
    """Return the text for `sbatch`, of several jobs as one array; what it leaves to a person is in
    comments at its beginning.

    UsageError for devices that cannot be spread evenly over nodes, or jobs that ask for
    different things.
    """
    scripts = [_script(context, job) for job in jobs]
    first = jobs[0]
    if any(script.batch != scripts[0].batch for script in scripts):
        raise UsageError(
            "Not one array",
            msg("The jobs of {sweep} ask for different things.", sweep=first.task.sweep),
            "Render each by its id.",
        )  # fmt: skip
    if len(jobs) == 1:
        text = batch_script(scripts[0])
    else:
        text = array_script(scripts, _word(first.task.sweep))
    shebang, _, rest = text.partition("\n")
    notes = [f"# {clean(note, 400)}" for note in _notes(first)]
    return "\n".join([shebang, *notes, rest]).rstrip("\n")


def _script(context: Context, job: Job) -> Script:
    # A person hands it over in the project's own folder.
    task = replace(job.task, folder="")
    require_even(task)
    # Numbers of Slurm's jobs are not known, and a path in the project needs no detour.
    batch = replace(
        batch_of(job, context.hosts.snapshot(), (), context.settings.limits), array="", link=None
    )
    hidden = dict.fromkeys(sorted(withheld(task.env, task.secrets)), "")
    env = {"PYTHONUNBUFFERED": "1", "FLAGS_allocator_strategy": "auto_growth", **task.env}
    if task.checkpoint_dir:
        env.setdefault("GPUCONSOLE_CHECKPOINT", task.checkpoint_dir)
    shown = {name: value for name, value in env.items() if name not in hidden}
    return Script(_word(task.name), command_of(task, batch), batch, shown, hidden)


def _notes(job: Job) -> list[str]:
    task = job.task
    where = task.project or "its project's folder"
    notes = [
        f"Hand it over with `sbatch FILE` in a copy of {where} on the cluster.",
        "It runs with the Python that the nodes find: load modules or a virtual environment "
        "before the command.",
    ]
    if job.estimate_mib is not None:
        notes.append(f"Preflight: up to {format_mib(job.estimate_mib)} on one device.")
    if task.image:
        notes.append(f"Its image is {task.image}: `apptainer exec --nv docker://IMAGE` runs it.")
    if task.preferred_devices:
        wanted = ", ".join(task.preferred_devices)
        notes.append(f"It prefers {wanted}: name Slurm's type of it in --gres.")
    if task.after:
        conditions = [Condition.of(text) for text in task.after]
        words = ",".join(f"{condition.kind}:NUMBER" for condition in conditions)
        names = ", ".join(condition.needed for condition in conditions)
        notes.append(f"It comes after {names}: add --dependency={words}.")
    if hidden := sorted(withheld(task.env, task.secrets)):
        listed = ", ".join(hidden)
        notes.append(f"Secret, so without values here: export {listed} before sbatch.")
    if task.mounts:
        listed = ", ".join(f"{mount.source} at {mount.target}" for mount in task.mounts)
        notes.append(f"Nothing is mounted; it expects {listed}.")
    if task.edits:
        notes.append("The console would change lines of the script in its copy; this does not.")
    if unknown := [key for key in task.labels if key not in (*WORDS, CLUSTER_LABEL)]:
        notes.append(f"Labels that Slurm does not know are left out: {', '.join(unknown)}.")
    return notes


def _word(name: str) -> str:
    """Return a name that an `#SBATCH` line and a file's name can hold."""
    word = "".join(letter if letter in _NAME_LETTERS else "-" for letter in name)[:60]
    return word.strip("-.") or LABEL_PREFIX.strip(".")
