"""Devices for a measurement: of the kind that the job would get, and wanted by nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.placement import Candidate, Place
from gpuconsole.session.estimate.idle_devices import idle_devices, taken_devices
from gpuconsole.session.queue.planner import Choice, Plan

A100 = Device("GPU-a", 0, "A100", memory_total_mib=40_000.0, memory_used_mib=600.0)
V100 = replace(A100, uuid="GPU-v", index=1, model="V100", memory_total_mib=16_000.0)
SECOND = replace(A100, uuid="GPU-b", index=2)


def found(*devices: Device, taken: frozenset[tuple[str, str]] = frozenset()) -> list[str]:
    """Return what is taken of devices that placement would choose in this order."""
    snapshot = FleetSnapshot(1, 1.0, (Host("a", HostState.UP, devices=devices),))
    candidates = [Candidate((Place("a", (device,)),), 1.0, ()) for device in devices]
    return [one.device.uuid for one in idle_devices(candidates, snapshot, taken)]


def test_it_is_of_the_kind_that_placement_would_choose() -> None:
    assert found(A100, V100, SECOND) == ["GPU-a", "GPU-b"]
    assert found(V100, A100) == ["GPU-v"]
    assert found() == []


@pytest.mark.parametrize(
    "used",
    [
        {"processes": (DeviceProcess(1, "bob", 900.0),)},
        {"memory_used_mib": 9000.0},
        {"memory_used_mib": None},
        {"lost": True},
        {"mig": True},
    ],
)
def test_a_device_in_use_is_not_idle(used: dict[str, Any]) -> None:
    assert found(replace(A100, **used), SECOND) == ["GPU-b"]


def test_what_is_leased_runs_or_is_about_to_start_is_taken() -> None:
    lease = Lease("GPU-a", "x", "x-1", "bob", "other", 0.0)
    attempt = Attempt(1, "a", ("GPU-v",), (1,), "gpuconsole-j-1-n")
    running = Job("j", Task("t"), "ann", JobState.LAUNCHING, 0.0, attempts=(attempt,))
    ended = replace(running, id="k", state=JobState.FAILED,
                    attempts=(replace(attempt, device_uuids=("GPU-old",)),))  # fmt: skip
    plan = Plan((Choice("q", "a", ("GPU-b",), (2,), others=(Place("c", (A100,)),)),))
    taken = taken_devices((running, ended), {"a": (lease,)}, plan)
    assert taken == {("a", "GPU-a"), ("a", "GPU-v"), ("a", "GPU-b"), ("c", "GPU-a")}
    assert found(A100, SECOND, taken=taken) == []
