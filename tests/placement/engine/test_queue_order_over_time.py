"""Jobs that keep arriving: who waits how long while others come."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import fmean

import pytest

from gpuconsole.core.jobs import Task
from gpuconsole.placement.engine.queue_order import FRONT_AREAS, ordered
from gpuconsole.placement.model import Policy, Request
from gpuconsole.placement.policy import named_policy
from gpuconsole.placement.simulate.device_speeds import CLASSES
from gpuconsole.placement.simulate.event_loop import simulate
from gpuconsole.placement.simulate.lab import Lab, LabHost
from gpuconsole.placement.simulate.metrics import Outcome, metrics
from gpuconsole.placement.simulate.workload import SimJob, Workload

HOUR, DAY = 3600.0, 86400.0
LAB = Lab("one host of eight", (LabHost("a", "Card", 8, 32768.0, dict.fromkeys(CLASSES, 1.0)),))
WEIGHTED = named_policy("weighted")
AGELESS = replace(WEIGHTED, front_after_s=0.0)


def job(name: str, at: float, length: float, devices: int = 1, user: str = "bo") -> SimJob:
    return SimJob(
        name, at, length, length, devices, user, "vision", 4096.0, 50.0, ("gpu",), counted=True
    )


def request(name: str, run_time_s: float | None, devices: int = 1, priority: int = 0) -> Request:
    task = Task(name, priority=priority)
    return Request(name, task, 4096.0, devices, 0.0, user=name, run_time_s=run_time_s)


def stream(days: float, load: float, user: str = "bo", seed: int = 0) -> list[SimJob]:
    """Jobs of an hour and one device that keep a share of the lab busy."""
    dice, at, made = random.Random(seed), 0.0, []
    while (at := at + dice.expovariate(8 * load / HOUR)) < days * DAY:
        made.append(job(f"{user}-{len(made)}", at, HOUR, user=user))
    return made


def play(policy: Policy, *jobs: SimJob) -> Outcome:
    ordered = tuple(sorted(jobs, key=lambda one: one.submitted_s))
    work = Workload(ordered, 0.0, 0.0, ordered[-1].submitted_s, ())
    return simulate(LAB, work, policy, random.Random(0))


def wait_of(outcome: Outcome, name: str) -> float:
    found = next(one for one in outcome.ran if one.job.id == name)
    assert found.started_s is not None
    return found.started_s - found.job.submitted_s


def mean_wait(outcome: Outcome, user: str) -> float:
    ran = [one for one in outcome.ran if one.job.user == user and one.started_s is not None]
    return fmean(one.started_s - one.job.submitted_s for one in ran if one.started_s is not None)


GANG = job("gang", 2 * HOUR, HOUR, 8, "ana")
"""It wants the whole lab, for no longer than the others run."""


@pytest.mark.parametrize("load", [0.8, 0.95])
def test_small_jobs_that_keep_coming_pass_a_large_one_for_a_day_at_most(load: float) -> None:
    flood = stream(3, load, seed=1)
    # A day, and the hour until those have ended that run then.
    assert wait_of(play(WEIGHTED, *flood, GANG), "gang") <= DAY + HOUR
    assert wait_of(play(AGELESS, *flood, GANG), "gang") > 1.5 * DAY


def test_age_counts_against_the_own_length() -> None:
    """A job of four days that has waited for one has not waited long: others still pass it."""
    policy = replace(WEIGHTED, fair_share=0.0, patience=0.0)
    long = replace(request("long", run_time_s=4 * DAY), waiting_since=0.0)
    names = {}
    for now in (DAY, 97 * DAY):
        short = replace(request("short", run_time_s=HOUR), waiting_since=now - HOUR)
        names[now] = [one.job for one in ordered([long, short], policy, now)]
    assert names == {DAY: ["short", "long"], 97 * DAY: ["long", "short"]}


@pytest.mark.parametrize("run_time_s", [None, HOUR])
def test_the_moment_from_which_a_job_is_in_front(run_time_s: float | None) -> None:
    waiting = replace(request("a", run_time_s=run_time_s), waiting_since=7.0)
    young = replace(request("b", run_time_s=60.0), waiting_since=DAY)
    ageless = [one.job for one in ordered([young, waiting], AGELESS, DAY + 8.0)]
    assert ageless == ["b", "a"]
    before, after = (
        [one.job for one in ordered([young, waiting], WEIGHTED, DAY + 7.0 + late)]
        for late in (-0.1, 0.0)
    )
    assert (before, after) == (["b", "a"], ["a", "b"])


@pytest.mark.parametrize(("over", "part"), [(1.0, 1.0), (0.0, 1.0), (-0.5, 0.5), (-1.0, 0.3)])
def test_who_has_had_less_than_their_due_is_in_front_sooner(over: float, part: float) -> None:
    class Had:
        def overuse(self, user: str, account: str, now: float) -> float:
            return over

    waiting, young = request("a", HOUR), replace(request("b", run_time_s=60.0), waiting_since=DAY)
    before, after = (
        [one.job for one in ordered([young, waiting], WEIGHTED, part * DAY + late, Had())]
        for late in (-0.1, 0.1)
    )
    assert (before, after) == (["b", "a"], ["a", "b"])


def test_of_two_users_the_one_who_has_had_nothing_waits_a_part_of_the_day() -> None:
    wait = wait_of(play(WEIGHTED, *stream(3, 0.95), GANG), "gang")
    own = wait_of(play(WEIGHTED, *stream(3, 0.95), replace(GANG, user="bo")), "gang")
    assert wait <= 0.3 * DAY + HOUR < own


def test_those_in_front_stand_in_the_order_of_their_due_times_and_priority_stays_above() -> None:
    """Due a day and eight times its area after it was submitted: 64 h later for the large one."""

    def small(since: float) -> Request:
        return replace(request("small", run_time_s=60.0), waiting_since=since)

    large = replace(request("large", run_time_s=HOUR, devices=8), waiting_since=0.0)
    urgent = replace(request("urgent", run_time_s=9 * HOUR, priority=1), waiting_since=9 * DAY)
    found = {
        since: [one.job for one in ordered([large, small(since), urgent], WEIGHTED, 9 * DAY)]
        for since in (60 * HOUR, 70 * HOUR)
    }
    assert found == {
        60 * HOUR: ["urgent", "small", "large"],
        70 * HOUR: ["urgent", "large", "small"],
    }


@pytest.mark.parametrize("load", [0.8, 1.2])
def test_a_stream_larger_than_the_lab_keeps_no_large_job_waiting_past_its_due_time(
    load: float,
) -> None:
    """Of the stream, too, more and more stand in front; none that came after the large job's due
    time passes it."""
    outcome = play(WEIGHTED, *stream(6, load), replace(GANG, user="bo"))
    due = 2 * HOUR + DAY + FRONT_AREAS * 8 * HOUR
    start = GANG.submitted_s + wait_of(outcome, "gang")
    late = [one for one in outcome.ran if one.job.submitted_s > due and one.started_s is not None]
    assert not [one.job.id for one in late if one.started_s < start - HOUR]


def test_four_users_of_unequal_load_share_alike_and_none_waits_for_days() -> None:
    """One submits eight times as much as each of the others, for the whole lab twice over."""
    loads = {"ann": 1.6, "ben": 0.2, "cem": 0.2, "dea": 0.2}
    jobs = [
        one
        for seed, (user, load) in enumerate(loads.items())
        for one in stream(2, load, user, seed)
    ]
    shared, alone = play(WEIGHTED, *jobs), play(replace(WEIGHTED, fair_share=0.0), *jobs)
    waits = {user: mean_wait(shared, user) for user in loads}
    assert max(waits[user] for user in ("ben", "cem", "dea")) < 0.5 * waits["ann"]
    assert max(waits[user] for user in ("ben", "cem", "dea")) < mean_wait(alone, "ben")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nobody_among_many_waits_much_longer_than_age_allows(seed: int) -> None:
    dice = random.Random(seed)
    large = [
        job(f"g{n}", dice.uniform(0, DAY), HOUR / 2, dice.choice((2, 4, 8)), "ana")
        for n in range(10)
    ]
    longest = metrics(play(WEIGHTED, *stream(2, 0.8, seed=seed), *large)).longest_wait_s
    assert longest is not None
    assert longest <= 1.25 * DAY
