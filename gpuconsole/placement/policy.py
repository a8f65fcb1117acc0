"""Policies by name: an order, a way to pass blocked jobs, and weights for the score of places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuconsole.placement.model import Learned, Policy

if TYPE_CHECKING:
    from gpuconsole.config import LabSettings

# Tuned by trace simulation on the first 96 days of one trace: relative speed counts most, more so
# for long jobs; then price, more so for many devices, so that scarce fast devices go to jobs that
# win much by few of them; then links, memory well filled, and what is left on the host. An idle
# device comes before all of that: that simulation knew no devices on which others work.
DEFAULT_WEIGHTS: Mapping[str, float] = {
    "idle": 9.0,
    "fit": 1.4,
    "balance": 0.0,
    "pack": 0.4,
    "fragments": 0.7,
    "preferred": 3.0,
    "speed": 6.0,
    "length": 2.0,
    "links": 2.5,
    "domestic": 0.0,
    "price": 2.4,
    "bulk": 1.8,
}
FAIR_SHARE, PATIENCE, FRONT_AFTER_S = 0.2, 0.1, 86400.0
"""What moves jobs in the queue of a lab that says nothing else."""
_IDLE = {"idle": 2.0}
_WEIGHTED = Policy(
    "weighted",
    weights=DEFAULT_WEIGHTS,
    fair_share=FAIR_SHARE,
    patience=PATIENCE,
    front_after_s=FRONT_AFTER_S,
)
_CLASSIC = Policy(weights={"speed": 1.0, "fragments": 1.0}, backfill="easy")
_POLICIES: Mapping[str, Policy] = {
    "weighted": _WEIGHTED,
    "rl_based": replace(_WEIGHTED, name="rl_based"),
    # With equal scores the order of the inventory decides.
    "first_fit": replace(_WEIGHTED, name="first_fit", weights={}),
    "best_fit": replace(_WEIGHTED, name="best_fit", weights={**_IDLE, "fit": 1.0}),
    "balanced": replace(_WEIGHTED, name="balanced", weights={**_IDLE, "balance": 1.0, "fit": 0.1}),
    "fragmentation_aware": replace(
        _WEIGHTED,
        name="fragmentation_aware",
        weights={**_IDLE, "fragments": 1.0, "pack": 0.1, "fit": 0.05},
    ),
    "cost_performance": replace(
        _WEIGHTED,
        name="cost_performance",
        weights={**_IDLE, "price": 1.0, "speed": 1.0, "fit": 0.1},
    ),
    # What labs do today, and the classic heuristics: to be compared with.
    "fifo_strict": Policy("fifo_strict", weights={}, order="fifo", backfill="strict"),
    "fifo_skip": Policy("fifo_skip", weights={}, order="fifo", backfill="skip"),
    "host_per_user": Policy(
        "host_per_user", weights={}, order="fifo", backfill="skip", host_per_user=True
    ),
    "fifo_easy": replace(_CLASSIC, name="fifo_easy", order="fifo"),
    "sjf_easy": replace(_CLASSIC, name="sjf_easy", order="time"),
    "saf_easy": replace(_CLASSIC, name="saf_easy", order="area"),
}
POLICIES = (
    *("weighted", "best_fit", "first_fit", "balanced", "fragmentation_aware"),
    *("cost_performance", "rl_based"),
)
"""What a lab or a task may choose."""
BASELINES = ("fifo_strict", "host_per_user", "fifo_skip", "fifo_easy", "sjf_easy", "saf_easy")
"""What the simulator can compare them with."""
_UNTRAINED = (
    "rl_based has no trained weights that this lab's own past has confirmed, so the weighted policy"
    " ranks; `gpuconsole learn` looks for them."
)


def named_policy(
    name: str = "weighted",
    *,
    memory_threshold: float = 0.85,
    weights: Mapping[str, float] | None = None,
    learned: Learned | None = None,
    note: str = "",
) -> Policy:
    """Return a policy by name; `weights` are those of `weighted`, `learned` is for `rl_based`.

    `note` says why `rl_based` goes without training. KeyError for an unknown name.
    """
    policy = replace(_POLICIES[name], memory_threshold=memory_threshold)
    if name in ("weighted", "rl_based") and weights is not None:
        policy = replace(policy, weights=weights)
    if name != "rl_based":
        return policy
    return replace(policy, learned=learned, note="" if learned else note or _UNTRAINED)


def lab_policy(
    settings: LabSettings, learned: Learned | None = None, note: str = "", *, name: str = ""
) -> Policy:
    """Return the lab's policy, or another one by name within the lab's limits."""
    policy = named_policy(
        name or settings.policy,
        memory_threshold=settings.memory_threshold,
        weights=settings.weights.model_dump(),
        learned=learned,
        note=note,
    )
    return replace(
        policy,
        sharing=settings.sharing,
        preemption=settings.preemption,
        avoid_foreign=settings.foreign_processes == "avoid",
        fair_share=settings.fair_share,
        patience=settings.patience,
        front_after_s=settings.front_after,
    )
