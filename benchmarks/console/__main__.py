"""How fast the console is, in a terminal with real drawing.

    python -m benchmarks.console                  all cases, as a table against the targets
    python -m benchmarks.console --case map       the case of that name, or those that begin so
    python -m benchmarks.console --json
    python -m benchmarks.console --list           the cases, and how long each takes

Each case starts the console in a pseudo-terminal, drains it as a terminal would, and takes the
processor time from the kernel. `Key to paint` is from a byte written to the terminal until the
bytes of the answer have arrived; keys during which Linux counted time as stolen by other machines
are told apart. Nothing but Linux is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import recording
from benchmarks.console.tally import Tally, tally
from benchmarks.console.terminal import Terminal
from benchmarks.console.waits import Wait, figures, waited
from benchmarks.installed import environment
from gpuconsole.session.recording.recorder import BLOCK_S
from gpuconsole.tui.runtime.gc_scheduler import RECENT_EVERY_S, SETTLED_S

WIDE, FULL = (120, 36), (155, 37)
QUIET_S = (3.6,) * 3
"""How long nothing is pressed, to take the cost of refreshing alone: three paints of a large fleet
each time. The median window counts: others on the machine make some of them dear."""
WATCHED_S = (65.0,)
"""The same for a whole session: it writes what it has recorded once a minute."""
FIRST_S = BLOCK_S + SETTLED_S
"""After so long a whole session has begun its recording: the first block of each hour's file also
tells what the hosts are, and takes twice as long to write as the others."""
KEYS, MAP_KEYS = 120, 60


@dataclass(frozen=True, slots=True)
class Row:
    """One figure against its target; None where there is none."""

    case: str
    what: str
    figure: float
    unit: str
    target: float | None = None

    @property
    def met(self) -> bool:
        """Whether the figure is within the target."""
        return self.target is None or self.figure <= self.target


@dataclass(frozen=True, slots=True)
class Case:
    """Something that is measured; `run` gives its rows."""

    name: str
    about_s: int
    """How long it takes where nothing else is at work."""
    run: Callable[[str], Iterator[Row]]


# -- the map ----------------------------------------------------------------------------------


def fleet_map(
    size: tuple[int, int], more: str = "", *, whole: bool = False
) -> Callable[[str], Iterator[Row]]:
    """Measure the map of 1,000 hosts x 8 devices, all values changing once a second.

    `more` is pressed first, such as `+` for a greater density. The session only hands out pictures,
    or with `whole` also keeps their history, records them and looks for trouble in them.
    """

    def run(case: str) -> Iterator[Row]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "tally"
            command = [sys.executable, "-m", "benchmarks.console.fleet_child", "--tally", str(file)]
            command += [] if whole else ["--drawing-only"]
            with tally(file) as counted, Terminal(command, size) as terminal:
                terminal.until(b"n0000", 60)
                time.sleep(FIRST_S if whole else SETTLED_S + 1.0)
                for key in more:
                    terminal.press(key)
                    time.sleep(1.0)
                yield from _refreshing(case, terminal, counted, WATCHED_S if whole else QUIET_S)
                yield from _moving(case, terminal, 50.0)
                yield Row(case, "RSS", terminal.peak_mib(), "MiB", 150.0)

    return run


def _refreshing(
    case: str, terminal: Terminal, counted: Tally, windows: Sequence[float]
) -> Iterator[Row]:
    """Measure what a paint costs while nothing is pressed, without the making of the figures."""
    found = [_refreshed(terminal, counted, seconds) for seconds in windows]
    cpu, share, written = (statistics.median(column) for column in zip(*found, strict=True))
    yield Row(case, "CPU per refresh", 1000 * cpu, "ms", 25.0)
    yield Row(case, "share of a core", 100 * share, "%")
    yield Row(case, "written per refresh", written / 1024, "KiB")


def _refreshed(terminal: Terminal, counted: Tally, seconds: float) -> tuple[float, float, float]:
    """Return processor seconds a paint, share of a core, and bytes a paint."""
    began, cpu, written = time.monotonic(), terminal.cpu_s(), terminal.written
    paints, making = counted.paints, counted.making_s
    time.sleep(seconds)
    passed = time.monotonic() - began
    paints = max(1, counted.paints - paints)
    cpu = terminal.cpu_s() - cpu - (counted.making_s - making)
    return cpu / paints, cpu / passed, (terminal.written - written) / paints


def _moving(case: str, terminal: Terminal, target: float) -> Iterator[Row]:
    """Move the cursor to the right; the inspector names the host that it stands on."""
    waits = [waited(terminal, "l", b"n%04d" % number) for number in range(1, MAP_KEYS + 1)]
    yield from _keys(case, "key to paint", "", waits, target)


def _keys(case: str, what: str, by: str, waits: Sequence[Wait], target: float) -> Iterator[Row]:
    for name, figure, unit in figures(waits):
        yield Row(case, f"{what} {name}{by}", figure, unit, target if name == "p95" else None)


# -- live streams -----------------------------------------------------------------------------


CONNECT_S = 600.0
"""Within so long all hosts must be up: a thousand handshakes, some at a time, at both ends."""


def streams(count: int) -> Callable[[str], Iterator[Row]]:
    """Measure the console on so many SSH connections with an agent's lines once a second each.

    Connections, agents' lines and drawing are real; the hosts are one other process, which shares
    the machine's cores with the console and is not counted.
    """

    def run(case: str) -> Iterator[Row]:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            file = folder / "tally"
            with _stream_hosts(folder, count), tally(file) as counted:
                begun = time.monotonic()
                with Terminal(_streamed(folder, file), FULL) as terminal:
                    terminal.until(b"n0000", 60)
                    while counted.up < count:
                        if time.monotonic() - begun > CONNECT_S:
                            raise SystemExit(f"only {counted.up} of {count} hosts came up")
                        time.sleep(0.2)
                    yield Row(case, "until all are up", time.monotonic() - begun, "s")
                    # Until what the hosts have brought is taken to stay.
                    time.sleep(RECENT_EVERY_S + SETTLED_S)
                    yield from _live(case, terminal, counted)

    return run


def _live(case: str, terminal: Terminal, counted: Tally) -> Iterator[Row]:
    began, cpu, paints = time.monotonic(), terminal.cpu_s(), counted.paints
    time.sleep(WATCHED_S[0])
    passed = time.monotonic() - began
    yield Row(case, "share of a core", 100 * (terminal.cpu_s() - cpu) / passed, "%", 40.0)
    yield Row(case, "paints a second", (counted.paints - paints) / passed, "/s")
    yield from _moving(case, terminal, 100.0)
    yield Row(case, "RSS", terminal.peak_mib(), "MiB")


@contextmanager
def _stream_hosts(folder: Path, count: int) -> Iterator[None]:
    """Run hosts in another process, with an inventory of them in the folder."""
    command = [sys.executable, "-m", "benchmarks.console.stream_hosts", str(folder)]
    hosts = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert hosts.stdin is not None
    assert hosts.stdout is not None
    try:
        port = hosts.stdout.readline().strip()
        known = folder / "known_hosts"
        known.write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
        access = f"port: {port}, user: bench, identity_file: {folder / 'user'}"
        names = (f"  - {{name: n{number:04d}, address: 127.0.0.1}}\n" for number in range(count))
        (folder / "inventory.yaml").write_text(
            f"version: 1\ndefaults: {{{access}, known_hosts: {known}}}\nhosts:\n{''.join(names)}"
        )
        yield
    finally:
        hosts.stdin.close()
        try:
            hosts.wait(10)
        except subprocess.TimeoutExpired:
            hosts.kill()
            hosts.wait()
        hosts.stdout.close()


def _streamed(folder: Path, file: Path) -> list[str]:
    inventory, state = str(folder / "inventory.yaml"), str(folder / "state")
    return [
        *(sys.executable, "-m", "benchmarks.console.stream_child", "--tally", str(file)),
        *("--inventory", inventory, "--state", state),
    ]


# -- long lists -------------------------------------------------------------------------------


def queue(count: int) -> Callable[[str], Iterator[Row]]:
    """Measure moving through a queue of so many jobs."""

    def run(case: str) -> Iterator[Row]:
        with Terminal(_with_jobs("--jobs", count), WIDE) as terminal:
            terminal.until(b"n0000", 60)
            begun = time.monotonic()
            terminal.press("2")
            terminal.until(f"queue  {count:,} jobs".encode(), 60)
            yield Row(case, "until it is shown", time.monotonic() - begun, "s")
            time.sleep(5.0)
            # The row that the cursor comes to is drawn again.
            rows = [f" {number} j".encode() for number in range(2, KEYS + 2)]
            yield from _scrolled(case, "a row", terminal, [("j", row) for row in rows])
            yield from _scrolled(case, "a page", terminal, [("\x04", b"j0")] * KEYS)
            yield Row(case, "RSS", terminal.peak_mib(), "MiB", 150.0)

    return run


def log(lines: int) -> Callable[[str], Iterator[Row]]:
    """Measure scrolling through a log of so many lines, at its end and amid it, and searching."""

    def run(case: str) -> Iterator[Row]:
        with Terminal(_with_jobs("--lines", lines), WIDE) as terminal:
            terminal.until(b"n0000", 120)
            begun = time.monotonic()
            terminal.press("3")
            terminal.until(f"line {lines:,} of {lines:,}".encode(), 60)
            yield Row(case, "until it is read", time.monotonic() - begun, "s")
            time.sleep(3.0)
            places = [f"line {lines - number:,} of".encode() for number in range(1, KEYS + 1)]
            yield from _scrolled(case, "a line", terminal, [("k", place) for place in places])
            yield from _scrolled(case, "a page", terminal, [("\x15", b"step=")] * KEYS)
            for key in "/slow":
                terminal.press(key)
                time.sleep(0.3)
            begun = time.monotonic()
            terminal.press("\r")
            longest = max(waited(terminal, "k", b"step=").seconds for _ in range(8))
            yield Row(case, "scroll key, longest, searching", 1000 * longest, "ms")
            terminal.press("n")
            terminal.until(f"of {lines // 1000:,}".encode(), 60)
            yield Row(case, "until all was searched", time.monotonic() - begun, "s")
            yield Row(case, "RSS", terminal.peak_mib(), "MiB", 150.0)

    return run


def _scrolled(
    case: str, by: str, terminal: Terminal, keys: Sequence[tuple[str, bytes]]
) -> Iterator[Row]:
    """Press keys, each with what it brings. The processor time between two of them tells on a busy
    machine what the wait does on an idle one; what the console does by itself is in it."""
    worked = terminal.cpu_s()
    waits = [waited(terminal, key, shown) for key, shown in keys]
    worked = (terminal.cpu_s() - worked) / len(waits)
    yield from _keys(case, "scroll key", f", {by}", waits, 50.0)
    yield Row(case, f"processor time a key, {by}", 1000 * worked, "ms")


def _with_jobs(option: str, count: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.console.jobs_child", option, str(count)]


# -- starting ---------------------------------------------------------------------------------


STARTS = 5
"""The least of so many starts counts: what others do on the machine only adds to one."""


def start(case: str) -> Iterator[Row]:
    """Measure from the command to a picture one can use: hosts with their load."""
    yield from _started(case, [*_console(), "demo", "--hosts", "16"], b"a100-01")


def start_with_inventory(case: str) -> Iterator[Row]:
    """The same over an inventory, whose hosts do not answer: their names are there at once."""
    with tempfile.TemporaryDirectory() as folder:
        inventory = Path(folder) / "inventory.yaml"
        hosts = "".join(
            f"  - {{name: n{at:02d}, address: 127.0.0.1, port: 9}}\n" for at in range(16)
        )
        inventory.write_text(f"version: 1\nhosts:\n{hosts}")
        command = [*_console(), "--inventory", str(inventory), "--state", folder]
        yield from _started(case, command, b"n15")


def _started(case: str, command: Sequence[str], shown: bytes) -> Iterator[Row]:
    times, worked = [], []
    for _ in range(STARTS):
        begun = time.monotonic()
        with Terminal(command, WIDE) as terminal:
            terminal.until(shown, 60)
            times.append(time.monotonic() - begun)
            worked.append(terminal.cpu_s())
    yield Row(case, "first useful paint, 16 hosts", min(times), "s", 1.3)
    yield Row(case, "processor time until then", min(worked), "s")


def help_text(case: str) -> Iterator[Row]:
    """Measure `gpuconsole --help`."""
    times, worked = [], []
    for _ in range(STARTS):
        begun, spent = time.monotonic(), _children_s()
        subprocess.run(
            [*_console(), "--help"], check=True, stdout=subprocess.DEVNULL, env=environment()
        )
        times.append(time.monotonic() - begun)
        worked.append(_children_s() - spent)
    yield Row(case, "--help", min(times), "s", 0.25)
    yield Row(case, "processor time", min(worked), "s")


def _children_s() -> float:
    """Return the processor time of all processes that have been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# -- recording --------------------------------------------------------------------------------


RECORDED_H = 1.0


def recorded(case: str) -> Iterator[Row]:
    """Measure what `benchmarks.recording` does of an hour, as a day's."""
    found = recording.measured(RECORDED_H, 60)
    yield Row(case, "24 h on disk", found.day_mib, "MiB", recording.SIZE_TARGET_MIB)
    yield Row(case, "slowest of 60 moments", found.open_max_ms, "ms", recording.OPEN_TARGET_MS)


def _console() -> list[str]:
    return [sys.executable, "-m", "gpuconsole"]


CASES = (
    Case("map 155x37", 28, fleet_map(FULL)),
    Case("map 120x36", 28, fleet_map(WIDE)),
    Case("map 120x36, two devices a cell", 29, fleet_map(WIDE, "+")),
    Case("map 120x36, a host a line", 31, fleet_map(WIDE, "+++")),
    Case("session 155x37", 150, fleet_map(FULL, whole=True)),
    Case("1,000 live SSH streams", 170, streams(1000)),
    Case("queue of 10,000 jobs", 60, queue(10_000)),
    Case("log of 1,000,000 lines", 75, log(1_000_000)),
    Case("start, simulated lab", 8, start),
    Case("start, inventory", 3, start_with_inventory),
    Case("help", 1, help_text),
    Case("recording, 16 x 8 devices", 20, recorded),
)


def chosen(name: str) -> list[Case]:
    """Return the case of that name, else those that begin so."""
    return [case for case in CASES if case.name == name] or [
        case for case in CASES if case.name.startswith(name)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases and print each as it ends; 1 when a target is missed, 2 where there is none."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--case", default="", help="the case of that name, or those that begin so")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true", help="name the cases and how long they take")
    options = parser.parse_args(argv)
    cases = chosen(options.case)
    if options.list:
        for case in cases:
            print(f"{case.name:32}{case.about_s:5} s")
        return 0 if cases else 2
    if not options.json:
        print_machine()
    rows: list[Row] = []
    for case in cases:
        print(f"{case.name}: about {case.about_s} s ...", file=sys.stderr)
        found = [Row(case.name, "pace of the machine", pace_s(), "s"), *case.run(case.name)]
        if not options.json:
            print_table(found)
        rows += found
    if options.json:
        print(json.dumps([{**asdict(row), "met": row.met} for row in rows], indent=2))
    return 2 if not rows else 0 if all(row.met for row in rows) else 1


def pace_s() -> float:
    """Return how long a fixed piece of work takes: a machine that others share has slow hours, and
    figures of two hours can only be compared beside this one."""
    began = time.perf_counter()
    _fixed_work()
    return time.perf_counter() - began


def pace_cpu_s() -> float:
    """Return how much processor time the same piece of work takes, to hold others beside it."""
    began = time.process_time()
    _fixed_work()
    return time.process_time() - began


def _fixed_work() -> int:
    total = 0
    for number in range(3_000_000):
        total += number
    return total


def print_machine() -> None:
    """Print what is measured on."""
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")


def print_table(rows: Sequence[Row]) -> None:
    """Print the figures of a case beside their targets, and the load at its end."""
    print(f"{rows[0].case:32}{'load of the machine':38}{os.getloadavg()[0]:9.2f}")
    for row in rows:
        figure = f"{row.case:32}{row.what:38}{row.figure:9.2f} {row.unit:4}"
        if row.target is None:
            print(figure.rstrip())
        else:
            verdict = "met" if row.met else "MISSED"
            share = f"{row.figure / row.target:.2f} of it"
            print(f"{figure}{f'<= {row.target:g} {row.unit}':>14}  {verdict:7}{share:>12}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
