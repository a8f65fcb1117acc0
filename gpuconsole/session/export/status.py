"""The fleet as a document: what `status --json` prints, and the console exports."""

from __future__ import annotations

from collections.abc import Iterable

from gpuconsole.core.fleet import Device, FleetSnapshot, Host
from gpuconsole.core.incidents import Incident
from gpuconsole.core.jobs import Job
from gpuconsole.core.units import iso_utc


def moment_document(
    snapshot: FleetSnapshot, jobs: Iterable[Job], incidents: Iterable[Incident], now: float
) -> dict[str, object]:
    """Return the `status` document of a moment, with its jobs and incidents."""
    return {
        **status_document(snapshot, now),
        "at": iso_utc(now),
        "jobs": [job.as_json() for job in jobs],
        "incidents": [incident.as_json(now) for incident in incidents],
    }


def status_document(snapshot: FleetSnapshot, now: float) -> dict[str, object]:
    """Return what `gpuconsole status --json` prints."""
    return {
        "taken_at": iso_utc(snapshot.taken_at),
        "simulated": snapshot.simulated,
        "hosts": [host_document(host, now) for host in snapshot.hosts],
    }


def host_document(host: Host, now: float) -> dict[str, object]:
    """Return what the document says of a host at a moment."""
    age = host.age_s(now)
    return {
        "name": host.name,
        "state": host.state.value,
        "age_s": None if age is None else round(age, 3),
        "error": host.error or None,
        "address": host.address or None,
        "labels": dict(host.labels),
        "drained": host.drained or None,
        "faults": [streak.as_json() for streak in host.faults],
        "power": host.power or None,
        "interruptible": host.interruptible,
        "devices": [device_document(device, now) for device in host.devices],
    }


def device_document(device: Device, now: float) -> dict[str, object]:
    """Return what the document says of a device at a moment."""
    age = device.age_s(now)
    return {
        "uuid": device.uuid,
        "index": device.index,
        "model": device.model,
        "backend": device.backend,
        "vendor": device.vendor or None,
        "age_s": None if age is None else round(age, 3),
        "memory_total_mib": device.memory_total_mib,
        "memory_used_mib": device.memory_used_mib,
        "utilization": device.utilization,
        "temperature_c": device.temperature_c,
        "power_w": device.power_w,
        "power_limit_w": device.power_limit_w,
        "throttle": list(device.throttle),
        "clock_notes": list(device.clock_notes),
        "energy_j": device.energy_j,
        "ecc_uncorrected": device.ecc_uncorrected,
        "ecc_corrected": device.ecc_corrected,
        "retired_pages": device.retired_pages,
        "remap_pending": device.remap_pending,
        "remap_failed": device.remap_failed,
        "xid": device.xid,
        "nvlinks_up": device.nvlinks_up,
        "nvlinks_down": device.nvlinks_down,
        "nvlink_errors": device.nvlink_errors,
        "divided": device.divided,
        "parent_uuid": device.parent_uuid or None,
        "mig_profile": device.mig_profile or None,
        "numa_node": device.numa_node,
        "lost": device.lost,
        "health": device.health or None,
        "error": device.error or None,
        "processes": [
            {
                "pid": process.pid,
                "user": process.user,
                "memory_mib": process.memory_mib,
                "command": process.command,
                "container_id": process.container_id,
            }
            for process in device.processes
        ],
    }
