"""What measuring recorded of scripts, read for an estimate or before it is stored."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.core.estimate import MEASURED_TIERS, MeasuredTier
from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.projects import start_folder
from gpuconsole.core.util.user_dirs import MEASURED_NAME
from gpuconsole.core.wording import msg
from gpuconsole.errors import RefusedError, UsageError
from gpuconsole.session.reading import inputs as files

if TYPE_CHECKING:
    from gpuconsole import preflight
    from gpuconsole.preflight.tiers.device_peaks import OnDevice

Mode = MeasuredTier
MODES = MEASURED_TIERS
PYTHON_PATH = "PYTHONPATH"


def recorded(
    state: Path,
    task: Task,
    analysis: preflight.Analysis | None,
    tier: str = "",
    images: frozenset[str] | None = None,
) -> preflight.Measured | OnDevice | None:
    """Return the best recording in a state folder of a task's script as it is now, or None.

    `images` are those that the task may run in, None where that is not known. With a tier that has
    to be measured, RefusedError when it was not.
    """
    if not task.script or tier not in ("", *MODES):
        return None
    if not tier and not (state / MEASURED_NAME).is_dir():
        return None
    from gpuconsole.state.files.probe_recordings import MeasuredScripts

    stored, holds = MeasuredScripts(state), partial(_hold, task, images)
    for mode in (tier,) if tier else MODES:
        name = key(task, analysis, mode)
        document = stored.get(name, holds) if name else None
        measured = None if document is None else read(task, document, mode, analysis)
        # One that says less than reading the script does counts only where it was asked for.
        if measured is not None and (tier or _answers(measured, task)):
            return measured
    if tier:
        raise RefusedError(
            "The script was not measured",
            msg(
                "There is no {tier} recording of {script} as it is now.",
                tier=tier,
                script=task.script,
            ),
            "Measure it: F8 in the console, or `gpuconsole preflight --tier traced`.",
        )
    return None


def _answers(measured: preflight.Measured | OnDevice, task: Task) -> bool:
    """Tell whether a recording tells the memory, for the kind of device that is asked about."""
    return not measured.refusal and measured.follows(task.backend)


def read(
    task: Task,
    document: Mapping[str, object],
    mode: str,
    analysis: preflight.Analysis | None = None,
) -> preflight.Measured | OnDevice:
    """Return what a recording of a tier says; UsageError when it is none."""
    from gpuconsole.preflight.tiers import device_peaks, measured

    if document.get("mode") != mode:
        raise UsageError(
            "Cannot read the measurement",
            msg("What the probe wrote is none of the {mode} tier.", mode=mode),
            "Measure again.",
        )
    if mode == "device":
        return device_peaks.load(document, script=task.script, analysis=analysis)
    return measured.load(dict(document), script=task.script, analysis=analysis)


def parsed(document: bytes) -> dict[str, object]:
    """Return the object that a measured process wrote; RefusedError where it is none."""
    try:
        parsed_document = json.loads(document)
    except (ValueError, RecursionError):
        parsed_document = None
    if not isinstance(parsed_document, dict):
        raise RefusedError(
            "The measurement cannot be used",
            "What the measured process answered is no recording.",
            "The static tier answers without running the script.",
        )
    return parsed_document


def key(task: Task, analysis: preflight.Analysis | None, mode: str) -> str:
    """Return the name under which recordings of a task's script are stored, "" where the script
    cannot be read.

    It is of all that decides the answer and is known before the script runs: its text and what
    that imports, the command line, and what it runs in. The batch size does not count.
    """
    from gpuconsole.preflight.accuracy.script_digest import (
        lasting_edits,
        script_digest,
        settings_of,
    )
    from gpuconsole.state.files.probe_recordings import key_of

    root = _root(task)
    digest = script_digest(Path(task.script), task.args, root)
    if not digest:
        return ""
    # Alike wherever it is asked for: a longer look may find another batch size.
    analysis = None if analysis is None else analysis.brief()
    batch = None if analysis is None else analysis.outcome(None, analysis.backend).batch
    folder = start_folder(root, task.folder, Path.cwd())
    settings = {
        "script": _named(Path(task.script), root),
        "args": settings_of(task.args, batch),
        "env": {name: value for name, value in task.env.items() if name != PYTHON_PATH},
        "path": [_named(folder, root) for folder in python_path(task)],
        "cwd": folder or ".",
        "mounts": [[mount.source, mount.target, mount.read_only] for mount in task.mounts],
        "backend": task.backend,
        "edits": [
            [_named(Path(edit.file), root), edit.line, edit.new] for edit in lasting_edits(task)
        ],
        "ship": [_named(Path(name).expanduser(), root) for name in task.ship],
    }
    return key_of(digest, settings, mode)


def inputs(
    task: Task, document: Mapping[str, object], image: str, since_ns: int
) -> dict[str, object]:
    """Return what a recording was made with beside its name: it holds while that is so.

    `image` is that of its container, "" for this machine. RefusedError where a file that was read
    has changed since the measurement began, at `since_ns`.
    """
    marks = files.marks(document, _tree(task), since_ns)
    return {"image": image, "paddle": str(document.get("paddle", ""))[:40], "files": marks}


def python_path(task: Task) -> tuple[Path, ...]:
    """Return the folders in which the user's Python looks for modules, the task's own first."""
    said = task.env.get(PYTHON_PATH, os.environ.get(PYTHON_PATH, ""))
    return tuple(Path(folder).absolute() for folder in said.split(os.pathsep) if folder)


def _hold(task: Task, images: frozenset[str] | None, inputs: Mapping[str, object]) -> bool:
    """Tell whether all is as it was when a recording was made."""
    image = inputs.get("image")
    if image == "":
        here = paddle_version()
        placed = not here or here == inputs.get("paddle")
    else:
        placed = images is None or image in images
    return placed and files.hold(inputs.get("files"), _tree(task))


def _tree(task: Task) -> files.Tree:
    root = _root(task)
    edited = frozenset(_named(Path(edit.file), root) for edit in task.edits)
    return files.Tree(root, python_path(task), edited)


def _root(task: Task) -> Path:
    """Return the folder that a task's files are named from."""
    return Path(task.project or Path(task.script).parent).resolve()


def _named(path: Path, root: Path) -> str:
    """Return a path by its name in the project, in full where it lies elsewhere."""
    path = path.resolve()
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


_VERSION = re.compile(r"^full_version\s*=\s*['\"]([^'\"]{1,40})['\"]", re.MULTILINE)
_MOST = 64 * 1024


def paddle_version() -> str:
    """Return the version of the Paddle that is installed here; "" where there is none."""
    try:
        spec = importlib.util.find_spec("paddle")
        if spec is None or spec.origin is None:
            return ""
        with open(Path(spec.origin).parent / "version" / "__init__.py", "rb") as file:
            said = _VERSION.search(file.read(_MOST).decode("utf-8", "replace"))
    except (OSError, ImportError, ValueError):
        return ""
    return said[1] if said else ""
