"""The local sandbox: what a measured script sees of this machine, reaches, and may start."""

from __future__ import annotations

import asyncio
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
from gpuconsole.remote.isolation import sandbox
from gpuconsole.remote.isolation.sandbox import Limits, Sandbox, SandboxLimitError
from gpuconsole.session.estimate.measurement_store import Measurements
from gpuconsole.session.reading.background import AsyncReader
from gpuconsole.session.reading.recordings import recorded
from tests.real.probe.test_measuring import TRAIN, need_bubblewrap
from tests.real.rig.patience import PATIENCE_S

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
import asyncio, json, sys
from pathlib import Path
from gpuconsole.errors import ConsoleError
from gpuconsole.remote.isolation.sandbox import Limits, Sandbox

async def main(kind, code, asked, shown, scratch, limits):
    without = {"bubblewrap": None} if kind == "plain" else {}
    sandbox = Sandbox(limits=Limits(**limits), **without)
    lines = sandbox.lines(["-c", code], stdin=json.dumps(asked).encode(),
                          readable=list(map(Path, shown)), scratch=Path(scratch))
    try:
        async for line in lines:
            print(line.decode(), flush=True)
    except ConsoleError as error:
        print(error.title, error.message, flush=True)
    await lines.aclose()

asyncio.run(main(*json.loads(sys.stdin.read())))
"""
BOMB = """
import os, time

for _ in range(600):
    if os.fork() == 0:
        time.sleep(600)
time.sleep(600)
"""
HOARDS = """
import os, time

for _ in range(8):
    if os.fork() == 0:
        data = bytearray(120 * 2**20)
        time.sleep(600)
time.sleep(600)
"""
SHARES = """
import mmap, os, time

# Shared memory counts for none of the limits of one process.
data = mmap.mmap(-1, 900 * 2**20)
for at in range(0, len(data), 4096):
    data[at] = 1
time.sleep(600)
"""
INHERITS = """
import os, time

data = bytearray(200 * 2**20)
pipes = os.pipe()
children = []
for _ in range(6):
    child = os.fork()
    if child == 0:
        sum(data[::4096])
        os.read(pipes[0], 1)
        os._exit(0)
    children.append(child)
time.sleep(2)
os.write(pipes[1], b"x" * 6)
for child in children:
    os.waitpid(child, 0)
print("seen")
"""
FILLS = """
import json, os, sys, time

found = {}
for folder in json.loads(sys.stdin.read()):
    written = 0
    try:
        for number in range(200):
            with open(os.path.join(folder, str(number)), "wb", buffering=0) as file:
                written += file.write(os.urandom(2**20))
    except OSError:
        pass
    found[folder] = written / 2**20
print(json.dumps(found), flush=True)
"""
PEEKS = """
import ctypes, json, os, sys

console = json.loads(sys.stdin.read())
texts, others = [], []
for name in os.listdir("/proc"):
    if name.isdigit():
        try:
            texts.append(open(f"/proc/{name}/environ").read())
            others.append(open(f"/proc/{name}/comm").read().strip())
        except OSError:
            continue
library = ctypes.CDLL(None, use_errno=True)
parents = {os.getppid(), console} - {0, 1, os.getpid()}
traced = [library.ptrace(16, one, 0, 0) == 0 for one in parents]
open_files = [os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")
              if int(one) > 2 and os.path.exists(f"/proc/self/fd/{one}")]
print(json.dumps({"own": sorted(os.environ), "environs": texts, "others": others,
                  "traced": any(traced), "descriptors":
                  [one for one in open_files if not one.startswith("/proc/")]}))
"""
CURIOUS = """
import os
import gpuconsole_beside as beside

for path in ({home!r} + "/.ssh", {home!r} + "/gpuconsole_notes.txt", {other!r}):
    assert not os.path.exists(path), path
assert beside.WIDTH == 64
"""


KINDS = ("bubblewrap", "plain")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


async def said(
    sandbox: Sandbox, code: str, asked: object, scratch: Path, *shown: Path
) -> list[str]:
    lines = sandbox.lines(
        ["-c", code], stdin=json.dumps(asked).encode(), readable=shown, scratch=scratch
    )
    async with contextlib.aclosing(lines) as given:
        return [line.decode() async for line in given]


async def told(sandbox: Sandbox, code: str, asked: object, scratch: Path, *shown: Path) -> str:
    return (await said(sandbox, code, asked, scratch, *shown))[0]


def said_to_another(
    kind: str,
    code: str,
    asked: object,
    *shown: Path,
    env: dict[str, str] | None = None,
    **limits: float,
) -> list[str]:
    """Return what a script says in a sandbox of an account that is not root."""
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
        words = [kind, code, asked, list(map(str, shown)), str(scratch), limits]
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
             python, "-c", AS_ANOTHER],
            input=json.dumps(words), capture_output=True, text=True, timeout=PATIENCE_S,
            check=False, env={"PYTHONPATH": folder, "PATH": os.environ["PATH"],
                              "HOME": "/nonexistent", **(env or {})},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


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


@pytest.mark.parametrize("kind", KINDS)
async def test_no_socket_of_this_machine_is_reached(kind: str, scratch: Path) -> None:
    need_bubblewrap()
    with listening() as addresses:
        folders = {Path(one).parent for one in addresses if one.startswith("/")}
        for one in folders:
            # As reachable as a socket in a project is.
            one.chmod(0o755)
            for name in one.iterdir():
                name.chmod(0o777)
        if kind == "plain":
            (line,) = await asyncio.to_thread(said_to_another, kind, REACHES, addresses, *folders)
        else:
            line = await told(Sandbox(), REACHES, addresses, scratch, *folders)
    assert json.loads(line) == [False] * 2 * len(addresses)


async def test_processes_are_limited(scratch: Path) -> None:
    need_bubblewrap()
    made = int(await told(Sandbox(limits=Limits(processes=200)), FORKS, None, scratch))
    assert 100 < made < 200


@pytest.mark.parametrize("kind", KINDS)
def test_processes_of_other_users_than_root_are_limited(kind: str) -> None:
    (made,) = said_to_another(kind, FORKS + "os.kill(0, 9)\n", None, processes=200)
    assert 100 < int(made) < 200


async def test_where_the_kernel_does_not_count_processes_they_are_counted_here(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_bubblewrap()
    monkeypatch.setattr(sandbox, "_groups_folder", lambda: None)
    with pytest.raises(SandboxLimitError, match="more than 200 processes"):
        # For root alone the limit of a user's processes does not hold.
        await said(Sandbox(limits=Limits(processes=200)), BOMB, None, scratch)


async def test_memory_is_limited_for_all_processes_together(scratch: Path) -> None:
    need_bubblewrap()
    for code in (HOARDS, SHARES):
        with pytest.raises(SandboxLimitError, match=r"more than 0\.5 GiB of memory"):
            await said(Sandbox(limits=Limits(memory_mib=512)), code, None, scratch)
    # What is shared counts once.
    found = await said(Sandbox(limits=Limits(memory_mib=512)), INHERITS, None, scratch)
    assert found == ["seen"]


@pytest.mark.parametrize(
    ("piece", "words"), [("b'x' * 2**20", "a line of more"), ("b'x\\n' * 2**15", "more than 20000")]
)
async def test_a_flood_ends_with_its_child(scratch: Path, piece: str, words: str) -> None:
    need_bubblewrap()
    code = f"import os\nwhile True: os.write(1, {piece})"
    with pytest.raises(RefusedError, match=words):
        await asyncio.wait_for(said(Sandbox(), code, None, scratch), PATIENCE_S)


async def test_what_is_written_is_limited_and_never_on_a_disk(scratch: Path) -> None:
    need_bubblewrap()
    held = Sandbox(limits=Limits(written_mib=32, memory_mib=512))
    found = json.loads(await told(held, FILLS, [str(scratch), "/dev/shm"], scratch))
    assert all(16 < mib <= 32 for mib in found.values()), found
    assert [one.name for one in scratch.rglob("*")] == []


def test_without_bubblewrap_what_is_written_is_limited_together() -> None:
    code = FILLS.replace("except OSError:", "except ZeroDivisionError:") + "time.sleep(600)\n"
    found = said_to_another("plain", code, ["."], written_mib=16)
    assert found[-1] == "Measuring was ended The script wrote more than 32 MiB."


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_console_is_seen_or_touched(kind: str) -> None:
    env = {"WEBHOOK_TOKEN": "secret-of-the-console"}
    (line,) = said_to_another(kind, PEEKS, os.getpid(), env=env)
    found = json.loads(line)
    assert "WEBHOOK_TOKEN" not in found["own"]
    assert set(found["own"]) <= {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "HOME", "TMPDIR",
                                 "XDG_CACHE_HOME", "USER", "LOGNAME", "PWD"}  # fmt: skip
    assert not any("secret-of-the-console" in text for text in found["environs"])
    assert sorted(found["others"]) in (["bwrap", "python3"], ["python3"])
    assert found["traced"] is False
    assert found["descriptors"] == []


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
