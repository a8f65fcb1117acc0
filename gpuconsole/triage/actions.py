"""What a person can do about an incident, and what would follow."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconsole.core.fleet import DeviceProcess, Host
from gpuconsole.core.incidents import Action, Incident
from gpuconsole.core.jobs import Job, JobState
from gpuconsole.core.text import clean
from gpuconsole.core.units import format_duration, format_mib, iso_utc
from gpuconsole.core.wording import msg, sentences

MOST_ACTIONS = 9
"""As many as there are digits to choose them by."""
SNOOZE_S = 3600.0
MOST_PROCESSES = 2
"""Processes that are offered to be ended."""
MOST_JOBS = 2
"""Jobs for which verbs are offered; the others are in the queue."""

_DRAIN = frozenset(
    {
        *("unreachable", "disk-full", "engine-silent", "failing-jobs", "clock-skew"),
        *("gpu-lost", "xid", "memory-errors", "retired-pages", "heat", "power-brake"),
        *("unwell", "devices-unread", "remap-failed", "remap-pending", "nvlink-down"),
    }
)
"""Rules for which it helps when nothing new starts on the host."""
_MOVE = frozenset(
    {
        *("gpu-lost", "xid", "memory-errors", "heat", "power-brake", "straggler", "unwell"),
        *("remap-failed", "nvlink-down"),
    }
)
"""Rules for which a job is better off elsewhere."""


_IDLE = frozenset({"idle-job", "no-steps"})
"""Rules about a job that holds its devices and does nothing with them."""

_STRANGERS = frozenset({"idle-memory", "foreign-process"})
"""Rules that are about a process that is no job of the queue."""


def actions_for(incident: Incident, host: Host | None, jobs: Sequence[Job]) -> tuple[Action, ...]:
    """Return what can be done, the most useful first. `jobs` are those on the incident's host and
    those that it hits."""
    hit = [job for job in jobs if job.id in incident.jobs]
    actions: list[Action] = []
    if incident.rule in _STRANGERS and host is not None:
        actions += _about_processes(incident, host, jobs)
    if incident.rule in _DRAIN and host is not None and not host.drained:
        actions.append(_drain(host, jobs))
    if incident.rule == "set-aside" and host is not None and host.faults:
        actions.append(_undrain(host))
    for job in hit[:MOST_JOBS]:
        actions += _about_job(incident, job)
    if host is not None:
        actions.append(
            Action("open-host", msg("open {host}", host=host.name), host.name, ("Shows the host.",))
        )
    for job in hit[:1]:
        words = ("Shows the job and its log.",)
        actions.append(
            Action("open-job", msg("open job {name}", name=clean(job.task.name, 40)), job.id, words)
        )
    return (*actions[: MOST_ACTIONS - 3], *_on_itself(incident))


def _about_processes(incident: Incident, host: Host, jobs: Sequence[Job]) -> list[Action]:
    """Return how to end what holds the device beside the queue's own jobs."""
    own = {
        part.container_id
        for job in jobs
        if job.state.active and job.attempt is not None
        for part in job.attempt.parts
    }
    device = next((device for device in host.devices if device.uuid == incident.uuid), None)
    strangers = [
        process
        for process in (device.processes if device is not None else ())
        if not process.container_id or process.container_id not in own
    ]
    by_target: dict[str, Action] = {}
    for process in strangers:
        action = _ending(host, process)
        by_target.setdefault(action.target, action)
    return list(by_target.values())[:MOST_PROCESSES]


def _ending(host: Host, process: DeviceProcess) -> Action:
    user = clean(process.user, 20) or "?"
    frees = f"{format_mib(process.memory_mib)} of the device become free."
    what = clean(process.command, 80) or "a process without a name"
    if process.container_id:
        preview = (
            msg(
                "The container on {host} in which {what} runs gets SIGTERM, then SIGKILL.",
                host=host.name,
                what=what,
            ),
            sentences(msg("It belongs to {user}, not to this queue.", user=user), frees),
        )
        label = msg("stop container {id}, {user}", id=process.container_id[:8], user=user)
        return Action("stop-container", label, process.container_id, preview)
    preview = (
        msg(
            "SIGTERM goes to {what} on {host}, as far as your account there may.",
            what=what,
            host=host.name,
        ),
        sentences(msg("It belongs to {user}; what it has not saved is lost.", user=user), frees),
    )
    return Action(
        "end-process",
        msg("end pid {pid}, {user}", pid=process.pid, user=user),
        str(process.pid),
        preview,
    )


def _drain(host: Host, jobs: Sequence[Job]) -> Action:
    running = [
        job
        for job in jobs
        if job.state.active
        and job.attempt
        and host.name in {part.host for part in job.attempt.parts}
    ]
    if not running:
        keep = "No job of this queue runs there."
    else:
        names = ", ".join(clean(job.task.name, 30) for job in running[:3])
        names += ", ..." if len(running) > 3 else ""
        subject = "1 running job keeps" if len(running) == 1 else "{n} running jobs keep"
        keep = msg(f"{subject} going: {{names}}.", n=len(running), names=names)
    preview = (
        msg("No new job starts on {host}.", host=host.name),
        keep,
        "Nothing is run on the host itself.",
    )
    return Action("drain", msg("drain {host}", host=host.name), host.name, preview)


def _undrain(host: Host) -> Action:
    preview = (
        msg(
            "Jobs start on {host} again at once; nothing is run on the host itself.", host=host.name
        ),
        "Where the cause is still there, it is set aside again.",
    )
    return Action("undrain", msg("undrain {host}", host=host.name), host.name, preview)


def _about_job(incident: Incident, job: Job) -> list[Action]:
    name = clean(job.task.name, 40)
    if job.state in (JobState.FAILED, JobState.OOM):
        words = ("It joins the queue as a new attempt, and is placed as any other.",)
        return [Action("retry", msg("retry {name}", name=name), job.id, words)]
    if job.state is not JobState.RUNNING or incident.rule not in _MOVE | _IDLE:
        return []
    place = job.attempt.host if job.attempt else "its host"
    # One that hangs would hang elsewhere too.
    if job.task.resumable and incident.rule in _MOVE:
        preview = (
            msg("Its container on {host} is stopped and it joins the queue again.", host=place),
            "What it did after its last checkpoint is done once more.",
        )
        return [Action("preempt", msg("move {name} elsewhere", name=name), job.id, preview)]
    keep_action = (
        "Its checkpoints and its results folder stay."
        if job.task.checkpoint_dir
        else "It keeps no checkpoints: what it has learnt is lost. Its results folder stays."
    )
    preview = (
        msg("Its container on {host} gets SIGTERM, then SIGKILL after the grace time.", host=place),
        keep_action,
    )
    return [Action("cancel", msg("cancel {name}", name=name), job.id, preview)]


def _on_itself(incident: Incident) -> tuple[Action, ...]:
    return (
        Action("ticket", "copy as a ticket", "", ("Copies what is known, for who can repair it.",)),
        Action(
            "snooze", f"snooze {format_duration(SNOOZE_S)}", "",
            ("Out of the way for an hour; if it is there still it comes back.",),
        ),
        Action(
            "resolve", "dismiss", "",
            ("Closed until it has gone away and comes back, for every console of this queue.",),
        ),
    )  # fmt: skip


def ticket(incident: Incident, host: Host | None, now: float) -> str:
    """Return what is known as plain text, for the person who repairs it."""
    lines = [
        f"{incident.severity.value}: {clean(incident.title)} on {incident.where}",
        f"since {iso_utc(incident.since)}, for {format_duration(now - incident.since)}",
    ]
    if incident.uuid:
        lines.append(f"device {clean(incident.uuid)}")
    if host is not None and host.address:
        lines.append(f"address {clean(host.address)}")
    if incident.jobs:
        lines.append(f"affected jobs: {', '.join(incident.jobs)}")
    lines.append("")
    lines += [
        f"{iso_utc(evidence.at)} {evidence.source}: {clean(evidence.text)}"
        for evidence in incident.evidence
    ]
    if incident.times_before:
        days = ", ".join(str(iso_utc(at)) for at in incident.before)
        lines.append(f"seen {incident.times_before} times before, lately {days}")
    lines.append(f"confidence {incident.confidence}: {clean(incident.reason)}")
    lines.append(f"rule {incident.rule}")
    return "\n".join(lines) + "\n"
