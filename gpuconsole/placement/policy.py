"""Policies by name: each is a set of weights, so that every choice is a sum of named terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuconsole.core.jobs import Task
from gpuconsole.placement.model import Policy

if TYPE_CHECKING:
    from gpuconsole.config import LabSettings

# Close to the hand-written score that came out best of the plain ones in trace simulation:
# relative speed counts most, then price, then how well memory is filled. An idle device comes
# before all of that: that simulation knew no devices on which others work.
DEFAULT_WEIGHTS: Mapping[str, float] = {
    "idle": 6.0,
    "fit": 1.0,
    "balance": 0.5,
    "preferred": 2.0,
    "speed": 4.0,
    "links": 3.0,
    "domestic": 0.0,
    "price": 1.5,
}
_FIXED: Mapping[str, Mapping[str, float]] = {
    # With equal scores the order of the inventory decides.
    "first_fit": {},
    "best_fit": {"idle": 2.0, "fit": 1.0},
    "balanced": {"idle": 2.0, "balance": 1.0, "fit": 0.1},
}
POLICIES = ("weighted", "best_fit", "first_fit", "balanced", "rl_based")
_UNTRAINED = "rl_based has no trained weights for this lab, so the weighted policy ranks."


def named_policy(
    name: str = "weighted",
    *,
    memory_threshold: float = 0.85,
    weights: Mapping[str, float] | None = None,
) -> Policy:
    """Return a policy by name; `weights` are those of `weighted`."""
    weighted = DEFAULT_WEIGHTS if weights is None else weights
    note = _UNTRAINED if name == "rl_based" else ""
    return Policy(name, memory_threshold, _FIXED.get(name, weighted), note)


def policy_for(settings: LabSettings, task: Task) -> Policy:
    """Return the policy of a task: its own algorithm, else the lab's, with the lab's limits."""
    return named_policy(
        task.algorithm or settings.policy,
        memory_threshold=settings.memory_threshold,
        weights=settings.weights.model_dump(),
    )
