"""The reporter sees what Paddle took, and the script never sees the reporter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.remote import injected
from gpuconsole.remote.injected import memory_reporter
from tests.waiting import DEADLINE_S

PADDLE = """
import types
__version__ = "9.9"
peak = {"now": 0, "peak": 0}

class Optimizer:
    def step(self): pass
    def minimize(self, loss): self.step()

class Adam(Optimizer):
    def step(self): super().step()

class Executor:
    def run(self, program=None): return [1.0]

class DataLoader:
    batch_sampler = types.SimpleNamespace(batch_size=24)
    def __iter__(self): return iter(range(3))

def hold(size):
    peak["now"] = size
    peak["peak"] = max(peak["peak"], size)

core = types.SimpleNamespace(
    host_memory_stat_peak_value=lambda kind, device: peak["peak"],
    host_memory_stat_current_value=lambda kind, device: peak["now"],
)
base = types.SimpleNamespace(core=core)
optimizer = types.SimpleNamespace(Optimizer=Optimizer, Adam=Adam)
static = types.SimpleNamespace(Executor=Executor)
io = types.SimpleNamespace(DataLoader=DataLoader)
device = types.SimpleNamespace(get_device=lambda: "cpu")
"""
"""As much of Paddle as the reporter touches."""


class Bench:
    """A container's file system, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reporter = folder / "gpuconsole"
        self.reporter.mkdir()
        injected.pack_reporter(folder / "reporter.tar")
        with tarfile.open(folder / "reporter.tar") as tar:
            for member in tar:
                content = tar.extractfile(member)
                assert content is not None
                (self.reporter / member.name).write_bytes(content.read())
        self.modules = folder / "modules"
        self.modules.mkdir()
        (self.modules / "paddle.py").write_text(PADDLE)

    def popen(self, script: str, **variables: str) -> subprocess.Popen[str]:
        path = self.folder / "train.py"
        path.write_text(script)
        env = {**os.environ, "PYTHONPATH": f"{self.reporter}:{self.modules}", **variables}
        return subprocess.Popen(
            [sys.executable, str(path)],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
        )  # fmt: skip

    def run(self, script: str, **variables: str) -> tuple[int, str, str]:
        process = self.popen(script, **variables)
        out, err = process.communicate(timeout=DEADLINE_S)
        return process.returncode, out, err

    def reports(self) -> list[dict[str, Any]]:
        found = (self.reporter / ".reports").glob("*.json")
        return [json.loads(path.read_text()) for path in sorted(found)]

    def report(self) -> dict[str, Any]:
        (found,) = self.reports()
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_peak_steps_batch_and_version_are_noted_at_the_end(bench: Bench) -> None:
    code, out, err = bench.run(
        "import paddle\n"
        "adam = paddle.optimizer.Adam()\n"
        "for step in range(30):\n"
        "    for batch in paddle.io.DataLoader(): pass\n"
        "    paddle.hold(5000); paddle.hold(100)\n"
        "    adam.step()\n"
        "print('done')\n"
    )
    assert (code, out, err) == (0, "done\n", "")
    report = bench.report()
    assert (report["allocated"], report["current"], report["steps"]) == (5000, 100, 30)
    assert (report["paddle"], report["device"], report["batch"]) == ("9.9", "cpu", 24)
    assert report["final"] is True
    assert report["errors"] == []
    assert report["step_s"] >= 0
    assert report["recent_s"] >= 0


def test_the_latest_steps_are_told_apart_from_the_others() -> None:
    steps = memory_reporter.Steps()
    now = 0.0
    for lasted in [0.1] * 26 + [0.5] * 15:
        now += lasted
        steps.note(now)
    assert steps.recent() == pytest.approx(0.5)
    assert steps.median() == pytest.approx(0.1)
    for _ in range(400):
        now += 0.2
        steps.note(now)
    assert steps.median() == steps.recent() == pytest.approx(0.2)


def test_too_few_steps_have_no_latest() -> None:
    steps = memory_reporter.Steps()
    for now in range(25):
        steps.note(float(now))
    assert steps.recent() is None
    steps.note(25.0)
    assert steps.recent() == 1.0


@pytest.mark.parametrize(
    ("call", "steps"),
    [("opt.step()", 4), ("opt.minimize(1)", 4), ("paddle.static.Executor.run(exe)", 4)],
)
def test_a_step_counts_once_however_it_is_made(bench: Bench, call: str, steps: int) -> None:
    lines = "import paddle\nopt = paddle.optimizer.Adam()\nexe = paddle.static.Executor()\n"
    bench.run(lines + f"for _ in range(4):\n    {call}\n")
    assert bench.report()["steps"] == steps


def test_a_script_without_paddle_leaves_nothing(bench: Bench) -> None:
    assert bench.run("print('hello')")[:2] == (0, "hello\n")
    assert not (bench.reporter / ".reports").exists()


def test_it_can_be_turned_off(bench: Bench) -> None:
    assert bench.run("import paddle", GPUCONSOLE_REPORT="0")[0] == 0
    assert not (bench.reporter / ".reports").exists()


def test_an_image_s_own_sitecustomize_still_runs(bench: Bench) -> None:
    (bench.modules / "sitecustomize.py").write_text("import sys\nsys.chained = __file__\n")
    script = (
        "import sys, sitecustomize, paddle\n"
        f"ours = [each for each in sys.path if each.startswith({str(bench.reporter)!r})]\n"
        "print(sys.chained == sitecustomize.__file__, ours)\n"
    )
    for turned in ("1", "0"):
        code, out, err = bench.run(script, GPUCONSOLE_REPORT=turned)
        assert (code, out, err) == (0, "True []\n", "")
    assert len(bench.reports()) == 1


def test_paddle_looks_as_if_nobody_stood_between(bench: Bench) -> None:
    script = (
        "import paddle, inspect\n"
        "print(type(paddle.__loader__).__name__, paddle.__spec__.loader is paddle.__loader__)\n"
        "print(inspect.getsource(paddle)[:14].strip())\n"
        "print(paddle.optimizer.Adam.step.__qualname__)\n"
    )
    code, out, _ = bench.run(script)
    assert (code, out) == (0, "SourceFileLoader True\nimport types\nAdam.step\n")


def test_a_crash_for_want_of_memory_is_kept_with_what_was_held(bench: Bench) -> None:
    text = "Out of memory error on GPU 0. Cannot allocate 2.0GB memory on GPU 0"
    code, _, err = bench.run(
        "import paddle\n"
        "paddle.hold(900); paddle.hold(700)\n"
        f"raise MemoryError('ResourceExhaustedError: \\n {text}')\n"
    )
    assert code == 1
    assert err.startswith("Traceback")
    report = bench.report()
    assert report["oom"].startswith(text)
    assert (report["allocated"], report["current"]) == (900, 700)


@pytest.mark.parametrize(("number", "steps"), [(signal.SIGTERM, 5), (signal.SIGKILL, 3)])
def test_what_was_seen_outlives_a_signal(bench: Bench, number: signal.Signals, steps: int) -> None:
    process = bench.popen(
        "import paddle, sys\n"
        "opt = paddle.optimizer.Adam(); paddle.hold(77)\n"
        "for _ in range(5): opt.step()\n"
        "print('up', flush=True)\n"
        "sys.stdin.read()\n"
        "import time; time.sleep(60)\n"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == -number
    report = bench.report()
    assert (report["allocated"], report["steps"]) == (77, steps)
    assert report["final"] is (number == signal.SIGTERM)


def test_a_handler_of_the_script_s_own_is_left_alone(bench: Bench) -> None:
    code, out, _ = bench.run(
        "import signal, os, sys\n"
        "def mine(number, frame): print('mine'); sys.exit(7)\n"
        "signal.signal(signal.SIGTERM, mine)\n"
        "import paddle\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    assert (code, out) == (7, "mine\n")


def test_copies_of_the_process_write_nothing(bench: Bench) -> None:
    code, _, _ = bench.run(
        "import os, paddle\n"
        "opt = paddle.optimizer.Adam()\n"
        "child = os.fork()\n"
        "opt.step()\n"
        "if child: os.waitpid(child, 0)\n"
    )
    assert code == 0
    assert len(bench.reports()) == 1


def test_each_process_of_a_launch_has_a_file(bench: Bench) -> None:
    worker = "import paddle; paddle.hold(10); paddle.optimizer.Adam().step()"
    bench.run(
        "import paddle, subprocess, sys, os\n"
        f"start = lambda rank: subprocess.Popen([sys.executable, '-c', {worker!r}],"
        " env=dict(os.environ, PADDLE_TRAINER_ID=str(rank)))\n"
        "for process in [start(0), start(1)]: process.wait()\n"
    )
    found = bench.reports()
    assert sorted((one["rank"], one["steps"]) for one in found) == [("", 0), ("0", 1), ("1", 1)]


def _read_only(bench: Bench) -> None:
    (bench.reporter / ".reports").write_text("a file in place of the folder")


def _other_paddle(bench: Bench) -> None:
    (bench.modules / "paddle.py").write_text("optimizer = None\nanswer = 42\n")


@pytest.mark.parametrize("broken", [_read_only, _other_paddle])
def test_whatever_fails_in_it_the_script_runs(
    bench: Bench, broken: Callable[[Bench], None]
) -> None:
    broken(bench)
    code, out, err = bench.run(
        "import paddle\n"
        "if paddle.optimizer:\n"
        "    for _ in range(12): paddle.optimizer.Adam().step()\n"
        "print('done')\n"
    )
    assert (code, out, err) == (0, "done\n", "")


def test_what_it_could_not_do_is_a_line_of_the_report(bench: Bench) -> None:
    _other_paddle(bench)
    bench.run("import paddle; print(paddle.answer)")
    assert bench.report()["errors"]


def test_an_exception_of_a_step_is_the_script_s_own(bench: Bench) -> None:
    text = PADDLE.replace("def step(self): super().step()", "def step(self): raise KeyError('x')")
    (bench.modules / "paddle.py").write_text(text)
    code, out, _ = bench.run(
        "import paddle\n"
        "try: paddle.optimizer.Adam().step()\n"
        "except KeyError as error: print('caught', error)\n"
    )
    assert (code, out) == (0, "caught 'x'\n")
    assert bench.report()["steps"] == 0


# -- a device that is not used ----------------------------------------------------------------


STEP = "import paddle\nprint('begin', flush=True)\npaddle.optimizer.Adam().step()\n"
CUDA = """
device.is_compiled_with_cuda = lambda: True
core.get_cuda_device_count = lambda: {count}
device.get_device = lambda: "{device}"
device.cuda = types.SimpleNamespace(
    max_memory_allocated=lambda: 7, max_memory_reserved=lambda: 9, memory_allocated=lambda: 5,
    get_device_name=lambda: "card",
)
"""
PLUGIN = """
device.get_all_custom_device_type = lambda: ["npu"]
core.get_custom_device_count = lambda kind: {count}
device.get_device = lambda: "{device}"
device.max_memory_allocated = lambda device: 70
device.max_memory_reserved = lambda device: 90
"""


def with_devices(bench: Bench, text: str, count: int, device: str) -> None:
    paddle = bench.modules / "paddle.py"
    paddle.write_text(PADDLE + text.format(count=count, device=device))


def test_a_build_without_devices_is_told_before_the_first_line(bench: Bench) -> None:
    code, _, err = bench.run(STEP, GPUCONSOLE_BACKEND="gpu")
    assert code == 0
    assert "started for gpu, but Paddle 9.9 computes on the processor: it is built for cpu" in err
    report = bench.report()
    assert (report["fallback"], report["built"], report["visible"]) == ("gpu", "cpu", 0)
    assert report["steps"] == 1


def test_it_is_written_even_if_the_script_ends_at_once(bench: Bench) -> None:
    script = "import paddle\nimport os\nos._exit(3)\n"
    assert bench.run(script, GPUCONSOLE_BACKEND="npu")[0] == 3
    assert bench.report()["fallback"] == "npu"


def test_a_build_for_the_device_that_sees_none_is_told(bench: Bench) -> None:
    with_devices(bench, CUDA, 0, "cpu")
    _, _, err = bench.run(STEP, GPUCONSOLE_BACKEND="gpu")
    assert "it sees no device" in err
    assert bench.report()["visible"] == 0


@pytest.mark.parametrize(
    ("text", "device", "wanted", "peak"),
    [(CUDA, "gpu:0", "gpu", 7), (PLUGIN, "npu:0", "npu", 70)],
)
def test_nothing_is_said_of_a_device_that_is_used(
    bench: Bench, text: str, device: str, wanted: str, peak: int
) -> None:
    with_devices(bench, text, 1, device)
    code, out, err = bench.run(STEP, GPUCONSOLE_BACKEND=wanted)
    assert (code, out, err) == (0, "begin\n", "")
    report = bench.report()
    assert "fallback" not in report
    assert (report["built"], report["visible"], report["allocated"]) == (wanted, 1, peak)


def test_a_job_without_a_device_is_held_against_nothing(bench: Bench) -> None:
    _, _, err = bench.run(STEP)
    assert err == ""
    assert "built" not in bench.report()
