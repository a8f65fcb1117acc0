"""Sentences for devices that will not do."""

from __future__ import annotations

from collections import Counter

from gpuconsole.core.engines.terminals import SESSIONS
from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.core.wording import msg
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
        rows.append(
            Rejection(
                host.name,
                "",
                "",
                "host",
                msg("No device of it is known: {why_text}.", why_text=why),
            )
        )
    return tuple(rows)


def sentence(survey: Survey, cell: Cell, spot: Spot, code: str) -> str:
    """Return why a device is refused, as one sentence with its numbers."""
    device, host, profile = spot.device, cell.site.host, survey.profile
    task = profile.request.task
    if code in ("leased", "utilization") or (code == "memory" and cell.holder is not None):
        return _leased(survey, cell, code)
    if code == "memory":
        return (
            f"Needs up to {format_mib(profile.request.need_mib)},"
            f" {format_mib(profile.views[cell.kind].limit_mib)} may be used"
            f" ({profile.threshold:.0%} of {format_mib(device.memory_total_mib)})."
        )
    if code == "held":
        return _held(survey, spot)
    if code in ("exclusive", "unknown", "foreign"):
        why = _NOT_SAID if code == "unknown" and task.kind in SESSIONS else _EMPTY_ONLY[code]
        return msg(f"{why}; {{used_text}}.", used_text=_occupied(device))
    if code == "aside" and (shun := profile.shun(host.name)) is not None:
        return shun.sentence
    if code in ("host", "engine", "drained", "aside"):
        return _host(survey, host, code)
    if code == "health":
        return health_fault(device, host)
    if code == "labels":
        return _labels(survey, host)
    if code in ("image", "window", "quota", "interruptible"):
        return _ruled(survey, cell)
    if code == "preferred" and profile.preference_ends is not None:
        left = time_left(profile.preference_ends, profile.now)
        return msg(
            "Not one of the preferred {names}; it may do in {time}.",
            names=", ".join(task.preferred_devices),
            time=left,
        )
    if code == "reserved" and survey.board.reservation is not None:
        return _reserved(survey)
    if code == "backend":
        return msg(
            "It is a device for {backend}, the task needs {wanted}.",
            backend=device.backend,
            wanted=task.backend,
        )
    if code == "count":
        return f"The task needs {profile.request.devices} of one model on one host; fewer are free."
    if device.parent_uuid:
        return "It is a MIG instance, and a process sees one of those at most; the task needs more."
    return "It is divided into MIG slices; only the slices take jobs."


_NOT_SAID = "No amount of memory was asked for, so only an empty device will do"
_EMPTY_ONLY = {
    "exclusive": "The task wants a device to itself",
    "unknown": "The estimate is unknown, so only an empty device will do",
    "foreign": "The lab leaves devices alone on which others work",
}


def _leased(survey: Survey, cell: Cell, code: str) -> str:
    assert cell.holder is not None
    template, values = _lease_text(survey, cell.holder)
    if cell.guest is not None:
        values |= {"guest": f"{cell.guest.name} ({cell.guest.job})", "other": cell.guest.user}
        return msg(f"{template}, and shared with {{guest}} of {{other}}.", **values)
    if survey.profile.policy.sharing and cell.holder.share and survey.profile.request.task.share:
        return msg(f"{template}; {{shared_text}}.", **values, shared_text=_SHARED[code])
    return msg(f"{template}.", **values)


_SHARED = {
    "leased": "it is shared only while no whole device is free, and by one-device jobs",
    "memory": "both jobs together could need more memory than may be used",
    "utilization": "both jobs together would keep it more than 100 % busy, or it is not known",
}


def _lease_text(survey: Survey, holder: Holder) -> tuple[str, dict[str, object]]:
    """Return the sentence about a lease without its end, and the values in it."""
    now = survey.profile.now
    values: dict[str, object] = {
        "time": format_duration(max(0.0, now - holder.since)),
        "name": holder.name, "job": holder.job, "user": holder.user,
    }  # fmt: skip
    job = "{name}" if holder.name == holder.job else "{name} ({job})"
    template = f"Leased for {{time}} to {job} of {{user}}"
    if holder.ends_at is not None and holder.ends_at > now:
        template += ", free in about {low}"
        values["low"] = time_left(holder.ends_at, now)
    elif holder.ends_at is not None:
        template += ", longer than was expected"
    return template, values


def _held(survey: Survey, spot: Spot) -> str:
    if spot.spare_mib is None:
        return "Its memory cannot be read, so nothing can be promised there."
    usable = survey.profile.usable_mib(spot.kind, spot.spare_mib)
    return msg(
        "Needs up to {size}; {limit} may be used, for {used_text}.",
        size=format_mib(survey.profile.request.need_mib),
        limit=format_mib(usable),
        used_text=_occupied(spot.device),
    )


def _occupied(device: Device) -> str:
    if device.memory_used_mib is None:
        return "its memory cannot be read"
    users = sorted({clean(process.user, 40) for process in device.processes if process.user})
    count = len(device.processes)
    if not count:
        return f"{format_mib(device.memory_used_mib)} are held by something that cannot be seen"
    template = f"{{size}} are held by {{n}} process{'' if count == 1 else 'es'}"
    size = format_mib(device.memory_used_mib)
    if not users:
        return msg(template, size=size, n=count)
    return msg(f"{template} of {{user}}", size=size, n=count, user=", ".join(users[:3]))


def _host(survey: Survey, host: Host, code: str) -> str:
    if code == "engine":
        return engine_fault(host.name, host.engine_error)
    if code in ("drained", "aside"):
        why = clean(host.drained, 200).rstrip(".")
        return msg("{host} takes no new jobs: {why}.", host=host.name, why=why)
    age = host.age_s(survey.profile.now)
    state = {"host": host.name, "state_word": str(host.state)}
    if host.error:
        why = clean(host.error, 200).rstrip(".")
        return msg("{host} is {state_word}: {why_text}.", **state, why_text=why)
    if age is not None:
        old = format_duration(age)
        return msg("{host} is {state_word}; its last frame is {time} old.", **state, time=old)
    return msg("{host} is {state_word}.", **state)


def _labels(survey: Survey, host: Host) -> str:
    task, labels = survey.profile.request.task, host.labels
    missing = [f"{k}={v}" for k, v in task.labels.items() if labels.get(k) != v]
    if missing:
        return msg("Its host does not carry {labels}.", labels=", ".join(missing))
    present = [
        f"{k}={labels[k]}"
        for k, v in task.anti_labels.items()
        if k in labels and v in ("", labels[k])
    ]
    return msg("Its host carries {labels}, which the task rules out.", labels=", ".join(present))


def _ruled(survey: Survey, cell: Cell) -> str:
    profile, site = survey.profile, cell.site
    if profile.policy.host_per_user:
        return msg("{user} keeps to another host.", user=profile.request.user or "This user")
    own = sum(len(c.spots) for c in site.held if c.holder and c.holder.user == profile.request.user)
    ruling = profile.rules.host(profile.request, site.host, own, profile.request.least_on_host)
    return ruling.sentence if ruling is not None else ""


def _reserved(survey: Survey) -> str:
    reservation = survey.board.reservation
    assert reservation is not None
    left = time_left(reservation.when, survey.profile.now)
    return msg(
        "Kept for {name} (job {job}), which waits for more devices here and should "
        "start in about {time}; only a job that ends before may use it.",
        name=reservation.name,
        job=reservation.job,
        time=left,
    )
