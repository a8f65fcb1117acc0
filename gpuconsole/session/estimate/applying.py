"""A change of the shipped copy: from what a user asks for to the question that a reader answers."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconsole import preflight
from gpuconsole.core.estimate import Report
from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.script_edits import EditKind
from gpuconsole.errors import UsageError
from gpuconsole.session.reading.questions import Applying


def question(task: Task, kind: EditKind, steps: int, remembered: Mapping[str, str]) -> Applying:
    """Return what to ask of the reader; UsageError for mixed precision that the task forbids.

    `steps` is over how many batches gradients are accumulated; `remembered` are answers about the
    script, name to value.
    """
    if kind == "amp" and task.allow_mixed_precision is False:
        raise UsageError(
            "Mixed precision is not allowed",
            "The task says `allow_mixed_precision: false`.",
            "Leave out --apply amp, or change the task.",
        )
    return Applying(preflight.with_remembered(task, remembered), kind, steps)


def steps_open(kind: EditKind, steps: int) -> bool:
    """Return whether preflight is to say over how many batches gradients are accumulated."""
    return kind == "accumulate" and not steps


def suggested_steps(report: Report) -> int:
    """Return over how many batches preflight would accumulate gradients; UsageError where it
    suggests nothing of the kind."""
    for proposal in report.suggestions:
        if proposal.kind == "accumulate":
            return int(proposal.value)
    raise UsageError(
        "The number of steps is missing",
        "Preflight suggests no accumulation of gradients for this job.",
        "Say over how many batches: --apply accumulate=4.",
    )
