"""Measurements: where one is made, and for which runs of a script it is used again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuconsole import preflight
from gpuconsole.core.fleet import FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.preflight.digest import script_digest, settings_of
from gpuconsole.remote.sandbox import Sandbox
from gpuconsole.session import measuring
from gpuconsole.session.measurements import Measurements, choose_host
from gpuconsole.session.reading.analyses import Analyses
from gpuconsole.session.reading.beside import AsyncReader
from gpuconsole.session.reading.questions import Checking, Estimating
from gpuconsole.session.reading.recordings import read, recorded
from gpuconsole.state.measured import MeasuredScripts, key_of

SCRIPT = """
import argparse
import paddle
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--width", type=int, default=4)
args = parser.parse_args()
net = paddle.nn.Linear(args.width, 1)
optimizer = paddle.optimizer.SGD(parameters=net.parameters())
for step in range(3):
    net(paddle.rand([args.batch_size, args.width])).mean().backward()
    optimizer.step()
    optimizer.clear_grad()
"""
HERE = FleetSnapshot(
    1, 1.0, (Host("away", HostState.DOWN), Host("bare", HostState.UP), Host("full", HostState.UP))
)
IMAGES = {"away": "paddle:3", "bare": "", "full": "paddle:3"}


# --- where --------------------------------------------------------------------------------------


def test_the_first_host_that_is_up_and_has_an_image_measures() -> None:
    assert choose_host(HERE, "", IMAGES.__getitem__) == ("full", "paddle:3")
    assert choose_host(HERE, "bare", lambda _: "own:1") == ("bare", "own:1")


@pytest.mark.parametrize("wanted", ["away", "bare"])
def test_a_host_that_cannot_measure_is_not_replaced_by_another(wanted: str) -> None:
    with pytest.raises(UsageError, match=wanted) as error:
        choose_host(HERE, wanted, IMAGES.__getitem__)
    assert "--local" in error.value.hint


def test_without_any_host_it_says_how_to_measure_all_the_same() -> None:
    with pytest.raises(UsageError, match="No host") as error:
        choose_host(FleetSnapshot(), "", IMAGES.__getitem__)
    assert "--local" in error.value.hint


def test_a_host_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(UsageError) as error:
        choose_host(HERE, "ful", IMAGES.__getitem__)
    assert error.value.title == "No such host"
    assert "away, bare, full" in error.value.hint


async def test_nothing_runs_here_that_less_holds_than_the_user_agreed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text("import paddle\n")
    monkeypatch.setattr(Sandbox, "bubblewrap", None)
    monkeypatch.setattr(measuring, "here", None)
    with AsyncReader() as reader:
        measurements = Measurements(tmp_path / "state", reader)
        with pytest.raises(UsageError, match="read and write all your files") as refused:
            await measurements.here(Task("x", str(script)), "meta", lambda share, stage: None)
    assert "Install bubblewrap" in refused.value.hint


# --- which --------------------------------------------------------------------------------------


def run(batch: int) -> dict[str, Any]:
    return {
        "batch": batch, "events": [0, 1, ~1], "cycles": [3], "sizes": [4000, 100 * batch],
        "names": ["", "matmul"], "name": [0, 1], "kind": [1, 0], "inside": [], "shapes": [[]],
        "readers": [], "widest_conv": 0, "flags": [], "trained": True,
    }  # fmt: skip


def document(mode: str) -> dict[str, Any]:
    return {"version": 1, "mode": mode, "paddle": "3.3.1", "runs": [run(2), run(4)]}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "train.py"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    return path


def asked(script: Path, *args: str) -> tuple[Task, preflight.Analysis]:
    task = Task("x", script=str(script), args=args, project=str(script.parent))
    return task, preflight.analyse(script, args, project=script.parent)


def keep(state: Path, script: Path, mode: str, *args: str, batch: int = 8) -> None:
    key = key_of(script_digest(script, args, script.parent), settings_of(args, batch), mode)
    MeasuredScripts(state).put(key, json.dumps(document(mode)).encode())


def test_a_measurement_holds_for_every_batch_size(tmp_path: Path, script: Path) -> None:
    keep(tmp_path, script, "traced")
    for args in ((), ("--batch-size", "64"), ("--batch-size=3",)):
        found = recorded(tmp_path, *asked(script, *args))
        assert found is not None, args
        assert found.tier == "traced"


def test_other_arguments_or_another_text_are_another_script(tmp_path: Path, script: Path) -> None:
    keep(tmp_path, script, "traced")
    assert recorded(tmp_path, *asked(script, "--width", "8")) is None
    script.write_text(SCRIPT.replace("Linear(args.width, 1)", "Linear(args.width, 2)"))
    assert recorded(tmp_path, *asked(script)) is None


def test_a_recording_holds_for_the_modules_of_the_project_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "project"
    (root / "tools").mkdir(parents=True)
    (root / "tools" / "train.py").write_text("import net\n" + SCRIPT)
    (root / "net.py").write_text("import paddle\n")
    monkeypatch.chdir(root)
    task = Task("x", script=str(root / "tools" / "train.py"))
    checking = Checking(task, json.dumps(document("traced")).encode(), 8, "traced")
    name = checking.answer(Analyses())
    (root / "net.py").write_text("import paddle as other\n")
    assert checking.answer(Analyses()) != name


def test_a_script_whose_project_uses_paddle_is_not_said_to_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "project"
    (root / "tools").mkdir(parents=True)
    (root / "tools" / "train.py").write_text("import net\nnet.main()\n")
    (root / "net.py").write_text("import paddle\ndef main():\n    print(paddle.__version__)\n")
    monkeypatch.chdir(root)
    task = Task("x", script=str(root / "tools" / "train.py"))
    assert Estimating(task, ()).answer(Analyses()).estimate.flags == ()
    (root / "net.py").write_text("def main():\n    print(1)\n")
    assert "without-paddle" in Estimating(task, ()).answer(Analyses()).estimate.flags


def test_a_recording_that_tells_no_memory_leaves_the_answer_to_the_next(
    tmp_path: Path, script: Path
) -> None:
    keep(tmp_path, script, "traced")
    key = key_of(script_digest(script, (), script.parent), settings_of((), 8), "meta")
    runs = [{**run(size), "sizes": [4000, 200]} for size in (2, 4)]
    MeasuredScripts(tmp_path).put(key, json.dumps({**document("meta"), "runs": runs}).encode())
    found = recorded(tmp_path, *asked(script))
    assert found is not None
    assert found.tier == "traced"
    assert recorded(tmp_path, *asked(script), "meta").refusal  # type: ignore[union-attr]


def test_the_meta_tier_wins_unless_the_other_is_asked_for(tmp_path: Path, script: Path) -> None:
    task, analysis = asked(script)
    keep(tmp_path, script, "traced")
    only = recorded(tmp_path, task, analysis)
    keep(tmp_path, script, "meta")
    best, named = recorded(tmp_path, task, analysis), recorded(tmp_path, task, analysis, "traced")
    assert only is not None
    assert best is not None
    assert named is not None
    assert (only.tier, best.tier, named.tier) == ("traced", "meta", "traced")


def test_a_recording_of_a_mode_that_there_is_no_more_is_passed_over(
    tmp_path: Path, script: Path
) -> None:
    keep(tmp_path, script, "symbolic")
    assert recorded(tmp_path, *asked(script)) is None
    assert recorded(tmp_path, *asked(script), "symbolic") is None
    with pytest.raises(UsageError, match="not a measurement"):
        read(asked(script)[0], document("symbolic"))
    keep(tmp_path, script, "traced")
    found = recorded(tmp_path, *asked(script))
    assert found is not None
    assert found.tier == "traced"


@pytest.mark.parametrize("tier", ["traced", "meta"])
def test_a_tier_that_was_not_measured_is_refused_with_the_way_to_it(
    tmp_path: Path, script: Path, tier: str
) -> None:
    task, analysis = asked(script)
    with pytest.raises(RefusedError, match=tier) as error:
        recorded(tmp_path, task, analysis, tier)
    assert "--tier" in error.value.hint


def test_a_tier_that_is_not_measured_at_all_has_no_measurement(
    tmp_path: Path, script: Path
) -> None:
    keep(tmp_path, script, "traced")
    task, analysis = asked(script)
    assert recorded(tmp_path, task, analysis, "static") is None
    assert recorded(tmp_path, Task("x"), None, "") is None
