"""How large a day of recording is, and how fast a moment of it opens.

    python -m benchmarks.recording [--hours 24] [--moments 200] [--json]

Sixteen simulated hosts of eight devices, each a frame a second, are recorded by the product's own
recorder as fast as the machine can; figures flutter at random as those of real cards do. Jobs start
and end all day. Then random moments are opened, each from files that were not opened before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from gpuconsole.core.events import Event
from gpuconsole.core.fleet import Device, FleetSnapshot, Host
from gpuconsole.core.jobs import Attempt, Job, JobState, Task
from gpuconsole.session.recording.recorder import BLOCK_S, Recorder, Watched, header_of
from gpuconsole.simulated_lab.catalogue import build_sites
from gpuconsole.simulated_lab.clock import LabTime
from gpuconsole.simulated_lab.host import SimulatedHost, phase_of
from gpuconsole.state.recording.archive import Shelf
from gpuconsole.state.recording.writer import RingWriter, files_in

HOSTS, DEVICES = 16, 8
START = 1_790_000_000.0
SIZE_TARGET_MIB, OPEN_TARGET_MS = 200.0, 300.0
JOB_EVERY_S = 120


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured."""

    hours: float
    mib: float
    day_mib: float
    files: int
    write_ms_per_minute: float
    first_ms: float
    open_p50_ms: float
    open_p95_ms: float
    open_max_ms: float
    open_cpu_ms: float
    """Processor time of the dearest one, whatever else the machine does."""
    step_p95_ms: float


class Lab:
    """The simulated hosts at a time that is counted, not waited for."""

    def __init__(self) -> None:
        self.at = START
        self._dice = random.Random(7)
        clock = LabTime(self.now, START)
        sites = [site for site in build_sites(200, 7) if len(site.devices) == DEVICES][:HOSTS]
        self._hosts = [
            SimulatedHost(site, 7, clock, phase_of(number)) for number, site in enumerate(sites)
        ]
        self._flutter: dict[str, tuple[Host, Host]] = {}
        self._jobs: tuple[Job, ...] = ()

    def now(self) -> float:
        """Return the time."""
        return self.at

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.at += seconds
        if int(self.at) % JOB_EVERY_S == 0:
            self._start_and_end()

    def snapshot(self) -> FleetSnapshot:
        """Return the fleet."""
        hosts = []
        for each in self._hosts:
            plain = each.frame(self.at)
            known = self._flutter.get(plain.name)
            if known is None or known[0] is not plain:
                devices = tuple(self._fluttered(device) for device in plain.devices)
                known = self._flutter[plain.name] = plain, replace(plain, devices=devices)
            hosts.append(known[1])
        return FleetSnapshot(int(self.at), self.at, tuple(hosts), simulated=True)

    def jobs(self) -> tuple[Job, ...]:
        """Return the queue."""
        return self._jobs

    def _fluttered(self, device: Device) -> Device:
        if not device.utilization:
            return replace(device, power_w=(device.power_w or 50.0) + self._dice.random())
        return replace(
            device,
            utilization=min(100.0, max(1.0, device.utilization + self._dice.randint(-4, 4))),
            power_w=(device.power_w or 0.0) + self._dice.uniform(-8.0, 8.0),
            temperature_c=(device.temperature_c or 0.0) + self._dice.choice((0, 0, 0, 1)),
        )

    def _start_and_end(self) -> None:
        number = len(self._jobs)
        attempt = Attempt(1, "a100-01", ("GPU-0",), (0,), created_at=self.at, started_at=self.at)
        task = Task(f"train-{number}", "train.py", ("--epochs", "3"), image="paddle:3.3.1")
        estimate = {"memory": {"total_mib": 18000.0, "high_mib": 19000.0}, "tier": "static"}
        new = Job(f"ana-{number:05d}", task, "ana", JobState.RUNNING, self.at,
                  attempts=(attempt,), estimate=estimate)  # fmt: skip
        jobs = list(self._jobs)
        if len(jobs) >= 20:
            jobs[-20] = replace(jobs[-20], state=JobState.SUCCEEDED)
        self._jobs = (*jobs, new)


async def write(folder: Path, hours: float) -> float:
    """Record so many hours; return seconds of writing for each minute."""
    lab = Lab()
    watched = Watched("ana", True, lab.snapshot, lab.jobs, lambda: ())
    ring = RingWriter(
        folder, lambda batch: header_of(watched, batch, "bench"), keep_hours=1e4, max_mib=1e4
    )
    recorder = Recorder(watched, lab, ring)
    spent, blocks = 0.0, 0
    while lab.at < START + hours * 3600:
        recorder.look()
        await lab.sleep(1.0)
        if int(lab.at) % int(BLOCK_S) == 0:
            recorder.note(Event("job", "ana", "train: succeeded", lab.at))
            began = time.perf_counter()
            await recorder.cut()
            spent, blocks = spent + time.perf_counter() - began, blocks + 1
    await recorder.close()
    return spent / max(1, blocks)


def opened(folder: Path, at: float) -> tuple[float, float]:
    """Return how many seconds it takes to open a moment from nothing, and of the processor."""
    began, worked = time.perf_counter(), time.process_time()
    stretch = Shelf(folder).stretch(at)
    hosts, _ = stretch.hosts(at), stretch.jobs(at)
    took = time.perf_counter() - began, time.process_time() - worked
    assert len(hosts) == HOSTS
    return took


def stepped(folder: Path, at: float, count: int) -> list[float]:
    """Return the seconds of each of `count` steps of ten seconds."""
    shelf, found = Shelf(folder), []
    for number in range(count):
        began = time.perf_counter()
        moment = at + 10.0 * number
        shelf.stretch(moment).hosts(moment)
        found.append(time.perf_counter() - began)
    return found


def measured(hours: float, moments: int) -> Result:
    """Record and open."""
    dice = random.Random(11)
    with tempfile.TemporaryDirectory(prefix="gpuconsole-bench-") as name:
        folder = Path(name)
        writing = asyncio.run(write(folder, hours))
        files = files_in(folder)
        mib = sum(path.stat().st_size for _, path in files) / 2**20
        first, _ = opened(folder, START + 1800 * hours)
        both = [opened(folder, START + dice.uniform(60, hours * 3600 - 60)) for _ in range(moments)]
        times = [wall for wall, _ in both]
        steps = stepped(folder, START + 60, min(100, int(hours * 300)))
    return Result(
        hours=hours,
        mib=mib,
        day_mib=mib / hours * 24,
        files=len(files),
        write_ms_per_minute=writing * 1e3,
        first_ms=first * 1e3,
        open_p50_ms=statistics.median(times) * 1e3,
        open_p95_ms=statistics.quantiles(times, n=20)[-1] * 1e3,
        open_max_ms=max(times) * 1e3,
        open_cpu_ms=max(cpu for _, cpu in both) * 1e3,
        step_p95_ms=statistics.quantiles(steps, n=20)[-1] * 1e3,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    result = measured(chosen.hours, chosen.moments)
    if chosen.json:
        print(json.dumps({name: getattr(result, name) for name in Result.__slots__}, indent=2))
        return
    size, slowest = result.day_mib, result.open_max_ms
    print(f"{HOSTS} x {DEVICES} devices at 1 Hz, {result.hours:g} h recorded")
    print(f"  size                {result.mib:9.1f} MiB in {result.files} files")
    print(f"  size of 24 h        {size:9.1f} MiB  target {SIZE_TARGET_MIB:.0f}  "
          f"({SIZE_TARGET_MIB / size:.1f} times below)")  # fmt: skip
    print(f"  writing a minute    {result.write_ms_per_minute:9.1f} ms, in a thread")
    print(f"  first moment        {result.first_ms:9.1f} ms, with what is imported for it")
    print(f"  a random moment     {result.open_p50_ms:9.1f} ms median, {result.open_p95_ms:.1f} "
          f"p95, {slowest:.1f} slowest  target {OPEN_TARGET_MS:.0f}  "
          f"({OPEN_TARGET_MS / slowest:.1f} times below)")  # fmt: skip
    print(f"  of the processor    {result.open_cpu_ms:9.1f} ms, the dearest moment")
    print(f"  a step of 10 s      {result.step_p95_ms:9.1f} ms p95")


if __name__ == "__main__":
    main()
