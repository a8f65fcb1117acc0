"""Whether a replica of a service is begun again after an end, and when."""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.core.jobs import STOPPED_FOR_GOOD, Attempt, Job, JobState
from gpuconsole.core.services import RESET_S, Replica, back_off_s


def after_end(
    job: Job, ended: Attempt, state: JobState, now: float
) -> tuple[JobState, Replica | None]:
    """Return where a job goes that would go to `state` after an attempt that has ended, and what is
    then known of it as a replica.

    A service is begun again by its policy, each time after a longer pause; a replica that is to go,
    that has never run, or that goes on elsewhere at once, is not the policy's.
    """
    service, health = job.task.service, job.health
    if service is None:
        return state, job.replica
    stopped = job.cancel_requested or ended.ended_by in STOPPED_FOR_GOOD or job.is_leaving
    moved = state is JobState.QUEUED and ended.ended_by != "unhealthy"
    if stopped or moved or state is JobState.CANCELLED or ended.starting_at is None:
        return (JobState.CANCELLED if job.is_leaving else state), job.replica
    again = service.restart == "always" or (
        service.restart == "on-failure" and state is not JobState.SUCCEEDED
    )
    if not again:
        return (JobState.FAILED if state is JobState.QUEUED else state), job.replica
    well = health.health == "healthy" and now - health.since >= RESET_S
    restarts = 0 if well else health.restarts
    waits = replace(health, restarts=restarts + 1, restart_at=now + back_off_s(restarts))
    return JobState.QUEUED, waits
