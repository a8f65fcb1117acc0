"""What equals a job for engines other than ours."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.containers import ContainerSpec, HostAccount
from gpuconsole.core.engines.docker_command import docker_line
from gpuconsole.core.estimate import Report
from gpuconsole.core.fleet import Device
from gpuconsole.core.jobs import Attempt, Job, JobState, Member, Task
from gpuconsole.core.submission.projects import start_folder
from gpuconsole.core.submission.secrets import withheld
from gpuconsole.core.vendors import unproven
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.placement import Place
from gpuconsole.placement.launch_command import Meeting, meeting_port
from gpuconsole.session.context import Context
from gpuconsole.session.dispatch.attempt.container_spec import (
    attempt_key,
    container_name,
    container_spec,
)
from gpuconsole.session.dispatch.slurm_jobs import cluster_of
from gpuconsole.session.export.kubernetes import UNNAMED, manifest
from gpuconsole.session.export.slurm_script import batch_file
from gpuconsole.session.logs.follow import log_file


def line_file(state: Path, job_id: str, attempt: int) -> Path:
    """Return where the `docker run` lines of a launched attempt are kept."""
    return log_file(state, job_id, attempt).with_suffix(".docker")


def docker_lines(attempt: Attempt, specs: Sequence[ContainerSpec]) -> str:
    """Return the `docker run` line of each host, of a gang under the host's name."""
    lines = [docker_line(spec) for spec in specs]
    if not attempt.members:
        return lines[0]
    return "\n".join(
        f"# {part.host} (rank {rank})\n{line}"
        for rank, (part, line) in enumerate(zip(attempt.parts, lines, strict=True))
    )


def require_renderable(task: Task, target: str) -> None:
    """Raise UsageError for a service where a target would run it once to its end."""
    if task.service is not None and target != "docker":
        raise UsageError(
            "A service is not rendered",
            msg("What {target} would get of it is a job that is not kept running.", target=target),
            "Render it for docker: one replica.",
        )


def rendered(context: Context, job: Job, target: str, on: Sequence[Place] = ()) -> str:
    """Return what runs a job with `target`, a name of TARGETS.

    `on` are devices chosen already, which only Docker asks for.
    """
    if target not in TARGETS:
        raise UsageError(
            "Unknown target",
            msg("Cannot render for {target}.", target=f"{target!r}"),
            msg("Use {names}.", names=", ".join(TARGETS)),
        )
    require_renderable(job.task, target)
    return TARGETS[target](context, job, on)


def rendered_batch(context: Context, jobs: Sequence[Job]) -> str:
    """Return one Slurm script for several jobs."""
    for job in jobs:
        require_renderable(job.task, "slurm")
    return batch_file(context, jobs)


def unqueued(task: Task, user: str, now: float, report: Report | None) -> Job:
    """Return a task as the job that it would be."""
    if task.project:
        task = replace(task, folder=start_folder(Path(task.project), task.folder, Path.cwd()))
    job = Job(UNNAMED, task, user, JobState.QUEUED, now)
    memory = report.estimate.memory if report is not None else None
    return job if memory is None else replace(job, estimate_mib=memory.high_mib)


def _docker(context: Context, job: Job, on: Sequence[Place]) -> str:
    """Return the command that was run, or, before a launch, that would be; without devices chosen
    the first ones of the fleet stand for those."""
    if job.attempt is not None:
        lines_path = line_file(context.state, job.id, job.attempt.number)
        if lines_path.exists():
            return _without_values(lines_path.read_text(encoding="utf-8"), job.task).rstrip("\n")
    # A run on a cluster had no devices that Docker could be asked for.
    ran = None if cluster_of(job.task) else job.attempt
    attempt = ran or _imagined(job, on or _first_places(context, job))
    specs = _specs(context, job, attempt)
    lines = docker_lines(attempt, specs)
    doubts = {unproven(spec.backend, spec.vendor) for spec in specs if spec.device_uuids} - {""}
    return "\n".join([*(f"# {doubt}" for doubt in sorted(doubts)), lines])


def _without_values(lines: str, task: Task) -> str:
    """Return lines without secret values, which earlier versions have written into them."""
    for name in withheld(task.env):
        lines = lines.replace(shlex.quote(f"{name}={task.env[name]}"), name)
    return lines


def _kubernetes(context: Context, job: Job, on: Sequence[Place]) -> str:
    return manifest(context, job)


def _slurm(context: Context, job: Job, on: Sequence[Place]) -> str:
    return batch_file(context, (job,))


TARGETS: Mapping[str, Callable[[Context, Job, Sequence[Place]], str]] = {
    "docker": _docker,
    "kubernetes": _kubernetes,
    "slurm": _slurm,
}


def _specs(context: Context, job: Job, attempt: Attempt) -> list[ContainerSpec]:
    # Before a launch the account on the host is not known yet; this user's is used instead. Nor is
    # the rendezvous of a gang: the names of its hosts are used for their addresses.
    folder = Path("~/.local/state/gpuconsole/results").expanduser() / job.id
    account = HostAccount(os.getuid() or 1000, os.getgid() or 1000, str(folder))
    key = attempt_key(job.id, attempt.number)
    master = f"{attempt.host}:{meeting_port(key, ())}"
    specs = []
    for rank, part in enumerate(attempt.parts):
        meeting = None
        if attempt.members:
            count = len(attempt.members) + 1
            meeting = Meeting(master, key, count, rank, part.host, "eth0")
        spec = container_spec(
            job,
            part,
            command=context.command(job.task, max(1, len(part.device_uuids)), meeting),
            image=job.task.image or context.default_image(part.host),
            account=account,
            journal=context.journal.id,
            settings=context.settings,
            host=context.hosts.snapshot().host(part.host),
            meeting=meeting,
        )
        specs.append(spec)
    return specs


def _imagined(job: Job, places: Sequence[Place]) -> Attempt:
    """Return the attempt as it would be on these devices."""
    parts = [
        Member(
            place.host,
            tuple(device.uuid for device in place.devices),
            tuple(device.index for device in place.devices),
            container_name(job.id, 1, "0", rank),
        )
        for rank, place in enumerate(places)
    ]
    first, *others = parts
    return Attempt(
        number=1,
        host=first.host,
        device_uuids=first.device_uuids,
        device_indexes=first.device_indexes,
        container_name=first.container_name,
        members=tuple(others),
    )


def _first_places(context: Context, job: Job) -> Sequence[Place]:
    """Return the first devices of the first host, or of as many as the task may use. Before
    devices are chosen their numbers stand for them; Docker takes either."""
    count, most = job.task.devices or 1, job.task.hosts
    hosts = most if count % most == 0 else 1
    names = [host.name for host in context.hosts.snapshot().hosts[:hosts]]
    # A fleet that is not known, or is too small, has hosts by number.
    names += [f"host-{number}" for number in range(len(names) + 1, hosts + 1)]
    devices = tuple(Device(str(number), number, "") for number in range(count // hosts))
    return tuple(Place(name, devices) for name in names)
