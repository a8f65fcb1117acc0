"""How long keys wait, and whether the machine stood still meanwhile.

A virtual machine is stopped whenever others have its processors, which Linux counts as stolen: a
key pressed then waits for that, whatever the console does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.console.terminal import Terminal

BETWEEN_KEYS_S = 0.12
WITHIN_S = 10.0
ENOUGH = 20
"""Of fewer keys no 95th percentile is told."""
_STOLEN = 8
"""The place in the first line of /proc/stat; see proc(5)."""


@dataclass(frozen=True, slots=True)
class Wait:
    """From a key's byte until its answer was drawn; whether stolen time was counted in between."""

    seconds: float
    disturbed: bool


def waited(terminal: Terminal, key: str, shown: bytes) -> Wait:
    """Press a key after a moment, and wait for what it brings."""
    time.sleep(BETWEEN_KEYS_S)
    stolen, begun = _stolen(), time.monotonic()
    terminal.press(key)
    terminal.until(shown, WITHIN_S)
    return Wait(time.monotonic() - begun, _stolen() != stolen)


def figures(waits: Sequence[Wait]) -> Iterator[tuple[str, float, str]]:
    """Give name, figure and unit: the median, the 95th percentile, and where the machine stood
    still, how often, and the percentile of the others, which are the shorter ones by nature."""
    times = [wait.seconds for wait in waits]
    yield "p50", 1000 * statistics.median(times), "ms"
    yield "p95", 1000 * _p95(times), "ms"
    calm = [wait.seconds for wait in waits if not wait.disturbed]
    if len(calm) == len(waits):
        return
    yield "hit by stolen time", 100 * (1 - len(calm) / len(waits)), "%"
    if len(calm) >= ENOUGH:
        yield "p95 of the others", 1000 * _p95(calm), "ms"


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[int(len(times) * 0.95) - 1]


def _stolen() -> int:
    """Return what others took from all processors since the machine started, in hundredths of a
    second: less than that may be counted with a later key."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[_STOLEN])
