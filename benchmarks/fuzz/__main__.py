"""Random hostile input for everything that reads what hosts, engines, files and scripts say.

    python -m benchmarks.fuzz --seconds 60              every reader, for so long in all
    python -m benchmarks.fuzz --inputs 20000            every reader, so many inputs in all
    python -m benchmarks.fuzz --target tars --input 17  one input again, with its traceback

Held for each input: nothing but the reader's own refusals comes out, it takes no more than 2 s of
processor time, and the memory of the process that reads stays within a bound. A process a reader;
one that exceeds its time is ended, the input counted, and the reading goes on behind it. An input
is known by reader, seed and number, and is made again from them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.fuzz.targets import TARGETS, Target

FREEZE_S = 2.0
"""Processor seconds that one input may take."""
SILENCE_S = 120.0
"""Seconds after which an input that does not use the processor either counts as a freeze."""
GROWTH_MIB = 256
"""What a reader may need beside what it starts with."""
SEED = 7


@dataclass
class Tally:
    """What became of one reader's inputs."""

    target: str
    inputs: int = 0
    refused: int = 0
    broken: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    grown_mib: float = 0.0

    @property
    def good(self) -> bool:
        """Whether everything held."""
        return not self.broken and self.inputs > 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the readers and print what became of their inputs; 1 when something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, help="for all readers together")
    parser.add_argument("--inputs", type=int, help="for all readers together")
    parser.add_argument("--target", help=f"only this reader: {', '.join(sorted(TARGETS))}")
    parser.add_argument("--input", type=int, help="only this input, in this process")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    names = [options.target] if options.target else sorted(TARGETS)
    if options.input is not None:
        _read_one(_target(names[0]), options.seed, options.input)
        return 0
    if options.first is not None:
        return _child(_target(names[0]), options.seed, options.first)
    seconds = (options.seconds or (3600.0 if options.inputs else 60.0)) / len(names)
    inputs = -(-(options.inputs or 10**9) // len(names))
    tallies = [_run(name, options.seed, inputs, seconds) for name in names]
    if options.json:
        print(json.dumps([asdict(tally) for tally in tallies], indent=2))
    else:
        _show(tallies)
    return 0 if all(tally.good for tally in tallies) else 1


def _target(name: str) -> Target:
    """Return a reader by its name, or by `module:Class` for one that lives elsewhere."""
    if name in TARGETS:
        return TARGETS[name]
    module, _, word = name.partition(":")
    found: Target = getattr(importlib.import_module(module), word)
    return found


def _run(name: str, seed: int, inputs: int, seconds: float) -> Tally:
    """Feed one reader in child processes, a new one behind each input that ends the last."""
    tally, end, first = Tally(name), time.monotonic() + seconds, 0
    while first < inputs and time.monotonic() < end:
        first = _feed(tally, seed, first, inputs, end)
    return tally


def _feed(tally: Tally, seed: int, first: int, inputs: int, end: float) -> int:
    """Read what one child reports until it is ended; returns the number of the next input."""
    command = [sys.executable, "-m", "benchmarks.fuzz", "--target", tally.target]
    command += ["--seed", str(seed), "--first", str(first)]
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert child.stdout is not None
        number = first
        for line in child.stdout:
            report = json.loads(line)
            if "start" in report:
                number = report["start"]
                if number >= inputs or time.monotonic() > end:
                    child.kill()
                    break
                continue
            tally.inputs += 1
            tally.refused += bool(report["refused"])
            tally.slowest_s = max(tally.slowest_s, report["cpu_s"])
            tally.grown_mib = max(tally.grown_mib, report["grown_mib"])
            if report["broken"]:
                tally.broken.append(f"input {report['number']}: {report['broken']}")
        code = child.wait()
        if number >= inputs or time.monotonic() > end:
            return inputs
        tally.inputs += 1
        errors.seek(0)
        said = errors.read()[-2000:].strip()
        what = (
            "froze" if code == -signal.SIGXCPU or code == -signal.SIGALRM else "ended the process"
        )
        tally.broken.append(f"input {number}: {what} ({code}) {said}")
    return number + 1


def _child(target: Target, seed: int, first: int) -> int:
    """Read inputs until ended from outside; reports each on standard output."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        reader = target(Path(folder))
        # What is read once, on first use, is no growth.
        reader.read(reader.make(random.Random(f"{target.__name__} {seed} warm")))
        before, number = _peak_mib(), first
        while True:
            data = reader.make(random.Random(f"{target.__name__} {seed} {number}"))
            out.write(json.dumps({"start": number}) + "\n")
            began = time.process_time()
            # The kernel ends what uses more; the alarm is for what only waits.
            soft = int(began + FREEZE_S) + 2
            resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
            signal.alarm(int(SILENCE_S))
            refused, broken = False, ""
            try:
                refused = not reader.read(data)
            except Exception:
                broken = traceback.format_exc(limit=-4).strip().replace("\n", " | ")[-700:]
            cpu_s = time.process_time() - began
            grown = max(0.0, _peak_mib() - before)
            if not broken and cpu_s > FREEZE_S:
                broken = f"took {cpu_s:.1f} s"
            if not broken and grown > GROWTH_MIB:
                broken, before = f"needed {grown:.0f} MiB", _peak_mib()
            report = {"number": number, "refused": refused, "broken": broken}
            out.write(json.dumps(report | {"cpu_s": cpu_s, "grown_mib": grown}) + "\n")
            number += 1


def _read_one(target: Target, seed: int, number: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        reader = target(Path(folder))
        data = reader.make(random.Random(f"{target.__name__} {seed} {number}"))
        print(repr(data)[:4000])
        print("read" if reader.read(data) else "refused")


def _peak_mib() -> float:
    """Return the most memory that this program has held. What `getrusage` says would begin with
    that of the process that started it."""
    status = Path("/proc/self/status").read_text()
    return next(
        int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:")
    )


def _show(tallies: Sequence[Tally]) -> None:
    print(f"{'reader':<14} {'inputs':>8} {'refused':>8} {'slowest':>9} {'grown':>9}  broken")
    for tally in tallies:
        print(
            f"{tally.target:<14} {tally.inputs:>8} {tally.refused:>8} {tally.slowest_s:>7.2f} s"
            f" {tally.grown_mib:>5.0f} MiB  {len(tally.broken)}"
        )
    inputs = sum(tally.inputs for tally in tallies)
    broken = [f"{tally.target} {what}" for tally in tallies for what in tally.broken]
    print(f"{inputs} inputs, {len(broken)} broke something")
    for what in broken[:40]:
        print(what)


if __name__ == "__main__":
    raise SystemExit(main())
