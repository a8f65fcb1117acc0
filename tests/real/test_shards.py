"""The suite's own shards: they do not meet, a skip fails, and an interrupted run leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.real.rig import shard
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import wait_until

pytestmark = pytest.mark.skipif(bool(shard.why_not()), reason=shard.why_not() or "-")
ROOT = Path(__file__).parents[2]
MEETING = """
import os, socket, subprocess, time
from pathlib import Path

def test_both_have_the_same_names(pytestconfig):
    shared, me = Path({shared!r}), os.environ["PYTEST_XDIST_WORKER"]
    subprocess.run(["ip", "link", "add", "meet", "type", "veth", "peer", "met"], check=True)
    Path("/run/meet").mkdir()
    with socket.create_server(("127.0.0.1", 4747)):
        (shared / me).touch()
        while len(list(shared.iterdir())) < 2:
            time.sleep(0.02)
"""
SKIPPING = """
import pytest

@pytest.mark.real
def test_it():
    pytest.skip("a part is missing")
"""
LEAVING = """
import os, subprocess, time
from pathlib import Path

def test_it():
    subprocess.run(["ip", "link", "add", "left", "type", "veth", "peer", "behind"], check=True)
    Path({marker!r}).mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", {marker!r}], check=True)
    # Once below the test, and once as a daemon that nothing waits for.
    subprocess.Popen(["sh", "-c", "sleep 1000; :", {marker!r}])
    subprocess.run(["setsid", "--fork", "sh", "-c", "sleep 1000; :", {marker!r}], check=True)
    Path({ready!r}).write_text(str(os.stat("/proc/self/ns/net").st_ino))
    time.sleep(1000)
"""


@contextmanager
def running(folder: Path, *texts: str) -> Iterator[subprocess.Popen[str]]:
    """Run tests as the real suite is run, each text in a shard of its own; a group to signal."""
    files = [folder / f"test_{number}.py" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    shards = ["-n", str(len(texts)), "--dist", "loadfile"]
    plugins = ["-p", "tests.conftest", "-p", "tests.real.conftest"]
    env = {"GPUCONSOLE_REQUIRE_REAL": "1", "GPUCONSOLE_TEMPORARY": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *plugins, *shards, "-c", str(ROOT / "pyproject.toml"),
         "--rootdir", str(folder), *map(str, files)],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True, env={**os.environ, **env},
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_two_shards_use_the_same_names_and_ports(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    text = MEETING.format(shared=str(shared))
    with running(tmp_path, text, text) as run:
        said, _ = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, said
    assert "2 passed in " in said.splitlines()[-1]


def test_a_skip_fails_the_run_and_is_counted(tmp_path: Path) -> None:
    with running(tmp_path, SKIPPING) as run:
        said, _ = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 1, said
    assert "1 failed in " in said.splitlines()[-1]
    assert "a part is missing" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    marker, ready = tmp_path / "marker", tmp_path / "ready"
    with running(tmp_path, LEAVING.format(marker=str(marker), ready=str(ready))) as run:
        wait_until(lambda: ready.exists() and ready.read_text(), what="the test runs")
        network = int(ready.read_text())
        assert network in networks()
        assert str(marker) in commands()
        if number is signal.SIGINT:
            # As a terminal does.
            os.killpg(run.pid, number)
        else:
            run.kill()
        run.wait(PATIENCE_S)
    if number is signal.SIGINT:
        assert run.returncode == pytest.ExitCode.INTERRUPTED
        assert list(tmp_path.glob("real-*")) == [], "its temporary files"
    wait_until(lambda: str(marker) not in commands(), what="its programs end")
    wait_until(lambda: network not in networks(), what="its network is gone")
    assert str(marker) not in Path("/proc/self/mountinfo").read_text()
    assert not os.path.exists("/sys/class/net/left")


def networks() -> set[int]:
    """Return the network namespaces in which something runs."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(entry.stat().st_ino)
        except OSError:
            continue
    return found


def commands() -> str:
    """Return the command lines of all programs but the runs of tests themselves."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(entry.read_text())
        except OSError:
            continue
    return "\n".join(line for line in found if line.startswith("sh\0"))
