"""Containers of measurements on a real engine: one at a time, none for longer than its limit."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.containers import TIME_LIMIT_LABEL, ContainerSpec, Lease
from gpuconsole.errors import EngineError, HostBusyError
from gpuconsole.remote.docker.engine import DockerEngine
from gpuconsole.remote.links.local import LocalLink
from gpuconsole.session.estimate.measurement_on_host import NAME
from tests.real.rig.docker import LabDocker, why_not
from tests.real.rig.engines import labels, run, spec, sweep
from tests.real.rig.image import paddle_image
from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]
UUID = "GPU-a"


@pytest.fixture(scope="module")
def lab() -> Iterator[LabDocker]:
    with LabDocker(Path(tempfile.mkdtemp(prefix="lab-")), uuids=(UUID,)) as engine:
        paddle_image(engine)
        yield engine


@pytest.fixture
async def console(lab: LabDocker) -> AsyncIterator[Callable[..., DockerEngine]]:
    """Give as many consoles of the same engine as a test wants."""
    made: list[DockerEngine] = []

    def another(**options: Any) -> DockerEngine:
        made.append(DockerEngine(LocalLink("here"), "here", str(lab.socket), **options))
        return made[-1]

    yield another
    for engine in made:
        await engine.close()
    sweep(lab)


def measurement(who: str, limit_s: float = 600.0, **options: Any) -> ContainerSpec:
    mine = labels(f"measure-{who}", f"J-{who}")
    return spec(NAME, "sleep", "600", labels={**mine, TIME_LIMIT_LABEL: f"{limit_s}"}, **options)


async def overdue(engine: DockerEngine) -> None:
    """Wait until the measurement's time is over by the engine's clock, which counts seconds."""
    deadline = time.monotonic() + PATIENCE_S
    while not getattr(await engine.inspect(NAME), "overdue", False):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_of_two_consoles_one_measures(console: Callable[..., DockerEngine]) -> None:
    ann, bob = console(), console()
    outcomes = await asyncio.gather(
        ann.create(measurement("ann")), bob.create(measurement("bob")), return_exceptions=True
    )
    assert sorted(type(one).__name__ for one in outcomes) == ["HostBusyError", "str"]
    winner = "ann" if isinstance(outcomes[0], str) else "bob"
    assert await ann.create(measurement(winner)) in outcomes
    await ann.start(NAME)
    with pytest.raises(HostBusyError, match="measures on here"):
        await bob.create(measurement("eve"))


async def test_one_that_is_overdue_makes_way_with_its_lease(
    console: Callable[..., DockerEngine],
) -> None:
    dead, bob = console(), console()
    left = measurement("dead", 0.0, device_uuids=(UUID,), device_indexes=(0,))
    job, attempt = left.labels["gpuconsole.job"], left.labels["gpuconsole.attempt"]
    await dead.claim([Lease(UUID, job, attempt, "dead", "J-dead", 0.0)])
    await dead.start(await dead.create(left))
    await overdue(bob)
    made = await bob.create(measurement("bob"))
    status = await bob.inspect(NAME)
    assert status is not None
    assert status.id == made
    assert not status.overdue
    assert await bob.leases() == ()


async def test_a_job_of_another_console_gets_the_device_of_one_that_is_overdue(
    console: Callable[..., DockerEngine],
) -> None:
    dead, bob = console(), console(lease_grace_s=0)
    left = measurement("dead", 0.0, device_uuids=(UUID,), device_indexes=(0,))
    job, attempt = left.labels["gpuconsole.job"], left.labels["gpuconsole.attempt"]
    await dead.claim([Lease(UUID, job, attempt, "dead", "J-dead", 0.0)])
    await dead.start(await dead.create(left))
    await overdue(bob)
    assert await bob.leases() == ()
    await bob.claim([Lease(UUID, "job-bob", "job-bob-1", "bob", "J-bob", 0.0)])
    assert await bob.inspect(NAME) is None
    assert [lease.user for lease in await dead.leases()] == ["bob"]


async def test_a_prune_leaves_one_that_is_being_made_alone(
    console: Callable[..., DockerEngine],
) -> None:
    engine = console()
    await engine.create(measurement("ann"))
    await engine.prune(frozenset(), "J-ann")
    assert await engine.inspect(NAME) is not None
    await engine.remove(NAME)
    await engine.create(measurement("ann", 0.0))
    await overdue(engine)
    await engine.prune(frozenset(), "J-ann")
    assert await engine.inspect(NAME) is None


@pytest.mark.parametrize("limit", ["nan", "never", "-1e999", "1e300"])
async def test_a_label_that_is_no_limit_gives_no_time_for_ever(
    console: Callable[..., DockerEngine], limit: str
) -> None:
    engine = console()
    made = measurement("ann")
    await engine.create(replace(made, labels={**made.labels, TIME_LIMIT_LABEL: limit}))
    status = await engine.inspect(NAME)
    assert status is not None
    assert not status.overdue


async def test_something_else_of_that_name_is_left_alone(
    console: Callable[..., DockerEngine],
) -> None:
    engine = console()
    theirs = await engine.create(spec(NAME, "sleep", "600", labels={}))
    with pytest.raises(EngineError, match="belongs to something else"):
        await engine.create(measurement("ann"))
    status = await engine.inspect(NAME)
    assert status is not None
    assert status.id == theirs


async def test_a_volume_that_the_image_asks_for_is_in_memory(
    console: Callable[..., DockerEngine], lab: LabDocker
) -> None:
    client = lab.client()
    engine = console()
    await run(engine, spec("base", "true"))
    client.commit("base", "lab/volume", "1", changes=["VOLUME /tmp/", "VOLUME /var/tmp/data"])
    client.close()
    made = spec("vol", "df", "-m", "--output=fstype,size", "/tmp", "/var/tmp/data",
                image="lab/volume:1", read_only=True, memory_folders={"/tmp": 4.0})  # fmt: skip
    _, said = await run(engine, made)
    assert said.split()[2:] == [b"tmpfs", b"4", b"tmpfs", b"64"]
