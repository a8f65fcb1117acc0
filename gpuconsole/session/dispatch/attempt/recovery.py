"""What to do next with an active attempt: decided from the journal and a look at its container.

The journal alone cannot say what happened while no console was there, and the engine alone cannot
say what was meant. Both together can, at any point at which a console may have died:

    container   never asked to start   asked to start      started
    absent      launch                 lost                lost
    created     start                  start               start
    pending     wait there             wait there          wait there
    running     watch                  watch               watch
    ended       finish                 finish              finish

Nothing is ever started twice: `start` is reached only while the container says that it never ran.

A gang has a container on each of its hosts. Each is judged by this table; `joint_step` makes one
step of them, as a gang lives and ends as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from gpuconsole.core.containers import LABEL_PREFIX, ContainerStatus
from gpuconsole.core.fleet import FleetSnapshot, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState


class Step(str, Enum):
    """The next thing to do with an attempt."""

    LAUNCH = "launch"
    """Nothing of it is on the host: do everything from the beginning."""
    START = "start"
    """The container waits: put the code in and start it."""
    PENDING = "pending"
    """It waits in the engine's own queue: ask again."""
    WATCH = "watch"
    """It runs: follow its log."""
    STOP = "stop"
    """It runs and is not wanted any more."""
    FINISH = "finish"
    """It ended: store its log, name the outcome, give the devices back."""
    DISCARD = "discard"
    """It is not wanted and never ran: remove what there is of it."""
    LOST = "lost"
    """It may have run and its container is gone: never restart it automatically."""
    FOREIGN = "foreign"
    """The name is taken by a container that is not ours: leave it alone."""
    WAIT = "wait"
    """The engine is removing the container: look again."""


def next_step(
    attempt: Attempt, status: ContainerStatus | None, *, journal: str, cancel: bool
) -> Step:
    """Return what to do with an active attempt with a container in the state `status`."""
    if status is None:
        if may_have_run(attempt):
            return Step.LOST
        return Step.DISCARD if cancel else Step.LAUNCH
    if not is_own(attempt, status, journal):
        return Step.FOREIGN
    if status.state in ("running", "paused", "restarting"):
        return Step.STOP if cancel else Step.WATCH
    if status.state == "pending":
        return Step.STOP if cancel else Step.PENDING
    if status.state == "created":
        if cancel:
            return Step.DISCARD
        # An engine that could not start a container leaves it "created" with the reason.
        return Step.FINISH if status.error else Step.START
    return Step.WAIT if status.state == "removing" else Step.FINISH


def joint_step(steps: Sequence[Step], statuses: Sequence[ContainerStatus | None]) -> Step:
    """Return what to do with an attempt, from what each of its hosts calls for.

    When one part has failed the living ones are stopped; one that ended well waits for the
    others. A job on one host does what that host calls for.
    """
    for urgent in (Step.WAIT, Step.FOREIGN, Step.LOST, Step.STOP):
        if urgent in steps:
            return urgent
    ended = [status for step, status in zip(steps, statuses, strict=True) if step is Step.FINISH]
    failed = any(status is not None and status.exit_code != 0 for status in ended)
    if failed and Step.WATCH in steps:
        return Step.STOP
    if ended and (failed or not {Step.START, Step.WATCH} & set(steps)):
        return Step.FINISH
    for later in (Step.DISCARD, Step.LAUNCH, Step.START, Step.PENDING):
        if later in steps:
            return later
    return Step.WATCH


def may_have_container(attempt: Attempt) -> bool:
    """Tell whether something of an attempt may be on its host, besides a lease, which goes stale
    by itself."""
    moments = (attempt.creating_at, attempt.starting_at, attempt.started_at)
    return bool(attempt.container_id) or any(moment is not None for moment in moments)


def may_have_run(attempt: Attempt) -> bool:
    """Tell whether an engine may have started an attempt, as far as the journal knows."""
    if attempt.ended_by in ("host-fault", "unfit"):
        return False
    return attempt.starting_at is not None or attempt.started_at is not None


def is_out_of_sight(job: Job, snapshot: FleetSnapshot) -> bool:
    """Return True if the job's state is unknown because one of its hosts is unreachable."""
    attempt = job.attempt
    if job.state is not JobState.UNKNOWN or attempt is None or not may_have_container(attempt):
        return False
    hosts = [snapshot.host(part.host) for part in attempt.parts]
    return any(host is None or host.state is HostState.DOWN for host in hosts)


def nonce_of(container_name: str) -> str:
    """Return the secret word at the end of a container's name."""
    return container_name.rpartition("-")[2]


def is_own(attempt: Attempt, status: ContainerStatus, journal: str) -> bool:
    """Whether a container is the one that this journal made for this attempt."""
    return status.labels.get(LABEL_PREFIX + "journal") == journal and status.labels.get(
        LABEL_PREFIX + "nonce"
    ) == nonce_of(attempt.container_name)
