"""Clearing what finished jobs left: containers and leases on hosts, old logs and packed projects
here."""

from __future__ import annotations

import asyncio
import shutil

from gpuconsole.core.containers import PruneResult
from gpuconsole.core.fleet import HostState
from gpuconsole.core.jobs import Job
from gpuconsole.errors import ConsoleError
from gpuconsole.session.context import Context
from gpuconsole.session.logs.follow import is_being_copied, log_file
from gpuconsole.session.submit.secrets import prune_values

PARALLEL = 8


async def prune_hosts(context: Context) -> dict[str, PruneResult]:
    """Prune every reachable host, and here the packed projects and logs of jobs that ended longer
    ago than the lab keeps them.

    Results folders stay. A host that cannot be asked is not in the answer; EngineError and
    UnreachableError of one never keep another from being pruned.
    """
    keep = frozenset(job.id for job in context.journal.jobs() if _is_needed(context, job))
    hosts = [host for host in context.hosts.snapshot().hosts if not host.node]
    names = [host.name for host in hosts if host.state is not HostState.DOWN]
    slots = asyncio.Semaphore(PARALLEL)
    done: dict[str, PruneResult] = {}

    async def one(name: str) -> None:
        async with slots:
            try:
                engine = await context.hosts.engine(name)
                done[name] = await engine.prune(keep, context.journal.id)
            except ConsoleError as error:
                context.journal.tell("host", name, f"Not pruned. {error.message}", "warning")

    await asyncio.gather(*(one(name) for name in names))
    prune_values(context)
    _remove_old_files(context)
    return {name: done[name] for name in names if name in done}


def _is_needed(context: Context, job: Job) -> bool:
    """Whether a job goes on, or the log of an attempt is still being copied."""
    return not job.state.ended or any(
        is_being_copied(log_file(context.state, job.id, attempt.number, rank))
        for attempt in job.attempts
        for rank in range(len(attempt.parts))
    )


def _remove_old_files(context: Context) -> None:
    oldest = context.clock.now() - context.settings.retention.jobs
    for job in context.journal.jobs():
        if job.state.ended and (job.ended_at or job.submitted_at) < oldest:
            context.bundle(job.id).unlink(missing_ok=True)
            shutil.rmtree(log_file(context.state, job.id, 1).parent, ignore_errors=True)
