"""A task made of what was said about it: paths that are there, numbers within their ranges."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

from gpuconsole.core.jobs import Task
from gpuconsole.core.text import clean
from gpuconsole.core.training.stop_rules import MOST_RULES, parse_rule
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

PathKind = Literal["script", "folder"]
PATHS: Mapping[str, PathKind] = {"script": "script", "project": "folder"}
"""The fields of a task that are paths, and what must be there."""
_FIELDS = frozenset(field.name for field in fields(Task))


def task_from_script(script: Path, args: Sequence[str] = (), **options: Any) -> Task:
    """Return the task of a script alone; `options` are fields of `Task`, None leaves the default.

    UsageError when the script is no file, or an option is out of range.
    """
    return task_of({}, {**options, "script": script, "args": tuple(args)}, "task")


def task_of(written: dict[str, Any], changes: Mapping[str, Any], fallback: str) -> Task:
    """Return the task that a file describes, with a caller's changes; None changes nothing.

    Paths among the changes may be relative to the working folder; `fallback` is the name if neither
    script nor model has one. Raises UsageError for a wrong path or number.
    """
    given = {name: value for name, value in changes.items() if value is not None}
    if unknown := sorted({*written, *given} - _FIELDS):
        raise TypeError(f"a task has no {', '.join(unknown)}")
    for key, kind in PATHS.items():
        if key in given:
            given[key] = absolute(Path(given[key]))
            require(Path(given[key]), kind)
    values = {**written, **given}
    script = values.get("script", "")
    if script and not values.get("project"):
        values["project"] = _project(Path(script), values.get("args", ()))
    if not values.get("name"):
        values["name"] = Path(script).stem if script else values.get("model_name") or fallback
    values["name"] = clean(values["name"], 128)
    task = Task(**values)
    _require_ranges(task)
    return replace(task, args=tuple(task.args))


def _project(script: Path, args: Sequence[str]) -> str:
    """Return the folder of the project that a script lies in, its own where that is not above it
    as it is named; empty for a script that must travel alone."""
    from gpuconsole.core.submission.projects import project_of

    project = project_of(script, args, Path.cwd())
    if project is None:
        return ""
    return str(project if script.is_relative_to(project) else script.parent)


def absolute(path: Path) -> str:
    """Return the absolute path; links stay, so that a script keeps the name its user gave it."""
    return os.path.abspath(os.path.expanduser(path))


def require(path: Path, kind: PathKind) -> None:
    """Raise UsageError unless the path is what it has to be."""
    why = ""
    try:
        if path.is_file() if kind == "script" else path.is_dir():
            return
        problem = "{path} does not exist."
        if path.exists():
            files, folders = "{path} is not a file.", "{path} is not a folder."
            problem = files if kind == "script" else folders
    except (OSError, ValueError) as error:
        problem = "{path} cannot be read ({why})."
        why = str(getattr(error, "strerror", None) or error)
    raise UsageError(
        msg("No such {kind}", kind=kind),
        msg(problem, path=clean(str(path), 512), why=why),
        "Check the path.",
    )


def require_rules(rules: Sequence[str]) -> None:
    """Raise UsageError for rules that are none, or too many."""
    if len(rules) > MOST_RULES:
        raise UsageError("Too many rules", msg("A task has at most {n} rules.", n=MOST_RULES))
    for text in rules:
        try:
            parse_rule(text)
        except ValueError as error:
            raise UsageError(
                "Wrong rule", msg("{value}: {error}", value=f"{clean(text, 130)!r}", error=error)
            ) from None


def _require_ranges(task: Task) -> None:
    for what, value in (("batch size", task.batch_size), ("number of devices", task.devices)):
        if value is not None and value < 1:
            raise UsageError(
                "Wrong number",
                msg(
                    "The {what_word} is {value}; it must be at least 1.",
                    what_word=what,
                    value=value,
                ),
            )
    require_rules(task.stop_if)
    if task.memory_threshold is not None and not 0 < task.memory_threshold <= 1:
        wrong = msg(
            "The memory threshold is {value}; it must be above 0 and at most 1.",
            value=f"{task.memory_threshold:g}",
        )
        raise UsageError("Wrong number", wrong, "0.85 leaves room for what cannot be foreseen.")
    if task.project and task.script and not Path(task.script).is_relative_to(task.project):
        message = msg(
            "{script} is not in the project folder {folder}.",
            script=task.script, folder=task.project,
        )  # fmt: skip
        raise UsageError("Script outside the project", message, "Name a folder that holds it.")
