"""Packing the project of a task for the journey to a host."""

from __future__ import annotations

from pathlib import Path

from gpuconsole.core.engines.terminals import SESSIONS
from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.projects import project_of
from gpuconsole.session.submit.validate import Packed


def pack_project(task: Task, target: Path, limit_mib: float) -> Packed:
    """Pack a task's project for the journey to a host; UsageError says why it cannot travel."""
    # A console that only looks never packs: what that needs is imported with the first submission.
    from gpuconsole.remote.transfer.bundle import make_bundle, make_folder_bundle

    if task.kind in SESSIONS:
        project = Path(task.project) if task.project else None
        return Packed("", make_folder_bundle(project, target, limit_mib=limit_mib).skipped)
    script = Path(task.script)
    bundle = make_bundle(
        script,
        Path(task.project) if task.project else project_of(script, task.args, Path.cwd()),
        target,
        limit_mib=limit_mib,
        edits=task.edits,
        ship=tuple(map(Path, task.ship)),
    )
    return Packed(bundle.script_name, bundle.skipped)
