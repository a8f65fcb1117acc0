"""Measure what scripts of the wild really hold, by the method of `benchmarks.truth`.

    python -m benchmarks.wild.truth --corpus FOLDER --only ID,ID [--harness FILE]

A script runs from its working folder in a throw-away copy of its repository, with data beside it
(`data` and `measure` in the manifest): real Paddle on the CPU, a process for each batch size,
the peak of the allocator over the second and third step. A library that the manifest names and that
is not here is an empty object: a script that computes with it ends. Cards, other ranks, what would
be downloaded and names of older libraries are stood in for as preflight does. Only scripts whose
memory does not depend on what their data holds have a truth. What was measured is printed as it
goes into the manifest.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

from benchmarks import truth
from benchmarks.wild import beside, manifest
from benchmarks.wild.manifest import MANIFEST, Entry

HERE = Path(__file__).resolve().parents[2]
PROBE = HERE / "gpuconsole" / "preflight" / "probe"
WORKDIR = "BENCHMARK_WORKDIR"
NEEDS = "BENCHMARK_NEEDS"
LIMIT_S = 420
STEPS = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """How the truth of a script is measured."""

    batches: tuple[int, ...]
    how: str
    """`call`: the loaders' batch size is replaced; else the flag that sets it."""
    argv: tuple[str, ...] = ()
    """Further arguments, such as to do without weights that would be downloaded."""


def plan_of(identity: str, path: Path = MANIFEST) -> Plan | None:
    """Return the plan of a script; None where the manifest has none."""
    for repository in json.loads(path.read_text("utf-8"))["repositories"]:
        for one in repository["scripts"]:
            if one["id"] == identity and "measure" in one:
                plan = one["measure"]
                return Plan(tuple(plan["batches"]), plan["how"], tuple(plan.get("argv", ())))
    return None


def measure(entry: Entry, plan: Plan, batch: int, corpus: Path, harness: Path) -> dict[str, Any]:
    """Run a script at one batch size; what the harness recorded, or why there is nothing."""
    with tempfile.TemporaryDirectory(prefix="wild_") as temporary:
        root = Path(temporary) / "project"
        shutil.copytree(beside.root_of(entry, corpus), root)
        out = Path(temporary) / "out.json"
        how = ["--how", "call"] if plan.how == "call" else ["--how", "argv", f"--flag={plan.how}"]
        command = [
            sys.executable, "-W", "ignore", "-m", "benchmarks.wild.truth", "--child", "--script",
            str(root / entry.script), "--batch", str(batch), *how, "--out", str(out),
            f"--argv={' '.join((*entry.argv, *plan.argv))}",
        ]  # fmt: skip
        environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HOME": temporary,
            "PYTHONPATH": os.pathsep.join([str(HERE), str(root)]), "GLOG_minloglevel": "2",
            truth.HARNESS_AT: str(harness), WORKDIR: str(root / entry.workdir),
            NEEDS: " ".join(entry.needs),
        }  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                  env=environment, timeout=LIMIT_S)  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"error": f"not three steps within {LIMIT_S} s"}
        if not out.exists():
            return {"error": f"exit {done.returncode}: {done.stderr[-1500:]}"}
        found: dict[str, Any] = json.loads(out.read_text())
        return found


def child() -> None:
    """Prepare the process of a script and hand over to the harness."""
    import paddle

    harness = truth.load_harness(Path(os.environ[truth.HARNESS_AT]))
    workdir, chdir = os.environ[WORKDIR], os.chdir
    # The harness goes to the script's folder; its user starts it in another.
    vars(os)["chdir"] = lambda _: chdir(workdir)
    for name in os.environ[NEEDS].split():
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = MagicMock()
    _stand_in(paddle)
    harness.main()


def _stand_in(paddle: ModuleType) -> None:
    sys.path.append(str(PROBE))
    given: Mapping[str, tuple[Any, ...]] = {
        "probe_older": (os.environ[WORKDIR],), "probe_standins": (paddle,),
        "probe_alone": (paddle, True),
    }  # fmt: skip
    for name, arguments in given.items():
        importlib.import_module(name).install(*arguments)


def main() -> None:
    """Measure the scripts asked for, and print their points."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--only", required=True, metavar="ID,ID")
    parser.add_argument("--harness", type=Path, default=truth.HARNESS)
    options = parser.parse_args()
    for entry in manifest.load().entries:
        plan = plan_of(entry.id) if entry.id in options.only.split(",") else None
        for batch in plan.batches if plan else ():
            assert plan is not None
            found = measure(entry, plan, batch, options.corpus.resolve(), options.harness)
            good = not found.get("error") and found["cycles"] >= STEPS
            shown = {"batch": batch, "peak_bytes": found["peak_bytes"]} if good else found
            print(entry.id, json.dumps(shown)[-1800:], flush=True)


if __name__ == "__main__":
    child() if "--child" in sys.argv else main()
