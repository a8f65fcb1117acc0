"""Two jobs on one device of a real engine: never three, never beside one that does not share."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.containers import Lease
from gpuconsole.core.devices.device_sharing import Share
from gpuconsole.errors import LeaseTakenError
from gpuconsole.remote.docker import leases
from gpuconsole.remote.docker.engine import DockerEngine
from gpuconsole.remote.links.local import LocalLink
from tests.real.rig.docker import LabDocker, why_not
from tests.real.rig.engines import labels, spec, sweep
from tests.real.rig.image import paddle_image
from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]
A, B = "GPU-a", "GPU-b"
LIMIT = 20000.0
Console = Callable[..., DockerEngine]


@pytest.fixture(scope="module")
def lab() -> Iterator[LabDocker]:
    with LabDocker(Path(tempfile.mkdtemp(prefix="lab-")), uuids=(A, B)) as engine:
        paddle_image(engine)
        yield engine


@pytest.fixture
async def console(lab: LabDocker) -> AsyncIterator[Console]:
    """Give as many consoles of the same engine as a test wants."""
    made: list[DockerEngine] = []

    def another(**options: Any) -> DockerEngine:
        made.append(DockerEngine(LocalLink("here"), "here", str(lab.socket), **options))
        return made[-1]

    yield another
    for engine in made:
        await engine.close()
    sweep(lab)


def first(who: str, memory: float = 8000.0, uuid: str = A) -> Lease:
    return Lease(uuid, f"job-{who}", f"job-{who}-1", who, f"J-{who}", 1.7e9, Share(memory, LIMIT))


def beside(who: str, memory: float = 8000.0, uuid: str = A) -> Lease:
    return replace(first(who, memory, uuid), share=Share(memory, LIMIT, beside=True))


def whole(who: str, uuid: str = A) -> Lease:
    return replace(first(who, uuid=uuid), share=None)


async def users(engine: DockerEngine) -> list[str]:
    return sorted(held.user for held in await engine.leases() if held.uuid == A)


async def test_a_second_stands_beside_the_first_and_no_third(console: Console) -> None:
    ann, bob, eve = console(), console(), console()
    await ann.claim([first("ann")])
    await bob.claim([beside("bob")])
    assert await users(eve) == ["ann", "bob"]
    seen = {held.user: held for held in await eve.leases()}
    assert seen["ann"] == first("ann")
    assert seen["bob"] == beside("bob")
    # Both may say it again, as a console that was killed in between does.
    await ann.claim([first("ann")])
    await bob.claim([beside("bob")])
    assert await users(eve) == ["ann", "bob"]
    for claim in (beside("eve", 10.0), first("eve", 10.0), whole("eve")):
        with pytest.raises(LeaseTakenError):
            await eve.claim([claim])
    assert await users(eve) == ["ann", "bob"]


async def test_nobody_comes_beside_one_that_wants_it_all(console: Console) -> None:
    ann, bob = console(), console()
    await ann.claim([whole("ann")])
    with pytest.raises(LeaseTakenError) as caught:
        await bob.claim([beside("bob")])
    assert caught.value.holder == "ann (job job-ann, since 2023-11-14T22:13:20.000Z)"
    assert await users(bob) == ["ann"]


async def test_both_together_stay_within_the_lower_limit(console: Console) -> None:
    ann, bob = console(), console()
    await ann.claim([first("ann", 12000.0)])
    with pytest.raises(LeaseTakenError):
        await bob.claim([beside("bob", 8000.1)])
    assert await users(bob) == ["ann"]
    await bob.claim([beside("bob", 8000.0)])
    assert await users(bob) == ["ann", "bob"]


async def test_after_the_first_has_gone_the_device_is_not_whole(console: Console) -> None:
    ann, bob, eve = console(), console(), console()
    await ann.claim([first("ann")])
    await bob.claim([beside("bob")])
    await ann.release("job-ann-1", [A])
    assert await users(eve) == ["bob"]
    with pytest.raises(LeaseTakenError, match="bob"):
        await eve.claim([whole("eve")])
    assert await users(eve) == ["bob"]
    # Who comes beside takes the name that the first one left, and keeps it when asked again.
    await eve.claim([beside("eve")])
    await eve.claim([beside("eve")])
    assert await users(bob) == ["bob", "eve"]
    await bob.release("job-bob-1", [A])
    await eve.claim([beside("eve")])
    assert await users(bob) == ["eve"]


async def test_all_or_none_holds_for_sharing_too(console: Console) -> None:
    ann, bob = console(), console()
    await ann.claim([first("ann"), whole("ann", B)])
    with pytest.raises(LeaseTakenError):
        await bob.claim([beside("bob"), beside("bob", uuid=B)])
    assert {held.user for held in await ann.leases()} == {"ann"}


async def test_a_running_job_counts_even_where_its_lease_was_swept_away(
    console: Console, lab: LabDocker
) -> None:
    ann, bob, eve = console(), console(), console()
    await ann.claim([first("ann")])
    made = spec("ann", "sleep", "1000", labels=labels("ann", "J-ann"), device_uuids=(A,),
                share=Share(8000.0, LIMIT))  # fmt: skip
    await ann.start(await ann.create(made))
    lab.client().prune_containers()
    with pytest.raises(LeaseTakenError, match="job-ann"):
        await eve.claim([whole("eve")])
    with pytest.raises(LeaseTakenError, match="job-ann"):
        await eve.claim([beside("eve", 12000.1)])
    await bob.claim([beside("bob", 12000.0)])
    assert await users(eve) == ["bob"]
    with pytest.raises(LeaseTakenError):
        await eve.claim([beside("eve", 1.0)])


async def test_both_start_and_one_whose_lease_was_taken_does_not(
    console: Console, lab: LabDocker
) -> None:
    ann, bob, eve = console(), console(), console(lease_grace_s=0)
    await ann.claim([first("ann")])
    await bob.claim([beside("bob")])
    for engine, who, late in ((ann, "ann", False), (bob, "bob", True)):
        made = spec(who, "sleep", "1000", labels=labels(who, f"J-{who}"), device_uuids=(A,),
                    share=Share(8000.0, LIMIT, late))  # fmt: skip
        container = await engine.create(made)
        await engine.start(container)
        status = await engine.inspect(container)
        assert status is not None
        assert status.state == "running"
    slow = console()
    await slow.claim([first("sam", uuid=B)])
    await eve.claim([whole("eve", B)])
    made = spec("sam", "sleep", "1000", labels=labels("sam", "J-sam"), device_uuids=(B,),
                share=Share(8000.0, LIMIT))  # fmt: skip
    container = await slow.create(made)
    with pytest.raises(LeaseTakenError, match="eve"):
        await slow.start(container)


async def test_of_two_that_come_at_once_one_wins(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hold both at the last moment before the claim, when each saw one job there, then let go."""
    ann, bob, eve = console(), console(), console()
    await ann.claim([first("ann")])
    barrier = threading.Barrier(2, timeout=PATIENCE_S)
    create = leases._create
    met: set[int] = set()

    def meet_then_create(client: Any, wanted: Lease, name: str) -> str:
        if id(client) not in met:
            met.add(id(client))
            there = [held.lease.user for held in leases.held(client)]
            assert there == ["ann"]
            barrier.wait()
        return create(client, wanted, name)

    monkeypatch.setattr(leases, "_create", meet_then_create)
    outcomes = await asyncio.gather(
        bob.claim([beside("bob")]), eve.claim([beside("eve")]), return_exceptions=True
    )
    assert len(met) == 2
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["LeaseTakenError", "NoneType"]
    winner = "bob" if outcomes[0] is None else "eve"
    assert await users(ann) == sorted(["ann", winner])


async def test_one_that_wants_it_all_and_one_that_shares_never_both_stay(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has just gone; both write under different names before either looks."""
    barrier = threading.Barrier(2, timeout=PATIENCE_S)
    create = leases._create

    def create_then_meet(client: Any, wanted: Lease, name: str) -> str:
        made = create(client, wanted, name)
        barrier.wait()
        return made

    monkeypatch.setattr(leases, "_create", create_then_meet)
    bob, eve = console(), console()
    outcomes = await asyncio.gather(
        bob.claim([beside("bob")]), eve.claim([whole("eve")]), return_exceptions=True
    )
    refused = [isinstance(outcome, LeaseTakenError) for outcome in outcomes]
    assert any(refused)
    assert len(await users(bob)) == 2 - sum(refused)


async def test_many_races_never_seat_three(console: Console) -> None:
    people = {"bob": console(), "eve": console(), "sam": console()}
    ann = console()
    for round_ in range(15):
        if round_ % 2:
            await ann.claim([first("ann")])

        async def attempt(who: str) -> bool:
            with contextlib.suppress(LeaseTakenError):
                await people[who].claim([beside(who)])
                return True
            return False

        won = await asyncio.gather(*map(attempt, people))
        seated = await users(ann)
        assert len(seated) == sum(won) + round_ % 2 <= 2
        # With the first there exactly one more finds room.
        assert sum(won) == 1 or not round_ % 2
        for who in ("ann", *people):
            await ann.release(f"job-{who}-1", [A])
