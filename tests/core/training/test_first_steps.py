"""What a job took in its first steps, in words."""

from __future__ import annotations

from typing import Any

import pytest

from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.core.training.first_steps import first_steps, whole_peak_mib
from gpuconsole.language import language

CARD = Device("GPU-0", 0, "A100", memory_total_mib=40960.0)
FLEET = FleetSnapshot(1, 1.0, (Host("a", HostState.UP, devices=(CARD,)),))


def reported(
    taken: float | None = 4096.0, *, memory: Any = None, backend: str = "gpu", **more: Any
) -> str:
    attempt = Attempt(1, "a", ("GPU-0",), (0,), steps_mib=taken, **more)
    document = None if memory is None else {"memory": memory}
    task = Task("x", backend=backend)
    job = Job("1", task, "ada", JobState.RUNNING, 0.0, attempts=(attempt,), estimate=document)
    return first_steps(job, FLEET)


def test_it_is_held_against_device_and_estimate() -> None:
    assert reported(memory={"reserved_mib": 4000.0}, peak_mib=4096.0) == (
        "In its first steps Paddle took 4.0 GiB at most (reported by the job) of 40.0 GiB (10%); "
        "3.9 GiB were predicted (+2%)."
    )
    assert reported(memory={"reserved_mib": 8192.0}, peak_mib=5120.0) == (
        "In its first steps Paddle took 4.0 GiB at most (reported by the job), 5.0 GiB with its "
        "context, of 40.0 GiB (12%); 8.0 GiB were predicted (-50%)."
    )


def test_on_the_processor_there_is_no_device() -> None:
    assert reported(backend="cpu", memory={"reserved_mib": 4096.0}) == (
        "In its first steps Paddle took 4.0 GiB at most (reported by the job); 4.0 GiB were "
        "predicted (+0%)."
    )


def test_until_it_is_known_nothing_is_said() -> None:
    assert reported(None) == ""
    assert first_steps(Job("1", Task("x"), "ada", JobState.QUEUED, 0.0), FLEET) == ""


@pytest.mark.parametrize("memory", [None, 7, {}, {"reserved_mib": "x"}, {"reserved_mib": 0}])
def test_without_an_estimate_it_says_so(memory: Any) -> None:
    assert reported(memory=memory).endswith("; its memory was not predicted.")


@pytest.mark.parametrize(
    ("attempt", "whole"),
    [
        # The driver saw the process: its figure has the context.
        ({"steps_mib": 4096.0, "peak_mib": 4700.0}, 4700.0),
        # Only Paddle reported: the predicted context is added.
        ({"steps_mib": 4096.0, "peak_mib": 4096.0}, 4696.0),
        ({"peak_mib": 4096.0}, 4096.0),
        ({}, None),
    ],
)
def test_a_peak_is_counted_with_its_context_as_an_estimate_is(
    attempt: dict[str, float], whole: float | None
) -> None:
    one = Attempt(1, "a", ("GPU-0",), (0,), **attempt)  # type: ignore[arg-type]
    document = {"memory": {"context_mib": 600.0}}
    job = Job("1", Task("x"), "ada", JobState.RUNNING, 0.0, attempts=(one,), estimate=document)
    assert whole_peak_mib(job) == whole


def test_it_is_said_in_chinese() -> None:
    said = language("zh").say(reported(memory={"reserved_mib": 8192.0}, peak_mib=5120.0))
    assert said.startswith("前几步中 Paddle 最多占 4.0 GiB")
    assert "predicted" not in said
