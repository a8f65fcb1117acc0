"""Changes of the shipped copy that a command is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuconsole import preflight
from gpuconsole.core.edits import EditKind
from gpuconsole.core.estimate import Report
from gpuconsole.core.jobs import Task
from gpuconsole.errors import UsageError
from gpuconsole.preflight import changes
from gpuconsole.session.reading.questions import Applying
from gpuconsole.session.reading.reader import Reader


def applied(
    task: Task,
    kind: EditKind,
    steps: int,
    reader: Reader,
    estimate: Callable[..., Report],
    remembered: Mapping[str, str],
) -> Task:
    """Return a task with a change made in its shipped copy. UsageError or RefusedError says why
    that is not done."""
    require_allowed(task, kind)
    if kind == "accumulate" and not steps:
        steps = steps_of(estimate(task, tier=""))
    known = preflight.with_remembered(task, remembered)
    return changes.applied(task, reader.ask(Applying(known, kind, steps)))


def require_allowed(task: Task, kind: EditKind) -> None:
    """Raise UsageError for mixed precision that the task does not allow."""
    if kind == "amp" and task.allow_mixed_precision is False:
        raise UsageError(
            "Mixed precision is not allowed",
            "The task says `allow_mixed_precision: false`.",
            "Leave out --apply amp, or change the task.",
        )


def steps_of(report: Report) -> int:
    """Return over how many batches preflight would accumulate gradients; UsageError where it
    suggests nothing of the kind."""
    for one in report.suggestions:
        if one.kind == "accumulate":
            return int(one.value)
    raise UsageError(
        "How many steps is not said",
        "Preflight suggests no accumulation of gradients for this job.",
        "Say over how many batches: --apply accumulate=4.",
    )
