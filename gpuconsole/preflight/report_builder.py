"""The whole answer for one task: estimate, verdicts, suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuconsole.core.estimate import WITHOUT_PADDLE, Estimate, Report, Unknown
from gpuconsole.core.fleet import Backend
from gpuconsole.core.jobs import Task
from gpuconsole.core.submission.projects import start_folder
from gpuconsole.core.submission.script_edits import edited_texts
from gpuconsole.preflight import verdicts as advice
from gpuconsole.preflight.accuracy.calibration import Calibration
from gpuconsole.preflight.accuracy.script_digest import may_use_paddle, task_digest
from gpuconsole.preflight.batch_sizes import require_batch_size
from gpuconsole.preflight.card import Card, context_of
from gpuconsole.preflight.roofline import MIXED_PRECISION
from gpuconsole.preflight.suggestions import Tries, suggestions
from gpuconsole.preflight.tiers.formula import Formula, flags
from gpuconsole.preflight.tiers.history import Corrected, Past
from gpuconsole.preflight.tiers.static import Analysis, analyse

LEFT_OUT = (
    "Not all changes of the script (mixed precision, recomputing, sharding) were tried: "
    "the script takes too long to follow again for each."
)
NOT_ALLOWED = "The script computes in mixed precision; the task does not allow that."


def report(
    task: Task,
    cards: Sequence[Card],
    *,
    backend: Backend = "gpu",
    analysis: Analysis | None = None,
    calibration: Calibration | None = None,
    measured: advice.Estimator | None = None,
) -> Report:
    """Estimate a task and hold it against cards.

    With a script the static tier answers, or `measured` where it was measured; without one the
    formula. What `calibration` knows of the script, of such estimates and of the cards corrects
    each. UsageError for a batch size that is not positive, or a script that cannot be read.
    """
    require_batch_size(task.batch_size)
    estimator: advice.Estimator
    if analysis is None and task.script:
        analysis = analyse(
            Path(task.script), task.args, assumptions=task.assumptions, project=_project(task),
            texts=edited_texts(task.edits), start=_start(task),
        )  # fmt: skip
    estimator = measured or analysis or Formula(task)
    digest = task_digest(task) if task.script else ""
    past = None if calibration is None else Past(calibration, digest, task.args)
    if past is not None:
        estimator, cards = Corrected(estimator, past, task.batch_size), past.cards(cards)
    context = context_of(cards, backend)
    estimate = estimator.estimate(task.batch_size, backend=backend, context_mib=context)
    estimate = replace(with_flags(estimate, task), digest=digest)
    if estimate.memory is None and analysis is not None:
        estimate = _without_paddle(estimate, task, analysis)
    judged = advice.verdicts(estimator, task.batch_size, cards)
    if past is not None:
        estimate = replace(estimate, notes=(*estimate.notes, *past.notes(cards)))
        judged = past.verdicts(estimate, judged, cards)
    set_batch = None if analysis is None else analysis.set_batch
    tries = Tries(analysis.tries(backend) if measured is None and analysis is not None else None)
    mixed = task.allow_mixed_precision is not False
    if not mixed and not {*estimate.flags}.isdisjoint(("amp", MIXED_PRECISION)):
        estimate = replace(estimate, notes=(*estimate.notes, NOT_ALLOWED))
    helpful = suggestions(
        estimator, estimate, judged, cards, set_batch, tries=tries, mixed=mixed, rewriter=analysis
    )
    if tries.refused:
        estimate = replace(estimate, notes=(*estimate.notes, LEFT_OUT))
    return Report(estimate, judged, helpful)


def unread(task: Task, cards: Sequence[Card], why: Unknown, *, backend: Backend) -> Report:
    """Return the answer for a script that could not be followed to its end, and why."""
    estimate = Estimate(task.script, None, None, backend, "unknown", 0.0, None, unknowns=(why,))
    verdicts = tuple(advice.judge(estimate, card, None) for card in cards)
    return Report(with_flags(estimate, task), verdicts)


def with_flags(estimate: Estimate, task: Task) -> Estimate:
    """Add the flags that the task file raises to those of the script."""
    more = set(flags(task)) - set(estimate.flags)
    return replace(estimate, flags=tuple(sorted({*estimate.flags, *more}))) if more else estimate


def _without_paddle(estimate: Estimate, task: Task, analysis: Analysis) -> Estimate:
    """Flag the estimate of a script that names Paddle nowhere: running it would tell no more."""
    modules = [Path(file) for file in sorted(analysis.files()) if file.endswith(".py")]
    if may_use_paddle(Path(task.script), _project(task), modules):
        return estimate
    return replace(estimate, flags=tuple(sorted({*estimate.flags, WITHOUT_PADDLE})))


def _start(task: Task) -> Path | None:
    project = _project(task)
    return None if project is None else project / start_folder(project, task.folder, Path.cwd())


def _project(task: Task) -> Path | None:
    return Path(task.project) if task.project else None
