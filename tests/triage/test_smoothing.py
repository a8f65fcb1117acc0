"""What is remembered of devices from one reading to the next."""

from __future__ import annotations

from gpuconsole.core.fleet import Device, DeviceProcess
from gpuconsole.triage.model import Past
from gpuconsole.triage.smoothing import remember


def device(*pids: int, held: float = 100.0) -> Device:
    processes = tuple(DeviceProcess(pid, "ana", held) for pid in pids)
    return Device("GPU-1", 0, "A100", processes=processes)


def test_a_process_is_there_since_it_was_first_seen() -> None:
    past: dict[str, Past] = {}
    seen = {
        1.0: ((7,), {7: 1.0}),
        2.0: ((7, 8), {7: 1.0, 8: 2.0}),
        3.0: ((8, 9), {8: 2.0, 9: 3.0}),
        4.0: ((), {}),
        5.0: ((7,), {7: 5.0}),
    }
    for at, (pids, arrivals) in seen.items():
        remember(past, [device(*pids)], at)
        assert past["GPU-1"].arrivals == arrivals, at


def test_a_process_that_holds_more_is_the_one_of_before() -> None:
    past: dict[str, Past] = {}
    remember(past, [device(7, held=1.0)], 1.0)
    before = past["GPU-1"].arrivals
    remember(past, [device(7, held=2.0)], 2.0)
    assert past["GPU-1"].arrivals is before
    assert past["GPU-1"].processes[0].memory_mib == 2.0
