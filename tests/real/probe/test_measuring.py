"""Measuring a script: a real sandbox here, a real container on a host, real Paddle in both."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Task
from gpuconsole.errors import RefusedError
from gpuconsole.preflight import analyse
from gpuconsole.remote.isolation import sandbox as sandboxes
from gpuconsole.remote.isolation.sandbox import Limits, Sandbox, SandboxTimeoutError
from gpuconsole.session.estimate.measurement_on_host import NAME
from gpuconsole.session.estimate.measurement_store import Measurements
from gpuconsole.session.reading.background import AsyncReader
from gpuconsole.session.reading.recordings import recorded
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk, until
from tests.waiting import wait_until

pytestmark = pytest.mark.real
EXAMPLE = Path(__file__).parents[3] / "gpuconsole" / "data" / "examples" / "mnist_cnn.py"

LOOK = """
import os, socket, sys
print(sys.stdin.read())
def attempt(word, act):
    try:
        act()
        print(word, "yes")
    except OSError:
        print(word, "no")
attempt("network", lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 2))
attempt("project", lambda: open(os.path.join(sys.argv[1], "new"), "w"))
attempt("scratch", lambda: open("new", "w"))
attempt("system", lambda: open("/etc/new", "w"))
print("home", os.listdir("/root") if os.access("/root", os.R_OK) else [])
try:
    bytearray(3 * 2**30)
    print("memory yes")
except MemoryError:
    print("memory no")
"""
CHECK = """
import os, socket

for act in (lambda: open("/new", "w"), lambda: open("/etc/new", "w"),
            lambda: socket.create_connection(("192.0.2.1", 80), 2)):
    try:
        act()
    except OSError:
        continue
    raise SystemExit("the sandbox is open")
assert os.getuid() != 0
"""
TRAIN = """
import paddle

net = paddle.nn.Linear(64, 10)
opt = paddle.optimizer.Adam(parameters=net.parameters())
data = paddle.io.TensorDataset([paddle.randn([512, 64]), paddle.randint(0, 10, [512])])
for x, y in paddle.io.DataLoader(data, batch_size=16):
    loss = paddle.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


def need_bubblewrap() -> None:
    if shutil.which("bwrap") is None:
        if os.environ.get("GPUCONSOLE_REQUIRE_REAL"):
            pytest.fail("bubblewrap is not installed")
        pytest.skip("bubblewrap is not installed")


async def look(sandbox: Sandbox, tmp_path: Path, port: int) -> dict[str, str]:
    project, scratch = tmp_path / "project", tmp_path / "scratch"
    project.mkdir()
    scratch.mkdir()
    lines = sandbox.lines(
        ["-c", LOOK, str(project), str(port)], stdin=b"hello", readable=[project], scratch=scratch
    )
    said = [line.decode() async for line in lines]
    assert said[0] == "hello"
    return dict(line.split(" ", 1) for line in said[1:])


@contextlib.contextmanager
def listener():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_bubblewrap_keeps_a_child_from_everything_but_its_scratch(tmp_path: Path) -> None:
    need_bubblewrap()
    sandbox = Sandbox(limits=Limits(memory_mib=1024))
    with listener() as port:
        found = await look(sandbox, tmp_path, port)
    home = found.pop("home")
    assert found == {
        "network": "no", "project": "no", "scratch": "yes", "system": "no", "memory": "no",
    }  # fmt: skip
    assert ".ssh" not in home
    assert "bubblewrap" in sandbox.isolation


async def test_without_bubblewrap_the_network_is_cut_and_said_to_be_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root has none without bubblewrap.
    monkeypatch.setattr(sandboxes, "_is_root", lambda: False)
    sandbox = Sandbox(limits=Limits(memory_mib=1024), bubblewrap=None)
    with listener() as port:
        found = await look(sandbox, tmp_path, port)
    assert found["network"] == "no"
    assert found["memory"] == "no"
    assert "able to read and write all your files" in sandbox.isolation


async def test_a_child_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    need_bubblewrap()
    marker = "gpuconsole-sandbox-sleeper"
    code = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '{marker}'])\n"
        "print('started', flush=True)\ntime.sleep(600)\n"
    )
    sandbox = Sandbox(limits=Limits(wall_s=3.0))
    lines = sandbox.lines(["-c", code], stdin=b"", readable=[], scratch=tmp_path)
    assert await lines.__anext__() == b"started"
    with pytest.raises(SandboxTimeoutError, match="3 s"):
        await lines.__anext__()
    await until(lambda: marker not in processes(), what="the grandchild ends")


async def test_leaving_ends_the_child(tmp_path: Path) -> None:
    need_bubblewrap()
    marker = "gpuconsole-sandbox-left"
    code = "print('on', flush=True)\nimport time\ntime.sleep(600)\n"
    lines = Sandbox().lines(["-c", code, marker], stdin=b"", readable=[], scratch=tmp_path)
    assert await lines.__anext__() == b"on"
    assert marker in processes()
    await lines.aclose()
    # With all that holds its output, before anything goes on.
    assert marker not in processes()


def processes() -> str:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return "\n".join(found)


def command(state: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpuconsole", "--state", str(state), "preflight", *words],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_the_command_measures_here_and_the_next_answer_uses_it(tmp_path: Path) -> None:
    asked = command(tmp_path, str(EXAMPLE), "--offline", "--tier", "traced", "--local")
    assert asked.returncode == 2
    assert "No terminal to ask in" in asked.stderr

    cpu = ("--offline", "--backend", "cpu", "--json")
    done = command(tmp_path, str(EXAMPLE), *cpu, "--tier", "traced", "--local", "--yes")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tier"] == "traced"
    assert "100% measured" in done.stderr

    plain = json.loads(command(tmp_path, str(EXAMPLE), *cpu).stdout)
    assert plain["tier"] == "traced"
    assert plain["memory"] == found["memory"]
    read = json.loads(command(tmp_path, str(EXAMPLE), *cpu, "--tier", "static").stdout)
    assert read["tier"] == "static"
    peak = found["memory"]["tensors_peak_mib"]
    assert read["memory"]["tensors_peak_mib"] == pytest.approx(peak, rel=0.01)


ENDLESS = """
import ctypes, os, time
import paddle

net = paddle.nn.Linear(8, ctypes.c_long(4).value)
while True:
    time.sleep(600)
"""


@pytest.fixture
def measuring(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Give a command that measures a script without an end on this machine, and the folder in
    which its temporary files lie."""
    need_bubblewrap()
    temporary, script = tmp_path / "temporary", tmp_path / "project" / "endless.py"
    for folder in (temporary, script.parent):
        folder.mkdir()
    script.write_text(ENDLESS)
    words = ("preflight", str(script), "--offline", "--yes", "--json")
    with subprocess.Popen(
        [sys.executable, "-m", "gpuconsole", "--state", str(tmp_path / "state"), *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        wait_until(lambda: list(temporary.glob("gpuconsole-measure-*")), "a measurement begins")
        while "loading Paddle" not in process.stderr.readline():
            assert process.poll() is None
        yield process, temporary
        process.kill()


def test_ctrl_c_ends_measuring_and_what_was_read_is_the_answer(
    measuring: tuple[subprocess.Popen[str], Path],
) -> None:
    process, temporary = measuring
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    found = json.loads(said)
    assert found["tier"] == "unknown"
    assert found["tiers"][1]["why"] == "measuring was cancelled"
    assert list(temporary.iterdir()) == []


def test_a_killed_console_takes_the_script_with_it_and_the_next_one_clears_up(
    measuring: tuple[subprocess.Popen[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, temporary = measuring
    (left,) = temporary.glob("gpuconsole-measure-*")
    assert str(left) in processes()
    process.kill()
    wait_until(lambda: str(left) not in processes(), "the script ends")
    assert left.is_dir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    script = tmp_path / "project" / "wrong.py"
    script.write_text("import paddle\nraise ValueError\n")
    words = (str(script), "--offline", "--tier", "meta", "--local", "--yes")
    assert command(tmp_path / "state", *words).returncode in (1, 2)
    assert list(temporary.glob("gpuconsole-measure-*")) == []


async def test_what_the_script_says_wrong_is_told(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import paddle\nraise ValueError('no such data')\n")
    task = Task("train", str(script))
    with AsyncReader() as reader:
        measurements = Measurements(tmp_path / "state", reader)
        with pytest.raises(RefusedError, match="no such data"):
            await measurements.here(task, "traced", lambda share, stage: None)


async def test_a_host_measures_in_a_container_that_is_shut(docker_lab: Lab, tmp_path: Path) -> None:
    docker_lab.add().start_engine()
    desk = Desk(docker_lab, tmp_path)
    task = desk.task(TRAIN)
    stages: list[str] = []
    async with desk.session() as session:
        await session.first_frames(30)
        # This one refuses to train where it can write or reach out.
        await session.estimates.measure(
            desk.task(CHECK + TRAIN, "check"), "traced", lambda *told: None
        )
        await session.estimates.measure(task, "traced", lambda share, stage: stages.append(stage))
        report = await session.estimates.report(task)
        engine = await session.hosts.engine(session.snapshot().hosts[0].name)
        assert await engine.inspect(NAME) is None
    assert stages[-1] == "measured"
    assert report.estimate.tier == "traced"
    analysis = analyse(Path(task.script))
    measured = recorded(desk.state, task, analysis)
    assert measured is not None
    static, found = analysis.estimate(backend="cpu").memory, measured.estimate(backend="cpu").memory
    assert found is not None
    assert static is not None
    assert found.tensors_peak_mib == pytest.approx(static.tensors_peak_mib, rel=0.005)


async def test_cancelling_removes_the_container(docker_lab: Lab, tmp_path: Path) -> None:
    docker_lab.add().start_engine()
    desk = Desk(docker_lab, tmp_path)
    task = desk.task("import time\ntime.sleep(600)\n")
    async with desk.session() as session:
        await session.first_frames(30)
        begun = asyncio.Event()

        def told(share: float, stage: str) -> None:
            if share > 0:
                begun.set()

        work = asyncio.ensure_future(session.estimates.measure(task, "traced", told))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        engine = await session.hosts.engine(session.snapshot().hosts[0].name)
        assert await engine.inspect(NAME) is None
