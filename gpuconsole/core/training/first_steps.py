"""What a running job took in its first steps, held against its device and its estimate."""

from __future__ import annotations

from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.jobs import Job
from gpuconsole.core.units import format_mib
from gpuconsole.core.wording import msg

STEPS = 3
"""Optimizer steps after which training has usually reached its peak: from the second one on
gradients and optimizer states exist."""

REPORTED = " (reported by the job)"
"""Marks a figure that the job reported: a container may write anything into its reporter's file."""


def first_steps(job: Job, snapshot: FleetSnapshot) -> str:
    """Return what the latest attempt took in its first steps, as a sentence; "" until it is known.

    That is what Paddle's allocator reserved, held against the same part of the estimate. Of the
    device the context is taken too, as far as the driver showed it.
    """
    attempt = job.attempt
    if attempt is None or attempt.steps_mib is None:
        return ""
    device, values = _of_device(job, snapshot)
    prediction, predicted = _predicted(job, attempt.steps_mib)
    return msg(
        f"In its first steps Paddle took {{size}} at most{REPORTED}{device}; {prediction}.",
        size=format_mib(attempt.steps_mib),
        **values,
        **predicted,
    )


def whole_peak_mib(job: Job) -> float | None:
    """Return the peak of the latest attempt as an estimate counts it, with the context.

    Where the driver did not show the process all there is, is Paddle's own figure: the predicted
    context is added to it.
    """
    attempt = job.attempt
    if attempt is None or not attempt.peak_mib:
        return None
    if attempt.steps_mib is None or attempt.peak_mib > attempt.steps_mib:
        return attempt.peak_mib
    memory = (job.estimate or {}).get("memory")
    context = memory.get("context_mib") if isinstance(memory, dict) else None
    return attempt.peak_mib + (context if isinstance(context, (int, float)) else 0.0)


def _of_device(job: Job, snapshot: FleetSnapshot) -> tuple[str, dict[str, str]]:
    """Return what to say of the device, as a part of a template, and its values."""
    attempt = job.attempt
    assert attempt is not None
    host = snapshot.host(attempt.host)
    own = [
        device for device in (host.devices if host else ()) if device.uuid in attempt.device_uuids
    ]
    sizes = [device.memory_total_mib for device in own if device.memory_total_mib]
    if not sizes or job.task.backend == "cpu":
        return "", {}
    held = max(attempt.steps_mib or 0.0, attempt.peak_mib or 0.0)
    values = {"limit": format_mib(min(sizes)), "percent": f"{held / min(sizes):.0%}"}
    if held <= (attempt.steps_mib or 0.0):
        return " of {limit} ({percent})", values
    values["held"] = format_mib(held)
    return ", {held} with its context, of {limit} ({percent})", values


def _predicted(job: Job, taken_mib: float) -> tuple[str, dict[str, str]]:
    """Return what to say of the estimate, as a part of a template, and its values."""
    memory = (job.estimate or {}).get("memory")
    said = memory.get("reserved_mib") if isinstance(memory, dict) else None
    if not isinstance(said, (int, float)) or said <= 0:
        return "its memory was not predicted", {}
    change = f"{taken_mib / said - 1.0:+.0%}"
    return "{n} were predicted ({change})", {"n": format_mib(said), "change": change}
