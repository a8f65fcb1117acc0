"""The console over a fleet made of figures, in the terminal it was started in.

Started by `benchmarks.console` in a pseudo-terminal. The session is the real one; only the hosts
are made up beforehand, so that what is measured is drawing and what the session does with frames,
not the making of the figures.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.console.tally import Tally, count_paints, tally
from gpuconsole.config import LabSettings
from gpuconsole.core.containers import Engine
from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostFacts, HostState
from gpuconsole.core.images import DEFAULT_IMAGE
from gpuconsole.errors import RefusedError, UnreachableError
from gpuconsole.session.context import Context
from gpuconsole.session.session import Session
from gpuconsole.session.submit.validate import Packed
from gpuconsole.state import Journal
from gpuconsole.tui import run_console

STEPS = (0, 31, 59, 83, 17)
"""By how much the figures differ in the pictures that are made beforehand and shown in turn: so
many that what looks at a host every 16 s sees another each time."""
FRAMES = len(STEPS)


class MadeHosts:
    """A fleet in which every value changes once a second."""

    def __init__(self, frames: list[tuple[Host, ...]], counted: Tally | None = None) -> None:
        """`counted` is told how long it took to give the pictures their time."""
        self._frames = frames
        self._counted = counted
        self._known = FleetSnapshot()

    async def start(self) -> None:
        """Nothing to connect."""

    async def close(self) -> None:
        """Nothing to end."""

    def snapshot(self) -> FleetSnapshot:
        """Return the picture of this second."""
        now = time.time()
        if int(now) != self._known.revision:
            began = time.thread_time()
            hosts = [replace(host, sampled_at=now) for host in self._frames[int(now) % FRAMES]]
            self._known = FleetSnapshot(int(now), now, tuple(hosts), simulated=True)
            if self._counted is not None:
                self._counted.made(time.thread_time() - began)
        return self._known

    async def engine(self, host: str) -> Engine:
        """Refuse: there is no engine behind figures."""
        raise UnreachableError("No engine", f"{host} is made of figures.")


def main() -> None:
    """Run the console until it is left."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument(
        "--drawing-only", action="store_true", help="a session that keeps and watches nothing"
    )
    parser.add_argument("--tally", type=Path, required=True, help="file to count paints in")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder, tally(options.tally) as counted:
        count_paints(counted)
        context = Context(
            hosts=MadeHosts(frames(options.hosts, options.devices), counted),
            journal=Journal(Path(folder), clock=time.time),
            settings=LabSettings(),
            user="bench",
            pack=_refuse,
            default_image=lambda host: DEFAULT_IMAGE,
            dispatch=False,
            simulated=True,
        )
        # A session that is not entered only hands out pictures.
        run_console(Session(context), opened=options.drawing_only)


def _refuse(*given: object, **more: object) -> Packed:
    raise RefusedError("Nothing is submitted here", "The hosts are made of figures.")


def frames(hosts: int, devices: int) -> list[tuple[Host, ...]]:
    """Return the pictures that are shown in turn; every figure differs from one to the next."""
    facts = HostFacts(31.0, 128, 1.0e6, 4.0e5, 3.6e6, 1.1e6, 40.0, "550.127.05", "12.4")
    dice = random.Random(7)
    bases = [[dice.randrange(101) for _ in range(devices)] for _ in range(hosts)]
    return [
        tuple(
            Host(
                f"n{number:04d}",
                HostState.UP,
                f"10.0.{number // 250}.{number % 250}",
                {"rack": f"r{number // 16:02d}"},
                12.0,
                tuple(_device(number, at, base, frame) for at, base in enumerate(loads)),
                facts,
            )
            for number, loads in enumerate(bases)
        )
        for frame in range(FRAMES)
    ]


def _device(host: int, index: int, base: int, frame: int) -> Device:
    load = (base + STEPS[frame]) % 101
    held = (base + STEPS[frame - 1]) % 101
    process = DeviceProcess(1000 + host, "ana", 20000.0, "python train.py")
    return Device(
        uuid=f"GPU-{host:04d}-{index}",
        index=index,
        model="NVIDIA A100-SXM4-40GB",
        memory_total_mib=40960.0,
        memory_used_mib=409.6 * held,
        utilization=float(load),
        temperature_c=30.0 + load * 0.45,
        power_w=60.0 + load * 3.3,
        power_limit_w=400.0,
        processes=(process,) if base % 4 else (),
    )


if __name__ == "__main__":
    main()
