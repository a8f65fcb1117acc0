"""Measure what the scripts under benchmarks/scripts really hold, and write it to truth.json.

    python -m benchmarks.truth [--harness FILE] [--only ID,ID] [--missing]

The measuring itself is done by the harness of the public corpus (one fresh process per script
and batch size, Paddle's host allocator, peak of cycles 2 and 3). Two things are added for scripts
that the harness cannot read as they are: a notebook's code cells become a script, and a loop over
a plain generator instead of a DataLoader (`"generator"` in truth.json) marks its steps where the
generator is asked for the next batch; a full-batch loop without any loader (`"loop": true`) marks
them where it clears the gradients.
"""

from __future__ import annotations

import argparse
import builtins
import functools
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "scripts"
TRUTH = SCRIPTS / "truth.json"
HARNESS = HERE.parents[1] / "shared" / "paddle-corpus" / "measure.py"
POINT_FIELDS = ("batch", "peak_bytes", "overall_peak_bytes", "held_before_step2_bytes",
                "batch_seen", "wall_s")  # fmt: skip
ENTRY_FIELDS = ("param_count", "param_bytes_trainable", "param_bytes_frozen", "buffer_bytes",
                "opt_state_bytes", "grad_bytes", "sparse_grad", "cpu_im2col_max_bytes")  # fmt: skip
GENERATOR = "BENCHMARK_GENERATOR"
LOOP = "BENCHMARK_LOOP"
HARNESS_AT = "BENCHMARK_HARNESS"


def load_harness(path: Path) -> ModuleType:
    """Import the harness and let its children be this file."""
    spec = importlib.util.spec_from_file_location("harness", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"There is no harness at {path}: name it with --harness.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.__file__ = __file__
    os.environ[HARNESS_AT] = str(path)
    return module


def measure(
    harness: ModuleType,
    entry: dict[str, Any],
    batch: int,
    *,
    path: Path | None = None,
    timeout: float = 75,
) -> Any:
    """Run one script (at `path`, else of our own) at one batch size; the harness's record of it."""
    os.environ[GENERATOR] = entry.get("generator", "")
    os.environ[LOOP] = "1" if entry.get("loop") else ""
    script = path or SCRIPTS / entry["entry"]
    # A project's folder is copied whole when it lies under the harness's own folder of scripts.
    own = script.is_relative_to(SCRIPTS)
    harness.__dict__["HERE"] = str(HERE if own else Path(os.environ[HARNESS_AT]).parent)
    how = entry["batch"]
    return harness.one(
        str(script), how["how"], how.get("flag"), how.get("name"), batch, entry.get("argv"), timeout
    )


def fold(entry: dict[str, Any], records: list[Any]) -> None:
    """Write what was measured into an entry.

    Every point is scored: the CPU's im2col buffer is part of the estimate with `--backend cpu`.
    Its share of the peak is noted, as the public corpus leaves points out by it.
    """
    last = records[-1]
    entry.update({key: last[key] for key in ENTRY_FIELDS})
    entry["paddle"] = last["paddle"]
    entry["input_bytes_per_sample"] = round(last["input_batch_bytes"] / last["batch"])
    entry["points"] = []
    for record in records:
        point = {key: record[key] for key in POINT_FIELDS}
        share = 100 * record["cpu_im2col_max_bytes"] / record["peak_bytes"]
        point["cpu_workspace_pct"] = round(share, 2)
        point["scoring"] = True
        entry["points"].append(point)


def read_notebook(script: Path) -> Path:
    """Write a notebook's code cells, without its magic lines, beside it."""
    cells = [c for c in json.loads(script.read_text())["cells"] if c["cell_type"] == "code"]
    lines = "\n".join("".join(cell["source"]) for cell in cells).splitlines()
    plain = script.with_suffix(".cells.py")
    plain.write_text("\n".join("" if line[:1] in ("%", "!") else line for line in lines) + "\n")
    return plain


class Steps:
    """A generator that tells the tracker each time before it makes a batch."""

    def __init__(self, inner: Iterator[Any], tracker: Any) -> None:
        self.inner = inner
        self.tracker = tracker

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> Any:
        self.tracker.boundary()
        value = next(self.inner)
        first = value[0] if isinstance(value, tuple) else value
        if self.tracker.cycles and hasattr(first, "shape"):
            self.tracker.batch_seen.add(int(first.shape[0]))
        return value


def known_trackers(harness: ModuleType) -> list[Any]:
    """Let the harness note its tracker, which it makes later, in the list returned."""
    known: list[Any] = []

    class Tracker(harness.Tracker):  # type: ignore[misc, name-defined]
        def __init__(self, core: Any) -> None:
            super().__init__(core)
            known.append(self)

    harness.__dict__["Tracker"] = Tracker
    return known


def mark_loop(harness: ModuleType) -> None:
    """Let every clearing of the gradients mark a step: a cycle goes from one to the next."""
    from paddle.optimizer import Optimizer

    known = known_trackers(harness)
    clear = Optimizer.clear_grad

    def marked(self: Any, *args: Any, **named: Any) -> None:
        known[0].boundary()
        clear(self, *args, **named)

    Optimizer.clear_grad = marked


def mark_generator(harness: ModuleType, script: Path, name: str) -> None:
    """Let the generator `name` of the (copied) script mark the steps."""
    known = known_trackers(harness)

    def stepwise(function: Callable[..., Iterator[Any]]) -> Callable[..., Steps]:
        return functools.wraps(function)(lambda *a, **k: Steps(function(*a, **k), known[0]))

    builtins.__dict__["_stepwise_"] = stepwise
    text, count = re.subn(rf"^def {name}\(", f"@_stepwise_\ndef {name}(", script.read_text(),
                          flags=re.MULTILINE)  # fmt: skip
    assert count == 1, f"the generator {name} was found {count} times"
    script.write_text(text)


def child() -> None:
    """Prepare a script in its throw-away folder and hand over to the harness."""
    harness = load_harness(Path(os.environ[HARNESS_AT]))
    at = sys.argv.index("--script") + 1
    script = Path(sys.argv[at])
    if script.suffix == ".ipynb":
        script = read_notebook(script)
        sys.argv[at] = str(script)
    if os.environ.get(GENERATOR):
        mark_generator(harness, script, os.environ[GENERATOR])
    if os.environ.get(LOOP):
        mark_loop(harness)
    harness.main()


def main() -> None:
    """Measure the scripts asked for; truth.json is written after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--harness", type=Path, default=HARNESS)
    parser.add_argument("--only", default="")
    parser.add_argument("--missing", action="store_true", help="only scripts without points")
    args = parser.parse_args()
    harness = load_harness(args.harness)
    truth = json.loads(TRUTH.read_text())
    for entry in truth["scripts"]:
        if args.only and entry["id"] not in args.only.split(","):
            continue
        if args.missing and entry.get("points"):
            continue
        records = [measure(harness, entry, batch) for batch in entry["measure_batches"]]
        faults = [r for r in records if r.get("error") or r["cycles"] < 3]
        for r in records:
            print(f"  {entry['id']:22} b={r['batch']:<5}", r.get("error") or
                  f"{r['peak_bytes'] / 2**20:9.2f} MiB {r['wall_s']:6.1f} s  {r['cycle_s']}"
                  f" cycles {r['cycles']} saw {r['batch_seen']}", flush=True)  # fmt: skip
        if not faults:
            fold(entry, records)
            TRUTH.write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    child() if "--child" in sys.argv else main()
