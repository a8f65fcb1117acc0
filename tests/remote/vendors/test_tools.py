"""Vendors' tools run for real as scripts that print, hang, fail or are not there."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.fleet import PENDING, Host, HostState
from gpuconsole.errors import UnreachableError
from gpuconsole.remote.agent import tool_runs
from gpuconsole.remote.agent import vendor_tools as tools
from gpuconsole.remote.links.local import LocalLink
from gpuconsole.remote.links.protocol import Completed
from gpuconsole.remote.polling import agent_launch, sources, vendor_tools
from gpuconsole.remote.polling.agent_frames import FrameError, Picture
from gpuconsole.remote.polling.vendor_tools import ToolRounds
from gpuconsole.remote.vendors.latest_readings import Round, Shelf, unpacked
from tests.remote.vendors import vendortexts as texts
from tests.waiting import DEADLINE_S, until, wait_until


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder with programs that are the vendors' tools of this machine."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    yield folder
    # What follows them has nothing left to run.
    for path in folder.iterdir():
        path.unlink()


def script(place: Path, name: str, body: str) -> None:
    path = place / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def prints(place: Path, name: str, text: str, then: str = "") -> None:
    (place / f"{name}.txt").write_text(text)
    script(place, name, f"cat {place}/{name}.txt\n{then}")


def content(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def family(name: str) -> dict[str, Any]:
    return next(json.loads(json.dumps(one)) for one in agent_launch.tools() if one["name"] == name)


def printed(record: dict[str, Any]) -> dict[str, str]:
    return unpacked(record["o"])


# --- in the agent ---------------------------------------------------------------------------------


def test_what_a_tool_prints_is_kept(place: Path) -> None:
    prints(place, "npu-smi", texts.ASCEND)
    kept = tools.Tools(family("ascend"), 0.1)
    record = wait_until(lambda: "o" in kept.record and kept.record, "no output")
    assert printed(record) == {"info": texts.ASCEND}
    assert record["s"] == 0
    assert abs(record["t"] - time.time()) < DEADLINE_S
    assert len(record["m"]) == 8


def test_a_hanging_tool_is_ended_with_all_it_started(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_runs, "DEADLINE_S", 1.0)
    script(place, "npu-smi", f"sleep 1000 & echo $! >{place}/child; echo half; wait")
    kept = tools.Tools(family("ascend"), 0.1)
    waiting = wait_until(lambda: kept.record.get("x"), "no word")
    assert waiting in (f"npu-smi {PENDING}", HUNG)
    wait_until(lambda: kept.record.get("x") == HUNG, "no fault")
    # On a busy machine the tool may be ended before it has started anything; it is asked again.
    child = int(wait_until(lambda: content(place / "child"), "no child"))
    wait_until(lambda: not running(child), "the tool's own child lives on")


def test_a_tool_that_leaves_something_running_has_answered_all_the_same(place: Path) -> None:
    prints(place, "npu-smi", texts.ASCEND, f"sleep 1000 & echo $! >{place}/child")
    kept = tools.Tools(family("ascend"), 60.0)
    record = wait_until(lambda: "o" in kept.record and kept.record, "no output")
    assert printed(record) == {"info": texts.ASCEND}
    os.kill(int((place / "child").read_text()), 9)


def test_a_program_that_cannot_be_started_is_said(place: Path) -> None:
    (place / "npu-smi").write_text("#!/no/such/interpreter\n")
    (place / "npu-smi").chmod(0o755)
    kept = tools.Tools(family("ascend"), 60.0)
    record = wait_until(lambda: {"s"} & kept.record.keys() and kept.record, "no end")
    shelf = Shelf()
    shelf.take(reported(status=record["s"], words=record["e"], text=" "))
    assert shelf.error.startswith(("npu-smi ended with 126: ", "npu-smi ended with 127: "))
    assert "No such file or directory" in shelf.error


HUNG = "npu-smi did not answer within 1 s and was ended"


def running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_no_tool_is_no_record(place: Path) -> None:
    kept = tools.Tools(family("cambricon"), 0.1)
    wait_until(lambda: kept._ask() is None, "there is a cnmon")
    assert kept.record == {}


def test_the_next_way_is_taken_where_one_does_not_work_and_kept_to(place: Path) -> None:
    (place / "table.txt").write_text(texts.HY_SMI_TABLE)
    script(
        place,
        "hy-smi",
        f'if [ $# -gt 0 ]; then echo "no such option" >&2; exit 2; fi; cat {place}/table.txt',
    )
    kept = tools.Tools(family("rocm"), 0.1)
    record = wait_until(lambda: "o" in kept.record and kept.record, "no output")
    assert (record["w"], printed(record)) == (1, {"table": texts.HY_SMI_TABLE})
    # From now on it alone is asked, also when it fails once.
    script(place, "hy-smi", 'echo "driver busy" >&2; exit 3')
    record = wait_until(lambda: kept.record.get("s") == 3 and kept.record, "no failure")
    assert (record["w"], record["e"]) == (1, "driver busy")


def test_a_tool_of_another_vendor_with_the_same_name_is_not_kept(place: Path) -> None:
    prints(place, "xpu-smi", texts.XPU_OF_INTEL)
    kept = tools.Tools(family("kunlunxin"), 0.1)
    record = wait_until(lambda: kept.record and "x" not in kept.record and kept.record, "no end")
    assert "o" not in record


def test_what_changes_seldom_is_asked_seldom(place: Path) -> None:
    for word in ("metric", "process", "list", "static"):
        (place / word).write_text(f'{{"{word}": 1}}')
    body = f"echo $1 >>{place}/asked; cat {place}/$1"
    script(place, "amd-smi", body)
    kept = tools.Tools(family("rocm"), 0.1)
    asked = place / "asked"
    wait_until(lambda: asked.exists() and asked.read_text().count("metric") >= 4, "not asked again")
    text = asked.read_text().split()
    assert text.count("list") == text.count("static") == 1
    assert text.count("process") < text.count("metric")
    assert set(printed(wait_until(lambda: kept.record, "nothing"))) == {
        *("metric", "process", "list", "static")
    }


def test_a_round_that_costs_much_is_followed_by_a_long_pause() -> None:
    assert tools.pause_after(0.01, 2.0) == 2.0
    assert tools.pause_after(1.5, 2.0) == 15.0
    assert tools.pause_after(100.0, 2.0) == tools.LONGEST_PAUSE_S
    assert tools.pause_after(100.0, 300.0) == 300.0


def test_endless_output_is_cut(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_runs, "LIMIT", 100_000)
    script(place, "npu-smi", "exec tr '\\0' x </dev/zero")
    kept = tools.Tools(family("ascend"), 0.1)
    record = wait_until(lambda: "o" in kept.record and kept.record, "no output")
    assert len(printed(record)["info"]) == 100_000


# --- on a host without Python ---------------------------------------------------------------------


async def test_a_host_without_python_is_read_through_the_link(place: Path) -> None:
    prints(place, "npu-smi", texts.ASCEND)
    prints(place, "mx-smi", "nothing of use")
    frames = sources.vendor_tools(LocalLink("a"), Host("a"), 0.1, time.time)
    async for host in frames:
        if len(host.devices) == 3 and "mx-smi" in host.error:
            break
    await frames.aclose()
    assert host.state is HostState.UP
    assert host.facts.driver_version == "23.0.9"
    assert host.facts.source == "vendor tools"
    assert [one.health for one in host.devices] == ["", "Warning", "Alarm"]
    assert host.error.startswith("mx-smi printed what cannot be read: a table without")
    # The agent names the same devices alike: it is the same host.
    kept = tools.Tools(family("ascend"), 0.1)
    record = wait_until(lambda: "o" in kept.record and kept.record, "no output")
    assert record["m"] in host.devices[0].uuid


async def test_a_host_with_no_tool_is_not_read_so(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = sources.vendor_tools(LocalLink("a"), Host("a"), 0.1, time.time)
    with pytest.raises(sources.NoSourceError, match="no tool"):
        await anext(frames)


async def test_a_hanging_tool_is_ended_through_the_link(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vendor_tools, "DEADLINE_S", 0.5)
    monkeypatch.setattr(
        vendor_tools, "_LIMITED", vendor_tools._LIMITED.replace("KILL 10", "KILL 0.5")
    )
    script(place, "npu-smi", f"echo $$ >{place}/pid; exec sleep 1000")
    rounds = ToolRounds(LocalLink("a"), 0.1, time.time)
    following = asyncio.ensure_future(rounds.follow(await rounds.find()))
    await until(lambda: "did not answer" in rounds.shelf.error and content(place / "pid"))
    following.cancel()
    await until(lambda: not running(int(content(place / "pid"))))


async def test_once_the_link_breaks_no_tool_is_asked_any_more(place: Path) -> None:
    class Breaking(LocalLink):
        async def run(
            self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0
        ) -> Completed:
            if "mx-smi" in argv:
                raise UnreachableError("Link lost", "It broke.")
            return await super().run(argv, stdin=stdin, timeout=timeout)

    prints(place, "npu-smi", texts.ASCEND)
    rounds = ToolRounds(Breaking("a"), 0.01, time.time)
    await rounds.follow(frozenset({"mx-smi", "npu-smi"}))
    here = asyncio.current_task()
    await until(lambda: not asyncio.all_tasks() - {here})


# --- on the console's side ------------------------------------------------------------------------


def reported(text: str = "", **more: Any) -> Round:
    values: dict[str, Any] = {"machine": "0a1b2c3d", "at": 1000.0, "way": 0, **more}
    return Round("ascend", texts={"info": text} if text else {}, **values)


def test_devices_have_names_of_their_own_in_the_lab() -> None:
    names = set()
    for machine in ("0a1b2c3d", "99999999"):
        shelf = Shelf()
        shelf.take(reported(texts.ASCEND, machine=machine))
        names |= {one.uuid for one in shelf.devices({})}
    assert len(names) == 6
    assert "NPU-0a1b2c3d-0000-C1-00.0" in names


def test_a_tool_that_fails_costs_the_figures_not_the_devices() -> None:
    shelf = Shelf()
    shelf.take(reported(texts.ASCEND))
    shelf.take(reported(fault="npu-smi did not answer within 10 s and was ended", at=1060.0))
    assert shelf.error == "npu-smi did not answer within 10 s and was ended"
    for one in shelf.devices({}):
        assert one.error == shelf.error
        assert one.memory_used_mib is one.utilization is one.temperature_c is None
        assert one.memory_total_mib == 65536
        assert not one.lost
    shelf.take(
        reported("no table", status=1, words="dcmi module initialize failed. ret is -8005\n")
    )
    assert shelf.error == "npu-smi ended with 1: dcmi module initialize failed. ret is -8005"
    shelf.take(reported(texts.ASCEND, at=1100.0))
    assert shelf.error == ""
    assert [one.error for one in shelf.devices({})] == ["", "", ""]
    assert {one.sampled_at for one in shelf.devices({})} == {1100.0}


def test_a_device_that_is_no_longer_listed_is_lost_and_comes_back() -> None:
    shelf = Shelf()
    shelf.take(reported(texts.ASCEND))
    lines = texts.ASCEND.splitlines(keepends=True)
    without = "".join(line for at, line in enumerate(lines) if at not in (9, 10))
    shelf.take(reported(without))
    assert [one.lost for one in shelf.devices({})] == [False, True, False]
    assert "no longer lists it" in shelf.devices({})[1].error
    # Half a row says nothing about what is not there.
    shelf.take(reported("".join(line for at, line in enumerate(lines) if at != 10)))
    assert [(one.lost, bool(one.error)) for one in shelf.devices({})] == [
        (False, False), (False, True), (False, False),
    ]  # fmt: skip
    shelf.take(reported(texts.ASCEND))
    assert not any(one.lost or one.error for one in shelf.devices({}))


def test_what_the_host_knows_of_a_process_is_joined() -> None:
    shelf = Shelf()
    shelf.take(reported(texts.ASCEND))
    assert shelf.pids() == (4711, 4712)
    (known, unknown) = shelf.devices({4711: ("wang", "python train.py", "c" * 64)})[0].processes
    assert (known.user, known.command, known.container_id) == (
        "wang", "python train.py", "c" * 64,
    )  # fmt: skip
    assert (unknown.user, unknown.command, unknown.memory_mib) == ("", "python", 810)


def packed(value: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()


@pytest.mark.parametrize(
    "text",
    [
        "", "!", base64.b64encode(b"no zlib").decode(), packed([1]), packed({"a": 1}),
        packed("x" * (9 * 2**20)), packed({"a": "x"})[:12],
        base64.b64encode(zlib.compress(b"[" * 100_000)).decode(),
    ],
)  # fmt: skip
def test_a_hostile_package_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpacked(text)


def line(**frame: Any) -> bytes:
    return json.dumps({"t": 50.0, "f": 1, **frame}).encode()


def record(**more: Any) -> dict[str, Any]:
    return {"w": 0, "t": 42.0, "m": "0a1b2c3d", "o": packed({"info": texts.ASCEND}), **more}


def test_a_line_with_a_tools_output_is_devices_with_their_age() -> None:
    picture = Picture(Host("a"))
    nvml = "no NVIDIA driver: NVML Shared Library Not Found"
    host = picture.apply(line(h={"x": nvml}), 1000.0)
    assert host is not None
    assert host.error == nvml
    host = picture.apply(line(h={"x": nvml}, v={"ascend": record()}), 1000.0)
    assert host is not None
    assert host.error == ""
    assert [one.sampled_at for one in host.devices] == [992.0] * 3
    assert picture.asked_of == (4711, 4712)
    later = json.dumps({"t": 51.0, "p": {"4711": ["wang", "python train.py", ""]}}).encode()
    host = picture.apply(later, 1001.0)
    assert host is not None
    assert host.devices[0].processes[0].user == "wang"
    assert host.devices[0].age_s(1001.0) == 9.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"ascend": 1}, {"ascend": {}}, {"ascend": record(w="0")}, {"ascend": record(o="?")},
        {"ascend": record(m=7)}, {"ascend": record(t=-1)}, {"ascend": record(s=1e9)}, [], "x",
    ],
)  # fmt: skip
def test_a_hostile_record_costs_its_line_only(wrong: Any) -> None:
    picture = Picture(Host("a"))
    with pytest.raises(FrameError):
        picture.apply(line(v=wrong), 1000.0)
    host = picture.apply(
        line(v={"ascend": record(), "martian": record(), "metax": record(w=9)}), 1.0
    )
    assert host is not None
    assert len(host.devices) == 3
