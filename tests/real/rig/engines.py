"""Container specs and waiting, for tests that drive an engine of the lab."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from gpuconsole.core.containers import ContainerSpec, ContainerStatus
from gpuconsole.remote.docker.engine import DockerEngine
from tests.real.rig.docker import LabDocker
from tests.real.rig.image import PADDLE_IMAGE
from tests.real.rig.patience import PATIENCE_S

USER = "1234:2345"


def spec(name: str, *command: str, **options: object) -> ContainerSpec:
    """Return what a job's container would be, small and labelled."""
    base = ContainerSpec(
        name=name,
        image=PADDLE_IMAGE,
        command=command,
        labels=labels(name),
        user=USER,
        shm_size_mib=64,
        memory_limit_mib=1024,
    )
    return replace(base, **options)  # type: ignore[arg-type]


def labels(name: str, journal: str = "J1") -> dict[str, str]:
    """Return the labels of a job container of this name."""
    words = {"job": f"job-{name}", "attempt": f"job-{name}-1", "nonce": "n1", "journal": journal}
    return {f"gpuconsole.{key}": word for key, word in words.items()}


async def until(
    engine: DockerEngine, container: str, state: str, within_s: float = PATIENCE_S
) -> ContainerStatus:
    """Return the container's status once it is in a state."""
    deadline = time.monotonic() + within_s
    while True:
        status = await engine.inspect(container)
        if status is not None and status.state == state:
            return status
        assert time.monotonic() < deadline, status
        await asyncio.sleep(0.02)


async def output(engine: DockerEngine, container: str) -> bytes:
    """Follow a container to its end and return everything it printed."""
    async for _ in engine.logs(container, follow=True):
        pass
    await until(engine, container, "exited")
    return b"".join([chunk async for chunk in engine.logs(container, follow=False)])


async def run(engine: DockerEngine, made: ContainerSpec) -> tuple[ContainerStatus, bytes]:
    """Run a container to its end; returns its status and its output."""
    container = await engine.create(made)
    await engine.start(container)
    log = await output(engine, container)
    return await until(engine, container, "exited"), log


def sweep(lab: LabDocker) -> None:
    """Remove every container of an engine."""
    lab.clear()
