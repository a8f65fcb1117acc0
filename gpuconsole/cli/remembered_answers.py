"""Answers to preflight's questions, kept between one command and the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gpuconsole.cli.output import note, told
from gpuconsole.core.jobs import Task
from gpuconsole.core.util.user_dirs import state_folder
from gpuconsole.core.wording import msg
from gpuconsole.errors import JournalError
from gpuconsole.state.files.assumptions import Assumptions


def recalled(task: Task, state: Path | None, *, forget: bool) -> Mapping[str, str]:
    """Return the remembered answers for a task's script, and say that they are used."""
    if not task.script:
        return {}
    store = _store(state)
    if forget:
        _try(lambda: store.forget(task.script))
        return {}
    answers = store.of(task.script)
    used = [f"{name}={value}" for name, value in answers.items() if name not in task.assumptions]
    if used:
        note(
            msg(
                "Remembered for this script: {answers} (--forget-assumptions forgets).",
                answers=", ".join(used),
            )
        )
    return answers


def remember(task: Task, state: Path | None) -> None:
    """Keep a task's own answers; an answer that cannot be kept still held for this time."""
    if task.script and task.assumptions:
        _try(lambda: _store(state).remember(task.script, task.assumptions))


def _store(state: Path | None) -> Assumptions:
    return Assumptions(state_folder(state))


def _try(change: Callable[[], object]) -> None:
    try:
        change()
    except JournalError as error:
        note(told(error))
