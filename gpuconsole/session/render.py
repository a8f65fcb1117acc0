"""The command that equals a job, for engines other than ours."""

from __future__ import annotations

import os
from pathlib import Path

from gpuconsole.core.containers import HostAccount
from gpuconsole.core.dockerline import docker_line
from gpuconsole.core.jobs import Attempt, Job
from gpuconsole.errors import UsageError
from gpuconsole.placement.model import Candidate
from gpuconsole.session.bench import Bench
from gpuconsole.session.follow import log_file
from gpuconsole.session.spec import container_name, container_spec

TARGETS = ("docker",)


def line_file(state: Path, job_id: str, attempt: int) -> Path:
    """Return where the `docker run` line of a launched attempt is kept."""
    return log_file(state, job_id, attempt).with_suffix(".docker")


def rendered(bench: Bench, job: Job, target: str, on: Candidate | None = None) -> str:
    """Return the command for `target`: what was run, or, before a launch, what would be.

    `on` are devices chosen already; without them the first ones of the fleet stand for those.
    """
    if target not in TARGETS:
        raise UsageError(
            "Unknown target", f"Cannot render for {target!r}.", f"Use {', '.join(TARGETS)}."
        )
    if job.attempt is not None:
        kept = line_file(bench.state, job.id, job.attempt.number)
        if kept.exists():
            return kept.read_text(encoding="utf-8").rstrip("\n")
    attempt = job.attempt or _imagined(bench, job, on)
    # Before a launch the account on the host is not known yet; this user's stands for it.
    folder = Path("~/.local/state/gpuconsole/results").expanduser() / job.id
    spec = container_spec(
        job,
        attempt,
        command=bench.command(job.task, max(1, len(attempt.device_uuids))),
        image=job.task.image or bench.default_image(attempt.host),
        account=HostAccount(os.getuid() or 1000, os.getgid() or 1000, str(folder)),
        journal=bench.journal.id,
        settings=bench.settings,
        host=bench.hosts.snapshot().host(attempt.host),
    )
    return docker_line(spec)


def _imagined(bench: Bench, job: Job, on: Candidate | None) -> Attempt:
    """Return the attempt as it would be on these devices, or the first ones of the first host."""
    if on is not None:
        return Attempt(
            number=1,
            host=on.host,
            device_uuids=tuple(device.uuid for device in on.devices),
            device_indexes=tuple(device.index for device in on.devices),
            container_name=container_name(job.id, 1, "0"),
        )
    hosts = bench.hosts.snapshot().hosts
    count = job.task.devices or 1
    return Attempt(
        number=1,
        host=hosts[0].name if hosts else "",
        # Before devices are chosen their numbers stand for them; Docker takes either.
        device_uuids=tuple(str(number) for number in range(count)),
        device_indexes=tuple(range(count)),
        container_name=container_name(job.id, 1, "0"),
    )
