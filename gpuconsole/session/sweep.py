"""Leftovers of ended attempts on a host: containers that a console had no time to remove."""

from __future__ import annotations

from gpuconsole.core.containers import LABEL_PREFIX, ContainerStatus
from gpuconsole.core.jobs import Job
from gpuconsole.errors import ConsoleError
from gpuconsole.session.bench import Bench
from gpuconsole.session.calibrating import JOB_PREFIX


def _in_use(job: Job, status: ContainerStatus) -> bool:
    parts = job.attempt.parts if job.attempt is not None and job.state.active else ()
    return any(part.container_name == status.name for part in parts)


async def sweep(bench: Bench, host: str) -> None:
    """Remove this journal's containers of ended jobs from a host. Trouble waits for the next
    time; a running container is never touched."""
    try:
        engine = await bench.hosts.engine(host)
        found = await engine.own(bench.journal.id)
        # Read after the listing: an attempt begun in between is in the journal by now.
        jobs = {job.id: job for job in bench.journal.jobs()}
        for status in found:
            name = status.labels.get(LABEL_PREFIX + "job", "")
            job = jobs.get(name)
            if job is not None:
                # A job may have gone on elsewhere since this host was lost.
                over = not _in_use(job, status) and status.state in ("created", "exited", "dead")
            else:
                # A calibration is no job. One that has not started may be another console's.
                over = name.startswith(JOB_PREFIX) and status.state in ("exited", "dead")
            if over:
                await engine.remove(status.id)
    except ConsoleError:
        return
