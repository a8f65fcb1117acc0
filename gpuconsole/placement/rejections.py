"""Sentences for devices that will not do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpuconsole.core.fleet import Device
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.placement.model import Rejection
from gpuconsole.placement.survey import Spot, Survey, engine_fault, health_fault, time_left

MAX_REJECTIONS = 512
"""Sentences per decision: every device of a small lab; beyond, the rest is counted by filter."""


def rejections(survey: Survey, refused: Sequence[tuple[Spot, str]]) -> tuple[Rejection, ...]:
    """Return why each device will not do, in the order of the inventory."""
    ordered = sorted(refused, key=lambda pair: pair[0].order)
    rows = [
        Rejection(
            spot.host.name, spot.device.uuid, spot.device.model, code, sentence(survey, spot, code)
        )
        for spot, code in ordered[:MAX_REJECTIONS]
    ]
    for code, count in Counter(code for _, code in ordered[MAX_REJECTIONS:]).items():
        rows.append(
            Rejection("", "", "", code, f"{count} more devices, for the same kind of reason.")
        )
    for host in survey.layout.silent[:MAX_REJECTIONS]:
        why = clean(host.error, 200) or f"it is {host.state}"
        rows.append(Rejection(host.name, "", "", "host", f"No device of it is known: {why}."))
    return tuple(rows)


def sentence(survey: Survey, spot: Spot, code: str) -> str:
    """Return why a device is refused, as one sentence with its numbers."""
    device, task = spot.device, survey.request.task
    if code == "leased":
        return _leased(survey, device)
    if code == "memory":
        return (
            f"Needs up to {format_mib(survey.request.need_mib)},"
            f" {format_mib(survey.kinds[spot.kind].limit_mib)} may be used"
            f" ({survey.threshold:.0%} of {format_mib(device.memory_total_mib)})."
        )
    if code == "held":
        return _held(survey, spot)
    if code in ("exclusive", "unknown"):
        wish = (
            "The task wants a device to itself"
            if code == "exclusive"
            else "The estimate is unknown, so only an empty device will do"
        )
        return f"{wish}; {_occupied(device)}."
    if code == "host":
        return _host(survey, spot)
    if code == "engine":
        return engine_fault(spot.host.name, spot.host.engine_error)
    if code == "health":
        return f"Device {device.index} {health_fault(device)}."
    if code == "labels":
        missing = [f"{k}={v}" for k, v in task.labels.items() if spot.host.labels.get(k) != v]
        return f"Its host does not carry {', '.join(missing)}."
    if code == "preferred" and survey.preference_ends is not None:
        left = time_left(survey.preference_ends, survey.now)
        return f"Not one of the preferred {', '.join(task.preferred_devices)}; it may do in {left}."
    if code == "reserved":
        return f"Kept for {survey.reserved[device.uuid]}, which waits for more devices here."
    if code == "backend":
        return f"It is a device for {device.backend}, the task needs {task.backend}."
    if code == "count":
        return f"The task needs {survey.request.devices} of one model on one host; fewer are free."
    return "It is divided into MIG slices; only the slices take jobs."


def _leased(survey: Survey, device: Device) -> str:
    holder = survey.claims[device.uuid]
    held = format_duration(max(0.0, survey.now - holder.since))
    text = f"Leased for {held} to {holder.name} ({holder.job}) of {holder.user}"
    if holder.ends_at is not None:
        text += f", free in about {time_left(holder.ends_at, survey.now)}"
    return f"{text}."


def _held(survey: Survey, spot: Spot) -> str:
    if spot.spare_mib is None:
        return "Its memory cannot be read, so nothing can be promised there."
    usable = max(0.0, survey.usable_mib(spot))
    return (
        f"Needs up to {format_mib(survey.request.need_mib)}; {format_mib(usable)} may be used, for"
        f" {_occupied(spot.device)}."
    )


def _occupied(device: Device) -> str:
    if device.memory_used_mib is None:
        return "its memory cannot be read"
    users = sorted({clean(process.user, 40) for process in device.processes if process.user})
    count = len(device.processes)
    if not count:
        return f"{format_mib(device.memory_used_mib)} are held by something that cannot be seen"
    who = f" of {', '.join(users[:3])}" if users else ""
    return (
        f"{format_mib(device.memory_used_mib)} are held by {count}"
        f" process{'' if count == 1 else 'es'}{who}"
    )


def _host(survey: Survey, spot: Spot) -> str:
    host = spot.host
    age = host.age_s(survey.now)
    text = f"{host.name} is {host.state}"
    if host.error:
        text += f": {clean(host.error, 200).rstrip('.')}"
    elif age is not None:
        text += f"; its last frame is {format_duration(age)} old"
    return f"{text}."
