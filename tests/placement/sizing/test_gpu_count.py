"""The number of devices when a task leaves it open: memory first, then what more would gain."""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostState, PeerLink
from gpuconsole.core.jobs import Task
from gpuconsole.placement.sizing.gpu_count import (
    DeviceCount,
    Room,
    closest_link,
    devices_wanted,
    free_devices,
    largest_groups,
)
from gpuconsole.preflight.roofline import Work

A100 = "NVIDIA A100-SXM4-40GB"
RTX = "NVIDIA GeForce RTX 3090"
GIB = 1024.0
# An FP32 step of 0.35 x 19.5 TFLOPS x 30 ms: 30 ms on an A100.
STEP_30_MS = Work(0.35 * 19.5e12 * 0.030)
GRADIENTS_MIB = 120e6 / 2**20


def host(name: str, count: int, model: str = A100, link: str = "", gib: float = 40) -> Host:
    uuids = [f"{name}-{index}" for index in range(count)]
    devices = tuple(
        Device(
            uuid,
            index,
            model,
            memory_total_mib=gib * GIB,
            memory_used_mib=0.0,
            peers=tuple(PeerLink(other, link) for other in uuids if link and other != uuid),
        )
        for index, uuid in enumerate(uuids)
    )
    return Host(name, HostState.UP, devices=devices)


def count(
    *hosts: Host,
    held: frozenset[str] = frozenset(),
    need_gib: float | None = 10,
    work: Work | None = STEP_30_MS,
    strategy: str = "ddp",
    spread: int = 1,
    room: Room = Room(),  # noqa: B008
) -> DeviceCount:
    groups = largest_groups(FleetSnapshot(1, 0.0, hosts), held)
    need = None if need_gib is None else need_gib * GIB
    task = Task("t", devices=None, distributed_strategy=strategy, hosts=spread)
    return devices_wanted(task, need, 0.0, groups, 0.85, work, GRADIENTS_MIB, room)


def test_it_grows_while_the_gradients_hide_behind_the_backward_pass() -> None:
    # By PIX 120 MB take 10.03 ms for two and 17.85 ms for eight: all below 20 ms.
    found = count(host("a", 8, link="PIX"))
    assert found.devices == 8
    assert found.reason == (
        f"8 devices are taken: 8 {A100} by PIX should train 8.0 times as fast as one (100% each);"
        " 16 that fit are not free together."
    )


def test_it_stops_where_each_would_do_too_little() -> None:
    # A tenth of the work: 2 ms of backward pass against 10.03 ms for two: 3 / 11.03 = 27 %.
    found = count(host("a", 8, link="PIX"), work=Work(STEP_30_MS.flops / 10))
    assert found.devices == 1
    assert found.reason == (
        f"1 device is taken: it fits on 1; 2 {A100} by PIX should train 0.5 times as fast as one"
        " (27% each), below the 80% that are asked."
    )
    # NVLink moves them in 0.53 ms.
    assert count(host("a", 8, link="NV12"), work=Work(STEP_30_MS.flops / 10)).devices == 8


def test_only_free_devices_make_it_grow() -> None:
    lab = host("a", 4, link="NV12")
    assert count(lab).devices == 4
    found = count(lab, held=frozenset({"a-1"}))
    assert found.devices == 2
    assert found.reason.endswith("; 4 that fit are not free together.")
    busy = replace(lab.devices[0], processes=(DeviceProcess(1),))
    assert count(replace(lab, devices=(busy, *lab.devices[1:]))).devices == 2
    assert count(replace(lab, drained="moving")).devices == 1
    assert count(replace(lab, state=HostState.DOWN)).devices == 1


def test_it_takes_nothing_that_others_wait_for() -> None:
    lab = host("a", 8, link="NV12")
    assert count(lab, room=Room(spare=7)).devices == 8
    found = count(lab, room=Room(spare=6))
    assert found.devices == 4
    assert found.reason.endswith("; other jobs wait for the rest.")
    assert count(lab, room=Room(spare=0)).devices == 1


def test_it_stays_within_a_quota() -> None:
    found = count(host("a", 8, link="NV12"), room=Room(ceiling=3))
    assert found.devices == 2
    assert found.reason.endswith("; a quota leaves no room for 4.")
    # Less than it needs at least: that it waits for its quota, the queue says.
    assert count(host("a", 8, link="NV12"), room=Room(ceiling=0)).devices == 1


def test_free_devices_are_counted_by_back_end() -> None:
    lab = host("a", 3)
    npu = replace(
        host("n", 2), devices=tuple(replace(d, backend="npu") for d in host("n", 2).devices)
    )
    down = replace(host("d", 4), state=HostState.DOWN)
    fleet = FleetSnapshot(1, 0.0, (lab, npu, down))
    assert free_devices(fleet, {"a-1"}) == {"gpu": 2, "npu": 2}


def test_what_cannot_be_told_does_not_make_it_grow() -> None:
    assert count(host("a", 4), need_gib=None) == DeviceCount(
        1, "1 device is taken, as its memory is unknown."
    )
    assert count(host("a", 4), work=None).reason == (
        "1 device is taken: it fits on 1; the gain of 2 is unknown."
    )
    assert count(host("a", 4, model="Unheard-of 9000"), work=STEP_30_MS).devices == 1
    assert count(host("a", 4), need_gib=99) == DeviceCount(
        1, "1 device is taken: it fits on no number of them."
    )


def test_a_script_that_cannot_spread_gets_one() -> None:
    assert count(host("a", 4, link="NV12"), strategy="") == DeviceCount(
        1, "1 device is taken: the task names no way to train on several."
    )


def test_several_hosts_only_where_the_task_allows_them() -> None:
    labs = [host(name, 1) for name in "abcd"]
    long = Work(STEP_30_MS.flops * 20)
    assert count(*labs, work=long).devices == 1
    # 600 ms of work: 120 MB at 1 GB/s hide behind 400 ms for any number of hosts.
    found = count(*labs, work=long, spread=2)
    assert found.devices == 2
    assert "2 NVIDIA A100-SXM4-40GB by network on 2 hosts" in found.reason
    assert count(*labs, work=long, spread=4).devices == 4


def test_a_threshold_of_memory_counts_for_every_group() -> None:
    # 24 GiB cards are too small at 0.85; the two large ones are what it may grow on.
    labs = [host("a", 8, RTX, "PIX", 24), host("b", 2, link="NV12")]
    assert count(*labs, need_gib=30).devices == 2


def test_the_closest_devices_decide_the_link() -> None:
    # 0-1 and 2-3 by NVLink, the pairs by SYS.
    pair = (
        ("", "NV4", "SYS", "SYS"),
        ("NV4", "", "SYS", "SYS"),
        ("SYS", "SYS", "", "NV4"),
        ("SYS", "SYS", "NV4", ""),
    )
    assert closest_link(pair, 2) == "NV4"
    assert closest_link(pair, 4) == "SYS"
    assert closest_link(((("", "")), ("", "")), 2) == ""
    assert closest_link((("",),), 1) == ""
