"""The compiled copy of the simulation starts every job when the engine does."""

from __future__ import annotations

import random
import shutil
from ctypes import CDLL
from dataclasses import replace

import pytest

from benchmarks.placement import lab_of
from benchmarks.placement_search.compiled import Window, built
from gpuconsole.placement.engine.features import ORDER_FEATURES, PLACE_FEATURES
from gpuconsole.placement.model import Learned
from gpuconsole.placement.policy import named_policy
from gpuconsole.placement.simulate.event_loop import simulate
from gpuconsole.placement.simulate.metrics import metrics
from gpuconsole.placement.simulate.trace_readers import DAY, Trace, TraceJob
from gpuconsole.placement.simulate.workload import Cut, Workload, build

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    return built(tmp_path_factory.mktemp("compiled"))


def jobs(lab: str, seed: int) -> Workload:
    """More than the lab can do, with gangs over two hosts and predictions that are far off."""
    dice = random.Random(seed)
    rows = sorted(
        (
            TraceJob(
                dice.uniform(0, 2 * DAY),
                dice.lognormvariate(8, 2),
                dice.choice((1, 1, 1, 2, 8, 16)),
            )
            for _ in range(400)
        ),
        key=lambda row: row.submitted_s,
    )
    cut = Cut(1.0, 0.0, 2.0, 0.1, sigma=2.0)
    return build(
        Trace("made", tuple(rows)), lab_of(lab), cut, lambda n: random.Random(f"{seed}{n}")
    )


@pytest.mark.parametrize("name", ["fifo_easy", "sjf_easy", "saf_easy"])
def test_it_knows_the_classic_heuristics_too(name: str, code: CDLL) -> None:
    workload, policy = jobs("lab4", 3), named_policy(name)
    outcome = simulate(lab_of("lab4"), workload, policy, random.Random(0))
    start, _ = Window(lab_of("lab4"), workload).starts(code, policy)
    assert start == pytest.approx([one.started_s for one in outcome.ran])


@pytest.mark.parametrize("lab", ["lab4", "lab8", "lab20"])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_every_job_starts_when_the_engine_starts_it(lab: str, seed: int | None, code: CDLL) -> None:
    policy = named_policy("weighted")
    if seed is not None:
        dice = random.Random(seed)
        place = {name: dice.gauss(0.0, 1.0) for name in PLACE_FEATURES}
        order = {name: dice.gauss(0.0, 1.0) for name in ORDER_FEATURES}
        policy = replace(policy, learned=Learned(place, order))
    workload = jobs(lab, seed or 0)
    outcome = simulate(lab_of(lab), workload, policy, random.Random(0))
    window = Window(lab_of(lab), workload)
    start, end = window.starts(code, policy)
    assert start == pytest.approx([one.started_s for one in outcome.ran])
    assert end == pytest.approx([one.ended_s for one in outcome.ran])
    assert max(one.started_s or 0.0 for one in outcome.ran) > workload.last_arrival  # a queue
    reported, own = metrics(outcome), metrics(window.outcome(code, policy))
    assert own.as_json() == pytest.approx(reported.as_json())
    found = window.play(code, policy)
    assert (found.mean_jct_s, found.p99_wait_s) == pytest.approx(
        (reported.mean_jct_s, reported.p99_wait_s)
    )
