"""Scripts that take long to follow are answered with less, not late."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from gpuconsole.core.estimate import Report
from gpuconsole.core.jobs import Task
from gpuconsole.preflight import Analysis, Card, analyse, report
from gpuconsole.preflight.interpreter.machine.run_state.run import MAX_STEPS
from gpuconsole.preflight.interpreter.machine.run_state.settings import Setting
from gpuconsole.preflight.report_builder import LEFT_OUT
from gpuconsole.preflight.tiers import probe_request, static, static_choices
from gpuconsole.preflight.tiers.static_run import Outcome, follow
from gpuconsole.session.reading.analyses import Analyses
from gpuconsole.session.reading.questions import Naming
from tests.waiting import BOUNDED_S

Write = Callable[..., Path]

SCRIPT = """
import os
import numpy as np
import paddle
import paddle.nn as nn
from paddle.io import DataLoader, Dataset

vocabulary = {{}}
for i in range({turns}):
    for j in range(100):
        vocabulary[j] = i

class Data(Dataset):
    def __len__(self):
        return 10000
    def __getitem__(self, i):
        return np.zeros(1000, 'float32')

net = nn.Sequential(*[nn.Linear(1000, 1000) for _ in range(4)])
opt = paddle.optimizer.Adam(parameters=net.parameters())
for x in DataLoader(Data(), batch_size=4096):
    {body}
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
UNDECIDED = """loss = net(x).mean()
    if os.path.exists('it'):
        loss = net(net(x)).mean()"""
LONG, NEAR_THE_END = 150, 300
CARDS = [Card(f"Card {one}", "host", "gpu", 1250.0 + one) for one in range(4)]


def script(write: Write, turns: int, body: str = "loss = net(x).mean()") -> Path:
    return write(SCRIPT.format(turns=turns, body=body))


def answer(path: Path) -> tuple[Report, Analysis]:
    one = analyse(path)
    return report(Task("t", script=str(path)), CARDS, analysis=one), one


def test_a_long_script_is_told_what_can_be_tried_in_time(write: Write) -> None:
    """Accumulation follows from the smaller batch; mixed precision is tried first."""
    found, one = answer(script(write, LONG))
    assert static.LONG_STEPS < one.outcome().steps < MAX_STEPS
    assert {one.verdict for one in found.verdicts} == {"will-not-fit"}
    kinds = [one.kind for one in found.suggestions]
    assert kinds == ["batch-size", "accumulate", "amp", "device"]


def test_a_script_that_is_too_long_to_follow_again_says_so(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static, "TRY_STEPS", static.LONG_STEPS)
    found, one = answer(script(write, LONG))
    assert one.tries("gpu") == 0
    assert [one.kind for one in found.suggestions] == ["batch-size", "accumulate", "device"]
    assert LEFT_OUT in found.estimate.notes


def test_a_short_script_is_told_all(write: Write) -> None:
    found, _ = answer(script(write, 1))
    assert {"batch-size", "accumulate", "amp"} <= {one.kind for one in found.suggestions}
    assert LEFT_OUT not in found.estimate.notes


def test_nothing_is_said_to_be_left_out_where_a_card_takes_the_job(write: Write) -> None:
    path = script(write, LONG)
    found = report(Task("t", script=str(path)), [Card("Large", "host", "gpu", 80_000.0)])
    assert LEFT_OUT not in found.estimate.notes


@pytest.mark.parametrize(
    "body",
    [
        "loss = net(x).mean()",
        UNDECIDED,
        # Not affine in the batch: the largest is searched for.
        "loss = (net(x) @ net(x).t()).mean()",
    ],
)
def test_a_whole_answer_takes_seconds(write: Write, body: str) -> None:
    start = time.process_time()
    found, _ = answer(script(write, NEAR_THE_END, body))
    assert time.process_time() - start < BOUNDED_S
    assert found.verdicts


def test_a_search_that_takes_too_long_stays_on_the_safe_side(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script(write, 1, "loss = (net(x) @ net(x).t()).mean()")
    sizes = [2, 8, 512, 3, 100, 300, 600]
    exact = [analyse(path).reserved_at("cpu")(one) for one in sizes]
    monkeypatch.setattr(static, "SEARCH_STEPS", 0)
    reserved = analyse(path).reserved_at("cpu")
    assert reserved(512) == exact[2]
    assert [reserved(one) for one in sizes[:-1]] == [exact[2]] * 6
    assert reserved(600) is None


def test_sides_of_a_condition_are_tried_while_there_is_time(write: Write) -> None:
    path = script(write, 1, UNDECIDED)
    tried: list[Setting] = []

    def long(setting: Setting) -> Outcome:
        tried.append(setting)
        found = follow(path, (), setting, MappingProxyType({}))
        return replace(found, steps=static_choices.TEST_STEPS)

    found, _ = static_choices.worst(long, Setting(), long(Setting()))
    assert len(tried) == 2
    assert found.bound
    assert any("other sides cannot be followed" in note for note in found.notes)


def test_a_script_that_ends_with_its_budget_is_followed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follows: list[object] = []

    def counted(script: Path, args: tuple[str, ...], setting: Setting, *rest: Any) -> Outcome:
        follows.append(setting)
        return follow(script, args, setting, *rest)

    monkeypatch.setattr(static, "follow", counted)
    script = tmp_path / "train.py"
    script.write_text(
        "import paddle\nnet = paddle.nn.Linear(4, 4)\nx = paddle.randn([8, 4])\n"
        "while True:\n    if x is None:\n        break\n    x = net(net(net(net(x))))\n"
    )
    found = analyse(script, (), project=tmp_path)
    assert found.estimate().tier == "unknown"
    assert found.estimate(16, backend="cpu").tier == "unknown"
    assert len(follows) == 1


def test_for_a_measured_tier_a_script_is_followed_once(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks where the batch size is written, and tells the memory itself."""
    follows: list[Setting] = []

    def counted(script: Path, args: tuple[str, ...], setting: Setting, *rest: Any) -> Outcome:
        follows.append(setting)
        return follow(script, args, setting, *rest)

    monkeypatch.setattr(static, "follow", counted)
    path = script(write, 1, UNDECIDED)
    brief = analyse(path).brief()
    assert probe_request.build(brief, path, mode="meta")["batches"] == [4096, 8192]
    assert len(follows) == 1
    task = Task("x", script=str(path))
    analyses = Analyses()
    names = {Naming(task, "meta").answer(analyses) for _ in range(2)}
    assert len(follows) == 2
    analyses.of(task).estimate()
    assert len(follows) > 2
    assert names == {Naming(task, "meta").answer(analyses)}
    blocked = script(write, 1, "loss = net(x, unknown()).mean()")
    follows.clear()
    brief = analyse(blocked).brief()
    assert brief.estimate(backend="gpu").memory is None
    assert brief.estimate(backend="cpu").memory is None
    assert len(follows) == 1
