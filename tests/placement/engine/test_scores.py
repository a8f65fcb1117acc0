"""The terms of the score, each at its bounds: price, fragments, length, fit, speed, preference."""

from __future__ import annotations

import math
from dataclasses import replace
from math import log10

import pytest

from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.placement import Board, Holder, Policy, Request
from gpuconsole.placement.engine.board import Reservation
from gpuconsole.placement.engine.features import folded, gang_size, order_features
from gpuconsole.placement.engine.job_profile import LONG_S, SHORT_S, profile
from gpuconsole.placement.engine.scores import TERMS, Scorer, thrift, wholeness
from gpuconsole.placement.model import Learned

NOW = 1_000_000.0
A100, RTX, UNKNOWN = "NVIDIA A100-SXM4-40GB", "NVIDIA GeForce RTX 3090", "Unheard Of"
MIX = ((1, 0.5), (4, 0.5))


def wants(need_mib: float | None = 1000.0, devices: int = 1, **fields: object) -> Request:
    task = Task("train", **fields)  # type: ignore[arg-type]
    return Request("j", task, need_mib, devices, NOW)


def host(name: str, model: str, *, used_mib: float = 0.0, price: float | None = None) -> Host:
    devices = tuple(
        Device(
            f"{name}{number}", number, model, memory_total_mib=10_000.0, memory_used_mib=used_mib
        )
        for number in range(2)
    )
    return Host(name, HostState.UP, devices=devices, price_per_hour=price)


def terms(request: Request, *hosts: Host) -> list[dict[str, float]]:
    """Return the terms of the shelves, in the order of the hosts."""
    board = Board.of(FleetSnapshot(1, NOW, hosts))
    scorer = Scorer(profile(request, board, Policy(weights={"fit": 1.0}), NOW), board, 1)
    shelves = sorted(board.shelves(), key=lambda shelf: board.first(shelf).order)
    return [scorer.terms(shelf, 0.0) for shelf in shelves]


@pytest.mark.parametrize(
    ("price", "cheapest", "worth"),
    [
        (None, None, 0.0), (2.0, None, 0.0), (None, 2.0, 0.5),
        (1.9, 2.0, 1.0), (2.0, 2.0, 1.0), (2.5, 2.0, 0.8), (4.0, 2.0, 0.5),
        (4.0, 0.0, 0.0), (4.0, -1.0, 0.0),
    ],
)  # fmt: skip
def test_the_cheapest_device_is_worth_most(
    price: float | None, cheapest: float | None, worth: float
) -> None:
    assert thrift(price, cheapest) == worth


@pytest.mark.parametrize(
    ("free", "count", "mix", "worth"),
    [
        (4, 4, MIX, 0.5), (4, 3, MIX, 0.4375), (4, 1, MIX, 0.3125), (3, 3, MIX, 0.6875),
        (5, 1, MIX, 0.5), (5, 2, MIX, 0.3125), (1, 1, ((1, 1.0),), 0.5), (2, 1, (), 0.5),
        # Four devices more or fewer make the whole scale.
        (8, 5, ((8, 1.0),), 0.125), (8, 4, ((8, 1.0),), 0.0), (8, 1, ((8, 1.0),), 0.0),
        (7, 3, ((8, 1.0),), 0.875), (7, 4, ((8, 1.0),), 1.0), (7, 7, ((8, 1.0),), 1.0),
    ],
)  # fmt: skip
def test_what_the_next_job_cannot_use_is_a_fragment(
    free: int, count: int, mix: tuple[tuple[int, float], ...], worth: float
) -> None:
    assert wholeness(free, count, mix) == worth


@pytest.mark.parametrize(
    ("seconds", "length"),
    [
        (None, 0.0), (0.0, 0.0), (SHORT_S, 0.0), (SHORT_S + 1, log10(61 / 60) / log10(2880)),
        (600.0, 1 / log10(2880)), (LONG_S, 1.0), (LONG_S + 1, 1.0),
    ],
)  # fmt: skip
def test_the_length_grows_by_logarithm(seconds: float | None, length: float) -> None:
    made = profile(
        replace(wants(), run_time_s=seconds), Board.of(FleetSnapshot(1, NOW)), Policy(), NOW
    )
    assert made.length() == pytest.approx(length)


@pytest.mark.parametrize(("devices", "size"), [(1, 0.0), (2, 1 / 3), (8, 1.0), (9, 1.0)])
def test_a_gang_of_eight_is_as_large_as_any(devices: int, size: float) -> None:
    assert gang_size(wants(devices=devices)) == pytest.approx(size)


@pytest.mark.parametrize(
    ("need", "devices", "memory", "gang"),
    [
        (None, 1, 0.0, 0.0), (40960.0, 3, 0.5, 0.0), (81920.0, 4, 1.0, 1.0), (90000.0, 8, 1.0, 1.0),
    ],
)  # fmt: skip
def test_the_features_of_a_job_in_the_queue(
    need: float | None, devices: int, memory: float, gang: float
) -> None:
    features = order_features(wants(need, devices), 3600.0)
    assert (features["memory"], features["gang"], features["time"]) == (memory, gang, 0.0)
    assert order_features(wants(), 3600.0 * math.e)["time"] == pytest.approx(0.1)
    # A second is the shortest run time.
    assert order_features(wants(), 0.0)["time"] == order_features(wants(), 1.0)["time"] < 0


@pytest.mark.parametrize(
    ("need", "used", "fit"),
    [
        (None, 0.0, 0.0), (4250.0, 0.0, 0.5), (8500.0, 0.0, 1.0),
        # Beside what others hold, a fiftieth stays free.
        (4000.0, 1800.0, 0.5), (8000.0, 1800.0, 1.0), (9000.0, 1800.0, 1.0), (0.0, 9800.0, 0.0),
    ],
)  # fmt: skip
def test_the_fit_is_the_share_of_the_memory_that_may_be_used(
    need: float | None, used: float, fit: float
) -> None:
    shown = terms(wants(need), host("a", A100, used_mib=used))
    assert [each["fit"] for each in shown] == [fit] * len(shown)
    board = Board.of(FleetSnapshot(1, NOW, (host("a", A100, used_mib=used),)))
    scorer = Scorer(profile(wants(need), board, Policy(weights={"fit": 1.0}), NOW), board, 1)
    assert {scorer.score(shelf) for shelf in board.shelves()} == {fit}


def test_speed_is_measured_against_the_fastest_kind_that_will_do() -> None:
    fast, slow, unknown = terms(wants(), host("a", A100), host("r", RTX), host("u", UNKNOWN))
    assert fast["speed"] == 1.0
    assert 0.0 < slow["speed"] < 1.0
    assert unknown["speed"] == 0.0
    # Where no speed is known no device is faster than another one.
    (alone,) = terms(wants(), host("u", UNKNOWN))
    assert alone["speed"] == 0.0
    # A kind that will not do is not what others are measured against, and not above all.
    npu = replace(host("n", "910B2"), devices=(Device("n0", 0, "910B2", "npu"),))
    *_, last = terms(wants(), npu, host("r", RTX))
    assert last["speed"] == 1.0


def test_the_first_of_the_preferred_devices_is_worth_most() -> None:
    asked = wants(preferred_devices=("RTX_3090", "A100-40GB"))
    hosts = (host("a", A100), host("r", RTX), host("u", UNKNOWN))
    assert [each["preferred"] for each in terms(asked, *hosts)] == [0.5, 1.0, 0.0]


def test_the_counts_of_a_host_are_shares_of_its_devices() -> None:
    (shown,) = terms(wants(devices=1), host("a", A100, price=2.0))
    assert (shown["balance"], shown["pack"], shown["links"]) == (1.0, 0.5, 0.0)
    assert (shown["price"], shown["bulk"]) == (1.0, 0.0)


def test_what_training_adds_is_weighed_by_the_job_and_by_how_full_the_lab_is() -> None:
    weights = {"fit": 1.0, "fit*gang": 2.0, "pack": -1.0, "price*length": 0.5, "reserved*full": 3.0}
    assert folded(weights, (0.5, 0.25, 1.0)) == (1.5, -1.0, 0.0, 0.0, 0.25, 3.0)


@pytest.mark.parametrize("clip", [9.0, 0.25])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_correction_is_the_sum_of_its_terms_within_its_clip(sign: float, clip: float) -> None:
    names = ("fit", "pack", "fragments", "speed", "price", "reserved", "fit*full")
    weights = {name: sign * (1.0 + place) for place, name in enumerate(names)}
    learned = Learned(weights, place_clip=clip)
    hosts = (host("a", A100, price=2.0), host("r", RTX, price=3.0))
    board = Board.of(FleetSnapshot(1, NOW, hosts), {"a0": Holder("x", "x", "bob", NOW, None)})
    board.reserve(Reservation("y", "y", NOW + 60, 1, (1,), 0))
    plain = Policy(weights={"fit": 1.0, "pack": 1.0}, mix={1: 0.5, 2: 0.5})
    before = Scorer(profile(wants(), board, plain, NOW), board, 1)
    after = Scorer(profile(wants(), board, replace(plain, learned=learned), NOW), board, 1)
    shelves = list(board.shelves())
    assert [shelf.reserved for shelf in shelves].count(True) == 1
    for shelf in shelves:
        values = {**after.terms(shelf, 0.0), "reserved": float(shelf.reserved)}
        # Three of the four devices are free.
        values["fit*full"] = values["fit"] * 0.25
        expected = sum(weights[name] * values[name] for name in names)
        assert abs(expected) > 0.25
        bounded = max(-clip, min(clip, expected))
        assert after.score(shelf) - before.score(shelf) == pytest.approx(bounded)
        assert before.correction(shelf) == 0.0


@pytest.mark.parametrize("term", TERMS)
def test_each_term_counts_by_its_weight(term: str) -> None:
    hosts = (
        replace(
            host("n", "910B2", price=3.0),
            devices=(Device("n0", 0, "910B2", "npu", memory_total_mib=65_536.0,
                            memory_used_mib=0.0),),
        ),
    )  # fmt: skip
    asked = wants(5000.0, backend="npu", preferred_devices=("910B2", "other"))
    board = Board.of(FleetSnapshot(1, NOW, hosts))
    asked = replace(asked, run_time_s=3600.0)
    made = profile(asked, board, Policy(weights={term: 2.0}, mix={2: 1.0}), NOW)
    scorer = Scorer(made, board, 1)
    (shelf,) = board.shelves()
    assert scorer.score(shelf) == pytest.approx(2.0 * scorer.terms(shelf, 0.0)[term])
    assert scorer.terms(shelf, 0.0)["domestic"] == 1.0
