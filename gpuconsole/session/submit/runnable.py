"""Tasks from what a caller says: a script, a task file, options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from gpuconsole.core.engines.terminals import SESSION
from gpuconsole.core.jobs import Mount, Task
from gpuconsole.core.tasks import task_from_script

if TYPE_CHECKING:
    from typing_extensions import Unpack

Runnable: TypeAlias = "Task | str | os.PathLike[str]"
"""What can be estimated and queued: a task, or the path of a script."""


class TaskOptions(TypedDict, total=False):
    """What may be said of a task beside its script; fields of `Task`, where they are explained."""

    args: Sequence[str]
    name: str
    project: str | os.PathLike[str]
    ship: Sequence[str]
    image: str
    env: Mapping[str, str]
    secrets: Mapping[str, str]
    mounts: Sequence[Mount]
    devices: int | Literal["auto"]
    batch_size: int
    backend: str
    priority: int
    labels: Mapping[str, str]
    anti_labels: Mapping[str, str]
    hosts: int
    account: str
    auto_batch: bool
    retries: int
    preferred_devices: Sequence[str]
    preference_timeout_s: float
    memory_threshold: float
    exclusive: bool
    share: bool
    checkpoint_dir: str
    deadline: str
    run_time_s: float
    time_limit_s: float
    after: Sequence[str]
    cancel_if_failed: bool
    stop_if: Sequence[str]
    at_most: int
    shm_size_mib: float
    memory_limit_mib: float
    network: str
    assumptions: Mapping[str, str]


_TUPLES = ("args", "ship", "mounts", "preferred_devices", "after", "stop_if")


def make_task(
    script: str | os.PathLike[str] | None = None,
    *,
    task_file: str | os.PathLike[str] | None = None,
    **options: Unpack[TaskOptions],
) -> Task:
    """Return the task of a script, of a task file (YAML), or of both; options win over the file.

    UsageError when there is no such file or a value is out of range, DocumentError for a wrong
    task file, TypeError for an option that a task does not have.
    """
    said: dict[str, Any] = dict(options)
    automatic = said.get("devices") == "auto"
    if automatic:
        del said["devices"]
    said.update({key: tuple(said[key]) for key in _TUPLES if key in said})
    if task_file is not None:
        from gpuconsole.taskfile import load_task

        task = load_task(Path(task_file), script=script, **said)
    elif script is not None:
        task = task_from_script(Path(script), **said)
    else:
        raise TypeError("make_task needs a script or a task_file")
    return replace(task, devices=None) if automatic else task


def session_task(options: TaskOptions, kind: str = SESSION) -> Task:
    """Return the task of a session, which has no script."""
    said: dict[str, Any] = {"name": "", **options}
    said.update({key: tuple(said[key]) for key in _TUPLES if key in said})
    if "project" in said:
        said["project"] = os.fspath(said["project"])
    return Task(**said, kind=kind)


def task_of(what: Runnable, options: TaskOptions) -> Task:
    """Return what is to run as a task; options are for a script alone."""
    if not isinstance(what, Task):
        return make_task(what, **options)
    if options:
        raise TypeError("options are for a script; change a task with dataclasses.replace")
    return what
