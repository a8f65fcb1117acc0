"""Which replicas a service lacks, and which are to leave: decided from its jobs alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gpuconsole.core.jobs import ENDED, Job, JobState
from gpuconsole.core.services import SERVICE, replica_number
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg

_OVER = ENDED - {JobState.CANCELLED}
Groups = dict[tuple[str, str], list[Job]]
"""The jobs of each service, by its user and its name."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What brings a service to the number of replicas that it is to have."""

    add: int = 0
    like: Job | None = None
    """The replica of which more are made."""
    leave: tuple[tuple[Job, str], ...] = ()
    """Those that get no new connections from now on, and why, as a sentence."""


def services(jobs: Iterable[Job]) -> Groups:
    """Return all jobs of services, those that have ended too, by service."""
    groups: Groups = {}
    for job in jobs:
        if job.task.kind == SERVICE and job.task.service is not None:
            groups.setdefault((job.user, job.task.sweep), []).append(job)
    return groups


def is_member(job: Job) -> bool:
    """Tell whether a replica counts: it has not ended, and is to stay."""
    return not (job.state.ended or job.cancel_requested or job.is_leaving)


def wanted(members: Sequence[Job]) -> int:
    """Return how many replicas a service is to have, as was set last."""
    asked = [job.task.service for job in members if job.task.service is not None]
    return max(asked, key=lambda service: service.scaled_at).replicas


def changes_of(jobs: Sequence[Job], drained: Callable[[str], str]) -> Changes:
    """Return what one service needs. `drained` tells why a host is left, or "".

    A replica on a drained host is replaced first, and leaves once there are enough healthy ones
    without it. One that has ended by itself for good counts as one that is there: it is not begun
    again behind its policy's back. A service of which no replica is to stay is over.
    """
    members = [job for job in jobs if is_member(job)]
    if not members:
        return Changes()
    needed = max(0, wanted(members) - sum(job.state in _OVER for job in jobs))
    moving = [job for job in members if _leaves(job, drained)]
    staying = [job for job in members if job not in moving]
    if len(staying) < needed:
        return Changes(needed - len(staying), members[-1], _moved(staying, moving, needed, drained))
    surplus = sorted(staying, key=_keeps_last)[: len(staying) - needed]
    remaining = [job for job in staying if job not in surplus]
    fewer = msg("The service is to have {n} replicas.", n=wanted(members))
    leave = tuple((job, str(fewer)) for job in surplus)
    return Changes(leave=(*leave, *_moved(remaining, moving, needed, drained)))


def _moved(
    staying: Sequence[Job], moving: Sequence[Job], needed: int, drained: Callable[[str], str]
) -> tuple[tuple[Job, str], ...]:
    """Return the replicas of drained hosts that are not needed any more, and why they go."""
    spare = sum(job.is_healthy for job in staying) + len(moving) - needed
    going = sorted(moving, key=lambda job: (job.is_healthy, job.id))[: max(0, spare)]
    return tuple((job, _leaves(job, drained)) for job in going)


def _leaves(job: Job, drained: Callable[[str], str]) -> str:
    """Return why a replica cannot stay where it is; ""."""
    if not job.state.active or job.attempt is None:
        return ""
    return next(filter(None, map(drained, (part.host for part in job.attempt.parts))), "")


def _keeps_last(job: Job) -> tuple[bool, bool, int]:
    """Order replicas: what does not run goes first, then what is not healthy, then the youngest."""
    number = replica_number(job.task.sweep or "", job.task.name)
    return job.state.active, job.is_healthy, -number
