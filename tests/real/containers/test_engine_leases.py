"""Leases on a real engine: of several consoles one wins, and nothing is taken from the living."""

from __future__ import annotations

import asyncio
import contextlib
import tarfile
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.containers import Lease
from gpuconsole.errors import ContainerGoneError, LeaseTakenError
from gpuconsole.remote.docker import engine as engine_module
from gpuconsole.remote.docker import launches, leases
from gpuconsole.remote.docker.engine import DockerEngine
from gpuconsole.remote.docker.marker_containers import engine_now
from gpuconsole.remote.docker.status import engine_time
from gpuconsole.remote.links.local import LocalLink
from tests.real.rig.docker import LabDocker, why_not
from tests.real.rig.engines import labels, spec, sweep, until
from tests.real.rig.image import paddle_image
from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]
A, B, C = "GPU-a", "GPU-b", "MIG-c/1:2"


@pytest.fixture(scope="module")
def lab() -> Iterator[LabDocker]:
    with LabDocker(Path(tempfile.mkdtemp(prefix="lab-")), uuids=(A, B, C)) as engine:
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


def lease(uuid: str, who: str, since: float = 1_700_000_000.0) -> Lease:
    return Lease(uuid, f"job-{who}", f"job-{who}-1", who, f"J-{who}", since)


async def holders(engine: DockerEngine) -> dict[str, str]:
    return {held.uuid: held.user for held in await engine.leases()}


async def test_one_holds_until_it_gives_back(console: Callable[..., DockerEngine]) -> None:
    ann, bob = console(), console()
    mine = [lease(C, "ann"), lease(A, "ann")]
    await ann.claim(mine)
    await ann.claim(mine)
    assert sorted(await bob.leases(), key=lambda held: held.uuid) == sorted(
        mine, key=lambda held: held.uuid
    )
    with pytest.raises(LeaseTakenError) as caught:
        await bob.claim([lease(C, "bob")])
    assert caught.value.uuid == C
    assert caught.value.holder == "ann (job job-ann, since 2023-11-14T22:13:20.000Z)"
    await bob.release("job-bob-1", [A, C])
    assert await holders(bob) == {A: "ann", C: "ann"}
    await ann.release("job-ann-1", [C])
    await bob.claim([lease(C, "bob")])
    assert await holders(ann) == {A: "ann", C: "bob"}


async def test_all_or_none(console: Callable[..., DockerEngine]) -> None:
    ann, bob = console(), console()
    await ann.claim([lease(C, "ann")])
    with pytest.raises(LeaseTakenError):
        await bob.claim([lease(C, "bob"), lease(B, "bob"), lease(A, "bob")])
    assert await holders(ann) == {C: "ann"}


async def test_another_attempt_of_the_same_job_is_another_holder(
    console: Callable[..., DockerEngine],
) -> None:
    engine = console()
    await engine.claim([lease(A, "ann")])
    with pytest.raises(LeaseTakenError):
        await engine.claim([replace(lease(A, "ann"), attempt="job-ann-2")])


async def test_two_that_both_saw_it_free_cannot_both_have_it(
    console: Callable[..., DockerEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hold both consoles at the last moment before the claim, then let both go."""
    barrier = threading.Barrier(2, timeout=PATIENCE_S)
    create = leases._create
    met: set[int] = set()

    def meet_then_create(client: Any, wanted: Lease, name: str) -> str:
        if id(client) not in met:
            met.add(id(client))
            assert not [held for held in leases.held(client) if held.lease.uuid == A]
            barrier.wait()
        return create(client, wanted, name)

    monkeypatch.setattr(leases, "_create", meet_then_create)
    ann, bob = console(), console()
    outcomes = await asyncio.gather(
        ann.claim([lease(A, "ann")]), bob.claim([lease(A, "bob")]), return_exceptions=True
    )
    assert len(met) == 2
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["LeaseTakenError", "NoneType"]
    winner = "ann" if outcomes[0] is None else "bob"
    assert await holders(ann) == {A: winner}


@pytest.mark.fault(
    "A lease of a job that is gone, and a fresh one in its place",
    "Only the stale one is removed",
)
async def test_a_stale_lease_is_reaped_but_never_the_fresh_one_that_took_its_place(
    console: Callable[..., DockerEngine], lab: LabDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ann judges a lease stale, Bob reaps and claims it meanwhile, then Ann's removal lands."""
    dead = console()
    await dead.claim([lease(A, "dead")])
    ann, bob = console(lease_grace_s=0), console(lease_grace_s=0)
    judged, go_on = threading.Event(), threading.Event()
    remove = leases.remove

    def slow_remove(client: Any, item: leases.Held) -> bool:
        if threading.current_thread().name.startswith("engine-ann"):
            judged.set()
            assert go_on.wait(PATIENCE_S)
        return remove(client, item)

    monkeypatch.setattr(leases, "remove", slow_remove)
    slow = DockerEngine(LocalLink("ann"), "ann", str(lab.socket), lease_grace_s=0)
    reaping = asyncio.ensure_future(reaped(slow))
    assert await asyncio.to_thread(judged.wait, PATIENCE_S)
    await bob.claim([lease(A, "bob")])
    # A live job container makes Bob's lease one that nobody may reap.
    held = spec("bob", "sleep", "1000", labels=labels("bob", "J-bob"), device_uuids=(A,))
    await bob.start(await bob.create(held))
    go_on.set()
    assert await reaping == ()
    await slow.close()
    assert await holders(ann) == {A: "bob"}


async def test_a_lease_lives_as_long_as_its_job(console: Callable[..., DockerEngine]) -> None:
    owner, other = console(), console(lease_grace_s=0)
    await owner.claim([lease(A, "ann")])
    made = spec("ann", "sleep", "1000", labels=labels("ann", "J-ann"), device_uuids=(A,))
    container = await owner.create(made)
    await owner.start(container)
    assert await reaped(other) == ()
    with pytest.raises(LeaseTakenError):
        await other.claim([lease(A, "bob")])
    await owner.stop(container, 0)
    await until(owner, container, "exited")
    # Its own console still has the grace time to look at how it ended.
    assert await holders(owner) == {A: "ann"}
    patient = console(lease_grace_s=60)
    with pytest.raises(LeaseTakenError):
        await patient.claim([lease(A, "bob")])
    await owner.remove(container)
    assert await holders(owner) == {A: "ann"}
    assert await holders(other) == {}
    await other.claim([lease(A, "bob")])
    assert await holders(owner) == {A: "bob"}


async def created(engine: DockerEngine, who: str, uuid: str = A) -> str:
    """Return a job container that holds a device and has not started, as after a crash."""
    await engine.claim([lease(uuid, who)])
    made = spec(who, "sleep", "1000", labels=labels(who, f"J-{who}"), device_uuids=(uuid,))
    return await engine.create(made)


async def gone(engine: DockerEngine, container: str) -> bool:
    return await engine.inspect(container) is None


async def test_what_a_dead_console_never_started_is_removed_with_its_lease(
    console: Callable[..., DockerEngine],
) -> None:
    dead, patient, other = console(), console(lease_grace_s=600), console(lease_grace_s=0)
    container = await created(dead, "dead")
    # Within the grace time its console may still be filling it.
    with pytest.raises(LeaseTakenError, match="job-dead"):
        await patient.claim([lease(A, "bob")])
    assert not await gone(patient, container)
    # Looking changes nothing.
    assert await holders(other) == {}
    assert not await gone(other, container)
    await other.claim([lease(A, "bob")])
    assert await gone(other, container)
    assert await holders(patient) == {A: "bob"}


async def test_a_console_that_wakes_late_finds_its_container_gone(
    console: Callable[..., DockerEngine], tmp_path: Path
) -> None:
    """It was suspended between create and start, and another job has its device now."""
    slow, quick = console(), console(lease_grace_s=0)
    container = await created(slow, "slow")
    await quick.claim([lease(A, "bob")])
    with pytest.raises(ContainerGoneError, match="removed before it started"):
        await slow.start(container)
    bundle = tmp_path / "code.tar"
    tarfile.open(bundle, "w").close()
    with pytest.raises(ContainerGoneError):
        await slow.put(container, bundle, "/workspace")
    assert await slow.own("J-slow") == ()


@pytest.mark.fault(
    "A launch takes longer than the grace time",
    "It keeps its device while its console shows signs of life; signs of others do not count",
)
async def test_a_launch_that_shows_signs_of_life_keeps_its_device(
    console: Callable[..., DockerEngine], lab: LabDocker
) -> None:
    """The grace time is over for the container, and not for the newest sign."""
    slow, other = console(), console(lease_grace_s=5)
    container = await created(slow, "slow")
    await until_older(lab, container, 5)
    sign = await slow.sign("J-slow")
    with pytest.raises(LeaseTakenError, match="job-slow"):
        await other.claim([lease(A, "bob")])
    assert await reaped(other) == ()
    assert await holders(other) == {A: "slow"}
    # A sign of another journal says nothing of this one.
    await slow.remove(sign)
    await slow.sign("J-else")
    await other.claim([lease(A, "bob")])
    assert await gone(slow, container)


@pytest.mark.fault(
    "A container starts between another console's look at it and its removal",
    "It is not removed, and keeps its device",
)
async def test_a_container_that_started_meanwhile_is_never_removed(
    console: Callable[..., DockerEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its console wakes up between the look of another and that one's removal."""
    slow, other = console(), console(lease_grace_s=0)
    container = await created(slow, "slow")
    remove = launches.remove_abandoned
    met = []

    def start_then_remove(client: Any, found: launches.Launching) -> bool:
        met.append(found.id)
        client.start(found.id)
        return remove(client, found)

    monkeypatch.setattr(launches, "remove_abandoned", start_then_remove)
    with pytest.raises(LeaseTakenError, match="job-slow"):
        await other.claim([lease(A, "bob")])
    assert met == [container]
    status = await slow.inspect(container)
    assert status is not None
    assert status.state == "running"
    assert await holders(other) == {A: "slow"}


async def test_an_abandoned_container_without_a_lease_holds_nothing(
    console: Callable[..., DockerEngine],
) -> None:
    dead, patient, other = console(), console(lease_grace_s=600), console(lease_grace_s=0)
    container = await created(dead, "dead")
    await dead.release("job-dead-1", [A])
    with pytest.raises(LeaseTakenError, match="job-dead"):
        await patient.claim([lease(A, "bob")])
    await other.claim([lease(A, "bob")])
    assert await gone(other, container)


async def test_one_s_own_container_is_found_again_after_the_grace_time(
    console: Callable[..., DockerEngine],
) -> None:
    dead, heir = console(), console(lease_grace_s=0)
    container = await created(dead, "ann")
    assert await created(heir, "ann") == container
    await heir.start(container)


async def test_reaping_clears_what_dead_consoles_left(
    console: Callable[..., DockerEngine], lab: LabDocker
) -> None:
    dead, other = console(), console(lease_grace_s=0)
    container = await created(dead, "dead")
    await dead.sign("J-dead")
    assert [lease.user for lease in await reaped(other)] == ["dead"]
    assert await gone(other, container)
    assert lab.client().containers(all=True) == []


async def reaped(engine: DockerEngine) -> tuple[Lease, ...]:
    """Remove the stale leases of a host, as pruning does; return them."""
    return await engine._calls.run("reaping leases", leases.reap, engine._lease_grace_s)


async def until_older(lab: LabDocker, container: str, age_s: float) -> None:
    """Wait until a container has an age on the engine's clock."""
    client = lab.client()
    made = engine_time(client.inspect_container(container)["Created"])
    deadline = time.monotonic() + PATIENCE_S
    while engine_now(client) - made <= age_s + 1:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


async def test_a_swept_lease_does_not_open_a_busy_device(
    console: Callable[..., DockerEngine], lab: LabDocker
) -> None:
    """`docker container prune` takes leases away: what runs still counts."""
    ann, bob = console(), console()
    await ann.claim([lease(A, "ann")])
    made = spec("ann", "sleep", "1000", labels=labels("ann", "J-ann"), device_uuids=(A,))
    container = await ann.create(made)
    await ann.start(container)
    client = lab.client()
    client.prune_containers()
    assert await holders(ann) == {}
    with pytest.raises(LeaseTakenError, match="job-ann"):
        await bob.claim([lease(B, "bob"), lease(A, "bob")])
    assert await holders(ann) == {}
    await ann.claim([lease(A, "ann")])
    assert await holders(ann) == {A: "ann"}


@pytest.mark.fault(
    "A console sleeps between claim and start and loses its lease",
    "Its container does not start",
)
async def test_a_launch_that_lost_its_lease_does_not_start(
    console: Callable[..., DockerEngine], lab: LabDocker
) -> None:
    """The console slept between claim and create; its lease was reaped and taken by another."""
    slow, quick = console(), console(lease_grace_s=0)
    await slow.claim([lease(A, "ann")])
    await quick.claim([lease(A, "bob")])
    made = spec("ann", "sleep", "1000", labels=labels("ann", "J-ann"), device_uuids=(A,))
    container = await slow.create(made)
    with pytest.raises(LeaseTakenError, match="bob"):
        await slow.start(container)
    status = await slow.inspect(container)
    assert status is not None
    assert status.state == "created"


@pytest.mark.fault(
    "Labels of other containers hold hostile text",
    "Shown clean, nothing else happens",
)
async def test_hostile_labels_do_no_harm(
    console: Callable[..., DockerEngine], lab: LabDocker
) -> None:
    engine = console()
    await engine.claim([lease(B, "ann")])
    bad = {"gpuconsole.lease": A, "gpuconsole.since": "soon", "gpuconsole.user": "\x1b[31m[red]x"}
    client = lab.client()
    client.create_container("lab/paddle:1", ["x"], name=leases.lease_name(A), labels=bad)
    with pytest.raises(LeaseTakenError) as caught:
        await engine.claim([lease(A, "ann")])
    assert caught.value.holder == "[red]x (job unknown)"


@pytest.mark.fault(
    "An image's tag is given to another image between its check and the container's creation",
    "The container is made of what was checked, and no image makes a lease",
)
async def test_no_image_makes_a_lease(
    console: Callable[..., DockerEngine], lab: LabDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, client = console(), lab.client()
    changes = [f"LABEL gpuconsole.lease={A}", "LABEL gpuconsole.job=evil", 'CMD ["x"]']
    base = client.create_container("lab/paddle:1", ["x"])
    client.commit(base, "lab/evil", "1", changes=changes)
    client.remove_container(base)
    client.tag("lab/paddle:1", "lab/moved", "1", force=True)
    good = client.inspect_image("lab/paddle:1")["Id"]
    check = engine_module.refuse_own_labels

    def checked_then_moved(*args: Any) -> Any:
        found = check(*args)
        client.tag("lab/evil:1", "lab/moved", "1", force=True)
        return found

    monkeypatch.setattr(engine_module, "refuse_own_labels", checked_then_moved)
    made = spec("ann", "sleep", "1000", labels=labels("ann"), image="lab/moved:1")
    found = client.inspect_container(await engine.create(made))
    assert found["Image"] == good
    assert "gpuconsole.lease" not in found["Config"]["Labels"]
    assert found["Config"]["Labels"]["gpuconsole.image"] == "lab/moved:1"
    # Made behind the product's back, it still is no lease: it has not the name.
    client.create_container("lab/evil:1", ["x"], name="gpuconsole-evil-1")
    assert await engine.leases() == ()
    await engine.claim([lease(A, "ann")])
    # Nor does another image under the name of the empty one give a lease its labels.
    client.tag("lab/evil:1", "gpuconsole/lease", "1", force=True)
    await engine.claim([lease(B, "ann")])
    held = client.inspect_container(leases.lease_name(B))["Config"]["Labels"]
    assert held == leases._labels(lease(B, "ann"))


@pytest.mark.fault("Two consoles claim one device at once, 50 times", "One wins each time")
async def test_fifty_races_have_one_winner_each(console: Callable[..., DockerEngine]) -> None:
    consoles = {"ann": console(), "bob": console()}
    winners = []
    for _ in range(50):

        async def attempt(who: str) -> str:
            with contextlib.suppress(LeaseTakenError):
                await consoles[who].claim([lease(A, who), lease(B, who)])
                return who
            return ""

        won = [who for who in await asyncio.gather(*map(attempt, consoles)) if who]
        assert len(won) == 1
        assert await holders(consoles[won[0]]) == {A: won[0], B: won[0]}
        await consoles[won[0]].release(f"job-{won[0]}-1", [A, B])
        winners += won
    assert len(winners) == 50
