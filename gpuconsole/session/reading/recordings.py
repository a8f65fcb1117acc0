"""What measuring recorded of scripts, read for an estimate or before it is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuconsole.core.estimate import MEASURED_TIERS, MeasuredTier
from gpuconsole.core.jobs import Task
from gpuconsole.core.places import MEASURED_NAME
from gpuconsole.errors import RefusedError

if TYPE_CHECKING:
    from gpuconsole import preflight
    from gpuconsole.preflight.ondevice import OnDevice

Mode = MeasuredTier
MODES = MEASURED_TIERS


def recorded(
    state: Path, task: Task, analysis: preflight.Analysis | None, tier: str = ""
) -> preflight.Measured | OnDevice | None:
    """Return the best recording in a state folder of a task's script as it is now, or None.

    With a tier that has to be measured, RefusedError when it was not.
    """
    if not task.script or tier not in ("", *MODES):
        return None
    if not tier and not (state / MEASURED_NAME).is_dir():
        return None
    from gpuconsole.state.measured import MeasuredScripts

    stored = MeasuredScripts(state)
    batch = None if analysis is None else analysis.outcome(None, "gpu").batch
    for mode in (tier,) if tier else MODES:
        document = stored.get(key(task, batch, mode))
        found = None if document is None else read(task, document, analysis)
        # One that says less than reading the script does counts only where it was asked for.
        if found is not None and (tier or _answers(found, task)):
            return found
    if tier:
        raise RefusedError(
            "The script was not measured",
            f"There is no {tier} recording of {task.script} as it is now.",
            "Measure it: F8 in the console, or `gpuconsole preflight --tier traced`.",
        )
    return None


def _answers(found: preflight.Measured | OnDevice, task: Task) -> bool:
    """Tell whether a recording tells the memory, for the kind of device that is asked about."""
    return not found.refusal and found.follows(task.backend)


def read(
    task: Task, document: Mapping[str, Any], analysis: preflight.Analysis | None = None
) -> preflight.Measured | OnDevice:
    """Return what a recording says; UsageError when it is none."""
    from gpuconsole.preflight import measured, ondevice

    if document.get("mode") == "device":
        return ondevice.load(document, script=task.script, analysis=analysis)
    return measured.load(dict(document), script=task.script, analysis=analysis)


def parsed(document: bytes) -> dict[str, Any]:
    """Return the object that a measured process wrote; RefusedError where it is none."""
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RefusedError(
            "The measurement cannot be used",
            "What the measured process answered is no recording.",
            "The static tier answers without running the script.",
        )
    return found


def key(task: Task, batch: int | None, mode: str) -> str:
    """Return the name under which a recording of a task's script is stored."""
    from gpuconsole.preflight.digest import script_digest, settings_of
    from gpuconsole.state.measured import key_of

    project = Path(task.project) if task.project else None
    digest = script_digest(Path(task.script), task.args, project)
    return key_of(digest, settings_of(task.args, batch), mode)
