"""Rules about how a device is used: idle memory, low load, strangers, stragglers."""

from __future__ import annotations

from statistics import median

from gpuconsole.core.devices.health_levels import memory_percent
from gpuconsole.core.fleet import Device, DeviceProcess
from gpuconsole.core.incidents import Severity
from gpuconsole.core.jobs import Job
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_mib
from gpuconsole.core.wording import msg
from gpuconsole.triage.model import Finding, Scene, Signal

BUSY_SIBLINGS = 40.0
"""Percent of utilisation that the others must have before one lags behind them."""
MOST_PROCESSES = 4


def memory_full(scene: Scene, device: Device) -> Finding | None:
    """Nearly all memory is held: the next allocation may fail."""
    percent = memory_percent(device)
    if percent is None or percent < scene.limits.memory_full:
        return None
    crowded = len(device.processes) > 1
    return Finding(
        "memory nearly full",
        lambda: (("device", f"{_held(device)} ({percent:.0f} %)"), *_processes(device)),
        "medium" if crowded else "low",
        "several processes share it, and each may ask for more"
        if crowded
        else "one process alone may keep what it does not use",
        jobs=scene.jobs_on(device),
        severity=Severity.WARNING if crowded else Severity.INFO,
    )


def idle_memory(scene: Scene, device: Device) -> Finding | None:
    """A process holds memory without load: most often one that was forgotten."""
    load = scene.utilization(device)
    if load is None or load > scene.limits.idle_utilization or not device.processes:
        return None
    held = [
        process
        for process in device.processes
        if (process.memory_mib or 0.0) >= scene.limits.idle_memory
    ]
    if not held or scene.holders.get(device.uuid):
        # A job of the queue may load its data for long; what it wastes is another rule's.
        return None
    total = sum(process.memory_mib or 0.0 for process in held)
    owners = ", ".join(dict.fromkeys(clean(process.user, 40) or "?" for process in held))
    return Finding(
        msg("idle, {users} holds {size}", users=owners, size=format_mib(total)),
        lambda: (("device", f"utilisation {load:.0f} %"), *_processes(device)),
        "high" if len(held) == len(device.processes) else "medium",
        "it holds memory and nothing runs",
    )


def low_load(scene: Scene, device: Device) -> Finding | None:
    """The memory is full and little is done: the card waits for data, or for others."""
    load, percent = scene.utilization(device), memory_percent(device)
    if load is None or percent is None or percent < scene.limits.low_memory:
        return None
    if load >= scene.limits.low_utilization:
        return None
    cpu = scene.host.facts.cpu_percent
    starved = cpu is not None and cpu > 90.0
    return Finding(
        "low utilisation with full memory",
        lambda: (
            ("device", f"utilisation {load:.0f} %, memory {percent:.0f} % ({_held(device)})"),
            *((("host", f"processors {cpu:.0f} % busy"),) if cpu is not None else ()),
            *_processes(device),
        ),
        "high" if starved else "medium",
        "the processors are busy: reading data is the bottleneck"
        if starved
        else "it may wait for data, for the network, or for a person",
        jobs=scene.jobs_on(device),
    )


def foreign_process(scene: Scene, device: Device) -> Finding | None:
    """Somebody works on a device that is leased to a job."""
    jobs = scene.holders.get(device.uuid, ())
    leases = (scene.leases or {}).get(device.uuid, ())
    if jobs:
        if leases:
            # Shared with another console's job: the owner of a process is unknown.
            return None
        own = {container for job in jobs for container in _containers(job)}
        strangers = [process for process in device.processes if _is_stranger(process, own)]
        holder, ids = f"{jobs[0].task.name} ({jobs[0].user})", tuple(job.id for job in jobs)
    else:
        users = {lease.user for lease in leases}
        strangers = [
            process
            for process in device.processes
            if leases and process.user and not process.container_id and process.user not in users
        ]
        holder, ids = ", ".join(sorted(users)), ()
    if not strangers:
        return None
    first = strangers[0]
    certain = any(stranger.container_id for stranger in strangers)
    held = sum(stranger.memory_mib or 0.0 for stranger in strangers)
    earlier = _came_before(scene, device, strangers, jobs)
    return Finding(
        msg("{user} works on a leased device", user=clean(first.user, 40) or "somebody"),
        (
            ("lease", msg("the device is held by {holder}", holder=clean(holder, 120))),
            *(("process", _words(stranger)) for stranger in strangers[:MOST_PROCESSES]),
            ("device", f"{format_mib(held)} are held beside the job"),
        ),
        "high" if certain else "medium",
        "it was there before the job, which was placed beside it"
        if earlier
        else "it runs in another container"
        if certain
        else "it runs outside the job's container",
        jobs=ids,
        severity=Severity.INFO if earlier else Severity.WARNING,
    )


def _came_before(
    scene: Scene, device: Device, strangers: list[DeviceProcess], jobs: tuple[Job, ...]
) -> bool:
    """Whether all strangers were seen before the first of the jobs was started there."""
    past = scene.past.get(device.uuid)
    starts = [job.attempt.created_at for job in jobs if job.attempt is not None]
    if past is None or not starts:
        return False
    return all(past.arrivals.get(stranger.pid, scene.now) < min(starts) for stranger in strangers)


def straggler(scene: Scene, device: Device) -> Finding | None:
    """One device of a job does much less than the others: all wait for it, or its work is less."""
    for job in scene.holders.get(device.uuid, ()):
        others = [uuid for uuid in _devices(job) if uuid != device.uuid]
        loads = [scene.past[uuid].utilization for uuid in others if uuid in scene.past]
        reported = [load for load in loads if load is not None]
        load = scene.utilization(device)
        if load is None or len(reported) < len(others) or not reported:
            continue
        usual = median(reported)
        if usual < BUSY_SIBLINGS or load > usual - scene.limits.straggler_gap:
            continue
        return Finding(
            f"lags behind the {len(others)} other device{'s' * (len(others) > 1)} of its job",
            (
                ("device", f"utilisation {load:.0f} %, the others {usual:.0f} %"),
                (
                    "job",
                    msg(
                        "{name} uses {n} devices", name=clean(job.task.name, 80), n=len(others) + 1
                    ),
                ),
            ),
            "high" if len(others) > 1 else "medium",
            "the others agree with each other"
            if len(others) > 1
            else "with two devices either may be the odd one",
            jobs=(job.id,),
        )
    return None


def _devices(job: Job) -> tuple[str, ...]:
    attempt = job.attempt
    return tuple(u for part in attempt.parts for u in part.device_uuids) if attempt else ()


def _containers(job: Job) -> tuple[str, ...]:
    attempt = job.attempt
    if attempt is None:
        return ()
    return tuple(part.container_id for part in attempt.parts if part.container_id)


def _is_stranger(process: DeviceProcess, own: set[str]) -> bool:
    """Whether a process is none of the job's; as long as the job's container is not known, no."""
    return bool(own) and process.container_id not in own


def _held(device: Device) -> str:
    return f"{format_mib(device.memory_used_mib)} of {format_mib(device.memory_total_mib)}"


def _processes(device: Device) -> tuple[Signal, ...]:
    return tuple(("process", _words(process)) for process in device.processes[:MOST_PROCESSES])


def _words(process: DeviceProcess) -> str:
    user, command = clean(process.user, 40) or "?", clean(process.command, 120)
    return msg(
        "pid {pid}, {user}, {size}: {command}",
        pid=process.pid,
        user=user,
        size=format_mib(process.memory_mib),
        command=command or "?",
    )
