"""The policy search on toys: it finds, it can be repeated, it can be ended."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gpuconsole.placement.engine.features import ORDER_FEATURES, PLACE_FEATURES
from gpuconsole.placement.learned.cma_es import Point, Search, search
from gpuconsole.placement.learned.train import Step, learned_of, point_of, replay, train
from gpuconsole.placement.model import Learned
from gpuconsole.placement.policy import named_policy
from gpuconsole.placement.simulate.device_speeds import CLASSES
from gpuconsole.placement.simulate.lab import Lab, LabHost
from gpuconsole.placement.simulate.workload import SimJob, Workload

GIB = 1024.0
BLIND = replace(named_policy("first_fit"), fair_share=0.0, patience=0.0)


def noisy(seed: int) -> object:
    dice = random.Random(seed)

    def losses(points: Sequence[Point]) -> list[float]:
        return [
            sum((x - n) ** 2 * (10 if n % 2 else 1) for n, x in enumerate(p)) + dice.gauss(0, 0.1)
            for p in points
        ]

    return losses


def lab() -> Lab:
    speeds = {"slow": 1.0, "fast": 4.0}
    return Lab(
        "two cards",
        tuple(
            LabHost(name, name, 1, 32 * GIB, dict.fromkeys(CLASSES, speed))
            for name, speed in speeds.items()
        ),
    )


def window(seed: int = 0) -> Workload:
    """Jobs so far apart that both cards are free for each: only the choice matters."""
    dice = random.Random(seed)
    jobs = tuple(
        SimJob(
            f"job-{n}",
            n * 20_000.0,
            3600.0 * dice.uniform(1, 3),
            3600.0,
            1,
            "ana",
            "vision",
            4 * GIB,
            50.0,
            ("gpu",),
            True,
        )
        for n in range(10)
    )
    return Workload(jobs, 0.0, 0.0, jobs[-1].submitted_s, ())


def going(step: Step) -> bool:
    return True


def test_it_finds_the_valley_in_noise() -> None:
    found = search(noisy(1), (0.0,) * 10, 1.0, random.Random(2), 60)  # type: ignore[arg-type]
    assert max(abs(x - n) for n, x in enumerate(found)) < 0.5


def test_equal_seeds_find_the_same() -> None:
    one, other = (
        search(noisy(1), (0.0,) * 4, 1.0, random.Random(3), 5)  # type: ignore[arg-type]
        for _ in range(2)
    )
    assert one == other
    assert one != search(noisy(1), (0.0,) * 4, 1.0, random.Random(4), 5)  # type: ignore[arg-type]


def test_no_losses_end_the_search_with_what_was_found_before() -> None:
    rounds: list[int] = []

    def losses(points: Sequence[Point]) -> list[float] | None:
        rounds.append(len(points))
        return None if len(rounds) == 3 else [sum(x * x for x in point) for point in points]

    found = search(losses, (1.0, 1.0), 0.3, random.Random(0), 50)
    assert len(rounds) == 3
    assert found != (1.0, 1.0)


def test_points_and_weights_are_the_same_thing() -> None:
    point = tuple(float(n) for n in range(len(PLACE_FEATURES) + len(ORDER_FEATURES)))
    assert point_of(learned_of(point)) == point


def test_training_learns_to_take_the_faster_card() -> None:
    windows = [window(seed) for seed in range(2)]
    learned, rounds = train(lab(), windows, BLIND, random.Random(1), going, rounds=4)
    assert rounds == 4
    verdict = replay(lab(), [window(9)] * 8, BLIND, learned, random.Random(0))
    assert verdict.passed
    assert verdict.mean_jct_ratio < 0.3


def test_training_is_repeatable_and_can_be_ended() -> None:
    windows = [window()]
    once = train(lab(), windows, BLIND, random.Random(1), going, rounds=2)
    assert once == train(lab(), windows, BLIND, random.Random(1), going, rounds=2)
    ended, rounds = train(lab(), windows, BLIND, random.Random(1), lambda step: step.plays < 20)
    assert rounds == 1
    assert ended == train(lab(), windows, BLIND, random.Random(1), going, rounds=1)[0]


def test_what_is_no_better_than_the_start_is_not_taken() -> None:
    start = Learned({"speed": 2.0})  # takes the faster card already: nothing beats that
    found, rounds = train(lab(), [window()], BLIND, random.Random(1), going, rounds=1, start=start)
    assert rounds == 1
    assert found == learned_of(point_of(start))


def test_opposite_points_come_in_pairs() -> None:
    state = Search([1.0, 2.0], 0.5)
    points = state.ask(random.Random(0))
    half = len(points) // 2
    for one, other in zip(points[:half], points[half:], strict=True):
        assert [a + b for a, b in zip(one, other, strict=True)] == pytest.approx([2.0, 4.0])


def test_it_begins_where_it_is_told() -> None:
    start = Learned({"speed": 0.7}, {"time": -0.2})
    found, rounds = train(
        lab(), [window()], BLIND, random.Random(1), lambda step: False, start=start
    )
    assert rounds == 0
    assert found.place["speed"] == 0.7
    assert found.order["time"] == -0.2
