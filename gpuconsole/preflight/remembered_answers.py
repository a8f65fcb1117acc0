"""Answers given and remembered, put together for one look at a script."""

from __future__ import annotations

import ast
import contextlib
import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuconsole.core.estimate import Report
from gpuconsole.core.jobs import Task
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.preflight.assumptions import read_assumption
from gpuconsole.preflight.interpreter.frontend import source

if TYPE_CHECKING:
    from gpuconsole.preflight.tiers.static import Analysis

MAX_NODES = 200_000
"""Syntax nodes looked at for a name: far more than people write."""


def with_remembered(task: Task, remembered: Mapping[str, str]) -> Task:
    """Return the task with what was answered before; its own answers win, an empty one is none.

    UsageError when one of its own cannot be read; a remembered one is then left out.
    """
    for name, value in task.assumptions.items():
        if value.strip():
            read_assumption(name, value)
    answers = {**_readable(remembered), **task.assumptions}
    return replace(
        task, assumptions={name: value for name, value in answers.items() if value.strip()}
    )


def _readable(remembered: Mapping[str, str]) -> dict[str, str]:
    readable = {}
    for name, value in remembered.items():
        with contextlib.suppress(UsageError):
            read_assumption(name, value)
            readable[name] = value
    return readable


def require_known(analysis: Analysis, given: Mapping[str, str]) -> None:
    """Raise UsageError when an answer was given for something that the script does not have."""
    names = [name for name, value in given.items() if value.strip()]
    if not names:
        return
    files = (str(analysis.script), *sorted(analysis.files()))
    written = set(_written(files))
    used = analysis.outcome(None, analysis.backend).answered
    for name in names:
        answer = read_assumption(name, given[name])
        places = {(file, line) for text, file, line in written if text == answer.name}
        # A part of a batch has a name by which it was asked for; the script may write another.
        if name not in used and not any(answer.holds_at(file, line) for file, line in places):
            raise UsageError("Nothing of that name", *_unmet(analysis, name, answer.name, written))


def _unmet(
    analysis: Analysis, given: str, name: str, written: Iterable[tuple[str, str, int]]
) -> tuple[str, str]:
    """Return the message for an answer that matches nothing in the script."""
    asks = analysis.outcome(None, analysis.backend).asks
    message = f"{analysis.script.name} has no {clean(given[:80])} that an answer could be for."
    if asks:
        asked = ", ".join(f"{ask.name} ({Path(ask.file).name}:{ask.line})" for ask in asks)
        return message, f"Asked for: {asked}."
    near = difflib.get_close_matches(name, sorted({text for text, _, _ in written}), n=1)
    return message, f"Did you mean {near[0]}?" if near else "Write the name as the script does."


def _written(files: Iterable[str]) -> Iterator[tuple[str, str, int]]:
    """Yield what an answer can be for in files: each expression with its position."""
    looked_at = 0
    for file in files:
        if Path(file).suffix not in (".py", source.NOTEBOOK):
            continue
        try:
            parts = source.read(Path(file)).parts
        except UsageError:
            continue
        for place, tree in parts:
            for node in ast.walk(tree):
                looked_at += 1
                if looked_at > MAX_NODES:
                    return
                for text in _texts(node):
                    yield text, place, node.lineno  # type: ignore[attr-defined]


def _texts(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.arg):
        return (node.arg,)
    if isinstance(node, ast.Attribute):
        return (ast.unparse(node), node.attr)
    if isinstance(node, (ast.Call, ast.Subscript)):
        return (ast.unparse(node),)
    return ()


def noted(report: Report, task: Task, remembered: Mapping[str, str]) -> Report:
    """Return the report with the answers that it rests on, and where they are from."""
    notes = tuple(
        msg(
            "Assumed: {name} = {value} ({how_text}).",
            name=clean(name),
            value=clean(value),
            how_text="given"
            if name not in remembered or remembered[name] != value
            else "remembered",
        )
        for name, value in task.assumptions.items()
    )
    if not notes:
        return report
    estimate = replace(report.estimate, notes=(*notes, *report.estimate.notes))
    return replace(report, estimate=estimate)
