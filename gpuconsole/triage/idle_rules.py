"""Rules about jobs of the queue that hold their devices and do nothing with them."""

from __future__ import annotations

from gpuconsole.core.fleet import Device
from gpuconsole.core.jobs import Attempt, Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration
from gpuconsole.triage.model import Finding, Past, Scene, Signal

FRESH_S = 120.0
"""A reading older than that says nothing of now."""
READ_S = 900.0
"""A reporter that was not read for so long is not known to be silent."""
QUIET_S = 600.0
"""A script that has made a step within so long works, whatever its devices say."""
FULL = 95.0
"""Percent of utilisation from which a device says that it is fully used."""


def idle_job(scene: Scene, device: Device) -> Finding | None:
    """A job's devices are not used, or spin at idle power, and its script makes no steps."""
    for job, attempt in _running(scene, device):
        pasts = _pasts(scene, attempt)
        quiet_s = _without_steps(attempt, scene.now)
        if not pasts or (attempt.steps and (quiet_s is None or quiet_s < QUIET_S)):
            continue
        unused = all((past.utilization or 0.0) <= scene.limits.idle_utilization for past in pasts)
        if not unused and not all(_spins(past, scene.limits.idle_power) for past in pasts):
            continue
        has_log = quiet_s is not None
        if unused:
            reason = "none of its devices was used"
        else:
            reason = "its devices were fully used at the power of idle ones"
        if has_log:
            reason += ", and its script made no step"
        return Finding(
            f"{clean(job.task.name, 60)} does nothing",
            _signals(job, attempt, pasts, quiet_s),
            # Small kernels one after another fill the time of a device, and take little power.
            "high" if unused or has_log else "medium",
            reason,
            jobs=(job.id,),
            part=job.id,
        )
    return None


def no_steps(scene: Scene, device: Device) -> Finding | None:
    """A script that has made steps makes no more, while its devices work."""
    for job, attempt in _running(scene, device):
        pasts = _pasts(scene, attempt)
        quiet_s = _without_steps(attempt, scene.now)
        if not pasts or quiet_s is None or quiet_s < scene.limits.job_idle_for:
            continue
        limits = scene.limits
        unused = all((past.utilization or 0.0) <= limits.idle_utilization for past in pasts)
        if unused or all(_spins(past, limits.idle_power) for past in pasts):
            # That is the other rule's.
            continue
        return Finding(
            f"{clean(job.task.name, 60)} has made no step for {format_duration(quiet_s)}",
            _signals(job, attempt, pasts, quiet_s),
            "low",
            "its devices work: it may evaluate, or save",
            jobs=(job.id,),
            part=job.id,
        )
    return None


def _running(scene: Scene, device: Device) -> list[tuple[Job, Attempt]]:
    """Return the running jobs to report at this device, which is their first."""
    running = []
    for job in scene.holders.get(device.uuid, ()):
        attempt = job.attempt
        if job.state is not JobState.RUNNING or attempt is None or attempt.ended_by:
            continue
        if job.task.service is not None:
            # A service without requests is idle, and makes no steps.
            continue
        if attempt.device_uuids and attempt.device_uuids[0] == device.uuid:
            running.append((job, attempt))
    return running


def _pasts(scene: Scene, attempt: Attempt) -> list[Past]:
    """Return what is known of all devices of an attempt; none where one of them is not seen, or
    does not tell how much it is used."""
    uuids = [uuid for part in attempt.parts for uuid in part.device_uuids]
    pasts = [scene.past[uuid] for uuid in uuids if uuid in scene.past]
    seen = [
        past for past in pasts if past.utilization is not None and scene.now - past.at <= FRESH_S
    ]
    return seen if uuids and len(seen) == len(uuids) else []


def _without_steps(attempt: Attempt, now: float) -> float | None:
    """Return for how long a script is known to have made no step; None where it tells of none, or
    its reporter could not be read lately."""
    read, stepped = attempt.steps_read_at, attempt.stepped_at
    if not attempt.steps or read is None or stepped is None or now - read > READ_S:
        return None
    return read - stepped


def _spins(past: Past, idle_power: float) -> bool:
    """Whether a device says that it is fully used and draws no more than one that waits."""
    watts, most = past.power_w, past.power_limit_w
    if watts is None or not most or (past.utilization or 0.0) < FULL:
        return False
    return 100.0 * watts / most <= idle_power


def _signals(
    job: Job, attempt: Attempt, pasts: list[Past], quiet_s: float | None
) -> tuple[Signal, ...]:
    loads = ", ".join(f"{past.utilization or 0.0:.0f} %" for past in pasts[:8])
    signals: list[Signal] = [("device", f"utilisation {loads}")]
    watts = [f"{past.power_w:.0f} W" for past in pasts[:8] if past.power_w is not None]
    if watts:
        signals.append(("device", f"power {', '.join(watts)}"))
    if quiet_s is not None:
        lasted = format_duration(quiet_s)
        signals.append(("job", f"{attempt.steps} steps, none for {lasted}"))
    else:
        signals.append(("job", f"{clean(job.task.name, 80)} tells of no steps"))
    return tuple(signals)
