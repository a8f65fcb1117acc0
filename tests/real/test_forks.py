"""Programs in copies of a process do what they do in processes of their own."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.preflight.tiers import probe_request
from tests.real.meta.probe_answers import really, really_afresh, said, said_afresh
from tests.real.rig import forks
from tests.real.rig.patience import PATIENCE_S
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("paddle") is None, reason="paddlepaddle is not installed"
)
PLACES = """
import gc, json, os, random, signal, sys, threading
import paddle
names = {name: value for name, value in globals().items() if isinstance(value, (str, type(None)))}
core = paddle.base.core
kinds = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
print(json.dumps({
    "names": sorted(names.items()), "argv": sys.argv, "path": sys.path, "folder": os.getcwd(),
    "environment": sorted(os.environ.items()), "files": sorted(os.listdir("/proc/self/fd")),
    "words": sys.orig_argv[1:], "threads": threading.active_count(), "collects": gc.isenabled(),
    "signals": [str(signal.getsignal(one)) for one in sorted(kinds)],
    "blocked": [int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "held": [core.host_memory_stat_current_value("Allocated", 0),
             core.host_memory_stat_peak_value("Allocated", 0)],
    "terminal": [sys.stdin.isatty(), sys.stdout.isatty()], "given": sys.stdin.read(),
    "mode": paddle.in_dynamic_mode(), "place": str(paddle.framework._current_expected_place()),
}))
"""
TRAINED = """
import paddle
stat = paddle.base.core.host_memory_stat_peak_value
net = paddle.nn.Sequential(paddle.nn.Linear(64, 256), paddle.nn.Tanh(), paddle.nn.Linear(256, 8))
adam = paddle.optimizer.Adam(parameters=net.parameters())
for step in range(5):
    net(paddle.randn([{batch}, 64])).square().mean().backward()
    adam.step()
    adam.clear_grad()
    print(stat("Allocated", 0))
"""
STATIC = """
import numpy
import paddle
paddle.enable_static()
x = paddle.static.data("x", [-1, 64])
out = paddle.static.nn.fc(x, 256)
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(paddle.static.default_startup_program())
print([one.shape for one in exe.run(feed={"x": numpy.ones((8, 64), "float32")}, fetch_list=[out])])
"""
TIER = """
import sys
from gpuconsole.preflight.meta import hook
from gpuconsole.preflight.meta.state import STATE
from gpuconsole.preflight.tiers.probe_request import operators
hook.install()
import paddle
hook.ready(paddle, operators(), sys.argv[1])
net = paddle.nn.Linear(64, 256)
net(paddle.rand([16, 64])).mean().backward()
print(STATE.ledger.live, STATE.ledger.peak, net.weight.grad.dtype)
"""
LOOP = """
import sys
import paddle
net = paddle.nn.Linear(256, 256)
adam = paddle.optimizer.Adam(parameters=net.parameters())
data = paddle.io.TensorDataset([paddle.randn([64, 256]), paddle.randint(0, 5, [64])])
for x, y in paddle.io.DataLoader(data, batch_size=16):
    {line}
    net(x).mean().backward()
    adam.step()
    adam.clear_grad()
"""


def test_a_copy_finds_what_a_new_process_finds(tmp_path: Path) -> None:
    words = ("-c", PLACES, "one", "two")
    env = {"MARK": "1", "PYTHONPATH": str(tmp_path)}
    fresh = forks.run_afresh(*words, input="given", cwd=tmp_path, env=env, timeout=PATIENCE_S)
    for _ in range(2):
        copied = forks.run(*words, input="given", cwd=tmp_path, env=env, timeout=PATIENCE_S)
        assert json.loads(copied.stdout) == json.loads(fresh.stdout)


@pytest.mark.parametrize("text", [TRAINED.format(batch=16), TRAINED.format(batch=4096), STATIC])
def test_a_truth_is_the_same_to_the_byte(text: str) -> None:
    assert really(text) == really_afresh(text)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_the_tier_holds_the_same_to_the_byte(backend: str) -> None:
    assert really(TIER, backend, way="tier") == really_afresh(TIER, backend)


@pytest.mark.parametrize(
    "line", ["pass", "x.missing()", "x = x[: int(y.max())]", "sys.exit('left')", "raise KeyError"]
)
def test_the_probe_says_the_same(tmp_path: Path, line: str) -> None:
    (script := tmp_path / "train.py").write_text(LOOP.format(line=line))
    question = probe_request.build(None, script, mode="meta", backend="cpu")
    assert told(said(question)) == told(said_afresh(question))
    alone = {**question, "size": None, "batch": {"how": "fixed", "value": None}}
    assert told(said(alone, "--run")) == told(said_afresh(alone, "--run"))


def told(answer: Any) -> Any:
    """Return an answer without how long it took, and without what importing Paddle prints."""
    if isinstance(answer, dict):
        return {name: told(value) for name, value in answer.items() if name != "seconds"}
    if isinstance(answer, list):
        return [told(value) for value in answer]
    return own(answer) if isinstance(answer, str) else answer


def own(printed: str) -> str:
    """Return what was printed after Paddle's warning that it found no compiler's cache."""
    return printed.rpartition("warnings.warn(warning_message)\n")[2]


@pytest.mark.parametrize(
    ("text", "code"),
    [("raise SystemExit(3)", 3), ("1 / 0", 1), ("raise SystemExit('why')", 1),
     ("import os; os.kill(os.getpid(), 9)", -9), ("import os; os._exit(4)", 4),
     ("import atexit; atexit.register(print, 'last')", 0)],
)  # fmt: skip
def test_a_copy_ends_as_a_process_does(text: str, code: int) -> None:
    copied, fresh = (
        run("-c", f"import paddle\n{text}", timeout=PATIENCE_S)
        for run in (forks.run, forks.run_afresh)
    )
    assert (copied.returncode, copied.stdout) == (code, fresh.stdout)
    assert copied.returncode == fresh.returncode
    assert own(copied.stderr).splitlines()[-1:] == own(fresh.stderr).splitlines()[-1:]


@pytest.mark.parametrize(
    "words",
    [["--version"], ["--help"], ["jobs", "--json"], ["jobs", "--all"], ["hosts"], ["submit"],
     ["submit", "missing.py"], ["check"], ["audit", "--json"], ["logs", "missing"]],
)  # fmt: skip
def test_a_command_says_the_same(tmp_path: Path, words: list[str]) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("version: 1\nhosts: [{name: far, address: 127.0.0.1}]\n")
    places = ["--inventory", str(inventory), "--state", str(tmp_path / "state")]
    command = [sys.executable, "-m", "gpuconsole", *places, *words]
    fresh = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    for _ in range(2):
        copied = forks.typed(command, PATIENCE_S, tmp_path)
        assert (copied.returncode, copied.stdout) == (fresh.returncode, fresh.stdout)
        assert copied.stderr == fresh.stderr


def test_two_copies_draw_different_numbers() -> None:
    text = "import numpy, paddle, random\n"
    text += "print(numpy.random.rand(), random.random(), paddle.rand([1]).item())"
    first, second = (really(text).split() for _ in range(2))
    assert all(one != other for one, other in zip(first, second, strict=True))


def test_what_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    noted = tmp_path / "pids"
    text = (
        "import os, pathlib, subprocess, time\nother = subprocess.Popen(['sleep', '1000'])\n"
        f"pathlib.Path({str(noted)!r}).write_text(f'{{os.getpid()}} {{other.pid}}')\n"
        "time.sleep(1000)"
    )
    most_s = 0.5
    while not noted.exists():
        with pytest.raises(subprocess.TimeoutExpired):
            forks.run("-c", text, timeout=most_s)
        most_s *= 2
    pids = noted.read_text().split()
    wait_until(lambda: not any(Path("/proc", pid, "exe").exists() for pid in pids), what="they end")
    assert really("print(1)") == "1\n", "others begin"
