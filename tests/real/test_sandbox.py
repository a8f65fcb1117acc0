"""The local sandbox: what a measured script sees of this machine, reaches, and may start."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpuconsole
from gpuconsole.core.jobs import Task
from gpuconsole.errors import RefusedError
from gpuconsole.remote.sandbox import Limits, Sandbox
from gpuconsole.session.measurements import Measurements
from gpuconsole.session.reading.beside import AsyncReader
from gpuconsole.session.reading.recordings import recorded
from tests.real.rig.patience import PATIENCE_S
from tests.real.test_measuring import TRAIN, WithoutBubblewrap, need_bubblewrap

pytestmark = pytest.mark.real

SEES = """
import json, os, sys

def seen(path):
    try:
        return os.listdir(path) if os.path.isdir(path) else open(path).read()
    except OSError:
        return None

def writes(path):
    try:
        open(os.path.join(path, "written"), "w").close()
    except OSError:
        return False
    return True

paths = json.loads(sys.stdin.read())
print(json.dumps({"sees": {path: seen(path) for path in paths},
                  "writes": [path for path in paths if writes(path)]}))
"""
REACHES = """
import json, os, socket, sys

def reached(kind, address):
    try:
        with socket.socket(socket.AF_UNIX, kind) as there:
            there.connect(address)
            there.send(b"x")
    except OSError:
        return False
    return True

def sent(address):
    try:
        here, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        here.sendto(b"x", address)
    except OSError:
        return False
    return True

found = []
for address in json.loads(sys.stdin.read()):
    found.append(reached(socket.SOCK_STREAM, address))
    found.append(reached(socket.SOCK_DGRAM, address) or sent(address))
here, other = socket.socketpair()
here.send(b"between processes of its own")
print(json.dumps(found))
"""
FORKS = """
import os, time

made = 0
try:
    for _ in range(3000):
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made, flush=True)
"""
AS_ANOTHER = """
import asyncio, sys
from pathlib import Path
from gpuconsole.remote.sandbox import Limits, Sandbox

class Plain(Sandbox):
    @property
    def bubblewrap(self):
        return None

async def main(kind, code, scratch):
    sandbox = (Plain if kind == "plain" else Sandbox)(limits=Limits(processes=200))
    lines = sandbox.lines(["-c", code], stdin=b"", readable=[], scratch=Path(scratch))
    async for line in lines:
        print(line.decode())
        break
    await lines.aclose()

asyncio.run(main(*sys.argv[1:]))
"""
CURIOUS = """
import os
import gpuconsole_beside as beside

for path in ({home!r} + "/.ssh", {home!r} + "/gpuconsole_notes.txt", {other!r}):
    assert not os.path.exists(path), path
assert beside.WIDTH == 64
"""


@pytest.fixture(params=["bubblewrap", "plain"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Give a sandbox of each of the two kinds."""
    if request.param == "plain":
        return WithoutBubblewrap(limits=Limits(processes=200))
    need_bubblewrap()
    return Sandbox(limits=Limits(processes=200))


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


async def told(sandbox: Sandbox, code: str, asked: object, scratch: Path, *shown: Path) -> str:
    lines = sandbox.lines(
        ["-c", code], stdin=json.dumps(asked).encode(), readable=shown, scratch=scratch
    )
    async with contextlib.aclosing(lines) as said:
        async for line in said:
            return line.decode()
    raise AssertionError("nothing was said")


async def test_nothing_is_seen_but_the_project_and_nothing_written_but_the_scratch_folder(
    tmp_path: Path, scratch: Path
) -> None:
    need_bubblewrap()
    home, project = Path.home(), tmp_path / "project"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("a key")
    project.mkdir()
    (project / "train.py").write_text("x = 1")
    hidden = [home, home / ".ssh" / "id_ed25519", Path("/var"), Path("/run"), Path("/opt"),
              Path("/etc/passwd"), Path("/etc/shadow"), Path("/etc/ssh"), Path("/sys"),
              tmp_path / "home"]  # fmt: skip
    shown = [project, project / "train.py", scratch, Path("/"), Path("/tmp"), Path("/dev")]
    asked = [str(path) for path in (*hidden, *shown)]
    found = json.loads(await told(Sandbox(), SEES, asked, scratch, project))
    assert [path for path in hidden if found["sees"][str(path)] is not None] == []
    assert found["sees"][str(project)] == ["train.py"]
    assert found["sees"][str(project / "train.py")] == "x = 1"
    assert "home" not in found["sees"]["/"]
    assert found["writes"] == [str(scratch)]


@contextlib.contextmanager
def listening() -> Iterator[list[str]]:
    """Listen in a folder of the project, in /opt, in /tmp and at a name of no file."""
    with contextlib.ExitStack() as stack:
        addresses = []
        for parent in (None, "/opt", "/tmp"):
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=parent))
            for name, kind in (("stream", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM)):
                server = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
                server.bind(f"{folder}/{name}")
                if kind == socket.SOCK_STREAM:
                    server.listen()
                addresses.append(f"{folder}/{name}")
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind("\0gpuconsole-sandbox-test")
        server.listen()
        yield [*addresses, "\0gpuconsole-sandbox-test"]


async def test_no_socket_of_this_machine_is_reached(sandbox: Sandbox, scratch: Path) -> None:
    with listening() as addresses:
        folders = {Path(one).parent for one in addresses if one.startswith("/")}
        for one in folders:
            # As reachable as a socket in a project is.
            one.chmod(0o755)
        found = json.loads(await told(sandbox, REACHES, addresses, scratch, *folders))
    assert found == [False] * 2 * len(addresses)


async def test_processes_are_limited(sandbox: Sandbox, scratch: Path) -> None:
    made = int(await told(sandbox, FORKS, None, scratch))
    assert 100 < made < 200


@pytest.mark.parametrize("kind", ["bubblewrap", "plain"])
def test_processes_of_other_users_than_root_are_limited(kind: str) -> None:
    need_bubblewrap()
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        shutil.copytree(Path(gpuconsole.__file__).parent, Path(folder) / "gpuconsole",
                        ignore=shutil.ignore_patterns("data", "tui", "preflight"))  # fmt: skip
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        for one in (Path(folder), scratch):
            one.chmod(0o777)
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
             python, "-c", AS_ANOTHER, kind, FORKS, str(scratch)],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            env={"PYTHONPATH": folder, "PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 100 < int(done.stdout) < 200, done.stdout


@pytest.fixture
def loose(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Give a folder that is no project: the home, or /tmp itself."""
    if request.param == "home":
        Path.home().mkdir(exist_ok=True)
        yield Path.home()
        return
    with contextlib.ExitStack() as stack:
        for name in ("gpuconsole_loose.py", "gpuconsole_beside.py", "gpuconsole_notes.txt"):
            stack.callback((Path("/tmp") / name).unlink, missing_ok=True)
        yield Path("/tmp")


@pytest.mark.parametrize("loose", ["home", "tmp"], indirect=True)
async def test_of_a_home_or_tmp_only_the_script_and_what_it_imports_is_seen(
    loose: Path, tmp_path: Path
) -> None:
    need_bubblewrap()
    (Path.home() / ".ssh").mkdir(parents=True)
    (loose / "gpuconsole_notes.txt").write_text("private")
    (loose / "gpuconsole_beside.py").write_text("WIDTH = 64\n")
    script = loose / "gpuconsole_loose.py"
    curious = CURIOUS.format(home=str(Path.home()), other=str(loose / "gpuconsole_notes.txt"))
    script.write_text(curious + TRAIN.replace("Linear(64,", "Linear(beside.WIDTH,"))
    task = Task("train", str(script))
    with AsyncReader() as reader:
        measurements = Measurements(tmp_path / "state", reader)
        await measurements.here(task, "traced", lambda share, stage: None)
        assert recorded(tmp_path / "state", task, None, "traced") is not None
        script.write_text("open('gpuconsole_notes.txt')\n")
        with pytest.raises(RefusedError) as refused:
            await measurements.here(task, "traced", lambda share, stage: None)
    assert f"Of {loose} it sees only the script and what that imports." in refused.value.hint
