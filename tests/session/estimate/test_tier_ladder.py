"""Climbing the ladder: what is measured, in which order, and how it ends early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gpuconsole.core.estimate import Estimate, Memory, Report, ScriptFault, Trial, Unknown
from gpuconsole.errors import (
    ConsoleError,
    NotHereError,
    RefusedError,
    ScriptFailedError,
    UnreachableError,
    UsageError,
)
from gpuconsole.preflight.tiers.ladder import Means, Run, Site
from gpuconsole.session.estimate.tier_ladder import CANCELLED, UNWATCHED, Climb, Effects, Watching

HOST, OTHER, HERE = Site("gpu-1"), Site("gpu-2"), Site(consent=True)


def report(tier: Any = "unknown", why: str = "no model") -> Report:
    known = tier != "unknown"
    memory = Memory(total_mib=1.0) if known else None
    unknowns = () if known else (Unknown("train.py", 3, why),)
    return Report(Estimate("train.py", 8, None, "gpu", tier, 1.0, memory, unknowns))


@dataclass
class World:
    """Sites at which measuring ends as set; a tier that succeeds is known from then on."""

    ends: dict[tuple[str, str], Exception | None] = field(default_factory=dict)
    says_nothing: frozenset[str] = frozenset()
    """Tiers whose recordings do not tell the memory."""
    best: str = "unknown"
    runs: list[tuple[str, str]] = field(default_factory=list)
    time: float = 0.0
    takes_s: float = 1.0
    hangs: bool = False
    hanging: asyncio.Event = field(default_factory=asyncio.Event)

    async def measure(self, run: Run, progress: Callable[..., None]) -> None:
        tier, site = run.tier, run.site
        self.runs.append((tier, site.host))
        self.time += self.takes_s
        progress(0.5, "step 1")
        if self.hangs:
            self.hanging.set()
            await asyncio.Event().wait()
        error = self.ends.get((tier, site.host))
        if error is not None:
            raise error
        if tier not in self.says_nothing:
            self.best = tier

    async def report(self, tier: str) -> Report:
        if tier in self.says_nothing:
            return report("unknown", "shapes change from one batch to the next")
        return report(self.best)

    def climb(self, means: Means) -> Climb:
        return Climb(Effects(self.measure, self.report, lambda: self.time), means)


async def climbed(world: World, means: Means, user: Watching = UNWATCHED) -> Report:
    return await world.climb(means).run(report(), user)


def endings(found: Report) -> list[tuple[str, str, str]]:
    return [(trial.tier, trial.host, trial.outcome) for trial in found.trials]


async def test_progress_names_the_tier_and_the_host() -> None:
    reported: list[str] = []
    user = Watching(lambda share, stage: reported.append(stage))
    await climbed(World(says_nothing=frozenset({"meta"})), Means("auto", (HOST,)), user)
    await climbed(World(), Means("auto", (Site(),)), user)
    assert reported == ["meta on gpu-1: step 1", "traced on gpu-1: step 1", "meta: step 1"]


async def test_the_first_tier_that_answers_ends_the_climb() -> None:
    world = World()
    reported: list[tuple[float, str]] = []
    user = Watching(lambda share, stage: reported.append((share, stage)))
    found = await climbed(world, Means(sites=(HOST,)), user)
    assert found.estimate.tier == "meta"
    assert found.trials[1] == Trial("meta", "answered", host="gpu-1", seconds=1.0)
    assert reported == [(0.5, "meta on gpu-1: step 1")]
    assert found.as_json()["tiers"][1]["outcome"] == "answered"


async def test_history_that_corrects_a_measured_answer_counts_as_one() -> None:
    class Corrected(World):
        async def report(self, tier: str) -> Report:
            return report("history" if self.best == "meta" else "unknown")

    found = await climbed(Corrected(), Means(sites=(HOST,)))
    assert endings(found)[1] == ("meta", "gpu-1", "answered")


async def test_a_recording_that_tells_nothing_leads_to_the_next_tier_with_its_reason() -> None:
    world = World(says_nothing=frozenset({"meta"}))
    found = await climbed(world, Means(sites=(HOST, OTHER)))
    assert world.runs == [("meta", "gpu-1"), ("traced", "gpu-1")]
    assert found.trials[1].outcome == "unknown"
    assert found.trials[1].why.startswith("shapes change")
    assert found.estimate.tier == "traced"


@pytest.mark.parametrize("error", [NotHereError("A", "b"), UsageError("A", "b")])
async def test_where_a_site_lacks_something_another_is_tried(error: ConsoleError) -> None:
    world = World({("meta", "gpu-1"): error})
    found = await climbed(world, Means(sites=(HOST, OTHER)))
    assert world.runs == [("meta", "gpu-1"), ("meta", "gpu-2")]
    assert found.trials[1].outcome == "impossible"
    assert found.trials[1].why == "A: b"


async def test_what_the_script_itself_refuses_is_not_tried_elsewhere() -> None:
    world = World({("meta", "gpu-1"): RefusedError("The script cannot be measured", "\x1b[2Jno")})
    found = await climbed(world, Means(sites=(HOST, OTHER)))
    assert world.runs == [("meta", "gpu-1"), ("traced", "gpu-1")]
    assert found.trials[1].outcome == "unknown"
    assert "\x1b" not in found.trials[1].why


async def test_a_host_that_cannot_be_reached_is_not_tried_again() -> None:
    world = World(
        {("meta", "gpu-1"): UnreachableError("Gone", "no answer"),
         ("meta", "gpu-2"): NotHereError("A", "no Paddle 3")}
    )  # fmt: skip
    found = await climbed(world, Means(sites=(HOST, OTHER)))
    assert world.runs == [("meta", "gpu-1"), ("meta", "gpu-2"), ("traced", "gpu-2")]
    assert found.estimate.tier == "traced"


async def test_without_consent_nothing_runs_and_the_next_site_is_taken() -> None:
    asked: list[Run] = []

    async def no(run: Run) -> bool:
        asked.append(run)
        return False

    world = World()
    found = await climbed(world, Means("ask", (HOST, HERE)), Watching(agree=no))
    assert [run.site for run in asked] == [HOST, HERE]
    assert world.runs == []
    assert {trial.why for trial in found.trials[1:]} == {
        "running it on gpu-1 needs your consent; running it on this machine needs your consent"
    }
    assert endings(found) == [
        ("static", "", "unknown"), ("meta", "", "impossible"), ("traced", "", "impossible"),
    ]  # fmt: skip


async def test_who_agreed_once_is_not_asked_for_the_next_tier() -> None:
    asked: list[Run] = []

    async def yes(run: Run) -> bool:
        asked.append(run)
        return True

    world = World({("meta", "gpu-1"): RefusedError("A", "b")})
    await climbed(world, Means("ask", (HOST,)), Watching(agree=yes))
    assert len(asked) == 1
    assert len(world.runs) == 2


async def test_the_time_for_measuring_ends_a_measurement() -> None:
    world = World(hangs=True)
    found = await climbed(world, Means(sites=(HOST,), limit_s=0.05))
    assert found.trials[1].outcome == "impossible"
    assert "longer than" in found.trials[1].why
    assert found.estimate.memory is None


async def test_time_that_was_used_up_leaves_no_further_tier() -> None:
    world = World({("meta", "gpu-1"): RefusedError("A", "b")}, takes_s=100.0)
    found = await climbed(world, Means(sites=(HOST,), limit_s=60.0))
    assert world.runs == [("meta", "gpu-1")]
    assert "60 s" in found.trials[-1].why


async def test_skipping_ends_the_climb_with_what_is_known() -> None:
    world = World(hangs=True)
    climb = world.climb(Means(sites=(HOST,)))
    work = asyncio.ensure_future(climb.run(report(), UNWATCHED))
    await world.hanging.wait()
    climb.skip()
    found = await work
    assert [trial.why for trial in found.trials[1:]] == [CANCELLED, CANCELLED]
    again = await world.climb(Means(sites=(HOST,))).run(
        report(), UNWATCHED, tried=climb.failed(found.trials)
    )
    assert len(world.runs) == 1
    assert again.estimate.memory is None


async def test_cancelling_the_caller_cancels_the_measurement() -> None:
    world = World(hangs=True)
    work = asyncio.ensure_future(climbed(world, Means(sites=(HOST,))))
    await world.hanging.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_only_what_told_nothing_is_remembered() -> None:
    refused, missing = RefusedError("A", "b"), NotHereError("A", "b")
    world = World({("meta", "gpu-1"): refused, ("traced", "gpu-1"): missing})
    climb = world.climb(Means(sites=(HOST,)))
    found = await climb.run(report(), UNWATCHED)
    assert [trial.tier for trial in climb.failed(found.trials)] == ["meta"]
    world.ends.clear()
    better = await world.climb(Means(sites=(HOST,))).run(
        report(), UNWATCHED, tried=climb.failed(found.trials)
    )
    assert better.estimate.tier == "traced"
    assert replace(better, trials=()).estimate.memory is not None


# --- a fault that reading finds -----------------------------------------------------------------

FAULT = ScriptFault("train.py", 7, "4 and 5 differ")


def wrong() -> Report:
    return Report(replace(report().estimate, errors=(FAULT,), unknowns=()))


def failing(line: int) -> ScriptFailedError:
    return ScriptFailedError("A", f"train.py:{line}: ValueError", file="/x/train.py", line=line)


async def test_a_run_that_fails_at_the_same_line_confirms_a_fault() -> None:
    world = World({("meta", "gpu-1"): failing(7)})
    found = await world.climb(Means(sites=(HOST, OTHER))).run(wrong(), UNWATCHED)
    assert world.runs == [("meta", "gpu-1")]
    assert endings(found)[1] == ("meta", "gpu-1", "confirmed")
    assert found.trials[1].why == "train.py:7: ValueError"
    assert found.estimate.errors == (FAULT,)


async def test_a_fault_that_was_confirmed_is_not_run_again() -> None:
    world = World({("meta", "gpu-1"): failing(7)})
    climb = world.climb(Means(sites=(HOST,)))
    found = await climb.run(wrong(), UNWATCHED)
    again = await world.climb(Means(sites=(HOST,))).run(
        wrong(), UNWATCHED, tried=climb.failed(found.trials)
    )
    assert world.runs == [("meta", "gpu-1")]
    assert again.estimate.errors == (FAULT,)


async def test_a_run_that_fails_elsewhere_confirms_nothing() -> None:
    world = World({("meta", "gpu-1"): failing(9), ("traced", "gpu-1"): RefusedError("A", "b")})
    found = await world.climb(Means(sites=(HOST,))).run(wrong(), UNWATCHED)
    assert [one[2] for one in endings(found)] == ["unknown", "unknown", "unknown"]
    assert not found.estimate.errors
    assert "may-fail" in found.estimate.flags


async def test_a_run_that_trains_disproves_a_fault() -> None:
    world = World()
    found = await world.climb(Means(sites=(HOST,))).run(wrong(), UNWATCHED)
    assert found.estimate.tier == "meta"
    assert not found.estimate.errors


async def test_a_failure_where_reading_found_no_fault_is_unknown() -> None:
    world = World({("meta", "gpu-1"): failing(7), ("traced", "gpu-1"): failing(7)})
    found = await climbed(world, Means(sites=(HOST,)))
    assert [one[2] for one in endings(found)] == ["unknown", "unknown", "unknown"]


async def test_a_fault_stands_by_reading_alone_where_nothing_is_run() -> None:
    for means in (Means("never", (HOST,)), Means(absent="Paddle is not installed")):
        found = await World().climb(means).run(wrong(), UNWATCHED)
        assert found.estimate.errors == (FAULT,)
