"""Runs of several batch sizes: one line, or exact where they ran and bounded elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.units import MIB
from gpuconsole.preflight import analyse
from gpuconsole.preflight.card import Card
from gpuconsole.preflight.tiers import measured
from gpuconsole.preflight.verdicts import largest_batch

KIB = 1024


def run(batch: int, activation: int, **changes: Any) -> dict[str, Any]:
    """Return a recording: a parameter of 100 KiB, a batch, and one activation."""
    made: dict[str, Any] = {
        "batch": batch, "events": [0, 1, 2, ~2, ~1], "cycles": [5],
        "sizes": [100 * KIB, 8 * KIB * batch, activation], "names": ["", "matmul"],
        "name": [0, 0, 1], "kind": [1, 4, 0], "inside": [],
        "shapes": [[[[batch, 2048]]]], "readers": [], "widest_conv": 0, "flags": [],
        "trained": True, "own_batch": 50,
    }  # fmt: skip
    return {**made, **changes}


def load(*runs: dict[str, Any]) -> measured.Measured:
    document = {"mode": "traced", "script": "train.py", "paddle": "3.3.1", "runs": list(runs)}
    return measured.load(document)


def peak(one: measured.Measured, batch: int | None) -> float:
    memory = one.estimate(batch, backend="cpu").memory
    assert memory is not None
    return memory.tensors_peak_mib * MIB / KIB


def straight(batch: int) -> int:
    return 3 * KIB * batch + 5 * KIB


def flattening(batch: int) -> int:
    """Rows of different words: more of them, and ever fewer new ones."""
    return round(2000 * KIB * (1 - 0.99 ** (10 * batch)))


def steepening(batch: int) -> int:
    return round(0.5 * KIB * batch**1.5)


def test_a_third_run_on_the_line_changes_nothing() -> None:
    three, two = (load(*(run(b, straight(b)) for b in sizes)) for sizes in ((2, 4, 8), (2, 8)))
    for batch in (1, 3, 50, 1000):
        assert peak(three, batch) == pytest.approx(peak(two, batch))
        assert "bound" not in three.estimate(batch).flags


@pytest.mark.parametrize("curve", [flattening, steepening])
def test_where_it_ran_it_is_exact_and_elsewhere_bounded(curve: Callable[[int], int]) -> None:
    one = load(*(run(b, curve(b)) for b in (2, 4, 8, 50)))

    def truth(batch: int) -> float:
        return 100 + 8 * batch + curve(batch) / KIB

    for batch in (2, 4, 8, 50):
        assert peak(one, batch) == pytest.approx(truth(batch), rel=1e-4)
        assert "bound" not in one.estimate(batch).flags
    for batch in (5, 7, 9, 20, 35, 49, 60, 100, 400):
        assert truth(batch) * 0.9999 <= peak(one, batch), batch
        assert "bound" in one.estimate(batch).flags
    assert any("not a line" in note for note in one.estimate(60).notes)


def test_two_runs_alone_would_have_missed_the_curve() -> None:
    blind = load(*(run(b, steepening(b)) for b in (2, 4)))
    assert peak(blind, 50) < 0.9 * (100 + 8 * 50 + steepening(50) / KIB)


@pytest.mark.parametrize("curve", [flattening, steepening])
def test_the_reserve_never_falls_and_the_largest_batch_is_safe(
    curve: Callable[[int], int],
) -> None:
    one = load(*(run(b, curve(b)) for b in (2, 4, 8, 50)))
    reserved = one.reserved_at("cpu")
    sizes = [reserved(batch) or 0.0 for batch in range(1, 120)]
    assert all(after >= before - 1e-9 for before, after in pairwise(sizes))
    card = Card("c", "", "cpu", 1.0, exact=True)
    batch = largest_batch(one, one.estimate(8, backend="cpu"), card)
    assert batch
    assert 100 + 8 * batch + curve(batch) / KIB <= 1024


def test_a_larger_run_that_does_something_else_is_held_at_what_it_took() -> None:
    other = run(50, 4000 * KIB, names=["", "other"], events=[0, 1, 2, 3, ~3, ~2, ~1],
                sizes=[100 * KIB, 400 * KIB, 4000 * KIB, KIB], name=[0, 0, 1, 1],
                kind=[1, 4, 0, 0], cycles=[7])  # fmt: skip
    one = load(*(run(b, straight(b)) for b in (2, 4, 8)), other)
    assert peak(one, 50) == pytest.approx(4501)
    assert peak(one, 8) == pytest.approx(100 + 64 + 29)


def by_sample(batch: int, **changes: Any) -> dict[str, Any]:
    """Return a recording of a script that makes a block of 3 KiB for each sample."""
    made = run(batch, 3 * KIB)
    steps = list(range(2, batch + 2))
    made.update(
        events=[0, 1, *steps, *(~one for one in steps), ~1], cycles=[3 + 2 * batch],
        sizes=[100 * KIB, 8 * KIB * batch, *[3 * KIB] * batch], name=[0, 0, *[1] * batch],
        kind=[1, 4, *[0] * batch],
    )  # fmt: skip
    return {**made, **changes}


def without_data(*runs: dict[str, Any]) -> measured.Measured:
    return measured.load({"mode": "meta", "script": "train.py", "paddle": "3.3.1", "runs": runs})


def test_a_script_with_a_step_for_each_sample_is_exact_where_it_ran_without_data() -> None:
    assert load(by_sample(4), by_sample(8)).estimate(4).memory is None
    one = without_data(by_sample(4), by_sample(8))
    for batch in (4, 8):
        assert peak(one, batch) == pytest.approx(100 + 11 * batch)
        assert "bound" not in one.estimate(batch).flags
    for batch in (1, 3, 5, 7, 9, 40):
        assert peak(one, batch) >= 100 + 11 * batch - 1e-6
        assert "bound" in one.estimate(batch).flags
    reserved = [one.reserved_at("cpu")(batch) or 0.0 for batch in range(1, 40)]
    assert all(after >= before - 1e-9 for before, after in pairwise(reserved))
    assert any("it was run at 4, 8;" in note for note in one.estimate(9).notes)


def test_what_was_asked_for_and_run_is_exact_beside_the_scripts_own() -> None:
    one = without_data(by_sample(2), by_sample(4), by_sample(8))
    for batch in (2, 4, 8):
        assert peak(one, batch) == pytest.approx(100 + 11 * batch)
        assert "bound" not in one.estimate(batch).flags
    assert peak(one, 3) >= 133


def near_its_end(batch: int, left: int) -> dict[str, Any]:
    """Return a recording that has its peak where so many batches of an epoch are left."""
    return run(
        batch, straight(batch),
        events=[0, 1, ~1, 2, 3, 4, ~4, ~3, ~2], cycles=[9], name=[0, 0, 0, 0, 1],
        sizes=[100 * KIB, *[8 * KIB * batch] * 3, 4000 * KIB + straight(batch)],
        kind=[1, 5, 5, 4, 0], waits=[[0, None], [0, left]],
        readers=[{"samples": 100, "batches": -(-100 // batch), "queued": 2, "buffered": 2}],
    )  # fmt: skip


def test_fewer_batches_are_left_in_the_run_of_the_larger_ones() -> None:
    """An epoch of a hundred samples in batches of 20 and of 40, in its second step."""
    one = without_data(near_its_end(20, 3), near_its_end(40, 1))
    assert peak(one, 20) == pytest.approx(100 + 8 * 20 * 4 + 4000 + 65)
    assert peak(one, 40) == pytest.approx(100 + 8 * 40 * 2 + 4000 + 125)
    assert peak(one, 10) >= 100 + 8 * 10 * 6 + 4000 + 35
    assert peak(one, 25) >= 100 + 8 * 25 * 3 + 4000 + 80
    with_data = load(near_its_end(20, 3), near_its_end(40, 1))
    assert peak(with_data, 10) >= 100 + 8 * 10 * 6 + 4000 + 35


def mixed(batch: int, width: int) -> dict[str, Any]:
    """Return a recording of which some batches have labels of another shape."""
    pictures = [batch, width]
    shapes = [[[pictures, [batch]], [pictures, [batch, 10]], [[batch, width], [batch]]]]
    return run(batch, straight(batch), shapes=shapes)


def test_labels_in_two_forms_beside_pictures_of_one_size_leave_an_answer() -> None:
    one = without_data(mixed(4, 2048), mixed(8, 2048))
    assert peak(one, 4) == pytest.approx(100 + 32 + 17)
    found = one.estimate(4)
    assert "variable-shape" in found.flags
    assert measured.VARYING in found.notes
    assert load(mixed(4, 2048), mixed(8, 2048)).estimate(4).memory is None
    large = without_data(mixed(4, 20), mixed(8, 20)).estimate(4)
    assert large.memory is None
    assert "change from one to the next" in large.unknowns[0].reason


def test_a_run_that_came_further_than_another_keeps_its_peak() -> None:
    further = run(
        4, straight(4), events=[0, 1, 2, ~2, ~1, 3, ~3], cycles=[5, 7],
        sizes=[100 * KIB, 32 * KIB, straight(4), 900 * KIB], name=[0, 0, 1, 1], kind=[1, 4, 0, 0],
    )  # fmt: skip
    document = {"mode": "meta", "script": "train.py", "paddle": "3.3.1"}
    found = measured.load({**document, "runs": [further, run(8, straight(8))]})
    assert peak(found, 4) == pytest.approx(1000)


def test_a_script_that_runs_with_its_own_batch_size_alone() -> None:
    one = load(run(24, straight(24), fixed=True, own_batch=24))
    assert one.estimate(backend="cpu").batch_size == 24
    assert peak(one, None) == pytest.approx(100 + 8 * 24 + 77)
    other = one.estimate(48)
    assert other.memory is None
    assert "its own batch size (24) alone" in other.unknowns[0].reason
    assert one.reserved_at("cpu")(24) is not None
    assert one.reserved_at("cpu")(25) is None


def test_a_script_without_any_batch_size_has_an_estimate_as_it_is() -> None:
    one = load({**run(1, straight(24), fixed=True, own_batch=None), "batch": 0})
    assert one.estimate(backend="cpu").batch_size is None
    assert peak(one, None) == pytest.approx(100 + 8 + 77)


def test_what_was_read_names_no_batch_size_for_a_script_that_was_run_as_it_is(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import paddle\nnet = paddle.nn.Linear(4, 4)\n"
        "opt = paddle.optimizer.SGD(parameters=net.parameters())\nrows = paddle.rand([640, 4])\n"
        "for step in range(10):\n    loss = net(rows[step * 64:step * 64 + 64]).mean()\n"
        "    loss.backward()\n    opt.step()\n    opt.clear_grad()\n"
    )
    analysis = analyse(script)
    assert analysis.outcome(None, "gpu").batch == 64
    only = {**run(1, straight(24), fixed=True, own_batch=None), "batch": 0}
    document = {"mode": "meta", "script": "train.py", "paddle": "3.3.1", "runs": [only]}
    found = measured.load(document, analysis=analysis)
    assert peak(found, None) == pytest.approx(100 + 8 + 77)


def test_a_measurement_without_a_step_says_so() -> None:
    runs = [run(b, straight(b), trained=False) for b in (2, 4, 8)]
    assert measured.NO_STEP in load(*runs).estimate(8).notes
    assert measured.NO_STEP not in load(run(2, 9), run(4, 10)).estimate(8).notes


def test_a_script_whose_training_may_have_been_left_out_has_no_answer() -> None:
    """A test of unknown data was taken one way, and no optimizer stepped afterwards."""
    left = {"trained": False, "untrained": True, "choices": {"train.py:9: a test": 1}}
    found = load(*(run(b, straight(b), **left) for b in (2, 4, 8)))
    assert found.refusal == measured.SKIPPED
    assert found.estimate(8).memory is None
    for changed in ({"untrained": False}, {"choices": {}}):
        runs = [run(b, straight(b), **{**left, **changed}) for b in (2, 4, 8)]
        assert load(*runs).estimate(8).memory is not None


def test_a_loader_that_was_seen_to_train_knows_better_than_what_was_read(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import paddle\nnet = paddle.nn.Linear(4, 4)\n"
        "optimizer = paddle.optimizer.SGD(parameters=net.parameters())\n"
        "for turn in range(3):\n    net(paddle.rand([6, 4])).mean().backward()\n"
        "    optimizer.step()\n    optimizer.clear_grad()\n"
    )
    document = {"mode": "traced", "script": "train.py", "paddle": "3.3.1"}
    for how, own in (("loader", 50), ("edit", 6)):
        runs = [run(b, straight(b), how=how) for b in (2, 4, 8)]
        found = measured.load({**document, "runs": runs}, analysis=analyse(script)).estimate()
        assert found.batch_size == own
        assert (found.batch_source is None) is (own == 50)


def test_the_batch_size_of_the_loader_that_trains_needs_no_other_source() -> None:
    assert load(*(run(b, straight(b)) for b in (2, 4, 8))).estimate().batch_size == 50
