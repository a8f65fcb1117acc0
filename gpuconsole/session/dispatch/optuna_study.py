"""What Optuna is asked: which arguments to try next, and whether a trial is worth going on.

The study is built from the trials in the journal each time, so that nothing is kept that a restart
could lose. Optuna is imported when it is first asked.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuconsole.core.submission.tuning import Between, Choice, Goal, Space, Trial

if TYPE_CHECKING:
    from types import ModuleType

    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

STARTUP_TRIALS = 5
"""Trials that are drawn at random, and that must have ended before one is pruned."""


def has_optuna() -> bool:
    """Tell whether Optuna is installed here."""
    return importlib.util.find_spec("optuna") is not None


def next_values(goal: Goal, space: Space, trials: Sequence[Trial], seed: int) -> dict[str, str]:
    """Return the arguments of the next trial, by flag."""
    study, _ = _study(goal, space, trials, seed)
    asked = study.ask(_distributions(space))
    return {param.flag: _written(param, asked.params[param.flag]) for param in space}


def is_hopeless(goal: Goal, space: Space, trials: Sequence[Trial], trial: Trial) -> bool:
    """Return True if Optuna's pruner (the median of other trials at the same step) abandons a
    running trial. Only what both have reported by the same step counts."""
    if not trial.reported:
        return False
    others = [other for other in trials if other is not trial]
    study, optuna = _study(goal, space, others, 0)
    frozen = _frozen(optuna, space, trial)
    study.add_trial(frozen)
    return bool(study.pruner.prune(study, study.get_trials(deepcopy=False)[-1]))


def _study(
    goal: Goal, space: Space, trials: Sequence[Trial], seed: int
) -> tuple[Study, ModuleType]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        direction="maximize" if goal.higher else "minimize",
        sampler=optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=STARTUP_TRIALS, constant_liar=True
        ),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS),
    )
    for trial in trials:
        study.add_trial(_frozen(optuna, space, trial))
    return study, optuna


def _frozen(optuna: ModuleType, space: Space, trial: Trial) -> FrozenTrial:
    states = optuna.trial.TrialState
    state = {
        "complete": states.COMPLETE,
        "pruned": states.PRUNED,
        "failed": states.FAIL,
        "running": states.RUNNING,
    }[trial.state]
    frozen: FrozenTrial = optuna.trial.create_trial(
        state=state,
        value=trial.value if trial.state == "complete" else None,
        params={param.flag: _read(param, trial.values[param.flag]) for param in space},
        distributions=_distributions(space),
        intermediate_values=dict(trial.reported),
    )
    return frozen


def _distributions(space: Space) -> dict[str, BaseDistribution]:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    distributions: dict[str, BaseDistribution] = {}
    for param in space:
        if isinstance(param, Choice):
            distributions[param.flag] = CategoricalDistribution(param.values)
        elif param.whole:
            distributions[param.flag] = IntDistribution(
                int(param.low), int(param.high), log=param.log
            )
        else:
            distributions[param.flag] = FloatDistribution(param.low, param.high, log=param.log)
    return distributions


def _read(param: Choice | Between, text: str) -> str | int | float:
    if isinstance(param, Choice):
        return text
    value = min(param.high, max(param.low, float(text)))
    return int(value) if param.whole else value


def _written(param: Choice | Between, value: str | float) -> str:
    return str(value) if isinstance(param, Choice) else param.said(float(value))
