"""What the probe is asked: which script, and how a batch size is put into it.

The probe's files are the modules beside `probe/probe.py`; `python probe.py` reads the request on
its standard input. Every path in it is relative to `root`, which the caller sets to where the
project lies inside the sandbox.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpuconsole.core.estimate import MeasuredTier

if TYPE_CHECKING:
    from gpuconsole.preflight.probe.documents import Batch, Edit
    from gpuconsole.preflight.tiers.static import Analysis

Mode = MeasuredTier

VERSION = 1
BATCHES: Mapping[Mode, tuple[int, ...]] = MappingProxyType(
    {"traced": (2, 4, 8), "meta": (2, 4), "device": (2, 4, 8)}
)
"""One sample takes other paths; a double lets what halves the batch be seen; a third tells whether
memory is a line in the batch."""
STEPS = 3
"""From the second step on, gradients and optimizer states exist; the third confirms it."""
PROBE = Path(__file__).parents[1] / "probe"
META = Path(__file__).parents[1] / "meta"
_MARKER = 987_654_321
"""A number that no script has, put in place of the batch size to find where it goes."""


def probe_files() -> dict[str, Path]:
    """Return the files that are laid into a folder of the sandbox, by their names there.

    `probe.py` is run; what the meta tier needs lies in a folder beside it.
    """
    files = {file.relative_to(PROBE).as_posix(): file for file in sorted(PROBE.rglob("*.py"))}
    files |= {
        f"meta/{file.relative_to(META).as_posix()}": file for file in sorted(META.rglob("*.py"))
    }
    return files


def build(
    analysis: Analysis | None,
    script: Path,
    args: Sequence[str] = (),
    mode: Mode = "traced",
    *,
    root: Path | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    path: Sequence[Path] = (),
    size: int | None = None,
    backend: str = "gpu",
) -> dict[str, object]:
    """Return the request for a script.

    `root` is the project's folder, the script's own when None. The script is started in `cwd`
    where that is in the project, else in `root`, with the variables `env`, and finds modules in
    the folders `path`. `size` is the batch size that was asked for, where it is not the script's
    own; the meta tier follows what a device of `backend` would do. What the static tier found
    out tells how a batch size is put in: as an argument, on the line that writes it, else at the
    script's loaders.
    """
    script = script.resolve()
    root = (root or script.parent).resolve()
    return {
        "version": VERSION,
        "mode": mode,
        "root": str(root),
        "cwd": _inside(root, cwd) if cwd and cwd.resolve().is_relative_to(root) else ".",
        "script": _inside(root, script),
        "args": list(args),
        "env": dict(env or {}),
        "path": [_inside(root, folder) for folder in path],
        "batch": _batch(analysis, root),
        "texts": _texts(analysis, root),
        "batches": _batches(analysis, mode),
        "own": size,
        "backend": backend,
        "steps": STEPS,
        "operators": operators() if mode == "meta" else {},
    }


def _batches(analysis: Analysis | None, mode: Mode) -> list[int]:
    """Return the batch sizes that are run: nothing is computed in the meta tier, so that it runs
    the script's own and its double."""
    own = analysis.outcome(None, analysis.backend).batch if analysis is not None else None
    if mode == "meta" and isinstance(own, int) and own > 0:
        return [own, 2 * own]
    return list(BATCHES[mode])


NAMESAKES = frozenset({"median", "fft_r2c"})
"""Calls of the table with kernels that do not appear in a program and have the names of the
calls."""
BY_AXIS = frozenset({"argsort"})
"""Kernels with needs that depend on the axis, which `meta/inference/kernels.py` knows."""


def operators() -> dict[str, dict[str, str]]:
    """Return by kernel what a program does not show: gradients that take their input's memory,
    and what CPU kernels need while they run."""
    text = resources.files("gpuconsole").joinpath("data/paddle-3.3.1-ops.json").read_text("utf-8")
    table: dict[str, dict[str, str]] = {}
    for name, row in json.loads(text)["ops"].items():
        kernel = name if name in NAMESAKES else row.get("kernels", "").rstrip("_")
        if kernel and " " not in kernel:
            needs = {} if kernel in BY_AXIS else row.get("cpu", {})
            table.setdefault(kernel, {"grad": row["grad"], **needs})
    return table


def _batch(analysis: Analysis | None, root: Path) -> Batch:
    if analysis is None:
        return {"how": "loader", "value": None}
    own = analysis.outcome(None, analysis.backend).batch
    change = analysis.set_batch(_MARKER)
    if change.args is not None:
        words = [word.replace(str(_MARKER), "{batch}") for word in change.args]
        return {"how": "argument", "args": words, "value": own}
    if change.edits:
        edits: list[Edit] = [
            {
                "file": _inside(root, Path(edit.file)),
                "line": edit.line,
                "old": edit.old,
                "new": edit.new.replace(str(_MARKER), "{batch}"),
            }
            for edit in change.edits
        ]
        return {"how": "edit", "value": own, "edits": edits}
    return {"how": "loader", "value": own}


def _texts(analysis: Analysis | None, root: Path) -> dict[str, str]:
    """Return what is run in place of files of the project: their text in the shipped copy."""
    texts = {} if analysis is None else analysis.texts
    return {_inside(root, path): text for path, text in texts.items()}


def _inside(root: Path, path: Path) -> str:
    """Return a path relative to the root, or as it is where it lies elsewhere."""
    path = path.resolve()
    return os.path.relpath(path, root) if path.is_relative_to(root) else str(path)
