"""A lab's own past as the simulator plays it: finished jobs as a trace, hosts as a lab."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import fmean

from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.fleet import Backend, Device, FleetSnapshot, Host
from gpuconsole.core.jobs import Attempt, Job
from gpuconsole.placement.simulate.device_speeds import is_linked, speeds
from gpuconsole.placement.simulate.lab import Lab, LabHost
from gpuconsole.placement.simulate.trace_readers import Trace, TraceJob

SOURCE = "the journal"


def trace_of(jobs: Iterable[Job], models: Mapping[str, str]) -> Trace:
    """Return what ended of a journal as a trace, in order of submission; it may be empty.

    Every job that ran to an end of its own or of its user's counts, by its last attempt; `models`
    maps device UUIDs to models; their mean speed converts run times to those of the reference
    device.
    """
    rows = []
    for job in jobs:
        attempt = job.attempt
        if not job.state.ended or attempt is None:
            continue
        if attempt.started_at is None or attempt.ended_at is None:
            continue
        seconds = attempt.ended_at - attempt.started_at
        devices = sum(len(part.device_uuids) for part in attempt.parts)
        if seconds <= 0 or not devices:
            continue
        rows.append(
            TraceJob(
                job.submitted_at,
                seconds * _speed(attempt, job.task.backend, models),
                devices,
                job.user,
                need_mib=job.estimate_mib,
                backends=(job.task.backend,),
            )
        )
    rows.sort(key=lambda row: row.submitted_s)
    return Trace(SOURCE, tuple(rows))


def lab_of(snapshot: FleetSnapshot) -> Lab:
    """Return the hosts of a fleet as they were last seen; those never seen are left out."""
    hosts = [lab_host for host in snapshot.hosts if host.devices for lab_host in _hosts(host)]
    silent = [host.name for host in snapshot.hosts if not host.devices]
    notes = (f"Hosts without any device seen are left out: {', '.join(silent)}.",)
    return Lab("this lab", tuple(hosts), assumptions=notes if silent else ())


def _hosts(host: Host) -> list[LabHost]:
    """Return a host, once for each of its models: a simulated host has equal devices."""
    groups: dict[tuple[str, float, Backend], list[Device]] = {}
    for device in host.devices:
        if device.memory_total_mib is not None and not device.mig:
            key = (device.model, device.memory_total_mib, device.backend)
            groups.setdefault(key, []).append(device)
    hosts = []
    for number, ((model, memory, backend), devices) in enumerate(groups.items(), 1):
        spec = Catalogue.load().lookup(model, memory, backend)
        hosts.append(
            LabHost(
                host.name if len(groups) == 1 else f"{host.name}/{number}",
                model,
                len(devices),
                memory,
                speeds(spec, backend),
                backend,
                is_linked(spec),
                host.price_per_hour,
                host.labels,
            )
        )
    return hosts


def _speed(attempt: Attempt, backend: str, models: Mapping[str, str]) -> float:
    """Return the mean speed of the model that an attempt had; 1 if unknown."""
    seen = Counter(models[uuid] for uuid in attempt.device_uuids if uuid in models)
    if not seen:
        return 1.0
    spec = Catalogue.load().lookup(seen.most_common(1)[0][0], None, backend)
    return fmean(speeds(spec, backend).values())
