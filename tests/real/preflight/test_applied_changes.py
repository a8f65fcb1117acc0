"""Changes put into scripts, trained by real Paddle on the CPU: they save what was estimated.

Mixed precision does nothing on the CPU in Paddle 3.3.1 (`amp_guard` says so): that its copies train
is seen here, not what they save.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pytest

from gpuconsole import preflight
from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.script_edits import EditKind, edited_texts
from gpuconsole.core.units import MIB
from gpuconsole.preflight.suggestion_edits import applied
from tests.preflight.rewriting.loops import LOOPS
from tests.real.preflight.memory_at_rest import AT_REST
from tests.real.rig.patience import PATIENCE_S

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
    ),
]

STEPS = 4
BATCHES = 6
"""Backward passes of each run: an update, and two more, where gradients are accumulated."""
# Runs each script up to a number of backward passes, each in a process of its own that begins with
# Paddle imported; prints the peak, how often it ran backward, and whether each loss was finite.
HARNESS = (
    """
import contextlib, io, json, math, os, sys, time
import paddle
import paddle.base.core as core
class Enough(Exception):
    pass
seen = {"losses": []}
backward = paddle.Tensor.backward
def counted(self, *args, **kwargs):
    backward(self, *args, **kwargs)
    seen["losses"].append(math.isfinite(float(self)))
    if len(seen["losses"]) >= seen["most"]:
        raise Enough
paddle.Tensor.backward = counted
"""
    + AT_REST
    + """\
for line in sys.stdin.read().splitlines():
    name, text, args, seen["most"] = json.loads(line)
    if os.fork():
        os.wait()
        continue
    sys.argv = [name, *args]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Enough):
        exec(compile(text, name, "exec"), {"__name__": "__main__"})
    peak = core.host_memory_stat_peak_value("Allocated", 0)
    print(json.dumps([name, peak, len(seen["losses"]), all(seen["losses"])]), flush=True)
    os._exit(0)
"""
)
TOLERANCE = 0.01
A_BATCH = 64 * 1024
"""Bytes of a batch of the smallest pictures: a loader's thread may have one more or less ready."""


@dataclass(frozen=True)
class Case:
    """A script with changes put into its copy."""

    script: str
    kinds: tuple[EditKind, ...] = ()
    saves: bool = True
    """Whether the copy is to need less."""

    @property
    def name(self) -> str:
        return "-".join((self.script, *self.kinds))


EXAMPLES = ("mnist_cnn", "text_encoder")
CASES = (
    *(Case(name) for name in (*LOOPS, *EXAMPLES)),
    *(Case(name, ("accumulate",)) for name in (*LOOPS, *EXAMPLES)),
    *(Case(name, ("amp",), saves=False) for name in (*LOOPS, *EXAMPLES)),
    Case("blocks", ("recompute",)),
    Case("encoder", ("recompute",)),
    Case("blocks", ("amp", "recompute", "accumulate")),
    Case("encoder", ("accumulate", "recompute", "amp")),
)


def text_of(name: str) -> str:
    if name in LOOPS:
        return LOOPS[name]
    return (resources.files("gpuconsole") / f"data/examples/{name}.py").read_text("utf-8")


def task_of(case: Case, folder: Path) -> Task:
    """Return the task with the changes put in, each from what those before it have made."""
    path = folder / f"{case.name}.py"
    path.write_text(text_of(case.script))
    task = Task(case.name, str(path), backend="cpu")
    for kind in case.kinds:
        analysis = preflight.analyse(
            path, task.args, backend="cpu", texts=edited_texts(task.edits)
        )  # fmt: skip
        batch = task.batch_size or analysis.outcome(None, "cpu").batch
        task = applied(task, preflight.change_of(analysis, kind, STEPS, batch))
    return task


def shipped(task: Task) -> str:
    texts = edited_texts(task.edits)
    return next(iter(texts.values())) if texts else Path(task.script).read_text()


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Task]:
    return {case.name: task_of(case, tmp_path_factory.mktemp("scripts")) for case in CASES}


@pytest.fixture(scope="module")
def peaks(tasks: dict[str, Task]) -> dict[str, int]:
    """Peaks in bytes, measured in one child process each after the other."""
    lines = [json.dumps([name, shipped(task), task.args, BATCHES]) for name, task in tasks.items()]
    done = subprocess.run(
        [sys.executable, "-c", HARNESS], input="\n".join(lines), capture_output=True, text=True,
        timeout=PATIENCE_S + 20.0 * len(lines), check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    found = list(rows(done.stdout.splitlines()))
    assert [name for name, *_ in found] == list(tasks), done.stderr[-3000:]
    for name, _, batches, finite in found:
        assert batches >= 6, name
        assert finite, name
    return {name: peak for name, peak, *_ in found}


def rows(lines: Sequence[str]) -> Iterator[tuple[str, int, int, bool]]:
    return (json.loads(line) for line in lines if line.startswith('["'))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_copy_trains_and_needs_what_was_estimated(
    case: Case, tasks: dict[str, Task], peaks: dict[str, int]
) -> None:
    task = tasks[case.name]
    memory = preflight.report(task, (), backend="cpu").estimate.memory
    assert memory is not None
    near = pytest.approx(peaks[case.name], rel=TOLERANCE, abs=A_BATCH)
    assert memory.tensors_peak_mib * MIB == near
    if case.kinds and case.saves:
        assert peaks[case.name] < 0.9 * peaks[case.script]
    assert Path(task.script).read_text() == text_of(case.script)


def test_a_changed_copy_is_what_is_measured(tmp_path: Path) -> None:
    """In the sandbox, in place of the user's file, which stays as it is."""
    folder, state = tmp_path / "project", tmp_path / "state"
    folder.mkdir()
    path = folder / "train.py"
    path.write_text(LOOPS["blocks"])
    needs = {}
    for change in ("recompute", "accumulate=4"):
        done = subprocess.run(
            [sys.executable, "-m", "gpuconsole", "preflight", str(path), "--backend", "cpu",
             "--tier", "traced", "--local", "--yes", "--memory-mib", "4000", "--json",
             "--state", str(state), "--apply", change],
            capture_output=True, text=True, timeout=PATIENCE_S + 120.0, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(done.stdout)
        assert found["tier"] == "traced"
        assert found["edits"]
        needs[change] = found["memory"]["tensors_peak_mib"]
    plain = preflight.analyse(path, backend="cpu").estimate(backend="cpu").memory
    assert plain is not None
    assert needs["recompute"] < 0.8 * plain.tensors_peak_mib
    assert needs["accumulate=4"] < 0.4 * plain.tensors_peak_mib
    assert path.read_text() == LOOPS["blocks"]
    assert [one.name for one in folder.iterdir()] == ["train.py"]
