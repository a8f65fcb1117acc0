"""What of the lab's queue is everybody's, and what is its user's alone."""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.core.events import Event
from gpuconsole.core.jobs import Attempt, Job, Task


def public(job: Job) -> Job:
    """Return a job as everybody sees it: where it stands and what it takes, for that decides about
    the jobs of others; nothing of what it runs."""
    attempts = tuple(map(_public_attempt, job.attempts))
    return replace(
        job, task=_public_task(job.task), attempts=attempts, cause="", detail="", estimate=None
    )


def without_estimate(job: Job) -> Job:
    """Return a job without preflight's document, which is long, where it has ended."""
    return replace(job, estimate=None) if job.state.ended else job


def is_public(event: Event) -> bool:
    """Tell whether an event is everybody's: what is said of a job quotes what it printed."""
    return event.kind != "job"


def _public_task(task: Task) -> Task:
    return Task(
        name=task.name,
        devices=task.devices,
        priority=task.priority,
        labels=task.labels,
        anti_labels=task.anti_labels,
        hosts=task.hosts,
        account=task.account,
        sweep=task.sweep,
        backend=task.backend,
        preferred_devices=task.preferred_devices,
        preference_timeout_s=task.preference_timeout_s,
        memory_threshold=task.memory_threshold,
        algorithm=task.algorithm,
        exclusive=task.exclusive,
        share=task.share,
        checkpoint_dir="checkpoints" if task.checkpoint_dir else "",
        deadline=task.deadline,
        run_time_s=task.run_time_s,
        time_limit_s=task.time_limit_s,
        after=task.after,
        cancel_if_failed=task.cancel_if_failed,
        at_most=task.at_most,
        framework=task.framework,
        kind=task.kind,
    )


def _public_attempt(attempt: Attempt) -> Attempt:
    return replace(attempt, cause="", container_name="", container_id="", placement_reasons=())
