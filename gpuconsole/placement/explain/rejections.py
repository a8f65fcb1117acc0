"""Sentences for devices that will not do."""

from __future__ import annotations

from collections import Counter

from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.placement.engine.board import Cell, Spot
from gpuconsole.placement.engine.device_state import engine_fault, health_fault
from gpuconsole.placement.engine.eligibility import Survey, time_left
from gpuconsole.placement.model import Holder, Rejection

MAX_REJECTIONS = 512
"""Sentences per decision: every device of a small lab; beyond, the rest is counted by filter."""


def rejections(survey: Survey, refused: list[tuple[Cell, str]]) -> tuple[Rejection, ...]:
    """Return why each device will not do, in the order of the inventory."""
    single = [(spot, cell, code) for cell, code in refused for spot in cell.spots]
    single.sort(key=lambda each: each[0].order)
    rows = [
        Rejection(
            cell.site.host.name,
            spot.device.uuid,
            spot.device.model,
            code,
            sentence(survey, cell, spot, code),
        )
        for spot, cell, code in single[:MAX_REJECTIONS]
    ]
    for code, count in Counter(code for _, _, code in single[MAX_REJECTIONS:]).items():
        rows.append(
            Rejection("", "", "", code, f"{count} more devices, for the same kind of reason.")
        )
    for host in survey.board.silent[:MAX_REJECTIONS]:
        why = clean(host.error, 200) or f"it is {host.state}"
        rows.append(Rejection(host.name, "", "", "host", f"No device of it is known: {why}."))
    return tuple(rows)


def sentence(survey: Survey, cell: Cell, spot: Spot, code: str) -> str:
    """Return why a device is refused, as one sentence with its numbers."""
    device, host, made = spot.device, cell.site.host, survey.profile
    task = made.request.task
    if code in ("leased", "utilization") or (code == "memory" and cell.holder is not None):
        return _leased(survey, cell, code)
    if code == "memory":
        return (
            f"Needs up to {format_mib(made.request.need_mib)},"
            f" {format_mib(made.views[cell.kind].limit_mib)} may be used"
            f" ({made.threshold:.0%} of {format_mib(device.memory_total_mib)})."
        )
    if code == "held":
        return _held(survey, spot)
    if code in ("exclusive", "unknown", "foreign"):
        return f"{_WISHES[code]}; {_occupied(device)}."
    if code == "aside" and (shun := made.shun(host.name)) is not None:
        return shun.sentence
    if code in ("host", "engine", "drained", "aside"):
        return _host(survey, host, code)
    if code == "health":
        return f"Device {device.index} {health_fault(device, host)}."
    if code == "labels":
        return _labels(survey, host)
    if code in ("image", "window", "quota", "interruptible"):
        return _ruled(survey, cell)
    if code == "preferred" and made.preference_ends is not None:
        left = time_left(made.preference_ends, made.now)
        return f"Not one of the preferred {', '.join(task.preferred_devices)}; it may do in {left}."
    if code == "reserved" and survey.board.reservation is not None:
        return _reserved(survey)
    if code == "backend":
        return f"It is a device for {device.backend}, the task needs {task.backend}."
    if code == "count":
        return f"The task needs {made.request.devices} of one model on one host; fewer are free."
    if device.parent_uuid:
        return "It is a MIG instance, and a process sees one of those at most; the task needs more."
    return "It is divided into MIG slices; only the slices take jobs."


_WISHES = {
    "exclusive": "The task wants a device to itself",
    "unknown": "The estimate is unknown, so only an empty device will do",
    "foreign": "The lab leaves devices alone on which others work",
}


def _leased(survey: Survey, cell: Cell, code: str) -> str:
    assert cell.holder is not None
    text = _lease_text(survey, cell.holder)
    if cell.guest is not None:
        return f"{text}, and shared with {cell.guest.name} ({cell.guest.job}) of {cell.guest.user}."
    if survey.profile.policy.sharing and cell.holder.share and survey.profile.request.task.share:
        return f"{text}; {_SHARED[code]}."
    return f"{text}."


_SHARED = {
    "leased": "it is shared only while no whole device is free, and by one-device jobs",
    "memory": "both jobs together could need more memory than may be used",
    "utilization": "both jobs together would keep it more than 100 % busy, or it is not known",
}


def _lease_text(survey: Survey, holder: Holder) -> str:
    now = survey.profile.now
    held = format_duration(max(0.0, now - holder.since))
    job = holder.job if holder.name == holder.job else f"{holder.name} ({holder.job})"
    text = f"Leased for {held} to {job} of {holder.user}"
    if holder.ends_at is not None and holder.ends_at > now:
        text += f", free in about {time_left(holder.ends_at, now)}"
    elif holder.ends_at is not None:
        text += ", longer than was expected"
    return text


def _held(survey: Survey, spot: Spot) -> str:
    if spot.spare_mib is None:
        return "Its memory cannot be read, so nothing can be promised there."
    usable = survey.profile.usable_mib(spot.kind, spot.spare_mib)
    return (
        f"Needs up to {format_mib(survey.profile.request.need_mib)}; {format_mib(usable)} may be"
        f" used, for {_occupied(spot.device)}."
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


def _host(survey: Survey, host: Host, code: str) -> str:
    if code == "engine":
        return engine_fault(host.name, host.engine_error)
    if code in ("drained", "aside"):
        why = clean(host.drained, 200).rstrip(".")
        return f"{host.name} takes no new jobs: {why}."
    age = host.age_s(survey.profile.now)
    text = f"{host.name} is {host.state}"
    if host.error:
        text += f": {clean(host.error, 200).rstrip('.')}"
    elif age is not None:
        text += f"; its last frame is {format_duration(age)} old"
    return f"{text}."


def _labels(survey: Survey, host: Host) -> str:
    task, labels = survey.profile.request.task, host.labels
    missing = [f"{k}={v}" for k, v in task.labels.items() if labels.get(k) != v]
    if missing:
        return f"Its host does not carry {', '.join(missing)}."
    present = [
        f"{k}={labels[k]}"
        for k, v in task.anti_labels.items()
        if k in labels and v in ("", labels[k])
    ]
    return f"Its host carries {', '.join(present)}, which the task rules out."


def _ruled(survey: Survey, cell: Cell) -> str:
    made, site = survey.profile, cell.site
    if made.policy.host_per_user:
        return f"{made.request.user or 'This user'} keeps to another host."
    own = sum(len(c.spots) for c in site.held if c.holder and c.holder.user == made.request.user)
    ruling = made.rules.host(made.request, site.host, own, made.request.least_on_host)
    return ruling.sentence if ruling is not None else ""


def _reserved(survey: Survey) -> str:
    kept = survey.board.reservation
    assert kept is not None
    left = time_left(kept.when, survey.profile.now)
    return (
        f"Kept for {kept.name} (job {kept.job}), which waits for more devices here and should"
        f" start in about {left}; only a job that ends before may use it."
    )
