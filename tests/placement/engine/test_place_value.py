"""What a job asks of a ranking: the kinds of device that will do, and the memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.placement import Board, Policy, Request
from gpuconsole.placement.engine.job_profile import profile
from gpuconsole.placement.engine.place_value import need_of
from gpuconsole.placement.engine.scores import Scorer
from tests.placement.fleets import A100, GIB, NOW, RTX, card, fleet, up, wants

KINDS = (A100, RTX, "910B2", "cut")
HOSTS = (
    up("a", card("a0", A100)),
    up("r", card("r0", RTX)),
    up("n", card("n0", "910B2", backend="npu")),
    up("m", card("m0", A100, mig=True)),
)
PREFERS = {"preferred_devices": ("RTX_3090",), "preference_timeout_s": 60.0}


@pytest.mark.parametrize(
    ("request_", "able"),
    [
        (wants(10), {A100, RTX}), (wants(30), {A100}), (wants(None), {A100, RTX}),
        (wants(60), set()), (wants(10, backend="npu"), {"910B2"}),
        (wants(10, **PREFERS), {RTX}), (wants(10, since=NOW - 60, **PREFERS), {A100, RTX}),
        # Where none of the preferred will do, others need not wait.
        (wants(30, **PREFERS), {A100}),
    ],
)  # fmt: skip
def test_the_kinds_that_will_do(request_: Request, able: set[str]) -> None:
    board = Board.of(fleet(*HOSTS))
    asks = profile(request_, board, Policy(weights={"fit": 2.0}), NOW)
    need = need_of(asks, Scorer(asks, board, 1))
    assert {KINDS[kind] for kind in need.able} == able


@pytest.mark.parametrize(
    ("request_", "mib", "weight", "empty_only"),
    [
        (wants(10), 10 * GIB, 2.0, False), (wants(None), 0.0, 0.0, True),
        (wants(10, exclusive=True), 10 * GIB, 2.0, True), (wants(0), 0.0, 2.0, False),
    ],
)  # fmt: skip
def test_what_is_asked_of_a_device(
    request_: Request, mib: float, weight: float, empty_only: bool
) -> None:
    board = Board.of(fleet(*HOSTS))
    policy = Policy(weights={"fit": 2.0})
    asks = profile(request_, board, policy, NOW)
    need = need_of(asks, Scorer(asks, board, 1), whole=False)
    assert (need.mib, need.weight, need.empty_only, need.whole) == (mib, weight, empty_only, False)
    # A weight below 0 wants memory well left: no bound for a ranking.
    against = profile(request_, board, replace(policy, weights={"fit": -2.0}), NOW)
    assert need_of(against, Scorer(against, board, 1)).weight == 0.0
    assert need_of(against, Scorer(against, board, 1)).whole
