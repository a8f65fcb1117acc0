"""Launch commands, and the number of devices when a task leaves it open."""

from __future__ import annotations

from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.placement import devices_wanted, launch_command, named_policy


def test_one_device_runs_the_script_itself() -> None:
    task = Task("t", script="/home/u/p/src/train.py", project="/home/u/p", args=("--lr", "1 2"))
    assert launch_command(task, 1) == ("python", "src/train.py", "--lr", "1 2")
    assert launch_command(task, 1, "python3")[0] == "python3"


def test_several_devices_count_from_zero_in_the_launcher() -> None:
    task = Task("t", script="/p/train.py", project="/p", args=("-x",))
    assert launch_command(task, 3) == (
        "python", "-m", "paddle.distributed.launch", "--devices", "0,1,2", "train.py", "-x",
    )  # fmt: skip


def fleet(*sizes_gib: float) -> FleetSnapshot:
    devices = tuple(
        Device(f"u{index}", index, f"card {size}", memory_total_mib=size * 1024)
        for index, size in enumerate(sizes_gib)
    )
    return FleetSnapshot(1, 0.0, (Host("h", HostState.UP, devices=devices),))


def wanted(task: Task, whole_gib: float | None, *sizes_gib: float) -> int:
    def need_for(count: int) -> float | None:
        return None if whole_gib is None else whole_gib * 1024 / count

    return devices_wanted(task, need_for, fleet(*sizes_gib), named_policy())


def test_the_tasks_own_number_wins() -> None:
    assert wanted(Task("t", devices=3), 10, 24) == 3


def test_left_open_it_is_one_unless_the_batch_must_be_divided() -> None:
    auto = Task("t", devices=None, distributed_strategy="ddp")
    assert wanted(auto, 10, 24, 24) == 1
    assert wanted(auto, 30, 24, 24) == 2
    assert wanted(auto, 30, 24, 40) == 1
    assert wanted(auto, 60, 24, 24, 24, 24) == 4
    assert wanted(auto, 60, 24, 24) == 1
    assert wanted(auto, None, 24, 24) == 1
    assert wanted(Task("t", devices=None), 30, 24, 24) == 1
