"""The folder in which a job keeps its checkpoints: the same for all its attempts.

On each host it is a folder beside the job's results. Where rank 0 last ran is the checkpoint that
counts; an attempt on other hosts gets a copy of it through the console before it starts.
"""

from __future__ import annotations

import tarfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job, Task
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt import gang
from gpuconsole.session.dispatch.attempt.container_spec import (
    WORKING_DIR,
    checkpoint_path,
    start_path,
)
from gpuconsole.session.dispatch.attempt.gang import Part
from gpuconsole.session.dispatch.attempt.recovery import may_have_run
from gpuconsole.session.dispatch.job_record import Entry

MOST_TOLD = 5
"""Things left out of a checkpoint that its event names."""


def holder_of(job: Job, snapshot: FleetSnapshot) -> str:
    """Return the host that has the job's latest checkpoint; "" when it keeps none or has not run.

    What a host had that has left the inventory is gone: an older copy may be left on another.
    """
    if not job.task.checkpoint_dir:
        return ""
    hosts = {host.name for host in snapshot.hosts}
    ran = (attempt.host for attempt in reversed(job.attempts) if may_have_run(attempt))
    return next((host for host in ran if host in hosts), "")


def pack_parents(task: Task, target: Path) -> bool:
    """Write a tar of the folders that lead to the checkpoints, and of those in which the script
    starts, below the project; False where there are none. Docker would make them root's."""
    start, checkpoint = PurePosixPath(start_path(task)), PurePosixPath(checkpoint_path(task) or "/")
    folders = {
        folder for folder in (start, *start.parents, *checkpoint.parents) if _is_below(folder)
    }
    if not folders:
        return False
    with tarfile.open(target, "w") as tar:
        for folder in sorted(folders):
            entry = tarfile.TarInfo(str(folder.relative_to(WORKING_DIR)))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
    return True


def _is_below(path: PurePosixPath) -> bool:
    return path.is_relative_to(WORKING_DIR) and path != PurePosixPath(WORKING_DIR)


async def bring(
    context: Context, entry: Entry, parts: Sequence[Part], containers: Mapping[int, str]
) -> None:
    """Copy the checkpoint to every host of an attempt that is not where it lies.

    HostLostError when the host that has it is out of sight; RefusedError when it is not there any
    more, or cannot be read safely; UsageError when it is damaged or too large.
    """
    job = entry.job
    source = holder_of(job, context.hosts.snapshot())
    needing = [part for part in parts if source and part.attempt.host != source]
    if not needing:
        return
    entry.say(msg("bringing its checkpoint from {host}", host=source))
    limits = context.settings.transfer.limits()
    target = checkpoint_path(job.task)

    async def one(part: Part) -> None:
        container, sent = containers[part.rank], _sent(context, job, source)
        left = await part.engine.restore(job.id, container, sent, target, limits)
        if left.count:
            lines = "; ".join(left.lines(MOST_TOLD))
            where = f"on the way from {source} to {part.attempt.host}"
            sentence = f"{left.count} things of its checkpoint were left out {where}: {lines}."
            context.journal.tell("job", job.id, clean(sentence, 500), "warning")

    await gang.each(needing, one)


async def _sent(context: Context, job: Job, source: str) -> AsyncIterator[bytes]:
    """Give the checkpoint as the host sends it that has it."""
    empty = True
    with gang.on_host(source):
        engine = await context.hosts.engine(source)
        async for chunk in engine.checkpoint(job.id):
            empty = False
            yield chunk
    if empty:
        raise _gone(job, source)


def _gone(job: Job, source: str) -> RefusedError:
    return RefusedError(
        "The checkpoint is gone",
        msg(
            "Job {id} last ran on {source}, where its checkpoint folder was removed since.",
            id=job.id,
            source=source,
        ),
        "Submit it again to begin from the start.",
    )
