"""Images on hosts are asked for beside placement; until then their names speak."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.containers import ImageFacts
from gpuconsole.core.fleet import FleetSnapshot, Host, HostFacts
from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.placement.rules.rules import any_image
from gpuconsole.session.images.availability import ABSENT_S, KNOWN_S, ImageBoard
from gpuconsole.session.queue.placement_adapter import Placer
from gpuconsole.session.queue.planner import Situation
from tests.session.conftest import Desk, Lab

IMAGE = "paddlepaddle/paddle:3.3.1-gpu-cuda12.6-cudnn9.5"
TASK = Task("t", script="/p/t.py", image=IMAGE)


def fleet(desk: Desk, driver: str, cuda: str) -> FleetSnapshot:
    """Let the hosts have a driver."""
    facts = HostFacts(driver_version=driver, runtime_version=cuda)
    hosts = tuple(replace(host, facts=facts) for host in desk.hosts.snapshots.hosts)
    desk.hosts.snapshots = replace(desk.hosts.snapshots, hosts=hosts)
    return desk.hosts.snapshots


def board(desk: Desk, lab: Lab, default: str = "paddle") -> ImageBoard:
    return ImageBoard(desk.hosts, lab.clock, lambda host: default)


async def test_the_name_speaks_until_the_engine_was_asked(lab: Lab) -> None:
    desk = lab.desk()
    (host,) = fleet(desk, "535.104.05", "12.2").hosts
    images = board(desk, lab)
    assert images.fault(TASK, host) == ""
    assert "minor version compatibility" in images.note(TASK, host)
    # The image itself demands more than its name tells.
    lab.docker.facts[IMAGE] = ImageFacts({"NVIDIA_REQUIRE_CUDA": "cuda>=12.6"})
    assert images.fault(TASK, host) == ""
    await images.look()
    assert images.fault(TASK, host).startswith(f"The image {IMAGE} asks for CUDA 12.6; the host")


async def test_only_what_somebody_asked_for_is_looked_at_and_not_each_time(lab: Lab) -> None:
    desk = lab.desk()
    (host,) = fleet(desk, "470.82.01", "11.4").hosts
    images = board(desk, lab)
    await images.look()
    assert desk.console.points == 0
    images.fault(TASK, host)
    await images.look()
    asked = desk.console.points
    assert asked > 0
    await images.look()
    assert desk.console.points == asked
    lab.clock.time += ABSENT_S
    lab.docker.facts[IMAGE] = ImageFacts()
    await images.look()
    assert desk.console.points > asked
    asked = desk.console.points
    lab.clock.time += ABSENT_S
    await images.look()
    assert desk.console.points == asked
    lab.clock.time += KNOWN_S
    await images.look()
    assert desk.console.points > asked


async def test_an_engine_out_of_reach_leaves_what_was_known(lab: Lab) -> None:
    desk = lab.desk()
    (host,) = fleet(desk, "535.104.05", "12.2").hosts
    images = board(desk, lab)
    lab.docker.facts[IMAGE] = ImageFacts({"NVIDIA_REQUIRE_CUDA": "cuda>=12.6"})
    images.fault(TASK, host)
    await images.look()
    lab.docker.silent_at = None
    lab.clock.time += KNOWN_S
    await images.look()
    assert images.fault(TASK, host) != ""


async def test_hosts_are_only_asked_one_by_one_where_one_is_left_out(lab: Lab) -> None:
    desk = lab.desk()
    images = board(desk, lab)
    assert images.rule([TASK], fleet(desk, "560.35.03", "12.6")) is any_image
    assert images.rule([TASK], fleet(desk, "470.82.01", "11.4")) is not any_image
    # A host without such devices is left out for that, whatever its driver is.
    npu = replace(TASK, backend="npu")
    assert images.rule([npu], fleet(desk, "470.82.01", "11.4")) is any_image


async def test_the_queue_leaves_out_hosts_and_says_why(lab: Lab) -> None:
    desk = lab.desk()
    images = board(desk, lab)
    placer = Placer(LabSettings(), images=images)
    job = Job("j", TASK, "ada", JobState.QUEUED, 1.0, estimate_mib=1000.0)
    old = fleet(desk, "470.82.01", "11.4")
    plan = placer.plan(Situation([job], old, lab.clock.now()))
    assert plan.choices == ()
    assert "needs CUDA 12.6 (driver 525.60.13 or later)" in plan.waiting["j"].reason
    between = fleet(desk, "535.104.05", "12.2")
    (choice,) = placer.plan(Situation([job], between, lab.clock.now())).choices
    assert "minor version compatibility" in choice.reasons[-1]
    new = fleet(desk, "560.35.03", "12.6")
    (choice,) = placer.plan(Situation([job], new, lab.clock.now())).choices
    assert not any("CUDA" in reason for reason in choice.reasons)


@pytest.mark.parametrize("image", ["", "lab/train:1"])
async def test_the_image_of_the_host_counts_where_the_task_names_none(lab: Lab, image: str) -> None:
    desk = lab.desk()
    host: Host = fleet(desk, "470.82.01", "11.4").hosts[0]
    images = board(desk, lab, default=IMAGE)
    fault = images.fault(replace(TASK, image=image), host)
    assert (fault != "") is (image == "")
