"""The agent on real sshd hosts, through the real pynvml and a driver that a test changes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.remote.hosts import RemoteHosts
from gpuconsole.remote.inventory import parse_inventory
from tests.real.rig.hosts import Lab
from tests.real.rig.patience import PATIENCE_S

GARBAGE = "#!/bin/sh\nwhile :; do echo '{\"hello\": 1} garbage'; done\n"
ENDLESS = "#!/bin/sh\nexec tr '\\0' x </dev/zero\n"
BROKEN = "#!/bin/sh\necho 'Segmentation fault' >&2\nexit 139\n"


@asynccontextmanager
async def polling(lab: Lab, **options: Any) -> AsyncIterator[RemoteHosts]:
    """Poll all hosts of the lab."""
    hosts = RemoteHosts(parse_inventory(lab.inventory(**options), "lab"))
    await hosts.start()
    try:
        yield hosts
    finally:
        await hosts.close()


async def until(
    hosts: RemoteHosts, number: int, condition: Callable[[Host], Any], seconds: float = PATIENCE_S
) -> Host:
    """Return the host once the condition holds; the failure shows how it stood."""
    deadline = time.monotonic() + seconds
    while True:
        host = hosts.snapshot().hosts[number]
        if condition(host):
            return host
        assert time.monotonic() < deadline, host
        await asyncio.sleep(0.02)


def is_up(host: Host) -> bool:
    return host.state is HostState.UP and bool(host.devices) and host.devices[0].temperature_c


async def test_frames_follow_the_driver(lab: Lab) -> None:
    machine = lab.add(devices=3)
    async with polling(lab) as hosts:
        host = await until(hosts, 0, is_up)
        assert [device.uuid for device in host.devices] == list(machine.uuids)
        assert host.facts.source == "agent"
        assert host.facts.driver_version
        assert host.facts.memory_total_mib
        assert host.clock_skew_s is None or abs(host.clock_skew_s) < 1
        machine.driver.set({"1.used_mib": 30000, "1.util": 97, "1.xid": 79, "1.temp": 81})

        def changed(host: Host) -> bool:
            device = host.devices[1]
            return device.memory_used_mib == 30000 and device.utilization == 97

        host = await until(hosts, 0, changed)
        host = await until(hosts, 0, lambda host: host.devices[1].xid == 79)
        assert host.devices[0].xid is None


async def test_a_process_is_told_with_user_and_command_and_can_be_hostile(lab: Lab) -> None:
    machine = lab.add(devices=1)
    name = "\x1b]0;owned\x07\x1b[2J[red]train\n.py"
    child = machine.popen(["bash", "-c", f"exec -a $'{name}' sleep 1000".replace("\n", "\\n")])
    try:
        machine.driver.set({"0.procs": f"{child.pid}:1234"})
        async with polling(lab) as hosts:
            host = await until(hosts, 0, lambda h: is_up(h) and h.devices[0].processes)
            (process,) = host.devices[0].processes
            assert (process.pid, process.memory_mib, process.user) == (child.pid, 1234, "root")
            assert process.command == "[red]train .py 1000"
    finally:
        child.kill()
        child.wait()


@pytest.mark.fault("A GPU falls off the bus", "Only that device is marked lost")
async def test_a_lost_gpu_costs_only_itself(lab: Lab) -> None:
    machine = lab.add(devices=2)
    async with polling(lab) as hosts:
        await until(hosts, 0, is_up)
        machine.driver.set({"1.lost": 1, "0.util": 55})
        host = await until(hosts, 0, lambda h: h.devices[1].lost and h.devices[0].utilization == 55)
        assert host.devices[1].memory_used_mib is None
        assert "lost" in host.devices[1].error
        machine.driver.clear("1.lost")
        host = await until(hosts, 0, lambda h: not h.devices[1].lost and h.devices[1].temperature_c)
        assert host.devices[1].error == ""


@pytest.mark.fault("One NVML call hangs", "Only its field is unknown")
async def test_a_hung_call_costs_only_its_field(lab: Lab) -> None:
    machine = lab.add(devices=2)
    async with polling(lab) as hosts:
        await until(hosts, 0, is_up)
        machine.driver.set({"0.hang.GetPowerUsage": 1})

        def told(host: Host) -> bool:
            return "power" in host.devices[0].error

        await until(hosts, 0, told)
        machine.driver.set({"0.util": 42, "1.util": 43})
        host = await until(hosts, 0, lambda h: h.devices[0].utilization == 42)
        assert host.state is HostState.UP
        assert host.devices[0].power_w is None
        assert host.devices[1].utilization == 43
        assert host.devices[1].power_w is not None
        machine.driver.clear("0.hang.GetPowerUsage")
        host = await until(hosts, 0, lambda h: h.devices[0].power_w is not None)
        assert host.devices[0].error == ""


@pytest.mark.fault("The whole driver hangs", "The host stays up and says so")
async def test_a_driver_that_hangs_whole_leaves_the_host_up(lab: Lab) -> None:
    machine = lab.add(devices=2)
    async with polling(lab) as hosts:
        await until(hosts, 0, is_up)
        machine.driver.set(hang=1)
        await until(hosts, 0, lambda h: "does not answer" in h.devices[0].error)
        before = hosts.snapshot().hosts[0].sampled_at or 0.0
        host = await until(hosts, 0, lambda h: (h.sampled_at or 0.0) > before + 2)
        assert host.state is HostState.UP


async def test_a_driver_that_hangs_from_the_start_is_waited_for(lab: Lab) -> None:
    machine = lab.add(devices=2)
    machine.driver.set(hang=1)
    async with polling(lab) as hosts:
        host = await until(hosts, 0, lambda h: h.state is HostState.UP and h.error)
        assert "has not answered" in host.error
        assert host.facts.memory_total_mib
        machine.driver.clear("hang")
        host = await until(hosts, 0, is_up)
        assert host.error == ""


async def test_a_gpu_that_is_lost_from_the_start_is_shown_and_comes_back(lab: Lab) -> None:
    machine = lab.add(devices=2)
    machine.driver.set({"1.lost": 1})
    async with polling(lab) as hosts:
        host = await until(hosts, 0, is_up)
        assert [device.lost for device in host.devices] == [False, True]
        assert host.devices[1].error
        machine.driver.clear("1.lost")
        host = await until(hosts, 0, lambda h: is_up(h) and not h.devices[1].lost)
        assert host.devices[1].uuid == machine.uuids[1]


async def test_a_field_that_fails_is_unknown(lab: Lab) -> None:
    machine = lab.add(devices=1)
    machine.driver.set({"call.GetTemperature": 3, "call.GetPowerUsage": 999})
    async with polling(lab) as hosts:
        host = await until(
            hosts, 0, lambda h: h.state is HostState.UP and h.devices and h.devices[0].error
        )
        device: Device = host.devices[0]
        assert device.power_w is None
        assert device.memory_total_mib is not None
        assert "power" in device.error


@pytest.mark.parametrize("program", [GARBAGE, ENDLESS, BROKEN])
async def test_a_python_that_is_none_is_passed_over(lab: Lab, program: str) -> None:
    lab.add(devices=1, programs={"python3": program})
    async with polling(lab) as hosts:
        host = await until(hosts, 0, is_up)
        assert host.facts.source == "agent"


SMI = """#!/bin/sh
case "$*" in
*clocks_event_reasons*)
  echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2;;
*compute-apps*)
  echo 'gpu_uuid, pid, used_gpu_memory [MiB], process_name'
  echo 'GPU-smi, 4711, 900, python3, train.py'; exit 0;;
esac
echo "$*" | sed 's/.*--query-gpu=//; s/ .*//; s/,/, /g'
row='0, GPU-smi, NVIDIA T4, 00000000:01:00.0, 470.1, 15360, 1000, 33, 55, 27.5, 70, 585, 5000'
row="$row, [N/A], [N/A], 0x0000000000000004"
echo "$row"
case "$*" in *-lms*) while sleep 0.3; do echo "$row"; done;; esac
"""


async def test_without_python_nvidia_smi_is_followed_and_ends_with_the_console(lab: Lab) -> None:
    machine = lab.add(devices=1, python=False, programs={"nvidia-smi": SMI})
    async with polling(lab) as hosts:
        host = await until(
            hosts, 0, lambda h: h.state is HostState.UP and h.devices[0].processes, 30
        )
        device = host.devices[0]
        assert (device.uuid, device.memory_used_mib, device.power_w) == ("GPU-smi", 1000, 27.5)
        assert device.ecc_uncorrected is None
        assert device.throttle == ("power-cap",)
        assert device.processes[0].command == "python3, train.py"
        assert host.facts.source == "nvidia-smi"
    await gone(lambda: running(machine.pids(), "nvidia-smi"))


@pytest.mark.fault(
    "A host with neither Python nor a vendor's tool",
    "The host says what is missing",
)
async def test_neither_python_nor_tool_is_said(lab: Lab) -> None:
    lab.add(devices=1, python=False, programs={"nvidia-smi": "#!/bin/sh\nexit 9\n"})
    async with polling(lab) as hosts:
        host = await until(hosts, 0, lambda h: h.state is HostState.DOWN)
        assert "python3" in host.error
        assert "nvidia-smi" in host.error


async def test_eight_devices_on_four_hosts_are_all_up_and_quiet_hosts_stay_the_same(
    lab: Lab,
) -> None:
    for _ in range(4):
        lab.add(devices=8)
    async with polling(lab) as hosts:
        for number in range(4):
            # The links between devices are found a moment after the first frame.
            host = await until(hosts, number, lambda h: is_up(h) and h.devices[7].peers)
            assert len(host.devices) == 8
        before = hosts.snapshot()
        assert hosts.snapshot() is before
        device = before.hosts[2].devices[5]
        lab.hosts[2].driver.set({"0.util": 77})
        host = await until(hosts, 2, lambda h: h.devices[0].utilization == 77)
        assert hosts.snapshot().revision > before.revision
        assert host.devices[5] is device


CONSOLE = """
import asyncio, sys
from pathlib import Path
from gpuconsole.remote.hosts import RemoteHosts
from gpuconsole.remote.inventory import load_inventory
async def main():
    hosts = RemoteHosts(load_inventory(Path(sys.argv[1])))
    await hosts.start()
    while not hosts.snapshot().hosts[0].devices:
        await asyncio.sleep(0.02)
    print("up", flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""


@pytest.mark.fault("The console is killed", "No agent is left on the host")
@pytest.mark.parametrize("hang", [False, True])
async def test_the_agent_ends_with_a_console_that_was_killed(
    lab: Lab, tmp_path: Path, hang: bool
) -> None:
    machine = lab.add(devices=1)
    (tmp_path / "lab.yaml").write_text(lab.inventory())
    console = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CONSOLE, str(tmp_path / "lab.yaml"), stdout=asyncio.subprocess.PIPE
    )
    assert console.stdout is not None
    assert await asyncio.wait_for(console.stdout.readline(), PATIENCE_S) == b"up\n"
    assert machine.agents()
    if hang:
        machine.driver.set(hang=1)
        await asyncio.sleep(1)
    console.send_signal(signal.SIGKILL)
    await console.wait()
    await gone(machine.agents)


@pytest.mark.fault("The cable of the console is pulled", "The agent ends by itself")
async def test_the_agent_ends_when_the_cable_is_pulled(lab: Lab) -> None:
    machine = lab.add(devices=1)
    async with polling(lab) as hosts:
        await until(hosts, 0, is_up)
        machine.cut()
        await gone(machine.agents)


async def gone(listed: Callable[[], list[int]]) -> None:
    """Wait until nothing is listed any more."""
    deadline = time.monotonic() + PATIENCE_S
    while found := listed():
        assert time.monotonic() < deadline, f"still there: {found}"
        await asyncio.sleep(0.05)


def running(pids: list[int], name: str) -> list[int]:
    """Return those of the processes whose command line holds the name."""
    found = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if name.encode() in file.read() and pid != os.getpid():
                    found.append(pid)
        except OSError:
            continue
    return found
