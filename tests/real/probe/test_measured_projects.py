"""A whole project is measured as its user runs it, and stays as it was."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.core.jobs import Mount, Task
from gpuconsole.errors import RefusedError
from gpuconsole.remote.isolation import sandbox as sandboxes
from gpuconsole.session.estimate.measurement_store import Measurements
from gpuconsole.session.reading.analyses import located
from gpuconsole.session.reading.background import AsyncReader
from gpuconsole.session.reading.recordings import recorded
from tests.real.probe.test_measuring import TRAIN, need_bubblewrap
from tests.real.rig.hosts import Lab
from tests.real.rig.sessions import Desk

pytestmark = pytest.mark.real

TOOL = """
import importlib
import os
import sys

import paddle
import yaml
from wholenet import build  # a package of the root, as after `pip install -e .`
import wholehelpers  # in a folder of PYTHONPATH

assert sys.argv == ["tools/train.py", "-c", "configs/net.yml"], sys.argv
assert os.environ["WHOLE_VARIABLE"] == "set"
settings = yaml.safe_load(open(sys.argv[2]))
assert not os.path.exists("output"), "the run before left something"
os.makedirs("output/best")
with open("output/best/log.txt", "w") as log:
    log.write("begun")
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "written.txt"), "w") as beside:
    beside.write("x")
with open("configs/net.yml", "a") as own:
    own.write("# seen")
with open("data/large.bin", "rb") as data:
    assert len(data.read()) == 3 * 2**20
with open("data/large.bin", "ab") as data:
    data.write(b"y")
assert os.path.getsize("data/large.bin") == 3 * 2**20 + 1

depth = importlib.import_module("wholenet." + "".join(["de", "pth"])).DEPTH
net = build(settings["width"])
opt = paddle.optimizer.Adam(parameters=net.parameters())
data = paddle.io.TensorDataset([paddle.randn([512, settings["width"]]),
                                paddle.randint(0, 10, [512])])
for x, y in paddle.io.DataLoader(data, batch_size=16):
    loss = paddle.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


def lay_out(root: Path) -> None:
    """Write a project as the official suites are."""
    for name in ("tools", "configs", "wholenet", "data", "extra"):
        (root / name).mkdir(parents=True)
    (root / "tools" / "train.py").write_text(TOOL)
    (root / "configs" / "net.yml").write_text("width: 64\n")
    (root / "wholenet" / "__init__.py").write_text(
        "import paddle\n\ndef build(width):\n    return paddle.nn.Linear(width, 10)\n"
    )
    (root / "wholenet" / "depth.py").write_text("DEPTH = 1\n")
    (root / "extra" / "wholehelpers.py").write_text("HELP = 1\n")
    (root / "data" / "large.bin").write_bytes(b"x" * (3 * 2**20))


def files(root: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted(root.rglob("*")) if one.is_file()}


def require_forgotten(state: Path, task: Task, *changed: Path) -> None:
    """Require that a recording holds while each of these files is as it was, and no longer."""
    for path in changed:
        before = path.read_bytes(), path.stat().st_mtime_ns
        path.write_bytes(before[0][:-1] + b"#")
        with pytest.raises(RefusedError, match="no traced recording"):
            recorded(state, located(task), None, "traced")
        path.write_bytes(before[0])
        os.utime(path, ns=(before[1], before[1]))
        assert recorded(state, located(task), None, "traced") is not None


def task_of(root: Path) -> Task:
    env = {"WHOLE_VARIABLE": "set", "PYTHONPATH": str(root / "extra")}
    script = str(root / "tools" / "train.py")
    return Task("train", script, args=("-c", "configs/net.yml"), env=env)


@pytest.mark.parametrize("kind", ["bubblewrap", "plain"])
async def test_a_project_is_measured_here_as_it_is_run_and_stays_as_it_was(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "plain":
        monkeypatch.setattr(sandboxes, "_working_bubblewrap", lambda: None)
        # Root has no sandbox without bubblewrap.
        monkeypatch.setattr(sandboxes, "_is_root", lambda: False)
    else:
        need_bubblewrap()
    root = tmp_path / "project"
    lay_out(root)
    before = files(root)
    task = task_of(root)
    monkeypatch.chdir(root)
    with AsyncReader() as reader:
        measurements = Measurements(tmp_path / "state", reader)
        await measurements.here(task, "traced", lambda share, stage: None, "files-open")
    assert files(root) == before
    found = recorded(tmp_path / "state", located(task), None, "traced")
    assert found is not None
    assert not found.refusal
    seen = ("wholenet/depth.py", "configs/net.yml", "data/large.bin", "extra/wholehelpers.py")
    require_forgotten(tmp_path / "state", task, *(root / name for name in seen))


ATTACK = """
import os
import subprocess

import paddle

for path in ("data/large.bin", "outside/taken.txt", "outside/new.txt", "file.txt", "back/net.yml"):
    # Not with Python's `open`, which is watched.
    subprocess.run(["sh", "-c", 'echo written >> "$0"', path], check=False)
for act in (lambda: open("outside/made.jpg", "rb"), lambda: os.listdir("outside/classes"),
            lambda: os.remove("outside/taken.txt"), lambda: os.rename("outside", "renamed"),
            lambda: os.truncate("data/large.bin", 0), lambda: os.chmod("data/large.bin", 0o777)):
    try:
        act()
    except OSError:
        pass
"""


@pytest.mark.parametrize("kind", ["bubblewrap", "plain"])
async def test_nothing_is_written_through_links_of_a_project(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "plain":
        monkeypatch.setattr(sandboxes, "_working_bubblewrap", lambda: None)
        # Root has no sandbox without bubblewrap.
        monkeypatch.setattr(sandboxes, "_is_root", lambda: False)
    else:
        need_bubblewrap()
    root, outside = tmp_path / "project", tmp_path / "elsewhere"
    lay_out(root)
    outside.mkdir()
    (outside / "taken.txt").write_text("real")
    for name, target in {"outside": outside, "file.txt": outside / "taken.txt",
                         "back": "configs"}.items():  # fmt: skip
        (root / name).symlink_to(target)
    (root / "attack.py").write_text(ATTACK + TRAIN)
    before = files(root), files(outside), (root / "data" / "large.bin").stat().st_mode
    monkeypatch.chdir(root)
    with AsyncReader() as reader:
        measurements = Measurements(tmp_path / "state", reader)
        task = Task("attack", str(root / "attack.py"), project=str(root))
        await measurements.here(task, "meta", lambda share, stage: None, "files-open")
    after = files(root), files(outside), (root / "data" / "large.bin").stat().st_mode
    assert after == before


async def test_a_project_is_measured_on_a_host_as_it_is_run(
    docker_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = docker_lab.add()
    host.start_engine()
    desk = Desk(docker_lab, tmp_path)
    lay_out(desk.project / "whole")
    root = desk.project / "whole"
    tool = root / "tools" / "train.py"
    data = tmp_path / "dataset"
    data.mkdir()
    data.chmod(0o755)
    (data / "list.txt").write_text("real data")
    tool.write_text(
        tool.read_text().replace(
            "import yaml\n",
            "import yaml\n"
            "assert open('/dataset/list.txt').read() == 'real data'\n"
            "assert not os.access('/dataset/list.txt', os.W_OK)\n",
        )
    )
    monkeypatch.chdir(root)
    mounts = (Mount(str(data), "/dataset", read_only=False),)
    task = replace(task_of(root), mounts=mounts)
    async with desk.session() as session:
        await session.first_frames(30)
        await session.estimates.measure(task, "traced", lambda share, stage: None)
    found = recorded(desk.state, located(task), None, "traced")
    assert found is not None
    assert not found.refusal
    require_forgotten(desk.state, task, root / "wholenet" / "depth.py", root / "data/large.bin")
    other = frozenset({"another:image"})
    with pytest.raises(RefusedError):
        recorded(desk.state, located(task), None, "traced", other)
