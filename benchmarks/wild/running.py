"""Runs a tier of preflight over scripts of the corpus, as their users would type it.

Each question is a process of its own, with limits of time and memory; it begins in the script's
working folder with the script's command line, and nothing is known beforehand.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.wild import processor
from benchmarks.wild.manifest import Entry

LADDER = "ladder"
"""Asks for no tier: static answers, and where it does not, meta and traced are tried in turn."""
TIERS = ("static", "meta", "traced", LADDER)
LIMIT_S = 900
"""Seconds for a question: the machine may do much else."""
LIMIT_BYTES = 64 << 30
"""Address space of a question's process. Paddle alone maps several GiB; what a script takes that
is computed with data the product itself limits."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What preflight said of a script at one batch size, its own where None."""

    batch: int | None
    peak_bytes: float | None
    """The estimated peak of the tensors; None where there is no estimate of the tier asked."""
    low_bytes: float | None
    high_bytes: float | None
    faults: tuple[str, ...]
    """Why the script itself is said to be wrong."""
    unknowns: tuple[str, ...]
    broken: str
    """Why there is no document at all: a crash, or a limit."""
    seconds: float
    """Wall time of the command."""
    tier: str = ""
    """The tier that gave the number; "" where there is none."""
    cpu_s: float = 0.0
    """Processor time of the command and of all that it started, in seconds: what the machine does
    beside it counts little."""

    @property
    def answered(self) -> bool:
        """Whether there is a number."""
        return self.peak_bytes is not None


@dataclass(frozen=True, slots=True)
class Product:
    """What is asked: a checkout, and the Python that runs it, with the libraries that it has."""

    checkout: Path
    python: str = sys.executable


def ask(entry: Entry, root: Path, tier: str, product: Product, batch: int | None) -> Answer:
    """Ask the product about a script of a repository laid out at `root`."""
    with tempfile.TemporaryDirectory() as state:
        command = [product.python, *_arguments(entry, root, tier, Path(state), batch)]
        environment = {
            **os.environ,
            "PYTHONPATH": str(product.checkout),
            # An installed product is compiled once; the sandbox leaves nothing beside scripts.
            "PYTHONDONTWRITEBYTECODE": "",
        }
        start = time.monotonic()
        process = subprocess.Popen(
            command, cwd=root / entry.workdir, env=environment, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_limit,
            start_new_session=True,
        )  # fmt: skip
        with processor.Watch(process.pid) as used:
            out, errors, late = _said(process)
        time_s = _Time(time.monotonic() - start, round(used.seconds, 2))
    if late:
        return _no_document(batch, f"no answer within {LIMIT_S} s", time_s)
    try:
        document = json.loads(out)
    except ValueError:
        last = (errors.strip().splitlines() or [f"exit {process.returncode}"])[-1]
        return _no_document(batch, last[:300], time_s)
    return replace(read(document, tier, batch, time_s.wall, root), cpu_s=time_s.processor)


@dataclass(frozen=True, slots=True)
class _Time:
    """How long a question took, in seconds."""

    wall: float
    processor: float


def _said(process: subprocess.Popen[str]) -> tuple[str, str, bool]:
    """Return what a command wrote, and whether it had to be ended before that."""
    try:
        return *process.communicate(timeout=LIMIT_S), False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return *process.communicate(), True


def read(
    document: dict[str, Any], tier: str, batch: int | None, seconds: float, root: Path
) -> Answer:
    """Return a document of `preflight --json` as an answer; an error document has no estimate.

    Of the ladder, the reasons are those of its tiers, the last one first.
    """
    if "error" in document:
        error = document["error"]
        said = ": ".join(filter(None, (error.get("title"), error.get("message"))))
        said = said.replace(f"{root}/", "")
        return Answer(batch, None, None, None, (), (), said[:300], seconds)
    gave = document.get("tier")
    memory = document.get("memory") if tier in (gave, LADDER) else None
    mib = {name: None if memory is None else memory.get(name) for name in _SIZES}
    peak, low, high = (None if v is None else v * (1 << 20) for v in mib.values())
    trials = document.get("tiers", ()) if tier == LADDER else ()
    unknowns = [f"{one['tier']}: {one['why']}" for one in reversed(trials) if one["why"]]
    unknowns += [_place(one, root) + one["reason"] for one in document.get("unknowns", ())]
    faults = [_place(one, root) + one["message"] for one in document.get("errors", ())]
    told = (tuple(faults), tuple(unknowns))
    return Answer(batch, peak, low, high, *told, "", seconds, "" if peak is None else str(gave))


_START = "import sys; sys.path.pop(0); from gpuconsole.cli import main; main()"
"""The installed command, whose working folder is not among the folders of imports."""
_SIZES = ("tensors_peak_mib", "low_mib", "high_mib")


def _place(record: dict[str, Any], root: Path) -> str:
    file = str(record.get("file") or "")
    if not file:
        return ""
    path = Path(file)
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    return f"{name}:{record.get('line')}: "


def _arguments(
    entry: Entry, root: Path, tier: str, state: Path, batch: int | None
) -> Sequence[str]:
    script = os.path.relpath(root / entry.script, root / entry.workdir)
    measured = {"static": (), LADDER: ("--yes",)}.get(tier, ("--local", "--yes"))
    asked = () if tier == LADDER else ("--tier", tier)
    size = [] if batch is None else ["--batch-size", str(batch)]
    return [
        "-W", "ignore", "-c", _START, "preflight", "--offline", "--backend", "cpu",
        "--json", "--state", str(state), *asked, *measured, *size, script, "--",
        *entry.argv,
    ]  # fmt: skip


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))


def _no_document(batch: int | None, why: str, took: _Time) -> Answer:
    return Answer(batch, None, None, None, (), (), why, took.wall, cpu_s=took.processor)
