"""The lab's service under many consoles: how soon an act is answered, and what the service costs.

    python -m benchmarks.lab_service [--consoles 200] [--hosts 16] [--jobs 500] [--seconds 30]
                                     [--json]

A service on the simulated lab in a process of its own; consoles that watch in another, which reads
all that is sent and unpacks none of it. An act sets a job's priority; a command is what
`gpuconsole jobs` needs: a new connection and the whole picture. There is no SSH in between, and the
account that asks is an operator, to whom everything is sent. Processor time is the service's alone,
from `/proc`.

On a busy machine most of an answer's time is that in which service or console are ready and other
programs have the processors. Linux counts that for each thread (`schedstat`). Times called `own`
are without the longer of the two waits; both may wait at once, so they are no less than what an
answer takes on an idle machine. `act_processor_ms` is the processor time of the service
for an act, without what the watching consoles take meanwhile; `longest_step_ms` that of the
longest piece of work between two looks of the service at its socket, which an act may have to wait
for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp

from gpuconsole.core.jobs import Job, JobState, Task
from gpuconsole.session import factory
from gpuconsole.session.factory import DemoOptions
from gpuconsole.session.lab_service.console.client import LabClient, LocalWay
from gpuconsole.session.lab_service.protocol import PICTURE_BYTES, VERSION, Request
from gpuconsole.session.lab_service.service import LabService

TARGETS = {"act_p95_ms": 200.0, "act_own_p95_ms": 200.0, "cpu_percent": 40.0, "memory_mib": 300.0}
TRIES = 60
PAUSE_S = 0.05
"""Between two tries."""


def main() -> None:
    """Measure, and print the figures beside their targets."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--consoles", type=int, default=200)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long consoles watch")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        asyncio.run(_serve(options))
        return
    figures = asyncio.run(_measured(options))
    if options.json:
        print(json.dumps(figures))
        return
    for name, figure in figures.items():
        target = f"  (target {TARGETS[name]:g})" if name in TARGETS else ""
        print(f"{name:24} {figure:10.1f}{target}")


async def _serve(options: argparse.Namespace) -> None:
    """Serve the simulated lab until this process is ended."""
    state = options.serve.parent / "state"
    session = factory.open_session(None, state, demo=DemoOptions(hosts=options.hosts))
    now = time.time()
    session._journal.add_all(
        [
            Job(f"job{number:07d}", Task(f"train-{number}", script="/t.py"), f"user-{number % 5}",
                JobState.HELD, now, estimate_mib=1000.0)
            for number in range(options.jobs)
        ]
    )  # fmt: skip
    async with session, LabService(session, options.serve):
        _note_longest_step(options.serve.parent / "longest")
        await asyncio.Event().wait()


def _note_longest_step(path: Path) -> None:
    """Write into a file how long the longest callback of the event loop has run from now on, as
    processor time (ms), whenever one was longer than all before it."""
    longest, run = 0.0, asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        nonlocal longest
        begun = time.thread_time()
        run(handle)
        took = time.thread_time() - begun
        if took > longest:
            longest = took
            path.write_text(f"{1000 * took}")

    asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]


async def _measured(options: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="lab-") as folder:
        path = Path(folder) / "queue.sock"
        words = ["--hosts", str(options.hosts), "--jobs", str(options.jobs), "--serve", str(path)]
        service = _started(words)
        try:
            client = LabClient(LocalWay(path))
            await _until_served(client)
            alone = await _used(service.pid, options.seconds / 3)
            return {
                "consoles": float(options.consoles),
                "cpu_percent_alone": alone,
                **await _watched(client, path, service.pid, options),
            }
        finally:
            service.terminate()
            service.wait()


def _started(words: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "benchmarks.lab_service", *words])


async def _watched(
    client: LabClient, path: Path, pid: int, options: argparse.Namespace
) -> dict[str, float]:
    heard = [0]
    ready = asyncio.Semaphore(0)
    watches = [asyncio.ensure_future(_watch(path, heard, ready)) for _ in range(options.consoles)]
    try:
        for _ in watches:
            await ready.acquire()
        cpu = await _used(pid, options.seconds)
        sent, heard[0] = heard[0], 0
        used, begun = _cpu_s(pid), time.perf_counter()
        acts = await _timed(_act(client), pid)
        beside = cpu / 100 * (time.perf_counter() - begun)
        act_cpu_s = max(0.0, _cpu_s(pid) - used - beside) / TRIES
        commands = await _timed(partial(_watch, path, heard, ready, once=True), pid)
        return {
            "cpu_percent": cpu,
            "memory_mib": _memory_mib(pid),
            "sent_mib_s": sent / 2**20 / options.seconds,
            "act_processor_ms": 1000 * act_cpu_s,
            "longest_step_ms": float((path.parent / "longest").read_text()),
            **_told("act", acts),
            **_told("command", commands),
        }
    finally:
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


async def _watch(
    path: Path, heard: list[int], ready: asyncio.Semaphore, *, once: bool = False
) -> None:
    connector = aiohttp.UnixConnector(path=str(path))
    async with (
        aiohttp.ClientSession(connector=connector) as http,
        http.ws_connect(f"http://lab/v{VERSION}/watch", max_msg_size=PICTURE_BYTES) as socket,
    ):
        messages = 0
        async for message in socket:
            heard[0] += len(message.data)
            messages += 1
            if messages == 3:
                ready.release()
                if once:
                    return


def _act(client: LabClient) -> Callable[[], Awaitable[Any]]:
    async def act() -> None:
        await client.act(Request("priority", ("job0000001",), number=-1))

    return act


def _told(name: str, times: list[tuple[float, float]]) -> dict[str, float]:
    whole, own = [one for one, _ in times], [two for _, two in times]
    return {
        f"{name}_median_ms": median(whole),
        f"{name}_p95_ms": quantiles(whole, n=20)[-1],
        f"{name}_own_median_ms": median(own),
        f"{name}_own_p95_ms": quantiles(own, n=20)[-1],
    }


async def _timed(work: Callable[[], Awaitable[Any]], pid: int) -> list[tuple[float, float]]:
    """Return how long each of several tries took, and how long without the time in which the
    service, or this process, waited for a processor (ms)."""
    times, both = [], (pid, os.getpid())
    for _ in range(TRIES):
        begun, before = time.perf_counter(), [_waited_s(one) for one in both]
        await work()
        took = time.perf_counter() - begun
        waited = max(_waited_s(one) - was for one, was in zip(both, before, strict=True))
        times.append((1000 * took, 1000 * max(0.0, took - waited)))
        await asyncio.sleep(PAUSE_S)
    return times


def _waited_s(pid: int) -> float:
    """Return how long the main thread of a process has been ready and not run."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9


async def _until_served(client: LabClient) -> None:
    while True:
        try:
            await client.hello()
            return
        except Exception:
            await asyncio.sleep(0.2)


async def _used(pid: int, seconds: float) -> float:
    """Return how much of one processor a process uses for so long (percent)."""
    before, begun = _cpu_s(pid), time.perf_counter()
    await asyncio.sleep(seconds)
    return 100 * (_cpu_s(pid) - before) / (time.perf_counter() - begun)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main()
