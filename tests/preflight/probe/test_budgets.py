"""How suggested batches are judged by what real runs measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import runs
from benchmarks.preflight import budgets, sets, tiers
from benchmarks.preflight.sets import Point, Script
from gpuconsole.core.units import MIB


def truly(batch: int) -> int:
    """Give the peak of a made-up script: it grows slowly up to batch 20, then fast."""
    return max(100 + batch, 10 * batch - 80) * MIB


def script(*batches: int, id: str = "made-up") -> Script:
    points = tuple(Point(batch, truly(batch), scored=True) for batch in batches)
    return Script(id, Path(f"{id}.py"), (), points, {})


def off_by(samples: int) -> budgets.Largest:
    """Suggest the true largest batch, so many samples off."""

    def largest(path: Path, argv: object, budget_mib: float) -> int:
        return max(b for b in range(1, 66) if truly(b) <= budget_mib * MIB) + samples

    return largest


class Paddle:
    """Stands for real runs, which are counted."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.ran: list[int] = []

    def __call__(self, script: Script, batch: int) -> dict[str, Any]:
        self.ran.append(batch)
        return {"error": "timeout"} if self.fails else {"cycles": 3, "peak_bytes": truly(batch)}


def share_within(cases: list[budgets.Case]) -> float:
    return sum(case.high <= case.budget for case in cases) / len(cases)


def test_without_runs_bounds_leave_some_budgets_undecided() -> None:
    cases = budgets.cases([script(4, 16, 64)], off_by(0), 40)
    assert runs.undecided(cases)
    assert all(case.low <= truly(case.suggested) <= case.high for case in cases)


@pytest.mark.parametrize(("samples", "within"), [(0, 1.0), (1, 0.0)])
def test_runs_decide_every_budget(samples: int, within: float) -> None:
    paddle = Paddle()
    known = script(4, 16, 64)
    found = list(runs.measured(known, off_by(samples), 40, 0, paddle))
    after = known.with_runs({batch: peak for batch, peak, _ in found})
    cases = budgets.cases([after], off_by(samples), 40)
    assert not runs.undecided(cases)
    # A suggestion beyond the largest point is judged on the line continued, which is right here.
    assert share_within(cases) == within
    assert len(paddle.ran) == len(set(paddle.ran)) < 40


def test_a_run_that_fails_is_kept_and_not_run_again() -> None:
    paddle = Paddle(fails=True)
    known = script(4, 16, 64)
    found = list(runs.measured(known, off_by(0), 10, 0, paddle))
    assert found
    assert all(peak is None and fault for _, peak, fault in found)
    after = known.with_runs({batch: peak for batch, peak, _ in found})
    assert after.known == known.points
    assert not list(runs.measured(after, off_by(0), 10, 0, paddle))


def test_a_sample_is_run_although_it_is_decided_and_is_the_same_each_time() -> None:
    known = script(4, 5, 64)
    first = list(runs.measured(known, off_by(0), 40, 6, Paddle()))
    after = known.with_runs({batch: peak for batch, peak, _ in first})
    assert len(first) >= 5
    assert not list(runs.measured(after, off_by(0), 40, 6, Paddle()))


def test_runs_outside_the_bounds_are_found() -> None:
    known = script(4, 16, 64)
    assert not runs.outside(known.with_runs({30: truly(30)}))
    [(batch, percent)] = runs.outside(known.with_runs({30: 2 * truly(64)}))
    assert batch == 30
    assert percent > 10


def test_each_script_has_budgets_of_its_own() -> None:
    """What one script answers must not move the budgets of another."""
    one, other = script(4, 16, 64, id="one"), script(4, 16, 64, id="other")
    alone = budgets.cases([other], off_by(0), 5)
    assert [case.budget for case in budgets.cases([one, other], off_by(0), 5)[5:]] == [
        case.budget for case in alone
    ]


def test_a_failed_run_and_a_run_are_read_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = sets.load("dev", frozenset(["distill"]))[0]
    for module in (sets, runs):
        monkeypatch.setattr(module, "RUNS", tmp_path / "runs.json")
    runs.keep("dev", own, 100, 7 * MIB)
    runs.keep("dev", own, 11, None)
    again = sets.load("dev", frozenset(["distill"]))[0]
    assert again.runs == {11: None, 100: 7 * MIB}
    assert again.known == (*own.points, Point(100, 7 * MIB, scored=False))
    assert again.scored == own.scored


def test_no_question_makes_another_one_shorter(tmp_path: Path) -> None:
    """A script that is followed anew for each batch is answered like in a process of its own."""
    path = tmp_path / "train.py"
    path.write_text(
        "import paddle\n"
        "batch_size = 16\n"
        "layer = paddle.nn.Linear(64, 64)\n"
        "sgd = paddle.optimizer.SGD(parameters=layer.parameters())\n"
        "for _ in range(3):\n"
        "    h = paddle.randn([batch_size, 64])\n"
        "    for _ in range(batch_size // 4 + 1):\n"
        "        h = paddle.tanh(layer(h))\n"
        "    h.mean().backward()\n"
        "    sgd.step()\n"
        "    sgd.clear_grad()\n"
    )
    asked = tiers.Static()
    many = [asked.largest(path, (), 0.05 + 0.05 * place) for place in range(12)]
    alone = [tiers.Static().largest(path, (), 0.05 + 0.05 * place) for place in range(12)]
    assert many == alone
    assert len(set(many)) > 3
