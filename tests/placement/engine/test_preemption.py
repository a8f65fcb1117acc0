"""Which running jobs make room: at the limits of priority, number, and what they have done."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.placement import Board, Holder, Policy, Request
from gpuconsole.placement.engine.job_profile import profile
from gpuconsole.placement.engine.preemption import victims

NOW = 10_000.0
A100, RTX = "NVIDIA A100-SXM4-40GB", "NVIDIA GeForce RTX 3090"


def host(name: str, count: int, model: str = A100) -> Host:
    devices = tuple(
        Device(f"{name}{number}", number, model, memory_total_mib=24_000.0, memory_used_mib=0.0)
        for number in range(count)
    )
    return Host(name, HostState.UP, devices=devices)


def runs(job: str, since: float, priority: int = 0, *, resumable: bool = True) -> Holder:
    return Holder(job, job, "bob", since, None, 100.0, priority=priority, resumable=resumable)


OLD, NEW, NEWEST = runs("old", NOW - 900), runs("new", NOW - 60), runs("newest", NOW - 6)


@pytest.mark.parametrize(
    ("devices", "hosts", "holders", "stopped"),
    [
        # A priority as high is no lower one, and one that cannot resume is left alone.
        (1, (host("a", 1),), {"a0": runs("x", 0.0, 4)}, ("x",)),
        (1, (host("a", 1),), {"a0": runs("x", 0.0, 5)}, ()),
        (1, (host("a", 1),), {"a0": runs("x", 0.0, 6)}, ()),
        (1, (host("a", 1),), {"a0": runs("x", 0.0, resumable=False)}, ()),
        # None where it fits without, and none where all of them together are too few.
        (1, (host("a", 2),), {"a0": OLD}, ()),
        (2, (host("a", 2),), {"a0": OLD}, ("old",)),
        (2, (host("a", 1), host("b", 1)), {"a0": OLD, "b0": NEW}, ()),
        (3, (host("a", 3),), {"a0": OLD, "a1": NEW, "a2": runs("x", 0.0, 5)}, ()),
        # The newest goes first, and one that the others make needless stays.
        (1, (host("a", 2),), {"a0": OLD, "a1": NEW}, ("new",)),
        (2, (host("a", 3),), {"a0": OLD, "a1": NEW, "a2": NEWEST}, ("newest", "new")),
        (2, (host("a", 3),), {"a0": OLD, "a1": OLD, "a2": NEW}, ("old",)),
        # Among hosts: fewest devices lost, then least run time, then the order of names.
        (1, (host("a", 2), host("b", 1)), {"a0": NEW, "a1": NEW, "b0": OLD}, ("old",)),
        (1, (host("a", 1), host("b", 1)), {"a0": OLD, "b0": NEW}, ("new",)),
        (1, (host("a", 1), host("b", 1)), {"a0": runs("y", 0.0), "b0": runs("x", 0.0)}, ("x",)),
        # Devices of two kinds are not counted together.
        (2, (host("a", 1), host("b", 1, RTX)), {"a0": OLD, "b0": NEW}, ()),
        # What a job holds elsewhere is lost with it.
        (1, (host("a", 1), host("b", 1), host("c", 1)), {"a0": NEW, "b0": NEW, "c0": OLD},
         ("old",)),
    ],
)  # fmt: skip
def test_as_little_as_possible_is_stopped(
    devices: int, hosts: tuple[Host, ...], holders: Mapping[str, Holder], stopped: tuple[str, ...]
) -> None:
    board = Board.of(FleetSnapshot(1, NOW, hosts), holders)
    asked = Request("j", Task("urgent", priority=5), 1000.0, devices, NOW)
    assert victims(profile(asked, board, Policy(), NOW), board) == stopped


def test_a_host_that_its_labels_rule_out_is_passed_over() -> None:
    board = Board.of(FleetSnapshot(1, NOW, (host("a", 1),)), {"a0": OLD})
    asked = Request("j", Task("urgent", priority=5, labels={"pool": "b"}), 1000.0, 1, NOW)
    assert victims(profile(asked, board, Policy(), NOW), board) == ()


def test_devices_that_two_jobs_share_are_not_taken_from_them() -> None:
    board = Board.of(FleetSnapshot(1, NOW, (host("a", 1),)), {"a0": OLD})
    (cell,) = board.held["old"]
    board.take([(cell, cell.spots)], NEW)
    asked = Request("j", Task("urgent", priority=5), 1000.0, 1, NOW)
    assert victims(profile(asked, board, Policy(), NOW), board) == ()
