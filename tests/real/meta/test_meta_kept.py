"""Evaluations that keep what their network makes of each batch, to judge all of it at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconsole.preflight.tiers import probe_request
from tests.real.meta.probe_answers import peak, said

pytestmark = pytest.mark.real
SCRIPT = """
import numpy
import paddle

class Rows(paddle.io.Dataset):
    def __init__(self, count):
        self.count = count
    def __len__(self):
        return self.count
    def __getitem__(self, place):
        return numpy.ones([256], "float32"),

class Stream(paddle.io.IterableDataset):
    def __iter__(self):
        for _ in range({batches} * 64):
            yield numpy.ones([256], "float32"),

net = paddle.nn.Linear(256, 512)
if {trains}:
    adam = paddle.optimizer.Adam(parameters=net.parameters())
    for (x,) in paddle.io.DataLoader(Rows(160), batch_size=16):
        net(x).square().mean().backward()
        adam.step()
        adam.clear_grad()
held = []
net.eval()
with paddle.no_grad():
    for (x,) in paddle.io.DataLoader({rows}, batch_size=64):
        out = net(x)
        {keeps}
    whole = {after}
"""
ROWS = "Rows({batches} * 64)"
KEPT = 64 * 512 * 4
"""Bytes of what the network makes of a batch of an evaluation."""


def _answer(
    tmp_path: Path,
    batches: int,
    *,
    keeps: str = "held.append(out)",
    after: str = "paddle.concat(held)",
    trains: bool = True,
    rows: str = ROWS,
) -> Any:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(
        rows=rows.format(batches=batches), batches=batches, keeps=keeps, after=after, trains=trains
    ))  # fmt: skip
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    alone = {**question, "size": None, "batch": {"how": "fixed", "value": None}}
    return said(alone, "--run")


def _grows(tmp_path: Path, batches: int, **words: Any) -> tuple[int, Any]:
    """Return by how many bytes an evaluation of so many batches takes more than one of two, and
    the run."""
    few = _answer(tmp_path, 2, **words)["run"]
    run = _answer(tmp_path, batches, **words)["run"]
    return peak(run) - peak(few), run


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("batches", [6, 10, 3000])
def test_all_that_is_kept_is_held_and_put_together(
    tmp_path: Path, batches: int, trains: bool
) -> None:
    grows, run = _grows(tmp_path, batches, trains=trains)
    assert grows == pytest.approx(2 * (batches - 2) * KEPT, rel=0.01, abs=KEPT)
    assert any("batches" in said and "alike" in said for said in run["notes"]) == (batches > 1000)


def test_what_is_kept_alone_is_held_once(tmp_path: Path) -> None:
    grows, _ = _grows(tmp_path, 3000, after="len(held)")
    assert grows == pytest.approx(2998 * KEPT, rel=0.01)


def test_a_network_that_runs_afterwards_takes_no_more_for_what_was_kept(tmp_path: Path) -> None:
    """It holds as much as it holds for a batch of its own."""
    grows, _ = _grows(tmp_path, 3000, after="net(paddle.ones([1024, 256])).mean()")
    assert grows == pytest.approx(2998 * KEPT, rel=0.01)


def test_what_is_let_go_of_is_held_no_longer(tmp_path: Path) -> None:
    loader = "paddle.io.DataLoader(Rows(640), batch_size=64)"
    after = f"held.clear(), [net(x).mean() for (x,) in {loader}], paddle.zeros([9000, 1024])"
    run = _answer(tmp_path, 100, after=after)["run"]
    assert peak(run) < 9000 * 1024 * 4 + 20 * KEPT


def test_an_evaluation_that_keeps_nothing_is_cut(tmp_path: Path) -> None:
    one, two = (
        _answer(tmp_path, batches, keeps="held[:] = [out]")["run"] for batches in (30, 3000)
    )
    assert one["events"] == two["events"]


def test_an_evaluation_of_unknown_length_that_keeps_has_no_answer(tmp_path: Path) -> None:
    error = _answer(tmp_path, 3000, rows="Stream()")["error"]
    assert error["kind"] == "unsupported"
    assert "an evaluation keeps 0.12 MiB of each batch" in error["message"]
    run = _answer(tmp_path, 10, rows="Stream()")["run"]
    few = _answer(tmp_path, 2, rows="Stream()")["run"]
    assert peak(run) - peak(few) == pytest.approx(16 * KEPT, abs=KEPT)
