"""What a person sees: the fleet and the queue. Colour only repeats what words say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuconsole.cli.output import said, say, table, text
from gpuconsole.core.engines.host_containers import HostContainers
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.lab_service.audit import Act
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.core.util.human_time import clock_words
from gpuconsole.core.wording import joined, msg
from gpuconsole.session.services.replicas import is_member, wanted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

OLD_S = 5.0
"""A device read so long before its host is shown with its age."""
_STATES = {
    JobState.RUNNING: "green",
    JobState.LAUNCHING: "cyan",
    JobState.SUCCEEDED: "green",
    JobState.FAILED: "red",
    JobState.OOM: "red",
    JobState.UNKNOWN: "yellow",
}


# --- fleet --------------------------------------------------------------------------------------


def fleet(snapshot: FleetSnapshot, now: float) -> Iterator[RenderableType]:
    """Draw one table of all devices, host by host."""
    if snapshot.simulated:
        yield said("SIMULATED", "bold reverse")
    shown = table("DEVICE", "MODEL", "USED", "OF", "UTIL", "TEMP", "POWER", "WHO",
                  right=("USED", "OF", "UTIL", "TEMP", "POWER"))  # fmt: skip
    for host in snapshot.hosts:
        shown.add_row(*_host_row(host, now))
        for device in host.devices:
            shown.add_row(*_device_row(device, now))
    yield shown


def _host_row(host: Host, now: float) -> tuple[Text, ...]:
    style = "bold" if host.state is HostState.UP or host.power else "bold red"
    age = host.age_s(now)
    seen = say("never seen") if age is None else say(f"{format_duration(age)} old")
    blank = (text(""),) * 5
    word = "drained" if host.aside is None else "set aside"
    drained = f", {say(word)}" if host.drained else ""
    state = text(f"{say(host.power or host.state.value)}{drained}, {seen}", style)
    trouble = "; ".join(say(part) for part in (host.drained, host.error) if part)
    return text(host.name, style), state, *blank, text(trouble, style)


def _device_row(device: Device, now: float) -> tuple[Text, ...]:
    model = device.model.removeprefix("NVIDIA ").removeprefix("GeForce ")
    who = sorted({process.user or str(process.pid) for process in device.processes})
    age = device.age_s(now)
    trouble = [*device.throttle, *([say("lost")] if device.lost else [])]
    trouble += [say("split")] if device.divided else []
    trouble += [clean(device.health, 40)] if device.health else []
    if age is not None and age >= OLD_S:
        trouble.append(say(msg("{time} old", time=format_duration(age))))
    return (
        text(f"  {device.index}"),
        text(model),
        text(format_mib(device.memory_used_mib)),
        text(format_mib(device.memory_total_mib)),
        text(_figure(device.utilization, "%")),
        text(_figure(device.temperature_c, "°C")),
        text(_figure(device.power_w, "W")),
        text(" ".join([*who, *(f"[{word}]" for word in trouble)])),
    )


def _figure(value: float | None, unit: str) -> str:
    return "n/a" if value is None else f"{value:.0f} {unit}"


# --- queue --------------------------------------------------------------------------------------


def jobs(listed: Sequence[Job], now: float) -> RenderableType:
    """Draw the queue."""
    shown = table("JOB", "NAME", "USER", "STATE", "WHERE", "FOR", "ESTIMATE", "WHY",
                  right=("FOR", "ESTIMATE"))  # fmt: skip
    for job in listed:
        shown.add_row(
            text(job.id),
            text(job.task.name),
            text(job.user),
            said(job.state_word, _STATES.get(job.state, "")),
            text(_where(job)),
            text(format_duration(_elapsed(job, now))),
            text(format_mib(job.estimate_mib)),
            said(job.cause or job.detail),
        )
    return shown


def services(listed: Sequence[Sequence[Job]], now: float) -> RenderableType:
    """Draw services, each with its replicas below it."""
    shown = table("SERVICE", "JOB", "USER", "STATE", "WHERE", "FOR", "RESTARTS", "WHY",
                  right=("FOR", "RESTARTS"))  # fmt: skip
    for group in listed:
        healthy = sum(each.is_healthy for each in group)
        members = [each for each in group if is_member(each)]
        count = msg("{n} of {all} healthy", n=healthy, all=wanted(members) if members else 0)
        style = "green" if members and healthy >= wanted(members) else "yellow"
        row = (text(group[0].task.sweep), text(""), text(group[0].user), said(count, style))
        shown.add_row(*row, *([text("")] * 4))
        for each in group:
            again = each.replica.restart_at if each.replica is not None else None
            waits = "" if again is None else msg("next try {time}", time=clock_words(again, now))
            shown.add_row(
                text(f"  {each.task.name}"),
                text(each.id),
                text(""),
                said(each.state_word, _STATES.get(each.state, "")),
                text(_where(each)),
                text(format_duration(_elapsed(each, now))),
                text(str(each.health.restarts)),
                said(joined("; ", filter(None, (waits, each.cause or each.detail)))),
            )
    return shown


def job(listed: Job) -> str:
    """Return one line on the state of a job."""
    where = _where(listed)
    why = listed.cause or listed.detail
    head = f"{listed.id} ({listed.task.name}) {say(listed.state_word)}"
    if where != "-":
        head += " " + say(msg("on {where}", where=where))
    return f"{head}: {say(why)}" if why else head


def _where(job: Job) -> str:
    attempt = job.attempt
    if attempt is None or job.state in (JobState.QUEUED, JobState.HELD):
        return "-"
    places = []
    for part in attempt.parts:
        indexes = ",".join(str(index) for index in part.device_indexes)
        places.append(f"{part.host}:{indexes}" if indexes else part.host)
    return " ".join(places)


def _elapsed(job: Job, now: float) -> float | None:
    if job.state in (JobState.QUEUED, JobState.HELD):
        return now - job.submitted_at
    if job.started_at is None:
        return None
    return (job.ended_at or now) - job.started_at


def acts(listed: Sequence[Act], now: float) -> RenderableType:
    """Draw the acts on the lab's queue, one a line."""
    shown = table("AGO", "USER", "FROM", "ACT", "ON", "WITH", "REFUSED", right=("AGO",))
    for act in listed:
        row = (act.user, act.origin, act.verb, act.subject, act.detail)
        ago = text(format_duration(max(0.0, now - act.at)))
        refused = text(clean(act.refused, 200), "red")
        shown.add_row(ago, *(text(clean(word, 200)) for word in row), refused)
    return shown


# --- containers ---------------------------------------------------------------------------------


def containers(hosts: Sequence[HostContainers], now: float) -> Iterator[RenderableType]:
    """Draw the containers host by host, with the reason where a host could not be asked."""
    shown = table("CONTAINER", "IMAGE", "STATE", "SINCE", "GPU", "WHO", "COMMAND")
    for host in hosts:
        for each in host.containers:
            since = "" if each.created_at is None else format_duration(now - each.created_at)
            style = "green" if each.state == "running" else ""
            who = msg("job {id}", id=each.job) if each.job else ", ".join(each.users)
            shown.add_row(
                text(each.key),
                text(each.image),
                text(each.state, style),
                text(since),
                text(",".join(map(str, each.devices))),
                text(who),
                text(each.command),
            )
        if host.error:
            shown.add_row(
                text(f"{host.host}:", "bold red"), *(text(""),) * 5, said(host.error, "red")
            )
        elif not host.containers:
            shown.add_row(text(f"{host.host}:", "bold"), *(text(""),) * 5, said("none", "dim"))
        if host.left_out:
            words = msg("{n} older ones are not shown.", n=host.left_out)
            shown.add_row(text(f"{host.host}:", "bold"), *(text(""),) * 5, said(words))
    yield shown
