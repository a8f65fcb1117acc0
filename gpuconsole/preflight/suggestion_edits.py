"""How a suggestion is put into effect: in the job's arguments, or in the copy that is shipped.

The user's own file is never changed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.script_edits import Edit, with_edits
from gpuconsole.core.submission.sweeps import with_option
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.errors import UsageError
from gpuconsole.preflight.interpreter.frontend import source

_NUMBER = re.compile(r"\d[\d_]*")
_EDITABLE = frozenset({".py", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf"})


@dataclass(frozen=True, slots=True)
class Change:
    """New arguments for the job, or lines of the shipped copy to replace; both empty when the
    place is not one that can be changed safely."""

    args: tuple[str, ...] | None = None
    edits: tuple[Edit, ...] = ()
    batch: int | None = None
    """The batch size that it puts in, where it does."""


def applied(task: Task, change: Change) -> Task:
    """Return a task with a change made, behind those that were made before."""
    size = change.batch
    if change.args is not None:
        task = replace(task, args=change.args)
        # Where an option says the size, it is not said twice.
        size = None if task.batch_size is None else size
    edits = with_edits(task.edits, change.edits)
    return replace(task, edits=edits, batch_size=task.batch_size if size is None else size)


def set_number(
    key: str, file: str, line: int, args: Sequence[str], value: int, beside: Sequence[str] = ()
) -> Change:
    """Return how a number that the analysis followed is given another value.

    `key` is `argument:NAME` for an option defined at `file:line`, else `FILE:LINE:COLUMN` of the
    number as written; `beside` are keys of that form of numbers that are changed with it.
    """
    if key.startswith("argument:"):
        flag = _flag(file, line, key.partition(":")[2])
        return Change(args=with_option(args, flag, str(value))) if flag else Change()
    columns: dict[tuple[str, int], list[int]] = {}
    for place in (key, *beside):
        where, _, column = place.rpartition(":")
        name, _, row = where.rpartition(":")
        if not (row.isdigit() and column.isdigit()) or Path(name).suffix not in _EDITABLE:
            return Change()
        columns.setdefault((name, int(row)), []).append(int(column))
    edits = [_edit(name, row, places, value) for (name, row), places in columns.items()]
    # All of them or none: the analysis has followed the script with all of them changed.
    return Change() if None in edits else Change(edits=tuple(filter(None, edits)))


def _flag(file: str, line: int, name: str) -> tuple[str, ...]:
    """Return the spellings of the option that is defined at a line; () when none is."""
    try:
        tree = source.parse(Path(file))
    except UsageError:
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or 0):
            words = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            flags = tuple(word for word in words if isinstance(word, str) and word.startswith("-"))
            if flags:
                return flags
        if (
            isinstance(node, ast.AnnAssign)
            and node.lineno == line
            and isinstance(node.target, ast.Name)
            and node.target.id == name
        ):
            return (f"--{name}",)
    return ()


def _edit(file: str, line: int, columns: Sequence[int], value: int) -> Edit | None:
    """Return a line with the numbers at some columns replaced; None where there are none."""
    try:
        text = source.text_of(Path(file)).splitlines()[line - 1]
    except (OSError, UnicodeDecodeError, IndexError):
        return None
    edited = text
    for column in sorted(columns, reverse=True):
        # Python counts columns in bytes of UTF-8.
        if Path(file).suffix == ".py":
            column = len(text.encode()[:column].decode("utf-8", "ignore"))
        match = _NUMBER.match(edited, column)
        if match is None:
            return None
        edited = f"{edited[: match.start()]}{value}{edited[match.end() :]}"
    return Edit(str(Path(file).resolve()), line, text, edited)
