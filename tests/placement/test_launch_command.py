"""Launch commands, and the number of devices when a task leaves it open."""

from __future__ import annotations

from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.placement import devices_wanted, largest_groups, launch_command, need_on
from gpuconsole.placement.launch_command import FIRST_PORT, PORTS, Meeting, meeting_port
from gpuconsole.placement.sizing.gpu_count import Group


def test_one_device_runs_the_script_itself() -> None:
    task = Task("t", script="/home/u/p/src/train.py", project="/home/u/p", args=("--lr", "1 2"))
    assert launch_command(task, 1) == ("python", "src/train.py", "--lr", "1 2")
    assert launch_command(task, 1, python="python3")[0] == "python3"


def test_several_devices_count_from_zero_in_the_launcher() -> None:
    task = Task("t", script="/p/train.py", project="/p", args=("-x",))
    assert launch_command(task, 3) == (
        "python", "-m", "paddle.distributed.launch", "--devices", "0,1,2", "train.py", "-x",
    )  # fmt: skip


def test_a_gang_meets_at_its_first_host() -> None:
    task = Task("t", script="/p/train.py", project="/p", args=("-x",))
    meeting = Meeting("10.0.0.1:20007", "job-1", 2, 1, "10.0.0.2", "eth0")
    assert launch_command(task, 1, meeting) == (
        "python", "-m", "paddle.distributed.launch", "--master", "10.0.0.1:20007",
        "--nnodes", "2", "--rank", "1", "--host", "10.0.0.2", "--job_id", "job-1",
        "--devices", "0", "train.py", "-x",
    )  # fmt: skip
    assert launch_command(task, 3, meeting)[-4:-2] == ("--devices", "0,1,2")


def test_a_gangs_port_is_its_own_and_free() -> None:
    first = meeting_port("job-1", frozenset())
    assert meeting_port("job-1", frozenset()) == first
    assert meeting_port("job-2", frozenset()) != first
    assert meeting_port("job-1", {first}) == FIRST_PORT + (first - FIRST_PORT + 1) % PORTS
    assert FIRST_PORT <= first < FIRST_PORT + PORTS


def fleet(*sizes_gib: float) -> FleetSnapshot:
    devices = tuple(
        Device(f"u{index}", index, f"card {size}", memory_total_mib=size * 1024)
        for index, size in enumerate(sizes_gib)
    )
    return FleetSnapshot(1, 0.0, (Host("h", HostState.UP, devices=devices),))


def wanted(task: Task, need_gib: float | None, *sizes_gib: float, states_gib: float = 0.0) -> int:
    need = None if need_gib is None else need_gib * 1024
    groups = largest_groups(fleet(*sizes_gib))
    return devices_wanted(task, need, states_gib * 1024, groups, 0.85).devices


def test_the_tasks_own_number_wins() -> None:
    assert wanted(Task("t", devices=3), 10, 24) == 3


def test_left_open_it_is_as_many_as_sharding_needs() -> None:
    auto = Task("t", devices=None, distributed_strategy="sharding")
    assert wanted(auto, 10, 24, 24, states_gib=4) == 1
    assert wanted(auto, 30, 24, 24, states_gib=20) == 2
    assert wanted(auto, 30, 24, 40, states_gib=20) == 1
    assert wanted(auto, 34, 24, 24, 24, 24, states_gib=20) == 4
    # Not enough devices, too little that can be divided, and an unknown need.
    assert wanted(auto, 34, 24, 24, states_gib=20) == 1
    assert wanted(auto, 34, 24, 24, 24, 24, states_gib=5) == 1
    assert wanted(auto, None, 24, 24) == 1
    assert wanted(auto, 30, states_gib=20) == 1


def test_more_devices_never_make_a_data_parallel_job_fit() -> None:
    auto = Task("t", devices=None, distributed_strategy="ddp")
    assert wanted(auto, 30, 24, 24, 24, 24, states_gib=20) == 1
    assert need_on(auto, 30.0, 20.0, 8) == 30.0
    assert need_on(Task("t", distributed_strategy="sharding"), 30.0, 20.0, 4) == 15.0


def test_groups_are_of_one_model_on_one_host() -> None:
    groups = largest_groups(fleet(24, 24, 40))
    small, large = (
        Group("card 24", 24.0 * 1024, "", 1, True),
        Group("card 40", 40.0 * 1024, "", 1, True),
    )
    assert groups == {("gpu", 1): [small, large], ("gpu", 2): [small]}
