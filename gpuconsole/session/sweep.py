"""Leftovers of ended attempts on a host: containers that a console had no time to remove."""

from __future__ import annotations

from gpuconsole.core.containers import LABEL_PREFIX
from gpuconsole.errors import ConsoleError
from gpuconsole.session.bench import Bench


async def sweep(bench: Bench, host: str) -> None:
    """Remove this journal's containers of ended jobs from a host. Trouble waits for the next
    time; a running container is never touched."""
    try:
        engine = await bench.hosts.engine(host)
        found = await engine.own(bench.journal.id)
        # Read after the listing: an attempt begun in between is in the journal by now.
        jobs = {job.id: job for job in bench.journal.jobs()}
        for status in found:
            job = jobs.get(status.labels.get(LABEL_PREFIX + "job", ""))
            over = job is not None and not job.state.active
            if over and status.state in ("created", "exited", "dead"):
                await engine.remove(status.id)
    except ConsoleError:
        return
