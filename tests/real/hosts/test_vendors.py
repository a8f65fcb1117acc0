"""Hosts whose cards are told by vendors' tools: stand-ins that answer with what a test wrote."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

from gpuconsole.core.fleet import Host, HostState
from tests.real.hosts.test_agent import polling, until
from tests.real.rig.hosts import Lab, LabHost
from tests.real.rig.patience import PATIENCE_S
from tests.real.rig.sessions import Desk
from tests.remote.vendors import vendortexts as texts

CAPTURES = Path(__file__).parents[4] / "shared" / "vendor-cli"
# The folder of the driver's stand-in is seen from outside: what is written there is said at once.
SAYS = "/run/fake-nvml"


def tool(name: str) -> str:
    """Return a program that prints the text of its name, or hangs where it is told to."""
    return (
        f"#!/bin/sh\nif [ -e {SAYS}/{name}.hang ]; then exec sleep 1000; fi\n"
        f"echo run >>{SAYS}/{name}.runs 2>/dev/null\ncat {SAYS}/{name}.txt\n"
    )


def says(machine: LabHost, name: str, text: str) -> None:
    """Change what a tool of a host prints."""
    half = machine.root / "driver" / f"{name}.half"
    half.write_text(text)
    half.rename(machine.root / "driver" / f"{name}.txt")


def captured(name: str, own: str) -> str:
    """Return a real capture where there is one at hand, else a made-up one of its layout."""
    path = CAPTURES / name
    return path.read_text() if path.exists() else own


def npus(host: Host) -> list[str]:
    return [device.uuid for device in host.devices if device.backend == "npu"]


async def test_an_ascend_host_a_mixed_one_and_one_without_python_side_by_side(
    lab: Lab, tmp_path: Path
) -> None:
    ascend = lab.add(devices=0, driver=False, programs={"npu-smi": tool("npu-smi")})
    mixed = lab.add(devices=2, programs={"npu-smi": tool("npu-smi")})
    plain = lab.add(devices=0, driver=False, python=False, programs={"xpu_smi": tool("xpu_smi")})
    says(ascend, "npu-smi", captured("ascend/info.910A-npu-smi-24.1.RC2.txt", texts.ASCEND))
    child = mixed.popen(["sleep", "1000"])
    try:
        says(mixed, "npu-smi", texts.ASCEND.replace("4711", str(child.pid)))
        says(plain, "xpu_smi", captured("kunlunxin/xpu_smi-table.r300-rt4.31.txt", texts.XPU_OLD))
        desk = Desk(lab, tmp_path)
        done = await asyncio.to_thread(
            subprocess.run,
            desk.command("status", "--json"),
            capture_output=True,
            timeout=PATIENCE_S,
            check=True,
        )
        first, second, third = json.loads(done.stdout)["hosts"]
        assert {one["backend"] for one in first["devices"]} == {"npu"}
        assert "Warning" in {one["health"] for one in first["devices"]}
        assert all(one["age_s"] is not None for one in first["devices"])
        assert first["error"] is None
        assert [one["vendor"] for one in second["devices"]][-3:] == ["ascend"] * 3
        assert [one["uuid"] for one in second["devices"]][:2] == list(mixed.uuids)
        assert {one["backend"] for one in third["devices"]} == {"xpu"}
        everyone = [one["uuid"] for host in (first, second, third) for one in host["devices"]]
        assert len(set(everyone)) == len(everyone)
        async with polling(lab) as hosts:
            host = await until(hosts, 1, lambda h: len(npus(h)) == 3 and h.devices[2].processes)
            host = await until(hosts, 1, lambda h: h.devices[2].processes[0].user)
            known = host.devices[2].processes[0]
            assert (known.pid, known.user, known.command) == (child.pid, "root", "sleep 1000")
            assert known.memory_mib == 44012
    finally:
        child.kill()
        child.wait()


async def test_half_a_table_chinese_text_a_new_layout_and_a_hanging_tool(lab: Lab) -> None:
    machine = lab.add(devices=1, programs={"npu-smi": tool("npu-smi")})
    says(machine, "npu-smi", texts.ASCEND)
    async with polling(lab) as hosts:
        host = await until(hosts, 0, lambda h: len(npus(h)) == 3)
        names = npus(host)
        cut = texts.ASCEND.index("| 0                         | 0000:C2")
        says(machine, "npu-smi", texts.ASCEND[:cut])
        host = await until(hosts, 0, lambda h: "cut off" in h.error)
        assert npus(host) == names
        assert host.devices[1].memory_used_mib == 48211
        assert host.devices[2].memory_used_mib is None
        assert not host.devices[2].lost
        says(machine, "npu-smi", "设备驱动未加载\n")
        host = await until(hosts, 0, lambda h: "cannot be read" in h.error)
        assert npus(host) == names
        assert all(one.utilization is None and one.error for one in host.devices[1:])
        # The rest of the host is as it was.
        machine.driver.set({"0.util": 61})
        host = await until(hosts, 0, lambda h: h.devices[0].utilization == 61)
        assert host.state is HostState.UP
        says(machine, "npu-smi", texts.ASCEND)
        host = await until(hosts, 0, lambda h: not h.error and h.devices[1].utilization == 97)
        (machine.root / "driver" / "npu-smi.hang").touch()
        host = await until(hosts, 0, lambda h: "did not answer within 10 s" in h.error)
        assert npus(host) == names
        assert all(one.memory_used_mib is None for one in host.devices[1:])
        assert host.devices[0].temperature_c is not None
        left = [pid for pid in machine.pids() if command(pid) == "sleep 1000"]
        assert left == []


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""


async def test_no_tool_and_intels_tool_of_the_same_name_are_nothing(lab: Lab) -> None:
    machine = lab.add(devices=1, programs={"xpu-smi": tool("xpu-smi")})
    says(machine, "xpu-smi", texts.XPU_OF_INTEL)
    runs = machine.root / "driver" / "xpu-smi.runs"
    runs.touch()
    runs.chmod(0o666)
    async with polling(lab) as hosts:
        await until(hosts, 0, lambda h: runs.read_text())
        host = await until(hosts, 0, lambda h: h.devices and not h.error)
        assert [one.backend for one in host.devices] == ["gpu"]
