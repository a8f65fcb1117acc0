"""The parts of the meta tier that need no Paddle: views, lifetimes, kernels' rooms."""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpuconsole.preflight.meta import sizes
from gpuconsole.preflight.meta.inference import bounds, einsum, views
from gpuconsole.preflight.meta.ledger import Block, Ledger
from gpuconsole.preflight.meta.script import answers
from gpuconsole.preflight.meta.script.answers import Number
from gpuconsole.preflight.meta.sizes import nbytes
from gpuconsole.preflight.meta.state import STATE, State
from gpuconsole.preflight.meta.values import ranges
from gpuconsole.preflight.probe.training.run_length import (
    AFTER,
    AWAITED,
    CHEAP,
    EPOCHS,
    FAR,
    FIRST,
    LONGEST,
    MOST,
    PASSED,
    PATIENCE,
    RISING,
    STEADY,
    TRAININGS,
    Onward,
    rises,
)
from gpuconsole.preflight.tiers import probe_request
from gpuconsole.preflight.tiers.measured import Measured
from gpuconsole.preflight.tiers.probe_trace import read_run


def test_a_block_lives_as_long_as_its_last_holder() -> None:
    ledger = Ledger()
    first = Block(ledger, 100, "conv2d")
    second = first
    ledger.scratch([40, 0], "conv2d")
    del first
    assert (ledger.live, ledger.peak) == (100, 140)
    del second
    gc.collect()
    assert ledger.live == 0
    assert ledger.events == [0, 1, ~1, ~0]
    assert ledger.inside == {1}


def test_samples_that_go_while_a_batch_is_fetched_are_not_in_the_recording() -> None:
    ledger = Ledger()
    ledger.fetching(7)
    sample, batch = Block(ledger, 8, "to_tensor"), Block(ledger, 16, "stack")
    del sample
    ledger.fetching(0)
    ledger.cycle()
    ledger.tag([1, None], "inputs")
    ledger.tag([1], "gradients")
    made = ledger.as_json()
    assert made["sizes"] == [16]
    assert made["events"] == [0]
    assert made["cycles"] == [1]
    run = read_run({**made, "batch": 2, "shapes": [], "readers": [], "widest_conv": 0,
                    "flags": [], "trained": True})  # fmt: skip
    assert run.kinds == ("inputs",)
    del batch


SHAPES = [(4, 6), (2, 3, 4), (1, 6, 1, 4), (24,), (2, 12), (3, 8), (6, 4), (2, 2, 6)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_view_in_another_shape_is_made_where_numpy_makes_one(order: tuple[int, ...]) -> None:
    whole = np.zeros((2, 3, 4), np.int8)
    turned = whole.transpose(order)
    strides = views.plain(turned.shape, turned.strides)
    for wanted in SHAPES:
        if np.prod(wanted) != 24:
            continue
        fits, made = views.reshaped(turned.shape, strides, wanted)
        copy = turned.view()
        try:
            copy.shape = wanted
        except AttributeError:
            assert not fits, (order, wanted)
            continue
        assert fits, (order, wanted)
        shown = made or views.contiguous(wanted)
        for extent, mine, theirs in zip(wanted, shown, copy.strides, strict=True):
            assert extent == 1 or mine == theirs


def test_contiguous_strides_are_not_kept() -> None:
    assert views.plain((2, 3), (3, 1)) is None
    assert views.plain((2, 1), (1, 9)) is None
    assert views.plain((2, 3), (1, 2)) == (1, 2)


@pytest.mark.parametrize(
    ("x", "y", "general"),
    [
        ((8, 4), (4,), False), ((8, 4), (8, 4), False), ((8, 6, 5, 5), (1, 6, 1, 1), True),
        ((8, 6, 5, 5), (8, 1, 1, 1), False), ((8, 6, 5, 5), (6, 1, 1), False),
    ],
)  # fmt: skip
def test_broadcasting_beyond_a_run_of_axes_takes_the_general_kernel(
    x: tuple[int, ...], y: tuple[int, ...], general: bool
) -> None:
    assert sizes.crossed(x, y) is general


@pytest.mark.parametrize(
    ("equation", "kept"),
    [
        ("bij,bjk->bik", [True, True]), ("bij,bkj->bik", [True, False]),
        ("bhqd,bhkd->bhqk", [True, False]), ("bqhd,bkhd->bhqk", [False, False]),
    ],
)  # fmt: skip
def test_einsum_keeps_an_operand_where_it_lies_if_its_axes_are_in_order(
    equation: str, kept: list[bool]
) -> None:
    assert [einsum.in_place(equation, place, 4) for place in (0, 1)] == kept


def test_bytes_follow_the_type() -> None:
    assert nbytes((2, 3), "paddle.float16") == 12
    assert nbytes((), "paddle.int64") == 8
    assert nbytes((0, 5), "paddle.float32") == 0


def test_the_tier_is_shipped_beside_the_probe() -> None:
    files = probe_request.probe_files()
    assert "probe.py" in files
    assert {"meta/__init__.py", "meta/hook.py", "meta/script/session.py"} <= set(files)


def test_a_run_for_a_device_is_no_answer_for_a_cpu() -> None:
    parts: Any = SimpleNamespace()
    device = Measured("x.py", "meta", "3.3.1", parts, device="gpu")
    assert device.follows("gpu")
    assert device.follows("npu")
    assert not device.follows("cpu")
    assert Measured("x.py", "traced", "3.3.1", parts).follows("cpu")


CARRIED: list[Callable[[Number], Any]] = [
    lambda x: x * 0.5, lambda x: 2 - x, lambda x: sum([x, x]), lambda x: x**2, lambda x: -x,
    lambda x: round(x, 2), lambda x: x // 1, lambda x: divmod(x, 2)[1], lambda x: max(x, 0.5),
    lambda x: math.sqrt(x) + math.log(x, 2),
]  # fmt: skip
NOTED: list[Callable[[Any], Any]] = [
    int, float, round, math.ceil, math.floor, math.trunc, np.float32, np.ceil,
    lambda x: np.mean([x, x]), lambda x: np.ones(3) * x,
]  # fmt: skip


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in answers.CARRYING:
        monkeypatch.setattr(math, name, answers.carrying(getattr(math, name)))
    monkeypatch.setattr(STATE, "numbers_at", {})


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("compute", CARRIED)
def test_what_is_computed_of_a_number_of_unknown_data_is_one(
    compute: Callable[[Number], Any],
) -> None:
    made = compute(Number(4.0))
    assert type(made) is Number
    assert made == compute(4.0)  # type: ignore[arg-type]
    assert not STATE.numbers_at


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("convert", NOTED)
def test_a_number_of_unknown_data_that_may_become_a_length_is_noted(
    convert: Callable[[Any], Any],
) -> None:
    made = convert(Number(2.75) * 2)
    assert STATE.numbers_at
    assert np.all(made == convert(5.5))


@pytest.mark.parametrize(
    ("name", "place", "shapes", "attributes", "most"),
    [
        ("masked_select", 0, [(1, 4), (3, 4)], {}, 12),
        ("generate_proposals", 0, [(2, 3, 8, 8)], {"pre_nms_top_n": 90, "post_nms_top_n": 50}, 100),
        ("repeat_interleave_with_tensor_index", 0, [(6, 3), (6,)], {"output_size": -1}, None),
        ("batch_norm_", 5, [(2, 3)], {}, 0),
        ("batch_norm_", 1, [(2, 3)], {}, None),
        ("bincount", 0, [(9,)], {}, None),
    ],
)  # fmt: skip
def test_an_open_extent_is_bounded_by_what_the_operator_can_give(
    name: str, place: int, shapes: Any, attributes: Any, most: int | None
) -> None:
    assert bounds.largest(name, place, shapes, attributes) == most


class _Work:
    """How much a run has done."""

    def __init__(self) -> None:
        self.done = 0

    def __call__(self) -> int:
        return self.done


def _later() -> Onward:
    """Return what watches a run that has done as much as counts for cheap."""
    work = _Work()
    onward = Onward(work)
    work.done = CHEAP
    return onward


def test_a_run_goes_on_until_its_peak_stands_and_epochs_were_cut() -> None:
    onward = _later()
    for peak in (10, 12, *[15] * STEADY):
        onward.cycle(peak, 5)
        assert not onward.cuts(1)
    onward.cycle(15, 5)
    assert not onward.leaves(8, epochs=True)
    assert not onward.cuts(0)
    assert [onward.cuts(1) for _ in range(EPOCHS + 1)] == [True] * EPOCHS + [False]
    assert onward.leaves(8, epochs=True)


def test_a_peak_that_rises_is_followed_further_though_epochs_were_cut() -> None:
    onward = _later()
    for peak in (10, *[15] * (STEADY + 1)):
        onward.cycle(peak, 5)
    assert [onward.cuts(1) for _ in range(EPOCHS)] == [True] * EPOCHS
    onward.cycle(16, 5)
    assert not onward.leaves(9, epochs=True)


def test_without_epochs_a_training_is_left_once_its_peak_stands() -> None:
    onward = _later()
    for _ in range(STEADY + 1):
        onward.cycle(15, 5)
    assert onward.leaves(6, epochs=False)


def test_steps_that_cost_next_to_nothing_are_followed_through_more_epochs() -> None:
    """Scripts evaluate, draw or save after each tenth epoch, or hundredth step."""
    onward = Onward(_Work())
    for _ in range(STEADY + 1):
        onward.cycle(15, 5)
    assert not onward.leaves(6, epochs=False)
    assert not onward.cuts(FIRST - 1), "scripts evaluate after every few steps too"
    assert onward.cuts(FIRST)
    assert [onward.cuts(1) for _ in range(FAR)] == [True] * (FAR - 1) + [False]
    assert onward.leaves(6, epochs=True)


def test_a_peak_that_rises_by_next_to_nothing_stands() -> None:
    """A few bytes more in a later step are no reason to go on, nor to run other sizes as far."""
    onward = _later()
    for peak in (10**6, 10**6 + 900, 10**6 + 950):
        onward.cycle(peak, 5)
    assert onward.leaves(6, epochs=False)
    assert not rises(10**6 + 950, 10**6)
    creeping = _later()
    for step in range(9):
        creeping.cycle(10**6 + 600 * step, 5)
        assert not creeping.leaves(4 + step, epochs=False)


def test_a_training_is_followed_no_longer_than_it_may() -> None:
    work = _Work()
    onward = Onward(work)
    onward.cycle(10, 5)
    work.done = LONGEST + 1
    assert onward.leaves(4, epochs=True)
    growing = Onward(_Work())
    for held in range(MOST):
        assert not growing.leaves(3 + held, epochs=True)
        growing.cycle(100 * held, 100 * held)
    growing.cycle(100 * MOST, 100 * MOST)
    assert growing.leaves(4 + MOST, epochs=True)
    assert growing.growth


def test_a_training_that_cannot_be_left_ends_the_run_soon() -> None:
    onward = _later()
    for _ in range(STEADY + 1):
        onward.cycle(15, 5)
    assert onward.leaves(6, epochs=False)
    assert not onward.passes(6, 0)
    for seen in range(PATIENCE):
        assert not onward.over(6 + seen)
        onward.cycle(15, 5)
    assert onward.over(6 + PATIENCE)


def test_what_comes_after_a_training_may_do_so_much_and_no_more() -> None:
    work = _Work()
    onward = Onward(work)
    work.done = CHEAP
    for _ in range(STEADY + 1):
        onward.cycle(15, 5)
    assert onward.leaves(6, epochs=False)
    assert not onward.passes(6, 0)
    work.done += AFTER
    assert not onward.spent
    work.done += 1
    assert onward.spent


def test_epochs_of_a_training_that_is_left_are_passed_for_so_much_work() -> None:
    work = _Work()
    first = Onward(work)
    work.done = CHEAP
    for _ in range(STEADY + 1):
        first.cycle(15, 5)
    assert first.leaves(6, epochs=False)
    for seen in range(7, 9):
        work.done += PASSED // 2 - 1
        assert first.passes(seen, PASSED)
        first.cycle(15, 5)
        assert not first.over(seen), "it is passed, not gone on with"
    work.done += 2
    assert not first.passes(9, PASSED)
    assert not first.passes(10, AWAITED), "what was left is left"
    assert first.begins_another()
    for _ in range(STEADY + 1):
        first.cycle(15, 5)
    work.done += LONGEST + 1
    assert first.leaves(11, epochs=False)
    assert not first.passes(11, PASSED), "so much for all trainings"
    assert first.passed >= PASSED
    alike = Onward(_Work(), until=12, way=first.way)
    assert alike.leaves(6, epochs=False)
    assert [alike.passes(seen, 0) for seen in (7, 8, 9)] == [True, True, False]


def test_another_training_is_followed_like_the_first_but_not_any_number_of_them() -> None:
    onward = _later()
    for _ in range(STEADY + 1):
        onward.cycle(15, 5)
    assert onward.leaves(6, epochs=False)
    assert onward.begins_another()
    assert not onward.leaving
    onward.cycle(15, 5)
    assert not onward.leaves(7, epochs=False)
    others = [onward.begins_another() for _ in range(TRAININGS - 1)]
    assert others == [True] * (TRAININGS - 2) + [False]


def test_a_run_goes_the_way_of_another_whatever_it_sees_itself() -> None:
    first = _later()
    for _ in range(STEADY + 1):
        first.cycle(15, 5)
    assert first.cuts(1, 6)
    assert first.cuts(1, 7)
    assert first.leaves(8, epochs=True)
    alike = Onward(_Work(), until=9, way=first.way)
    assert [alike.cuts(1, seen) for seen in (5, 6, 6, 7, 8)] == [False, True, False, True, False]
    assert [alike.leaves(seen, epochs=True) for seen in (7, 8)] == [False, True]
    assert [alike.over(seen) for seen in (8, 9)] == [False, True]
    assert alike.way == first.way


@pytest.mark.parametrize(
    ("held", "growth"),
    [
        ([1000 + 50 * step for step in range(RISING + 1)], 50),
        ([1000 + 50 * step for step in range(RISING)], 0),
        ([1000] * 9, 0),
        ([1000, 1050, 1100, 1150, 1000, 1050, 1100], 0),
        ([10**6 + step for step in range(9)], 0),
    ],
)
def test_memory_grows_where_each_cycle_holds_more_than_the_one_before(
    held: list[int], growth: int
) -> None:
    onward = Onward(_Work())
    for one in held:
        onward.cycle(one + 500, one)
    assert onward.growth == growth


def test_no_stack_is_walked_for_operators_of_a_scratch_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Paddle notes for each where it was called, which takes longer than all else."""
    made = State()
    made.framework = SimpleNamespace(_dygraph_guard=lambda _: contextlib.nullcontext())
    monkeypatch.setattr(made, "scratch", contextlib.nullcontext)
    with made.building():
        assert not traceback.extract_stack()
    assert traceback.extract_stack()
    with pytest.raises(ValueError, match="shapes"), made.building():
        raise ValueError("shapes collide")
    assert traceback.extract_stack()


LOOPS = """\
for i in range(16):
    x = step(x)
    if i % 4 == 0 and small(x):
        break
while True:
    if small(x):
        break
for i in range(16):
    if not large(x):
        print(i)
        break
    if small(x):
        print(i)
"""


def test_a_test_of_unknown_data_does_not_leave_a_loop_that_ends_by_itself(tmp_path: Path) -> None:
    from gpuconsole.preflight.meta.script import early_exits

    script = tmp_path / "train.py"
    script.write_text(LOOPS)
    assert {n: early_exits.stays(str(script), n) for n in (2, 3, 6, 9, 12)} == {
        2: None, 3: False, 6: None, 9: True, 12: None,
    }  # fmt: skip
    for _ in range(early_exits.MOST - 1):
        assert early_exits.stays(str(script), 3) is False
    # A loop of very many turns would take too long.
    assert early_exits.stays(str(script), 3) is None


@pytest.mark.parametrize(
    ("name", "bounds", "lies"),
    [
        ("clip", (1e-15, 1 - 1e-15), True), ("clip", (0.5, None), True), ("clip", (-1, 2), False),
        ("gather", (0,), True), ("mean", (1,), True), ("exp", (), False),
    ],
)  # fmt: skip
def test_what_is_made_of_chances_lies_from_0_to_1(
    monkeypatch: pytest.MonkeyPatch, name: str, bounds: tuple[Any, ...], lies: bool
) -> None:
    """Metrics refuse predictions beyond: `softmax`, then cut to where its logarithm is finite."""
    monkeypatch.setattr(STATE, "tensor", SimpleNamespace)
    chance, result = SimpleNamespace(), SimpleNamespace()
    ranges.note("softmax", (), chance)
    ranges.note(name, (chance, *bounds), result)
    assert ranges.is_chance(result) is lies  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["multiply", "minimum", "maximum"])
def test_two_chances_make_another_and_with_anything_else_they_do_not(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(STATE, "tensor", SimpleNamespace)
    first, second, other, both, beside = (SimpleNamespace() for _ in range(5))
    ranges.note("sigmoid", (), first)
    ranges.note("sigmoid", (), second)
    ranges.note(name, (first, second), both)
    ranges.note(name, (first, other), beside)
    assert ranges.is_chance(both)  # type: ignore[arg-type]
    assert not ranges.is_chance(beside)  # type: ignore[arg-type]


def test_what_is_cut_to_lie_from_0_to_1_does_whatever_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(STATE, "tensor", SimpleNamespace)
    unknown, result = SimpleNamespace(), SimpleNamespace()
    ranges.note("clip", (unknown, 0.0, 1.0), result)
    assert ranges.is_chance(result)  # type: ignore[arg-type]
