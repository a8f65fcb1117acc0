"""Schedules worked out by hand, and what must hold of every schedule."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpuconsole.placement.engine import queue_pass
from gpuconsole.placement.engine.board import Board
from gpuconsole.placement.engine.job_profile import Profile, profile
from gpuconsole.placement.engine.queue_order import Shares, ordered
from gpuconsole.placement.model import Policy, Request
from gpuconsole.placement.policy import named_policy
from gpuconsole.placement.simulate import event_loop, pending_queue
from gpuconsole.placement.simulate.device_speeds import CLASSES
from gpuconsole.placement.simulate.event_loop import shared_speed, simulate
from gpuconsole.placement.simulate.lab import Failures, Lab, LabHost
from gpuconsole.placement.simulate.lab_file import parse_lab
from gpuconsole.placement.simulate.metrics import Outcome, metrics
from gpuconsole.placement.simulate.trace_readers import read_helios, read_native
from gpuconsole.placement.simulate.workload import Cut, SimJob, Workload, build

ROOT = Path(__file__).parents[3]
TRACES = ROOT.parent / "shared" / "traces"
NEVER = random.Random(0)
NAMES = ("fifo_strict", "fifo_skip", "host_per_user", "sjf_easy", "weighted", "first_fit")
GIB = 1024.0


def host(
    name: str, devices: int, speed: float = 1.0, model: str = "Card", **more: object
) -> LabHost:
    made = LabHost(name, model, devices, 32 * GIB, dict.fromkeys(CLASSES, speed))
    return replace(made, **more)  # type: ignore[arg-type]


def job(number: int, at: float, length: float, devices: int = 1, **more: object) -> SimJob:
    made = SimJob(
        id=f"job-{number}",
        submitted_s=at,
        run_time_s=length,
        predicted_s=length,
        devices=devices,
        user="ana",
        job_class="vision",
        need_mib=4 * GIB,
        utilization=50.0,
        backends=("gpu",),
        counted=True,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def workload(*jobs: SimJob) -> Workload:
    return Workload(jobs, 0.0, 0.0, jobs[-1].submitted_s, ())


def play(lab: Lab, policy: str | Policy, *jobs: SimJob) -> list[tuple[float | None, float | None]]:
    chosen = named_policy(policy) if isinstance(policy, str) else policy
    outcome = simulate(lab, workload(*jobs), chosen, NEVER)
    return [(one.started_s, one.ended_s) for one in outcome.ran]


# --- by hand ------------------------------------------------------------------------------------

# Four devices. A takes three until 100; B needs four; C and D need one, for 50 and for 500.
QUEUE = (job(0, 0, 100, 3), job(1, 10, 10, 4), job(2, 20, 50), job(3, 30, 500))
ONE_HOST = Lab("one", (host("h", 4),))


def test_strict_fifo_lets_nobody_pass() -> None:
    assert play(ONE_HOST, "fifo_strict", *QUEUE) == [(0, 100), (100, 110), (110, 160), (110, 610)]


def test_skip_lets_everybody_pass_and_the_large_job_starves() -> None:
    # C is there until 70, then D until 570: B finds four free devices only after that.
    assert play(ONE_HOST, "fifo_skip", *QUEUE) == [(0, 100), (570, 580), (20, 70), (70, 570)]


def test_easy_lets_pass_only_who_does_not_delay_the_first() -> None:
    # C ends at 70, before A: it may. D would hold B's fourth device beyond 100: it may not.
    easy = replace(named_policy("fifo_strict"), backfill="easy")
    assert play(ONE_HOST, easy, *QUEUE) == [(0, 100), (100, 110), (20, 70), (110, 610)]


def test_easy_lets_pass_a_long_job_where_the_reservation_spares_a_device() -> None:
    easy = replace(named_policy("fifo_strict"), backfill="easy")
    # B needs three of the four that are free at 100: one is left for D all along.
    queue = (QUEUE[0], job(1, 10, 10, 3), job(3, 30, 500))
    assert play(ONE_HOST, easy, *queue) == [(0, 100), (100, 110), (30, 530)]


def test_shortest_first_where_something_waits() -> None:
    one = Lab("one", (host("h", 1),))
    queue = (job(0, 0, 100), job(1, 1, 50), job(2, 2, 10), job(3, 3, 30))
    assert play(one, "sjf_easy", *queue) == [(0, 100), (140, 190), (100, 110), (110, 140)]


def test_area_counts_devices_where_time_does_not() -> None:
    lab = Lab("two", (host("h", 2),))
    queue = (job(0, 0, 100, 2), job(1, 1, 30, 2), job(2, 2, 40, 1))
    assert play(lab, "sjf_easy", *queue)[1:] == [(100, 130), (130, 170)]
    assert play(lab, "weighted", *queue)[1:] == [(140, 170), (100, 140)]


def test_wrong_predictions_order_the_queue_and_the_truth_runs() -> None:
    one = Lab("one", (host("h", 1),))
    queue = (job(0, 0, 100), job(1, 1, 50, predicted_s=1.0), job(2, 2, 10, predicted_s=1000.0))
    assert play(one, "sjf_easy", *queue) == [(0, 100), (100, 150), (150, 160)]


def test_every_user_keeps_to_one_host() -> None:
    lab = Lab("three", tuple(host(f"h{n}", 1) for n in range(3)))
    queue = [job(n, 0, 100, user=user) for n, user in enumerate(("ana", "ana", "ana"))]
    assert play(lab, "host_per_user", *queue) == [(0, 100), (100, 200), (200, 300)]
    assert play(lab, "fifo_skip", *queue) == [(0, 100)] * 3


def test_a_host_per_user_still_takes_what_only_another_host_can_run() -> None:
    lab = Lab("mixed", (*(host(f"s{n}", 1) for n in range(4)), host("large", 4)))
    for user in ("ana", "bo", "chen", "dita"):
        assert play(lab, "host_per_user", job(0, 0, 10, 4, user=user)) == [(0, 10)]


def test_speed_back_end_and_memory_decide_where_and_how_long() -> None:
    lab = Lab(
        "mixed",
        (
            host("slow", 1, 0.5, "Slow"),
            host("fast", 1, 2.0, "Fast", backend="npu", memory_mib=64 * GIB),
        ),
    )
    assert play(lab, "sjf_easy", job(0, 0, 100)) == [(0, 200)]
    assert play(lab, "sjf_easy", job(0, 0, 100, backends=("gpu", "npu"))) == [(0, 50)]
    large = job(0, 0, 100, backends=("gpu", "npu"), need_mib=30 * GIB)
    assert play(lab, "first_fit", large) == [(0, 50)]


def test_a_gang_over_two_hosts_starts_whole_and_pays_for_the_distance() -> None:
    lab = Lab("two", (host("a", 8), host("b", 8)))
    # One device of `b` is taken until 50: sixteen are there only then, at 0.8 of the speed.
    queue = (job(0, 0, 50), job(1, 1, 80, 16))
    assert play(lab, "first_fit", *queue) == [(0, 50), (50, 150)]


# --- sharing ------------------------------------------------------------------------------------


def test_the_stretch_of_sharing_grows_with_the_sum() -> None:
    assert [shared_speed(busy) for busy in (20, 60, 61, 100, 130, 160, 196)] == [
        *(0.96, 0.96, 0.93, 0.93, 0.87, 0.76, 0.64)
    ]


def test_two_jobs_share_where_no_device_is_free_and_run_at_the_measured_speed() -> None:
    one = Lab("one", (host("h", 1),))
    sharing = replace(named_policy("fifo_skip"), sharing=True)
    first, second = play(one, sharing, job(0, 0, 93), job(1, 0, 93))
    # Both at 0.93 until both end.
    assert first == second == (0, pytest.approx(100))
    # The first is alone for 50, then both at 0.93: 50 left take 53.8; the second, alone again,
    # has 43.2 left of its 93.2.
    queue = (job(0, 0, 100), job(1, 50, 93.2))
    first, second = play(one, sharing, *queue)
    assert first == (0, pytest.approx(50 + 50 / 0.93))
    assert second == (50, pytest.approx(50 + 50 / 0.93 + 43.2))


def test_nobody_shares_beyond_utilisation_or_memory_or_as_a_third() -> None:
    one = Lab("one", (host("h", 1),))
    sharing = replace(named_policy("fifo_skip"), sharing=True)
    busy = play(one, sharing, job(0, 0, 100, utilization=60), job(1, 1, 10, utilization=50))
    assert busy[1] == (100, 110)
    large = play(one, sharing, job(0, 0, 100, need_mib=20 * GIB), job(1, 1, 10, need_mib=10 * GIB))
    assert large[1] == (100, 110)
    third = play(one, sharing, *(job(n, n, 100, utilization=20) for n in range(3)))
    assert third[1][0] == 1
    assert third[2][0] == third[0][1]
    assert play(one, "fifo_skip", job(0, 0, 100), job(1, 1, 10))[1] == (100, 110)


# --- failures -----------------------------------------------------------------------------------


class Failing:
    """Dice by which the first host fails at 40 s and no host ever again."""

    def __init__(self) -> None:
        self.moments = [40.0]

    def expovariate(self, lambd: float) -> float:
        return self.moments.pop() if self.moments else 1e12


def test_a_lost_host_sends_its_jobs_back_to_begin_anew() -> None:
    lab = Lab("two", (host("a", 1), host("b", 1)), Failures(10, 100 / 3600))
    jobs = (job(0, 0, 60), job(1, 0, 70), job(2, 0, 10))
    outcome = simulate(lab, workload(*jobs), named_policy("first_fit"), Failing())  # type: ignore[arg-type]
    # On `a` the shortest, then job 1 from 10 on, lost at 40. `b` is free at 60; `a` at 140.
    assert [(one.started_s, one.ended_s, one.restarts) for one in outcome.ran] == [
        (0, 60, 0),
        (60, 130, 1),
        (0, 10, 0),
    ]
    assert outcome.ran[1].held_s == pytest.approx(30 + 70)


def test_a_repaired_host_takes_jobs_again() -> None:
    lab = Lab("one", (host("a", 1),), Failures(10, 100 / 3600))
    outcome = simulate(lab, workload(job(0, 0, 60)), named_policy("first_fit"), Failing())  # type: ignore[arg-type]
    assert (outcome.ran[0].started_s, outcome.ran[0].ended_s) == (140, 200)


# --- of every schedule --------------------------------------------------------------------------


def lab_of(name: str) -> Lab:
    return parse_lab((ROOT / f"inventory/{name}.yaml").read_text(encoding="utf-8"), name)


def sample(lab: Lab, seed: int, load: float = 0.9, days: float = 4) -> Workload:
    text = (ROOT / "gpuconsole/data/sample-trace.csv").read_text(encoding="utf-8")
    trace = read_native(text.splitlines(), "sample")
    return build(trace, lab, Cut(load, 0, days), lambda name: random.Random(f"{seed}/{name}"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sharing", [False, True])
def test_every_job_runs_once_and_no_device_is_given_twice(
    name: str, sharing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = replace(lab_of("lab4"), failures=Failures(3, 5))
    jobs = sample(lab, 1)
    holders: dict[str, set[str]] = {}
    places: dict[str, list[str]] = {}
    begin, release = event_loop._Run._begin, event_loop._Run._release

    def begun(run: event_loop._Run, start: queue_pass.Start, now: float) -> None:
        uuids = [spot.device.uuid for _, spots in start.pick.chosen for spot in spots]
        assert len(uuids) == len(set(uuids)) == start.request.devices
        assert start.request.job not in places, "no job runs twice at once"
        for uuid in uuids:
            there = holders.setdefault(uuid, set())
            there.add(start.request.job)
            assert len(there) <= 1 + start.pick.shared
        places[start.request.job] = uuids
        begin(run, start, now)

    def released(run: event_loop._Run, running: event_loop._Running, now: float) -> None:
        for uuid in places.pop(running.record.job.id):
            holders[uuid].remove(running.record.job.id)
        release(run, running, now)

    monkeypatch.setattr(event_loop._Run, "_begin", begun)
    monkeypatch.setattr(event_loop._Run, "_release", released)
    policy = replace(named_policy(name), sharing=sharing)
    outcome = simulate(lab, jobs, policy, random.Random(3))
    assert not places
    assert all(one.ended_s is not None for one in outcome.ran)
    assert [one.job for one in outcome.ran] == list(jobs.jobs)
    assert sum(one.restarts for one in outcome.ran) > 0


@pytest.mark.parametrize("name", NAMES)
def test_work_is_conserved(name: str) -> None:
    lab = lab_of("lab8")
    outcome = simulate(lab, sample(lab, 2), named_policy(name), NEVER)
    for one in outcome.ran:
        assert one.started_s is not None
        assert one.ended_s is not None
        assert one.started_s >= one.job.submitted_s
        speeds = [h.speed[one.job.job_class] for h in lab.hosts if h.backend in one.job.backends]
        length = one.ended_s - one.started_s
        assert one.job.run_time_s / max(speeds) <= length + 1e-6
        assert one.held_s == pytest.approx(length * one.job.devices)
    # What the devices were busy with is what the jobs held.
    spans = zip(outcome.busy, outcome.busy[1:], strict=False)
    busy = sum(before.held * (after.at_s - before.at_s) for before, after in spans)
    assert busy == pytest.approx(sum(one.held_s for one in outcome.ran))
    assert all(0 <= one.held <= lab.devices for one in outcome.busy)
    assert all(-1e-6 <= one.working <= one.held + 1e-6 for one in outcome.busy)
    assert outcome.busy[-1].held == 0


@pytest.mark.parametrize("name", ["sjf_easy", "weighted"])
def test_equal_arguments_give_equal_outcomes(name: str) -> None:
    lab = replace(lab_of("lab8"), failures=Failures(5, 3))
    policy = replace(named_policy(name), sharing=True)
    runs = [simulate(lab, sample(lab, 3), policy, random.Random(9)) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0] != simulate(lab, sample(lab, 3), policy, random.Random(10))


class PlainLine(list[Request]):
    """The whole queue in order, for every pass: what the line of the simulation must equal."""

    def __init__(self, board: Board, policy: Policy, shares: Shares) -> None:
        self._board, self._policy, self._shares = board, policy, shares
        self._now = 0.0
        self._profiles: dict[str, Profile] = {}

    def add(self, request: Request, now: float) -> None:
        self.append(request)
        self._profiles[request.job] = profile(request, self._board, self._policy, now)

    def profile(self, request: Request) -> Profile:
        return self._profiles[request.job]

    def came_free(self) -> None:
        pass

    def has_chance(self, now: float) -> bool:
        self._now = now
        return True

    def __iter__(self) -> Iterator[Request]:
        waiting: Sequence[Request] = list(super().__iter__())
        for request in ordered(waiting, self._policy, self._now, self._shares):
            yield request
            if request.job in self._board.held:
                self.remove(request)


@pytest.mark.parametrize("name", [*NAMES, "fair"])
@pytest.mark.parametrize("sharing", [False, True])
@pytest.mark.parametrize("seed", [4, 5])
def test_the_line_spares_questions_but_changes_no_answer(
    name: str, sharing: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = replace(lab_of("lab4"), failures=Failures(6, 5))
    if name == "fair":
        policy = replace(named_policy("weighted"), fair_share=1.0, patience=0.5, sharing=sharing)
    else:
        policy = replace(named_policy(name), sharing=sharing)
    jobs = sample(lab, seed, 0.8, 2.5)

    def run() -> Outcome:
        return simulate(lab, jobs, policy, random.Random(1))

    # The line as it is, but for ordering it again for every pass.
    monkeypatch.setattr(pending_queue, "ORDER_S", 0.0)
    quick = run()
    monkeypatch.setattr(event_loop, "Line", PlainLine)
    assert quick == run()


def test_progress_is_told_in_order_until_all_is_done() -> None:
    reported: list[float] = []
    lab = lab_of("lab8")
    simulate(lab, sample(lab, 1), named_policy("weighted"), NEVER, reported.append)
    assert reported == sorted(reported)
    assert reported[-1] == 1.0
    assert len(reported) > 100


@pytest.mark.skipif(not TRACES.exists(), reason="the shared traces are not here")
def test_on_a_real_trace_pooling_beats_strict_fifo_by_far() -> None:
    path = TRACES / "helios_venus_gpu_jobs.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        trace = read_helios(lines, path.name)
    lab = lab_of("lab8")
    jobs = build(trace, lab, Cut(0.9, 20, 7), lambda name: random.Random(f"0/{name}"))
    strict, pooled = (
        metrics(simulate(lab, jobs, named_policy(name), NEVER))
        for name in ("fifo_strict", "weighted")
    )
    assert strict.mean_jct_s is not None
    assert pooled.mean_jct_s is not None
    assert strict.unfinished == pooled.unfinished == 0
    assert pooled.mean_jct_s * 3 < strict.mean_jct_s
    assert pooled.allocation_rate > strict.allocation_rate
