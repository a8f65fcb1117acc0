"""What of the lab's queue is everybody's, and what is its user's alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

from gpuconsole.core.events import Event
from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.incidents import Evidence, Incident
from gpuconsole.core.jobs import Attempt, Job, Task
from gpuconsole.core.services import Replica, Service

FAILED = " failed: "
"""Separates a job's name from why it failed, in the evidence of incidents."""


def public(job: Job) -> Job:
    """Return a job as everybody sees it: its state and what it takes, for that affects the jobs of
    others; nothing of what it runs."""
    attempts = tuple(map(_public_attempt, job.attempts))
    return replace(
        job, task=_public_task(job.task), attempts=attempts, cause="", detail="", estimate=None,
        replica=_public_replica(job),
    )  # fmt: skip


def without_estimate(job: Job) -> Job:
    """Return a job without preflight's document, which is long, where it has ended."""
    return replace(job, estimate=None) if job.state.ended else job


def is_public(event: Event) -> bool:
    """Tell whether an event is everybody's: what is said of a job quotes what it printed."""
    return event.kind != "job"


def public_host(host: Host) -> Host:
    """Return a host as everybody sees it: of processes the program, for their arguments are those
    of somebody's script. The same host where there is nothing to leave out."""
    devices = tuple(map(_public_device, host.devices))
    same = all(device is other for device, other in zip(devices, host.devices, strict=True))
    return host if same else replace(host, devices=devices)


def public_incident(incident: Incident) -> Incident:
    """Return an incident as everybody sees it: without arguments of processes, and without what
    jobs that failed had printed. The same incident where there is nothing to leave out."""
    evidence = tuple(map(_public_evidence, incident.evidence))
    return incident if evidence == incident.evidence else replace(incident, evidence=evidence)


def _public_device(device: Device) -> Device:
    if all(_program(process.command) == process.command for process in device.processes):
        return device
    processes = tuple(
        replace(process, command=_program(process.command)) for process in device.processes
    )
    return replace(device, processes=processes)


def _public_evidence(evidence: Evidence) -> Evidence:
    if evidence.source == "process":
        who, mark, command = evidence.text.partition(": ")
        return replace(evidence, text=f"{who}{mark}{_program(command)}")
    if evidence.source == "job":
        name, mark, _ = evidence.text.partition(FAILED)
        return replace(evidence, text=f"{name}{FAILED.rstrip(': ')}." if mark else evidence.text)
    return evidence


def _program(command: str) -> str:
    """Return the program of a command line, without its folder and its arguments."""
    return PurePosixPath(command.split(maxsplit=1)[0]).name if command.strip() else command


def _public_task(task: Task) -> Task:
    return Task(
        name=task.name,
        devices=task.devices,
        priority=task.priority,
        labels=task.labels,
        anti_labels=task.anti_labels,
        hosts=task.hosts,
        account=task.account,
        sweep=task.sweep,
        backend=task.backend,
        preferred_devices=task.preferred_devices,
        preference_timeout_s=task.preference_timeout_s,
        memory_threshold=task.memory_threshold,
        algorithm=task.algorithm,
        exclusive=task.exclusive,
        share=task.share,
        checkpoint_dir="checkpoints" if task.checkpoint_dir else "",
        deadline=task.deadline,
        run_time_s=task.run_time_s,
        time_limit_s=task.time_limit_s,
        after=task.after,
        cancel_if_failed=task.cancel_if_failed,
        at_most=task.at_most,
        framework=task.framework,
        kind=task.kind,
        service=None if task.service is None else _public_service(task.service),
    )


def _public_service(service: Service) -> Service:
    """Return how many replicas a service has and what becomes of them; nothing of its checks."""
    return Service(
        service.port,
        replicas=service.replicas,
        restart=service.restart,
        drain_s=service.drain_s,
        preemptible=service.preemptible,
        scaled_at=service.scaled_at,
    )


def _public_replica(job: Job) -> Replica | None:
    """Return how a replica is, without what its checks said and why it leaves. Like attempts as
    everybody sees them it names no container: it is that of the last attempt."""
    if job.replica is None:
        return None
    return replace(job.health, container="", said="", leaving_for="")


def _public_attempt(attempt: Attempt) -> Attempt:
    return replace(attempt, cause="", container_name="", container_id="", placement_reasons=())
