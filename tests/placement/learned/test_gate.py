"""The gate and the file of weights: what is used, what falls back, and what it says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from math import log
from typing import Any

import pytest

from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.errors import DocumentError
from gpuconsole.placement import Board, Holder, Request, decide, named_policy
from gpuconsole.placement.engine.board import Reservation
from gpuconsole.placement.engine.features import PLACE_FEATURES
from gpuconsole.placement.engine.job_profile import profile
from gpuconsole.placement.engine.queue_order import sort_key
from gpuconsole.placement.engine.scores import Scorer
from gpuconsole.placement.learned.gate import CERTAINTY, LEAST_PLAYS, MARGIN, Play, judge
from gpuconsole.placement.learned.weights_file import LARGER, Origin, Trained, dumped, parse
from gpuconsole.placement.model import Learned

NOW = 1_000_000.0
ORIGIN = Origin("2030-01-01T00:00:00Z", "the journal", 900, "this lab", ("Card", "Other"), 8, 12)
BEFORE = [Play(1000.0, 600.0)] * 8


def after(*ratios: float, waits: float = 600.0) -> list[Play]:
    return [Play(1000.0 * ratio, waits) for ratio in ratios]


def trained(*ratios: float, waits: float = 600.0) -> Trained:
    learned = Learned({"speed": 0.5, "price*gang": -0.25}, {"time": 0.125})
    found = after(*ratios, waits=waits)
    return Trained(learned, ORIGIN, judge(BEFORE[: len(found)], found))


GOOD = trained(0.95, 0.94, 0.96, 0.95, 0.93, 0.97, 0.95, 0.95)


def test_a_gain_beyond_its_error_passes() -> None:
    assert GOOD.verdict.passed
    assert GOOD.verdict.mean_jct_ratio == pytest.approx(0.95, abs=0.001)
    assert GOOD.usable({"Card"}) == (GOOD.learned, "")
    assert GOOD.verdict.sentence().endswith("so it ranks.")


@pytest.mark.parametrize(
    "bad",
    [
        trained(*[0.997] * 8),  # less than the margin
        trained(0.5, 1.5, 0.6, 1.4, 0.55, 1.3, 0.5, 1.5),  # lost in its own error
        trained(*[1.1, 1.2] * 4),
        trained(*[0.9] * (LEAST_PLAYS - 1)),  # too few plays
        trained(*[0.9] * 8, waits=2000.0),  # the longest waits pay for it
    ],
)
def test_everything_else_falls_back_and_says_so(bad: Trained) -> None:
    learned, note = bad.usable({"Card"})
    assert learned is None
    assert "weighted policy ranks" in note
    assert f"{MARGIN:.1%}" in note


def test_a_gain_is_as_certain_as_its_windows_agree() -> None:
    # Gains of 2 % in the mean; by the normal distribution 84 % lie below one standard error.
    agreed, torn = trained(*[0.99, 0.97] * 4), trained(*[0.90, 1.06] * 4)
    assert agreed.verdict.certainty > 0.999
    assert CERTAINTY > torn.verdict.certainty > 0.7
    assert agreed.verdict.passed
    assert not torn.verdict.passed
    assert f"{torn.verdict.certainty:.0%}" in torn.verdict.sentence()
    one_error = replace(torn.verdict, error=-log(torn.verdict.mean_jct_ratio))
    assert one_error.certainty == pytest.approx(0.841, abs=0.001)
    assert trained(*[1.02] * 8).verdict.certainty == 0.0


def test_devices_it_never_saw_fall_back() -> None:
    learned, note = GOOD.usable({"Card", "New card"})
    assert learned is None
    assert "New card" in note
    assert "gpuconsole learn" in note


def test_a_much_larger_lab_falls_back() -> None:
    assert GOOD.usable(["Card"] * 8 * LARGER)[0] == GOOD.learned
    learned, note = GOOD.usable(["Card"] * (8 * LARGER + 1))
    assert learned is None
    assert "on 8 devices at most; here are 17" in note


def test_nothing_to_judge_is_no_gain() -> None:
    assert not judge([], []).passed
    assert not judge([Play(0.0, 0.0)] * 5, [Play(0.0, 0.0)] * 5).passed


def test_the_file_comes_back_as_it_was_written() -> None:
    found = parse(dumped(GOOD), "weights.json")
    assert found.learned == GOOD.learned
    assert found.origin == GOOD.origin
    assert found.verdict.passed
    assert found.verdict.mean_jct_ratio == pytest.approx(GOOD.verdict.mean_jct_ratio, abs=1e-4)


def without(*names: str) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for name in names:
            del document[name]

    return change


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda d: d["place"].update({"speeed": 1.0}), r"'speeed' is no feature(.|\n)*'speed'"),
        (lambda d: d["order"].update({"time": "much"}), r"expected a number"),
        (lambda d: d["order"].update({"time": 1e9}), r"the weight of 'time'"),
        (lambda d: d.update(version=2), r"version"),
        (lambda d: d.update(extra=1), r"extra"),
        (lambda d: d["trained"].update(models=[]), r"models"),
        (without("replay"), r"replay"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(change: Callable[[Any], None], reported: str) -> None:
    document = json.loads(dumped(GOOD))
    change(document)
    with pytest.raises(DocumentError) as caught:
        parse(json.dumps(document, indent=2), "weights.json")
    text = f"{caught.value.message}\n{caught.value.hint}"
    assert re.search(r"weights.json:\d+:\d+", text)
    assert re.search(reported, text)


def place(policy_weights: Learned | None, note: str = "") -> tuple[float, tuple[str, ...]]:
    card = Device("u", 0, "Card", memory_total_mib=32768.0, memory_used_mib=0.0)
    fleet = FleetSnapshot(1, NOW, (Host("h", HostState.UP, devices=(card,)),))
    request = Request("j", Task("t"), 8192.0, 1, NOW, rates={"Card": 1.0}, run_time_s=3600.0)
    policy = named_policy("rl_based", learned=policy_weights, note=note)
    chosen = decide(request, fleet, {}, policy, NOW).chosen
    assert chosen is not None
    return chosen.score, chosen.reasons


def test_the_correction_is_a_named_part_of_the_sum() -> None:
    plain, _ = place(None)
    score, reasons = place(Learned({"speed": 0.12}))
    assert score == pytest.approx(plain + 0.12)
    assert "learned +0.12" in reasons[-1]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_correction_is_clipped(sign: float) -> None:
    plain, _ = place(None)
    score, reasons = place(Learned({"speed": sign * 50.0}, place_clip=0.5))
    assert score == pytest.approx(plain + sign * 0.5)
    assert f"learned {sign * 0.5:+.2f}" in reasons[-1]
    request = Request("j", Task("t"), None, 8, NOW, run_time_s=3600.0)
    base = named_policy("weighted")
    moved = replace(base, learned=Learned(order={"gang": sign * 50.0}, order_clip=0.5))
    shift = sort_key(request, moved, NOW)[2] - sort_key(request, base, NOW)[2]
    assert shift == pytest.approx(sign * 0.5)


def test_without_weights_it_ranks_as_weighted_and_says_so() -> None:
    card = Device("u", 0, "Card", memory_total_mib=32768.0, memory_used_mib=0.0)
    fleet = FleetSnapshot(1, NOW, (Host("h", HostState.UP, devices=(card,)),))
    request = Request("j", Task("t"), 8192.0, 1, NOW, rates={"Card": 1.0}, run_time_s=3600.0)
    weighted = decide(request, fleet, {}, named_policy("weighted"), NOW).chosen
    assert weighted is not None
    note = trained(1.1, 1.1, 1.1, 1.1).usable({"Card"})[1]
    score, reasons = place(None, note)
    assert score == weighted.score
    assert note in reasons
    assert any("no trained weights" in reason for reason in place(None)[1])


@pytest.mark.parametrize("name", PLACE_FEATURES)
def test_the_correction_is_the_sum_of_its_features(name: str) -> None:
    """Against the products written out, on a lab that is half full and keeps devices."""
    cards = tuple(
        Device(f"u{n}", n, "Card", memory_total_mib=32768.0, memory_used_mib=0.0) for n in range(4)
    )
    fleet = FleetSnapshot(1, NOW, (Host("h", HostState.UP, price_per_hour=2.0, devices=cards),))
    held = {"u0": Holder("other", "t", "u", NOW, NOW + 60.0)}
    request = Request("j", Task("t"), 8192.0, 2, NOW, rates={"Card": 1.0}, run_time_s=3600.0)
    board = Board.of(fleet, held)
    board.reserve(Reservation("first", "first", NOW + 9e9, 0, (0,), 0))
    policy = named_policy("rl_based", learned=Learned({name: 0.5}))
    made = profile(request, board, policy, NOW)
    scorer = Scorer(made, board, 2)
    (shelf,) = board.shelves()
    values = {**scorer.terms(shelf, 0.0), "reserved": 1.0}
    factors = {"": 1.0, "length": made.length(), "gang": 1 / 3, "full": 1 / 4}
    term, _, by = name.partition("*")
    assert values[term] > 0.0
    assert scorer.correction(shelf) == pytest.approx(0.5 * values[term] * factors[by])
