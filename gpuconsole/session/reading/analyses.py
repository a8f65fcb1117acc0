"""The scripts asked about last, as analysed; one is followed again only when it changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gpuconsole import preflight
from gpuconsole.core.fleet import Backend
from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.projects import project_of, start_folder
from gpuconsole.core.submission.script_edits import edited_texts

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Trail

REMEMBERED = 32
SIBLINGS = 500
"""Most files beside the script that count as part of it, as it may import them."""
Versions = frozenset[tuple[str, int, int]]
"""Files with change time and size."""


class Analyses:
    """Analyses of scripts by what they were followed with."""

    def __init__(self, trail: Trail | None = None) -> None:
        """`trail` receives the position of each run."""
        self._trail = trail
        self._known: OrderedDict[tuple[object, ...], tuple[preflight.Analysis, Versions]] = (
            OrderedDict()
        )

    def of(self, task: Task) -> preflight.Analysis:
        """Return the analysis of a task's script as it is now; UsageError if it cannot be read."""
        script = Path(task.script)
        project = _project(task)
        answers = tuple(sorted(task.assumptions.items()))
        texts = edited_texts(task.edits)
        start = _start(task, project)
        key = (script, project, start, _stamp(script), task.args, answers, *texts.items())
        analysis, then = self._known.pop(key, (None, frozenset()))
        if analysis is None or _versions(analysis.files()) != then:
            analysis = preflight.analyse(
                script, task.args, assumptions=task.assumptions, project=project,
                trail=self._trail, backend=cast(Backend, task.backend), texts=texts,
                start=start,
            )  # fmt: skip
        self._known[key] = analysis, _versions(analysis.files())
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return analysis

    def clear(self) -> None:
        """Forget all of them."""
        self._known.clear()


def located(task: Task) -> Task:
    """Return a task with the folder that is read with its script: a digest covers the same files,
    and what was recorded holds for no other."""
    project = _project(task) if task.script else None
    return replace(task, project=str(project)) if project is not None else task


def _project(task: Task) -> Path | None:
    """Return the folder that is read with a script: the one that would travel with it."""
    if task.project:
        return Path(task.project)
    return project_of(Path(task.script), task.args, Path.cwd())


def _start(task: Task, project: Path | None) -> Path | None:
    """Return the folder that a script is started in, as its job is."""
    return None if project is None else project / start_folder(project, task.folder, Path.cwd())


def _stamp(script: Path) -> Versions:
    """Return what changes when the script, or a file beside it, does."""
    try:
        return _versions([script, *islice(script.parent.glob("*.py"), SIBLINGS)])
    except OSError:
        return frozenset()


def _versions(files: Iterable[Path | str]) -> Versions:
    versions = set()
    for file in files:
        try:
            versions.add((str(file), *_version(Path(file))))
        except OSError:
            versions.add((str(file), 0, -1))
    return frozenset(versions)


def _version(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size
