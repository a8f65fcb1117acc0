"""Rankings find the same places as a search through all shelves, and look at few of them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostState, PeerLink
from gpuconsole.core.jobs import Task
from gpuconsole.placement import Board, Holder, Policy, Request, named_policy, pass_over
from gpuconsole.placement.engine import board as boards
from gpuconsole.placement.engine.job_profile import profile
from gpuconsole.placement.engine.queue_pass import Outcome
from gpuconsole.placement.engine.scores import Scorer
from gpuconsole.placement.engine.search import pick
from tests.placement.states import NOW, random_state

CARD = "NVIDIA A100-SXM4-40GB"
TOTAL = 40960.0
Found = tuple[list[tuple[str, tuple[str, ...], float]], list[str]]


def result(outcome: Outcome) -> Found:
    """Return who starts where with which score, and who does not."""
    starts = [
        (
            one.request.job,
            tuple(spot.device.uuid for _, spots in one.pick.chosen for spot in spots),
            one.pick.score,
        )
        for one in outcome.started
    ]
    return starts, [one.job for one in outcome.blocked]


def both_ways(
    patch: pytest.MonkeyPatch,
    requests: list[Request],
    snapshot: FleetSnapshot,
    holders: dict[str, Holder],
    policy: Policy,
) -> tuple[Found, Found]:
    """Return what a pass comes to with rankings, and without."""
    found = []
    for few in (-1, 10**9):
        patch.setattr(boards, "FEW_SHELVES", few)
        board = Board.of(snapshot, holders)
        found.append(result(pass_over(requests, board, policy, NOW)[0]))
        assert any(key for key in board._rankings) == (few < 0 and bool(board._rankings))
    return found[0], found[1]


def differing_host(dice: random.Random, number: int) -> Host:
    """Return a host with others on its devices, or set apart only by its price or wires."""
    name, worked_on = f"h{number}", dice.random() < 0.7
    devices = []
    for index in range(dice.choice((2, 4, 8))):
        used = dice.choice((3.0, dice.uniform(0, 38000))) if worked_on else dice.uniform(1, 900)
        busy = used > 4096 or (worked_on and dice.random() < 0.5)
        devices.append(
            Device(
                f"{name}-{index}",
                index,
                dice.choice((CARD, "Unheard Of")) if dice.random() < 0.1 else CARD,
                memory_total_mib=TOTAL,
                memory_used_mib=used if dice.random() < 0.97 else None,
                utilization=float(dice.choice((0, 0, 5, 50, 50, 93))) if worked_on else 0.0,
                processes=(DeviceProcess(1, "eve", used),) if busy else (),
                peers=tuple(
                    PeerLink(f"{name}-{other}", dice.choice(("NV4", "NV12", "SYS")))
                    for other in range(index)
                ),
            )
        )
    price = dice.choice((None, 1.0, 2.0, dice.uniform(1, 3)))
    return Host(name, HostState.UP, price_per_hour=price, devices=tuple(devices))


def differing_request(dice: random.Random, number: int) -> Request:
    count = dice.choice((1, 1, 1, 2, 3, 4, 6, 8))
    hosts = dice.choice((1, 1, 2))
    task = Task(
        f"t{number}",
        hosts=hosts,
        exclusive=dice.random() < 0.1,
        memory_threshold=dice.choice((None, None, 0.5)),
        preferred_devices=dice.choice(((), (), ("A100",))),
        preference_timeout_s=300.0,
    )
    return Request(
        f"j{number}",
        task,
        dice.choice((None, dice.uniform(10, 36000), dice.uniform(10, 4000))),
        count,
        NOW - dice.uniform(0, 600),
        run_time_s=dice.choice((None, dice.uniform(60, 1e5))),
    )


@pytest.mark.parametrize("part", range(4))
def test_a_pass_over_differing_hosts_is_the_same_with_rankings(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(part * 10, part * 10 + 10):
        dice = random.Random(seed)
        hosts = tuple(differing_host(dice, number) for number in range(dice.choice((3, 12, 40))))
        snapshot = FleetSnapshot(1, NOW, hosts)
        holders = {
            device.uuid: Holder(f"r{device.uuid}", "t", "u", 0.0, NOW + dice.uniform(1, 1e4))
            for host in hosts
            for device in host.devices
            if dice.random() < 0.3
        }
        policy = replace(
            named_policy(dice.choice(("weighted", "best_fit", "balanced", "cost_performance"))),
            memory_threshold=dice.choice((0.5, 0.85)),
        )
        requests = [differing_request(dice, number) for number in range(60)]
        fast, plain = both_ways(monkeypatch, requests, snapshot, holders, policy)
        assert fast == plain, seed
        assert plain[0], seed


@pytest.mark.parametrize("part", range(4))
def test_a_pass_over_strange_labs_is_the_same_with_rankings(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(part * 100, part * 100 + 100):
        state = random_state(random.Random(seed))
        found = []
        for few in (-1, 10**9):
            monkeypatch.setattr(boards, "FEW_SHELVES", few)
            board = Board.of(state.snapshot, state.holders)
            passed, _ = pass_over(state.queue, board, state.policy, NOW, state.rules)
            found.append(result(passed))
        assert found[0] == found[1], seed


def test_of_places_that_are_alike_one_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = tuple(
        Host(
            f"h{number}",
            HostState.UP,
            price_per_hour=1.0,
            # All spare memory is above what the lab lets a job fill.
            devices=(Device(f"d{number}", 0, CARD, "gpu", TOTAL, 1.0 + number / 100, 0.0),),
        )
        for number in range(300)
    )
    board = Board.of(FleetSnapshot(1, NOW, hosts))
    assert board.various
    asked = Request("j", Task("t"), 1000.0, 1, NOW)
    seen = []
    score = Scorer.score
    monkeypatch.setattr(
        Scorer, "score", lambda self, shelf: seen.append(shelf) or score(self, shelf)
    )
    found = pick(profile(asked, board, named_policy(), NOW), board)
    assert found is not None
    assert found.chosen[0][0].site.host.name == "h0"
    assert len(seen) == 1


def test_a_board_holds_so_many_rankings_and_places_the_rest_without() -> None:
    dice = random.Random(5)
    hosts = tuple(differing_host(dice, number) for number in range(60))
    board = Board.of(FleetSnapshot(1, NOW, hosts))
    assert board.various
    asked = Request("j", Task("t"), 1000.0, 1, NOW)
    for number in range(2 * boards.MOST_RANKINGS):
        weights = {"idle": 9.0, "speed": 1.0 + number}
        made = profile(asked, board, replace(named_policy(), weights=weights), NOW)
        assert pick(made, board) is not None
    assert len(board._rankings) == boards.MOST_RANKINGS
