"""Everything that predicts a peak: the tiers of preflight, and what one would do without them.

A tier is a callable `(script, argv, batch) -> peak bytes | None`; None is "unknown".
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.preflight.sets import Script
from gpuconsole import preflight
from gpuconsole.core.tasks import task_from_script
from gpuconsole.core.units import MIB
from gpuconsole.errors import RefusedError
from gpuconsole.preflight import verdicts
from gpuconsole.session.estimate.measurement_store import Measurements

Tier = Callable[[Path, Sequence[str], int], float | None]
COMMAND_LIMIT_S = 300

SEQUENCES = {
    "text_encoder512": (512, 128), "gpt_decoder": (256, 192), "lstm_classifier": (120, 192),
    "recompute_transformer": (256, 192), "ernie_mlm": (128, 256), "seq2seq_gru": (24, 256),
    "nmt_transformer": (48, 256),
}  # fmt: skip
"""Tokens and width of the scripts that read tokens, as written in them."""


@dataclass(slots=True)
class Static:
    """The static tier, in this process; one analysis for all batch sizes of a script."""

    seconds: dict[Path, float] = field(default_factory=dict)
    """Processor time of a script's first answer: others may be at work beside us."""
    why: dict[Path, str] = field(default_factory=dict)
    _analyses: dict[Path, preflight.Analysis] = field(default_factory=dict)
    _advised: dict[Path, preflight.Analysis] = field(default_factory=dict)
    """Analyses that were asked for no batch but the script's own, as a user's question is."""

    def analysis(self, script: Path, argv: Sequence[str]) -> preflight.Analysis:
        """Return the script as it is understood."""
        if script not in self._analyses:
            start = time.process_time()
            found = self._analyses[script] = preflight.analyse(script, argv)
            found.estimate(backend="cpu")
            self.seconds[script] = time.process_time() - start
        return self._analyses[script]

    def __call__(self, script: Path, argv: Sequence[str], batch: int) -> float | None:
        try:
            estimate = self.analysis(script, argv).estimate(batch, backend="cpu")
        except Exception as fault:
            self.why[script] = f"CRASH {fault!r} at {place_of(fault)}"
            return None
        if estimate.memory is None or estimate.errors:
            causes = [f"{e.line}: {e.message}" for e in estimate.errors]
            causes += [f"{Path(u.file).name}:{u.line}: {u.reason}" for u in estimate.unknowns]
            self.why[script] = causes[0] if causes else "no reason given"
            return None
        return estimate.memory.tensors_peak_mib * MIB

    def largest(self, script: Path, argv: Sequence[str], budget_mib: float) -> int | None:
        """Return the batch that would be suggested for a budget."""
        card = preflight.Card("budget", "", "cpu", budget_mib, exact=True)
        if self.why.get(script, "").startswith("CRASH"):
            return None
        asked = self._advised.get(script)
        # A search by following the script again has so many steps for one question: each begins it
        # from nothing, as each command does.
        if asked is None or asked.line("cpu") is None:
            asked = self._advised[script] = preflight.analyse(script, argv)
        return verdicts.verdicts(asked, None, [card])[0].max_batch_size


def spent_by_children() -> float:
    """Return the processor time of all commands run so far, seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def place_of(fault: Exception) -> str:
    """Return where an exception was raised."""
    last = traceback.extract_tb(fault.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


@dataclass(slots=True)
class Command:
    """A tier as a user meets it: `gpuconsole preflight … --json` in a process of its own."""

    tier: str
    state: Path
    """An empty folder, so that no history of this machine answers instead."""
    seconds: dict[Path, float] = field(default_factory=dict)
    why: dict[Path, str] = field(default_factory=dict)
    _measured: dict[Path, preflight.Measured | None] = field(default_factory=dict)

    def document(self, script: Path, argv: Sequence[str], *options: str) -> dict[str, Any]:
        """Run the command and return its document."""
        run = ("--local", "--yes") if self.tier != "static" else ()
        command = [
            sys.executable, "-m", "gpuconsole", "preflight", "--offline", "--backend", "cpu",
            "--json", "--state", str(self.state), "--tier", self.tier, *run, *options,
            str(script), "--", *argv,
        ]  # fmt: skip
        before = spent_by_children()
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_LIMIT_S)
        self.seconds.setdefault(script, spent_by_children() - before)
        try:
            found: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            found = {"error": f"exit {done.returncode}: {done.stderr[-300:]}"}
        return found

    def __call__(self, script: Path, argv: Sequence[str], batch: int) -> float | None:
        found = self.document(script, argv, "--batch-size", str(batch))
        memory = found.get("memory")
        if memory is None or found.get("tier") != self.tier:
            self.why[script] = str(found.get("error") or found.get("unknowns") or found)[:300]
            return None
        return float(memory["tensors_peak_mib"]) * MIB

    def largest(self, script: Path, argv: Sequence[str], budget_mib: float) -> int | None:
        """Return the batch that would be suggested for a budget, of what the command recorded."""
        if script not in self._measured:
            self._measured[script] = self._recorded(script, argv)
        measured = self._measured[script]
        card = preflight.Card("budget", "", "cpu", budget_mib, exact=True)
        if measured is None:
            return None
        return verdicts.verdicts(measured, None, [card])[0].max_batch_size

    def _recorded(self, script: Path, argv: Sequence[str]) -> preflight.Measured | None:
        task = task_from_script(script, tuple(argv), backend="cpu")
        if script not in self.seconds:
            self.document(script, argv)
        try:
            analysis = preflight.analyse(script, argv)
            return Measurements(self.state).known(task, analysis, self.tier)
        except RefusedError:
            return None


def article_formula(script: Script, batch: int) -> float:
    """Return batch x sequence x width x 4 bytes x 1.5.

    Where a script has no sequence, the elements of one input sample stand in for both.
    """
    if script.id in SEQUENCES:
        length, width = SEQUENCES[script.id]
        return batch * length * width * 4 * 1.5
    return batch * float(script.entry["input_bytes_per_sample"]) * 1.5


def four_times_parameters(script: Script, batch: int) -> float:
    """Return parameters, gradients and two optimizer states; activations are forgotten."""
    entry = script.entry
    return 4.0 * (entry["param_bytes_trainable"] + entry["param_bytes_frozen"])


def line_through_two(script: Script, batch: int) -> float | None:
    """Return a line through the two smallest measured batches; None at these themselves."""
    if len(script.points) < 2 or batch <= script.points[1].batch:
        return None
    one, two = script.points[:2]
    return one.peak + (two.peak - one.peak) / (two.batch - one.batch) * (batch - one.batch)


NAIVE: dict[str, Callable[[Script, int], float | None]] = {
    "formula of batch x length x width": article_formula,
    "parameters x 4": four_times_parameters,
    "line through two measured runs": line_through_two,
}
