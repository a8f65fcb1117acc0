"""The folder in which a job keeps its checkpoints: the same for all its attempts.

On each host it is a folder beside the job's results. Where rank 0 last ran is the checkpoint that
counts; an attempt on other hosts gets a copy of it through the console before it starts.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job, Task
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session import gang
from gpuconsole.session.bench import Bench
from gpuconsole.session.entry import Entry
from gpuconsole.session.gang import Part
from gpuconsole.session.recovery import may_have_run
from gpuconsole.session.spec import WORKING_DIR, checkpoint_path


def holder_of(job: Job, snapshot: FleetSnapshot) -> str:
    """Return the host that has the job's latest checkpoint; "" when it keeps none or has not run.

    What a host had that has left the inventory is gone: an older copy may be left on another.
    """
    if not job.task.checkpoint_dir:
        return ""
    hosts = {host.name for host in snapshot.hosts}
    ran = (one.host for one in reversed(job.attempts) if may_have_run(one))
    return next((host for host in ran if host in hosts), "")


def pack_parents(task: Task, target: Path) -> bool:
    """Write a tar of the folders that lead to the checkpoints, below the working folder; False
    where there are none. Docker would make them root's."""
    path = PurePosixPath(checkpoint_path(task) or "/")
    if not path.is_relative_to(WORKING_DIR) or path.parent == PurePosixPath(WORKING_DIR):
        return False
    with tarfile.open(target, "w") as tar:
        for folder in reversed(path.relative_to(WORKING_DIR).parents[:-1]):
            entry = tarfile.TarInfo(str(folder))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
    return True


async def bring(
    bench: Bench, entry: Entry, parts: Sequence[Part], containers: Mapping[int, str]
) -> None:
    """Copy the checkpoint to every host of an attempt that is not where it lies.

    HostLostError when the host that has it is out of sight; RefusedError when it is not there any
    more, or cannot be read safely; UsageError when this machine cannot hold it on its way.
    """
    job = entry.job
    source = holder_of(job, bench.hosts.snapshot())
    needing = [part for part in parts if source and part.attempt.host != source]
    if not needing:
        return
    entry.say(f"bringing its checkpoint from {source}")
    try:
        with (
            tempfile.TemporaryDirectory(dir=bench.state, prefix="checkpoint-") as folder,
            gang.on_host(source),
        ):
            packed = Path(folder) / "checkpoint.tar"
            engine = await bench.hosts.engine(source)
            with packed.open("wb") as file:
                async for chunk in engine.checkpoint(job.id):
                    file.write(chunk)
            if not packed.stat().st_size:
                raise _gone(job, source)
            target = checkpoint_path(job.task)
            await gang.each(
                needing, lambda part: part.engine.put(containers[part.rank], packed, target)
            )
    except OSError as error:
        raise UsageError(
            "The checkpoint cannot be carried",
            f"It goes from {source} through {bench.state}: {error.strerror}.",
            "Make room there and retry the job.",
        ) from error


def _gone(job: Job, source: str) -> RefusedError:
    return RefusedError(
        "The checkpoint is gone",
        f"Job {job.id} last ran on {source}, where its checkpoint folder was removed since.",
        "Submit it again to begin from the start.",
    )
