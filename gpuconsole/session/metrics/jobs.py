"""Which user holds which device, for Prometheus: exported only on request.

Its series come and go with jobs: each job leaves one behind in Prometheus for every device it held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuconsole.core.jobs import Job
from gpuconsole.core.text import clean
from gpuconsole.session.metrics.fleet import LONGEST_LABEL, SIGHT, numbered
from gpuconsole.session.metrics.model import Family, Holder, Metric, Picture, Sample

MOST_ON_A_DEVICE = 2
"""Jobs that may share a device."""
HOLDER = Metric(
    "gpuconsole_device_job_info", "gauge",
    "1 for each job of this queue that holds the device, with its user and its container.",
    ("host", "device", "user", "job_id", "container"), "device", most=MOST_ON_A_DEVICE,
)  # fmt: skip
METRICS = (HOLDER,)


def holders(jobs: Iterable[Job]) -> tuple[Holder, ...]:
    """Return which devices the active jobs hold, by their UUIDs."""
    return tuple(
        Holder(part.host, uuid, job.user, job.id, part.container_name)
        for job in jobs
        if job.state.active and job.attempt is not None
        for part in job.attempt.parts
        for uuid in part.device_uuids
    )


def families(picture: Picture) -> Iterator[Family]:
    """Give who holds each device of the hosts in sight; nothing where it was not asked for."""
    if picture.holders is None:
        return
    held: dict[tuple[str, str], list[Holder]] = {}
    for holder in picture.holders:
        held.setdefault((holder.host, holder.uuid), []).append(holder)
    samples: list[Sample] = []
    for host in picture.snapshot.hosts:
        for number, device in numbered(host) if host.state in SIGHT else ():
            for holder in held.get((host.name, device.uuid), ())[:MOST_ON_A_DEVICE]:
                words = (host.name, number, holder.user, holder.job, holder.container)
                samples.append((tuple(clean(word, LONGEST_LABEL) for word in words), 1.0))
    yield Family(HOLDER, samples)
