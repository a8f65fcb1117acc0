"""Cost and freshness of the live map over real sshd hosts, on this machine.

    make bench                         16 hosts; 16 with one hung beside them; 200 hosts
    make bench ARGS="--hosts 16"       one size

As root on Debian: each host is a network namespace with its own sshd and a stand-in driver
library with 8 devices whose figures change every second. The console runs in a pseudo-terminal of
120x36 with the map on screen; the hosts share the machine's cores with it.
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import json
import os
import platform
import pty
import random
import resource
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.console.__main__ import pace_cpu_s
from benchmarks.installed import environment

DEVICES = 8
SIZE = (36, 120)


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run showed."""

    hosts: int
    hung: int
    cpu_percent: float
    cpu_ms_per_host_sample: float
    age_mean_s: float
    age_p95_s: float
    first_paint_s: float
    first_full_picture_s: float
    samples_per_host_s: float
    rss_mib: float
    stages: dict[str, tuple[float, float]]
    """Of the start: seconds since the process was made, processor time of the stage."""

    @property
    def first_words_s(self) -> float:
        """When the terminal showed the first words."""
        return self.stages["first words on the terminal"][0]

    @property
    def hosts_named_s(self) -> float:
        """When it showed the names of the hosts."""
        return self.stages["settings, inventory: hosts named"][0]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, action="append", help="only this many hosts")
    parser.add_argument("--hung", type=int, default=0, help="with --hosts: so many more, hung")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    from tests.real.rig import hosts, nvml

    reason = hosts.why_not() or nvml.why_not()
    if reason:
        sys.exit(f"benchmarks.fleet: {reason}")
    runs = [(count, options.hung) for count in options.hosts or ()]
    runs = runs or [(16, 0), (16, 1), (200, 0)]
    figures = [measure(count, hung, options.seconds) for count, hung in runs]
    if options.json:
        print(json.dumps([{name: getattr(row, name) for name in row.__slots__} for row in figures]))
    else:
        print_table(figures)
    return 0


def measure(count: int, hung: int, seconds: float) -> Figures:
    """Start the hosts, run the console on them, and take them down."""
    from tests.real.rig.hosts import lab

    with lab() as made, tempfile.TemporaryDirectory() as scratch:
        for number in range(count + hung):
            print(f"\rstarting host {number + 1}", end="", file=sys.stderr)
            made.add(devices=DEVICES)
        print("\r\x1b[K", end="", file=sys.stderr)
        for host in made.hosts[count:]:
            host.freeze()
        folder = Path(scratch)
        (folder / "inventory.yaml").write_text(made.inventory())
        stop = threading.Event()
        mover = threading.Thread(target=_move, args=(made.hosts[:count], stop))
        mover.start()
        try:
            notes = _run_console(folder, count, seconds)
        finally:
            stop.set()
            mover.join()
    return evaluate(notes, count, hung)


def evaluate(notes: dict[str, Any], count: int, hung: int) -> Figures:
    """Turn the console's notes into figures.

    The age of a host's data on the screen grows from one paint to the next; it is taken every
    20 ms of the window, for every host that is up.
    """
    if notes["full_picture"] is None:
        raise SystemExit("not every host came up")
    (begin, cpu_begin), (end, cpu_end) = notes["cpu"]
    paints = notes["paints"]
    ages: list[float] = []
    samples: set[tuple[str, float]] = set()
    for (at, seen), (until, _) in itertools.pairwise(paints):
        samples.update(seen.items())
        steps = max(1, int((until - at) / 0.02))
        for sampled in seen.values():
            ages += [at + step * 0.02 - sampled for step in range(steps)]
    ages.sort()
    wall = end - begin
    cpu = cpu_end - cpu_begin
    return Figures(
        hosts=count,
        hung=hung,
        cpu_percent=100 * cpu / wall,
        cpu_ms_per_host_sample=1000 * cpu / max(1, len(samples)),
        age_mean_s=sum(ages) / len(ages),
        age_p95_s=ages[int(len(ages) * 0.95)],
        first_paint_s=notes["first_paint"] - notes["started"],
        first_full_picture_s=notes["full_picture"] - notes["first_paint"],
        samples_per_host_s=len(samples) / count / wall,
        rss_mib=notes["rss_mib"],
        stages=_stages(notes["started"], notes["stages"]),
    )


def _stages(
    began: float, reached: Sequence[tuple[str, float, float]]
) -> dict[str, tuple[float, float]]:
    stages, before = {}, 0.0
    for name, at, cpu in reached:
        stages[name] = (at - began, cpu - before)
        before = cpu
    return stages


def print_table(figures: Sequence[Figures]) -> None:
    """Print the figures side by side, with what they were measured on."""
    print(f"{platform.platform()}, {os.cpu_count()} cores shared with the hosts, ", end="")
    print(f"Python {platform.python_version()}, {DEVICES} devices a host, 1 Hz")
    rows = [
        ("client CPU, % of a core", "cpu_percent", ".1f"),
        ("client CPU, ms per host-sample", "cpu_ms_per_host_sample", ".2f"),
        ("data age mean, s", "age_mean_s", ".2f"),
        ("data age p95, s", "age_p95_s", ".2f"),
        ("process start to first words, s", "first_words_s", ".2f"),
        ("process start to hosts named, s", "hosts_named_s", ".2f"),
        ("process start to first paint, s", "first_paint_s", ".2f"),
        ("first paint to full picture, s", "first_full_picture_s", ".2f"),
        ("samples per host and second", "samples_per_host_s", ".2f"),
        ("RSS, MiB", "rss_mib", ".0f"),
    ]
    heads = [f"{row.hosts} hosts" + (f" + {row.hung} hung" if row.hung else "") for row in figures]
    print(f"{'':34}" + "".join(f"{head:>18}" for head in heads))
    for title, name, form in rows:
        print(f"{title:34}" + "".join(f"{format(getattr(row, name), form):>18}" for row in figures))
    python, agent = agent_start_cpu_s()
    print(f"\nThe agent's start takes {1000 * agent:.0f} ms of processor time on a host, ", end="")
    print(f"{1000 * python:.0f} of them Python's own.")
    pace = pace_cpu_s()
    print(f"\nThe start, in ms of processor time; a fixed piece of work takes {pace:.2f} s here.")
    for stage in figures[0].stages:
        cells = [f"{1000 * row.stages[stage][1]:.0f}" for row in figures]
        print(f"{stage:34}" + "".join(f"{cell:>18}" for cell in cells))
    totals = [f"{1000 * sum(cpu for _, cpu in row.stages.values()):.0f}" for row in figures]
    print(f"{'in all':34}" + "".join(f"{total:>18}" for total in totals))


def agent_start_cpu_s(python: str = "/usr/bin/python3", times: int = 10) -> tuple[float, float]:
    """Return the processor time in which Python itself starts on this machine, and the agent with
    its first line in it; the least of some."""
    from gpuconsole.remote.polling import agent_launch

    def agent() -> None:
        with subprocess.Popen(
            agent_launch.command(python), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(agent_launch.payload("benchmark", 1.0))
            child.stdin.flush()
            # Its hello, and what it read first.
            child.stdout.readline()
            child.stdout.readline()

    def bare() -> None:
        subprocess.run([*agent_launch.command(python)[:-1], "pass"], check=True)

    def least(start: Callable[[], None]) -> float:
        return min(_children_cpu_s(start) for _ in range(times))

    return least(bare), least(agent)


def _children_cpu_s(start: Callable[[], None]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _move(hosts: Sequence[Any], stop: threading.Event) -> None:
    dice = random.Random(7)
    while not stop.is_set():
        for host in hosts:
            changes: dict[str, object] = {}
            for index in range(DEVICES):
                changes[f"{index}.util"] = dice.randrange(101)
                changes[f"{index}.used_mib"] = dice.randrange(40960)
                changes[f"{index}.temp"] = dice.randrange(30, 85)
            host.driver.set(changes)
        stop.wait(1.0)


def _run_console(folder: Path, expect: int, seconds: float) -> dict[str, Any]:
    main_end, child_end = pty.openpty()
    fcntl.ioctl(child_end, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    out = folder / "notes.json"
    command = [sys.executable, "-m", "benchmarks.console.probe"]
    command += ["--inventory", str(folder / "inventory.yaml"), "--state", str(folder / "state")]
    command += ["--expect", str(expect), "--seconds", str(seconds), "--out", str(out)]
    env = environment(TERM="xterm-256color", COLORTERM="truecolor")
    command += ["--began", str(time.time())]
    # Textual draws on stderr.
    console = subprocess.Popen(
        command, stdin=child_end, stdout=child_end, stderr=child_end, env=env
    )
    os.close(child_end)
    last = bytearray()
    drain = threading.Thread(target=_drain, args=(main_end, last), daemon=True)
    drain.start()
    try:
        console.wait(180 + seconds)
    except subprocess.TimeoutExpired:
        console.kill()
        console.wait()
    if not out.exists():
        raise SystemExit(f"the console wrote no notes:\n{last.decode(errors='replace')}")
    notes: dict[str, Any] = json.loads(out.read_text())
    return notes


def _drain(terminal: int, last: bytearray) -> None:
    """Read as a terminal would, and keep the end: a console that fails says why there."""
    try:
        while chunk := os.read(terminal, 65536):
            last[:] = (last + chunk)[-4000:]
    except OSError:
        pass


if __name__ == "__main__":
    sys.exit(main())
