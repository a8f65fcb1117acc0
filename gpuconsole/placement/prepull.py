"""Which images are to be fetched where before their jobs start: those of waiting jobs first, one
host at a time where hosts share a link."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gpuconsole.core.fleet import Host, HostState
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.core.util.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Fetch:
    """One image that a host is to have."""

    host: str
    image: str
    jobs: tuple[str, ...] = ()
    """The waiting jobs that want it, the most urgent first; none where a person named it."""


def wanted(
    jobs: Iterable[Job],
    hosts: Sequence[Host],
    image_of: Callable[[Task, str], str],
    fault: Callable[[Task, Host], str],
) -> tuple[Fetch, ...]:
    """Return the hosts to which waiting jobs may come, with the images they need there.

    `image_of` returns a task's image on a host, `fault` why a host cannot run it. Sorted by
    priority, then by waiting time; a host is listed once for each image.
    """
    waiting = [job for job in jobs if job.state is JobState.QUEUED]
    waiting.sort(key=lambda job: (-job.task.priority, job.queued_at or job.submitted_at, job.id))
    jobs_by_fetch: dict[tuple[str, str], list[str]] = {}
    for job in waiting:
        for host in hosts:
            image = image_of(job.task, host.name)
            if image and _may_come(job.task, host) and not fault(job.task, host):
                jobs_by_fetch.setdefault((host.name, image), []).append(job.id)
    return tuple(Fetch(host, image, tuple(ids)) for (host, image), ids in jobs_by_fetch.items())


def lanes(
    fetches: Iterable[Fetch],
    roads: Mapping[str, str],
    present: Collection[tuple[str, str]] = (),
) -> tuple[tuple[Fetch, ...], ...]:
    """Return what is still to be fetched, a lane for each road; the first of a lane goes first.

    `roads` names each host's link, `present` the pairs of host and image that need nothing.
    """
    by_road: dict[str, list[Fetch]] = {}
    for fetch in fetches:
        if (fetch.host, fetch.image) not in present:
            by_road.setdefault(roads.get(fetch.host, fetch.host), []).append(fetch)
    return tuple(tuple(lane) for lane in by_road.values())


def _may_come(task: Task, host: Host) -> bool:
    """Tell whether a job may ever come to a host, as far as its images are concerned."""
    return (
        host.state is HostState.UP
        and not host.cluster
        and not host.drained
        and any(device.backend == task.backend and not device.lost for device in host.devices)
        and host.has_labels(task.labels, task.anti_labels)
    )
