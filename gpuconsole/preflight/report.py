"""The whole answer for one task: estimate, verdicts, suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.estimate import Estimate, Report
from gpuconsole.core.fleet import Backend
from gpuconsole.core.jobs import Task
from gpuconsole.errors import UsageError
from gpuconsole.preflight import advice
from gpuconsole.preflight.analysis import Analysis, analyse
from gpuconsole.preflight.card import Card
from gpuconsole.preflight.formula import Formula, flags
from gpuconsole.preflight.suggestions import suggestions


def report(
    task: Task,
    cards: Sequence[Card],
    *,
    backend: Backend = "gpu",
    analysis: Analysis | None = None,
) -> Report:
    """Estimate a task and hold it against cards.

    With a script the static tier answers, without one the formula. UsageError for a batch size
    that is not positive, or a script that cannot be read.
    """
    if task.batch_size is not None and task.batch_size < 1:
        raise UsageError(
            "Batch size must be positive", f"{task.batch_size} is not a batch size.",
            "Give 1 or more.",
        )  # fmt: skip
    estimator: advice.Estimator
    if analysis is None and task.script:
        project = Path(task.project) if task.project else None
        analysis = analyse(
            Path(task.script), task.args, assumptions=task.assumptions, project=project
        )
    estimator = analysis if analysis is not None else Formula(task)
    estimate = with_flags(estimator.estimate(task.batch_size, backend=backend), task)
    found = advice.verdicts(estimator, task.batch_size, cards)
    set_batch = None if analysis is None else analysis.set_batch
    helpful = suggestions(estimator, estimate, found, cards, set_batch)
    return Report(estimate, found, helpful)


def with_flags(estimate: Estimate, task: Task) -> Estimate:
    """Add the flags that the task file raises to those of the script."""
    more = set(flags(task)) - set(estimate.flags)
    return replace(estimate, flags=tuple(sorted({*estimate.flags, *more}))) if more else estimate
