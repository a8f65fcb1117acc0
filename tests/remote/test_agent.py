"""The agent's parts that need no driver, and the whole agent where there is none."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.fleet import Host, HostState
from gpuconsole.remote.agent import main as agent
from gpuconsole.remote.agent import programs, tool_runs, watchdog
from gpuconsole.remote.agent.host_stats import steps
from gpuconsole.remote.agent.processes import Processes, container_of
from gpuconsole.remote.agent.watchdog import LostError, Step, UnsupportedError, Worker
from gpuconsole.remote.links.local import LocalLink
from gpuconsole.remote.polling import agent_launch, sources
from tests.waiting import DEADLINE_S, until, wait_until

ID = "0123456789abcdef" * 4
OLD_PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.[678].*/bin/python3"))


@pytest.mark.parametrize(
    ("cgroup", "container"),
    [
        (f"12:memory:/docker/{ID}\n0::/\n", ID),
        (f"0::/system.slice/docker-{ID}.scope\n", ID),
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", ID),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope\n", ID),
        (f"5:devices:/docker/{'f' * 64}/docker/{ID}\n", ID),
        ("0::/user.slice/user-1000.slice/session-1.scope\n", ""),
        (f"0::/docker/{ID[:40]}\n", ""),
        ("", ""),
    ],
)
def test_the_container_is_read_from_the_cgroup(cgroup: str, container: str) -> None:
    assert container_of(cgroup) == container


def test_facts_of_a_process_are_read_and_a_gone_one_has_none() -> None:
    processes = Processes()
    _, command, _ = processes.facts(os.getpid())
    assert "python" in command
    assert processes.facts(2**22 + 1) == ("", "", "")


def test_a_process_number_used_again_is_another_process(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()

    def be(name: str, started: int) -> None:
        (folder / "stat").write_text(f"7 (a) b) S {' '.join(['0'] * 18)} {started} 0")
        (folder / "cmdline").write_bytes(name.encode() + b"\0--x\0")

    processes = Processes(str(tmp_path))
    be("one", 100)
    assert processes.facts(7)[1] == "one --x"
    be("two", 200)
    assert processes.facts(7)[1] == "two --x"


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def round_of(made: Worker) -> dict[str, Any]:
    made.poke()
    made.wait(time.monotonic() + DEADLINE_S)
    return made.values


def test_a_hung_step_is_left_behind_and_taken_up_again(
    monkeypatch: pytest.MonkeyPatch, release: threading.Event
) -> None:
    monkeypatch.setattr(watchdog, "HANG_S", 0.05)

    def hangs() -> dict[str, Any]:
        release.wait()
        return {"b": 2}

    made = Worker("w", [Step("one", ("a",), lambda: {"a": 1}), Step("two", ("b",), hangs)])
    made.poke()
    wait_until(lambda: made.check() or made.stuck)
    assert round_of(made) == {"L": 0, "a": 1, "b": None}
    assert made.error() == "the driver does not answer: two"
    release.set()
    wait_until(lambda: not made.stuck)
    wait_until(lambda: round_of(made)["b"] == 2)
    assert made.error() == ""


def test_a_worker_gives_up_when_everything_hangs(
    monkeypatch: pytest.MonkeyPatch, release: threading.Event
) -> None:
    monkeypatch.setattr(watchdog, "HANG_S", 0.02)
    names = [str(number) for number in range(10)]
    made = Worker("w", [Step(name, (name,), lambda: release.wait() and {}) for name in names])
    made.poke()
    wait_until(lambda: made.check() or len(made.stuck) > watchdog.MAX_LEFT_BEHIND)
    for _ in range(10):
        made.check()
        made.poke()
    assert len(made.stuck) == watchdog.MAX_LEFT_BEHIND + 1
    release.set()
    wait_until(lambda: not made.stuck)
    wait_until(lambda: made.check() or (round_of(made) and not made.error()))


def test_lost_unsupported_and_failed_steps_are_told_apart() -> None:
    faults: dict[str, Exception] = {"b": UnsupportedError("b"), "c": OSError("broken")}

    def reads(key: str) -> Callable[[], dict[str, Any]]:
        def read() -> dict[str, Any]:
            if key in faults:
                raise faults[key]
            return {key: 1}

        return read

    made = Worker("w", [Step(key, (key,), reads(key)) for key in "abc"])
    assert round_of(made) == {"L": 0, "a": 1, "b": None, "c": None}
    assert made.error() == "c: broken"
    faults["a"] = LostError("gone")
    assert round_of(made) == {"L": 1, "a": None, "b": None, "c": None}
    assert made.error() == "gone"
    faults.clear()
    assert round_of(made) == {"L": 0, "a": 1, "b": 1, "c": 1}
    assert made.error() == ""


def test_this_machine_can_be_read() -> None:
    values = round_of(Worker("machine", steps()))
    assert values["M"] > values["m"] > 0
    assert values["n"] == os.cpu_count()
    assert values["D"] > 0


@pytest.mark.parametrize("python", [Path(sys.executable), *OLD_PYTHONS], ids=str)
async def test_the_agent_starts_without_a_driver_and_says_so(
    python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    link = LocalLink("here")
    frames = sources.agent(link, Host("here"), str(python), 0.2, time.time)
    try:
        host = await asyncio.wait_for(anext(frames), DEADLINE_S)
        assert host.state is HostState.UP
        assert host.facts.memory_total_mib
        if not host.devices:
            assert "driver" in host.error
    finally:
        await frames.aclose()
        await link.close()


@pytest.mark.parametrize("beat", [1.0, 0.4])
@pytest.mark.parametrize("begun", [0.0, 0.29, 0.31, 0.7, 0.8, 0.95])
def test_lines_come_to_one_moment_and_none_is_left_out(beat: float, begun: float) -> None:
    due = [1000.0 + begun * beat]
    for _ in range(12):
        due.append(due[-1] + beat + agent.towards_others(due[-1] + beat, beat))
    steps = [later - earlier for earlier, later in itertools.pairwise(due)]
    assert all(0.9 * beat - 1e-6 <= step <= 1.1 * beat + 1e-6 for step in steps)
    assert due[-1] % beat == pytest.approx(agent.TOGETHER_AT * beat, abs=1e-3)


async def test_two_agents_come_to_speak_at_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    link = LocalLink("here")
    spoken: dict[str, float] = {}

    async def follow(name: str, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        frames = sources.agent(link, Host(name), sys.executable, 1.0, time.time, together=True)
        async with contextlib.aclosing(frames):
            async for host in frames:
                assert host.sampled_at is not None
                spoken[name] = host.sampled_at

    following = [asyncio.ensure_future(follow("a", 0.0)), asyncio.ensure_future(follow("b", 0.5))]
    try:
        await until(
            lambda: (
                len(spoken) == 2
                and all(abs(at % 1.0 - agent.TOGETHER_AT) < 0.1 for at in spoken.values())
            ),
            f"{spoken}",
        )
    finally:
        for task in following:
            task.cancel()
        await asyncio.wait(following)
        await link.close()


async def test_a_program_that_is_no_agent_is_refused() -> None:
    link = LocalLink("here")
    with pytest.raises(sources.NoSourceError, match="No such file"):
        await anext(sources.agent(link, Host("here"), "no-such-python", 1.0, time.time))
    await link.close()


def test_the_payload_is_small_and_holds_every_module() -> None:
    sent = agent_launch.payload("nonce", 1.0)
    assert len(sent) < 100_000
    folder = Path(agent.__file__).parent
    names = {path.stem for path in folder.glob("*.py")} - {"__init__", "bootstrap"}
    assert names == set(agent_launch._MODULES)


WATCHED = (
    "import sys;sys.addaudithook(lambda event, given: event == 'compile' and print(given[1], "
    "file=sys.stderr));"
)


@pytest.mark.parametrize(("magic", "compiles"), [(util.MAGIC_NUMBER, False), (b"other", True)])
def test_a_host_compiles_the_agent_only_where_its_python_is_another(
    magic: bytes, compiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(util, "MAGIC_NUMBER", magic)
    *words, boot = agent_launch.command(sys.executable)
    with subprocess.Popen([*words, WATCHED + boot], stdin=-1, stdout=-1, stderr=-1) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(agent_launch.payload("nonce", 1.0))
        child.stdin.flush()
        hello, first = child.stdout.readline(), child.stdout.readline()
        _, reported = child.communicate(timeout=DEADLINE_S)
    assert b"nonce" in hello
    assert b'"h"' in first
    compiled = {line for line in reported.decode().split("\n") if line.startswith("<gpuconsole:")}
    assert ("<gpuconsole:pynvml>" in compiled) is compiles
    assert bool(compiled) is compiles


def test_an_answer_that_came_late_tells_nothing_of_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    console = agent.Console()
    monkeypatch.setattr(agent.time, "time", lambda: 1000.0)
    console._take(b"a 900.0 999.0\n")
    assert console.clock == [99.5, 1.0]
    console._take(b"a 890.0 985.0\n")
    assert console.clock == [99.5, 1.0], "15 s on its way"


def test_a_tool_that_hangs_is_said_to_hang_also_where_its_start_took_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy host `timeout` has ended the tool before the agent has begun to wait for it."""

    class Slow(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **options: Any) -> None:
            super().__init__(*words, **options)
            self.wait(DEADLINE_S)

    monkeypatch.setattr(tool_runs, "DEADLINE_S", 1)
    monkeypatch.setattr(subprocess, "Popen", Slow)
    with pytest.raises(programs.FailureError, match="sleep did not answer within 1 s"):
        tool_runs.run(["sleep", "1000"], os.environ["PATH"])


def test_a_program_is_found_in_the_first_folder_that_has_one_that_runs(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("folder", "data", "program", "later")]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "tool").mkdir()
    (folders[1] / "tool").write_text("not a program")
    for folder in folders[2:]:
        (folder / "tool").write_text("#!/bin/sh\n")
        (folder / "tool").chmod(0o755)
    path = os.pathsep.join(map(str, ("", *folders)))
    assert programs.program_path("tool", path) == str(folders[2] / "tool")
    assert programs.program_path("another", path) is None
