"""Places where a script can be measured: hosts that could run its job, and this machine."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Sequence

from gpuconsole.core import wording
from gpuconsole.core.containers import Hosts
from gpuconsole.core.estimate import Isolation
from gpuconsole.core.fleet import FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError, NotHereError, UsageError
from gpuconsole.preflight.tiers.ladder import Site
from gpuconsole.session.dispatch.slurm_jobs import cluster_of
from gpuconsole.session.estimate.measurement_on_host import memory_limit_mib
from gpuconsole.waiting import within

MOST_HOSTS = 2
"""Hosts at which a measurement is tried."""
MOST_ASKED = 8
"""Most hosts with an engine that is asked for the image."""
ENGINE_S = 10.0
"""Longest wait for an engine."""


async def host_sites(
    task: Task, hosts: Hosts, snapshot: FleetSnapshot, image_of: Callable[[str], str]
) -> tuple[tuple[Site, ...], str]:
    """Return hosts that could run the task and have its image, the idlest first; with none, why.

    An image is never fetched for a measurement: that may take longer than the job.
    """
    if cluster_of(task):
        return (), msg(
            "{host} runs jobs through Slurm, which measures nothing", host=cluster_of(task)
        )
    able = [host for host in snapshot.hosts if _is_able(task, host) and image_of(host.name)]
    if not able:
        return (), "no host is up that could run it"
    able.sort(key=lambda host: (not _has_idle_device(task, host), -_free_mib(host)))
    sites = await with_image(hosts, able, image_of)
    if not sites:
        images = sorted({clean(image_of(host.name), 80) for host in able[:MOST_ASKED]})
        return (), msg(
            "no host that could run it has the image ({images})", images=", ".join(images)
        )
    return sites, ""


async def with_image(
    hosts: Hosts, able: Sequence[Host], image_of: Callable[[str], str]
) -> tuple[Site, ...]:
    """Return the first of some hosts that have the image."""
    asked = [host for host in able if image_of(host.name)][:MOST_ASKED]
    present = await asyncio.gather(
        *(_has_image(hosts, host, image_of(host.name)) for host in asked)
    )
    present_on = [host for host, there in zip(asked, present, strict=True) if there]
    return tuple(Site(host.name) for host in present_on[:MOST_HOSTS])


def local_sites(agreed: Callable[[Isolation], bool]) -> tuple[tuple[Site, ...], str]:
    """Return this machine where it can measure; else why it cannot.

    `agreed` tells whether the user agreed to an isolation. It may be looked for on disk and tried,
    so that this is for a thread.
    """
    from gpuconsole.remote.isolation.sandbox import Sandbox, require_sandbox

    if importlib.util.find_spec("paddle") is None:
        return (), "Paddle is not installed on this machine"
    try:
        require_sandbox()
    except UsageError as error:
        return (), error.message.rstrip(".")
    kind = Sandbox().kind
    return (Site(consent=not agreed(kind), isolation=kind),), ""


def joined(reasons: Sequence[str]) -> str:
    """Return reasons as one sentence."""
    return wording.joined("; ", filter(None, reasons))


def _is_able(task: Task, host: Host) -> bool:
    """Tell whether a host could run a task, were its devices free."""
    if host.state is not HostState.UP or host.cluster or host.drained or host.aside is not None:
        return False
    if not host.has_labels(task.labels, task.anti_labels) or not _has_room(host):
        return False
    return task.backend == "cpu" or any(device.backend == task.backend for device in host.devices)


def _has_room(host: Host) -> bool:
    try:
        memory_limit_mib(host)
    except NotHereError:
        return False
    return True


def _free_mib(host: Host) -> float:
    """Return the host's free memory (MiB); unlimited if it is unknown."""
    total, used = host.facts.memory_total_mib, host.facts.memory_used_mib
    return float("inf") if total is None or used is None else total - used


def _has_idle_device(task: Task, host: Host) -> bool:
    return any(
        device.backend == task.backend and not (device.processes or device.lost)
        for device in host.devices
    )


async def _has_image(hosts: Hosts, host: Host, image: str) -> bool:
    async def ask() -> bool:
        engine = await hosts.engine(host.name)
        return await engine.image_facts(image) is not None

    try:
        return await within(ENGINE_S, ask())
    except (ConsoleError, asyncio.TimeoutError):
        return False
