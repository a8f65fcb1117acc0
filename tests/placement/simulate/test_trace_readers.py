"""Traces: each format read by hand, mistakes with their lines, windows, loads and draws."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconsole.errors import UsageError
from gpuconsole.placement.simulate.lab import Lab
from gpuconsole.placement.simulate.lab_file import parse_lab
from gpuconsole.placement.simulate.trace_readers import (
    DAY,
    READERS,
    Trace,
    TraceJob,
    read_gavel,
    read_native,
    thin,
    window,
)
from gpuconsole.placement.simulate.workload import Cut, Workload, build
from tests.scripts import script

ROOT = Path(__file__).parents[3]


def lab(name: str = "lab8") -> Lab:
    return parse_lab((ROOT / f"inventory/{name}.yaml").read_text(encoding="utf-8"), name)


def dice(seed: int = 0) -> Callable[[str], random.Random]:
    return lambda name: random.Random(f"{seed}/{name}")


def many(jobs: int = 4000, days: int = 20) -> Trace:
    chance = random.Random(5)
    made = [
        TraceJob(
            chance.uniform(0, days * DAY),
            chance.lognormvariate(8, 1.5),
            chance.choice((1, 1, 1, 2, 4, 8)),
        )
        for _ in range(jobs)
    ]
    return Trace("many", tuple(sorted(made, key=lambda job: job.submitted_s)))


# --- reading ------------------------------------------------------------------------------------


def test_philly_counts_from_its_first_job() -> None:
    trace = READERS["philly"](
        [
            "timestamp,duration,num_gpus,gpu_time,cluster",
            "2017-09-05 10:00:00,60.5,2,121.0,x",
            "2017-09-04 10:00:00,30,1,30,x",
            "2017-09-05 11:00:00,0.0,1,0,x",
        ],
        "p.csv",
    )
    assert trace.empty == 1
    first, second = window(trace, 0, None)
    assert (first.submitted_s, first.run_time_s, first.devices) == (0.0, 30.0, 1)
    assert (second.submitted_s, second.run_time_s, second.devices) == (DAY, 60.5, 2)


def test_helios_and_openb() -> None:
    helios = READERS["helios"](
        ["job_id,arrival_s,service_sec,gpu_count", "1#0,0.0,172800.0,32", "2#1,50,7.5,8"], "h.csv"
    )
    assert [job.devices for job in helios.jobs] == [32, 8]
    openb = READERS["openb"](
        [
            "name,num_gpu,gpu_milli,creation_time,deletion_time",
            "a,1,460,100,400",
            "b,0,0,100,400",
            "c,8,1000,100,160",
        ],
        "o.csv",
    )
    assert [(job.run_time_s, job.utilization) for job in openb.jobs] == [(300, 46), (60, None)]
    assert openb.empty == 1


def test_gavel_takes_run_times_from_the_rates_of_a_v100() -> None:
    trace = read_gavel(
        [
            "cluster,model,total_steps,arrival_s,num_gpus",
            "x,ResNet-18 (batch size 16),1000,5,2",
            "x,Transformer (batch size 64),600,6,1",
            "x,Recommendation (batch size 512),600,6,8",
        ],
        "jobs.csv",
        [
            "gpu_type,model,num_gpus,steps_per_s",
            "k80,ResNet-18 (batch size 16),2,1",
            "v100,ResNet-18 (batch size 16),2,10",
            "v100,Transformer (batch size 64),1,3",
        ],
        "rates.csv",
    )
    assert [(job.run_time_s, job.job_class) for job in trace.jobs] == [
        (100.0, "vision"),
        (200.0, "language"),
    ]
    assert trace.notes == ("1 rows have no measured rate on a V100 and are left out.",)


def test_native_knows_what_other_traces_lack() -> None:
    trace = read_native(
        [
            "# a comment\n",
            "submitted_s,run_time_s,devices,user,job_class,need_mib,utilization,predicted_s,backends\n",
            '5,100,2,"Müller, A",vision,9000,55.5,80,gpu npu\n',
            "6,100,1,,,,,,\n",
        ],
        "mine.csv",
    )
    full, bare = trace.jobs
    assert full == TraceJob(5, 100, 2, "Müller, A", "vision", 9000, 55.5, 80, ("gpu", "npu"))
    assert bare == TraceJob(6, 100, 1)


@pytest.mark.parametrize(
    ("form", "lines", "words"),
    [
        ("native", [], "mine.csv holds no line"),
        ("native", ["submitted,run_time_s,devices", "1,2,3"], "mine.csv:1: there is no column"),
        ("native", ["submitted_s,run_time_s,devices"], "no job with devices"),
        ("native", ["# c", "submitted_s,run_time_s,devices", "1,2,3", "1,x,3"], "mine.csv:4: `run"),
        ("native", ["submitted_s,run_time_s,devices", "1,2,1.5"], "2: `devices` is '1.5'"),
        ("native", ["submitted_s,run_time_s,devices", "1,nan,1"], "2: `run_time_s` is 'nan'"),
        ("native", ["submitted_s,run_time_s,devices", "1,-5,1"], "at least 0"),
        ("native", ["submitted_s,run_time_s,devices", "1,5"], "2: `devices` is missing"),
        (
            "native",
            ["submitted_s,run_time_s,devices,job_class", "1,5,1,magic"],
            "2: `job_class` is 'magic', expected vision",
        ),
        (
            "philly",
            ["timestamp,duration,num_gpus", "yesterday,5,1"],
            "2: `timestamp` is 'yesterday'",
        ),
        ("helios", ["timestamp,duration,num_gpus", "2017-09-04 10:00:00,5,1"], "'arrival_s'"),
    ],
)
def test_a_wrong_trace_names_line_and_column(form: str, lines: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        READERS[form](lines, "mine.csv")
    assert words in caught.value.message


def test_control_characters_of_a_bad_row_do_not_reach_the_terminal() -> None:
    with pytest.raises(UsageError) as caught:
        read_native(["submitted_s,run_time_s,devices", "1,\x1b[2J,1"], "mine.csv")
    assert "\x1b" not in caught.value.message


# --- windows and loads --------------------------------------------------------------------------


def test_a_window_has_the_jobs_of_its_days_on_its_own_clock() -> None:
    trace = many()
    found = window(trace, 5, 3)
    begin = trace.jobs[0].submitted_s + 5 * DAY
    inside = [job for job in trace.jobs if begin <= job.submitted_s < begin + 3 * DAY]
    assert [job.submitted_s for job in found] == [job.submitted_s - begin for job in inside]
    assert len(found) > 100


def test_an_empty_window_says_where_the_trace_ends() -> None:
    with pytest.raises(UsageError, match=r"from day 100 to day 114; it ends on day 20\.0"):
        window(many(), 100, 14)


@pytest.mark.parametrize("load", [0.2, 0.5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_thinning_comes_to_the_load(load: float, seed: int) -> None:
    made = build(many(), lab(), Cut(load, 2, 14), dice(seed))
    assert made.offered_load == pytest.approx(load, rel=0.03)


def test_a_higher_load_only_adds_jobs() -> None:
    low = build(many(), lab(), Cut(0.2, 2, 14), dice())
    high = build(many(), lab(), Cut(0.4, 2, 14), dice())
    assert {job.id: job for job in low.jobs}.items() <= {job.id: job for job in high.jobs}.items()
    assert len(low.jobs) < len(high.jobs)


def test_another_seed_takes_other_jobs_and_the_same_seed_the_same() -> None:
    first = build(many(), lab(), Cut(0.3, 2, 14), dice(0))
    assert first == build(many(), lab(), Cut(0.3, 2, 14), dice(0))
    assert first.jobs != build(many(), lab(), Cut(0.3, 2, 14), dice(1)).jobs


def test_thinning_keeps_the_order_and_leaves_out_what_is_no_load() -> None:
    jobs = [TraceJob(0, 1e9, 8), *(TraceJob(second, 10, 1) for second in range(100))]
    found = thin(jobs, 300, random.Random(1))
    assert len(found) == 30
    assert found == sorted(found, key=lambda job: job.submitted_s)


def test_a_load_that_the_trace_does_not_have_is_said() -> None:
    made = build(many(), lab("lab20"), Cut(9.0, 2, 14), dice())
    assert made.offered_load < 1.0
    assert any("and no more: all jobs run" in note for note in made.notes)


# --- what is drawn ------------------------------------------------------------------------------


def test_every_job_fits_its_lab() -> None:
    small = lab("lab4")
    for job in build(many(), small, Cut(0.5, 2, 14), dice()).jobs:
        most = small.most_memory_mib(job.devices, job.backends)
        assert most is not None
        assert 1024 <= job.need_mib <= most
        assert 0 < job.utilization < 100


def test_jobs_above_sixteen_devices_are_left_out_and_said() -> None:
    jobs = (TraceJob(0, 100, 1), TraceJob(1, 100, 16), TraceJob(2, 100, 17), TraceJob(3, 9, 64))
    made = build(Trace("t", jobs), lab(), Cut(), dice())
    assert [job.devices for job in made.jobs] == [1, 16]
    assert "2 of 4 jobs ask for more than 16 devices: left out." in made.notes


def test_the_first_day_runs_but_does_not_count() -> None:
    made = build(many(), lab(), Cut(0.3, 2, 14), dice())
    assert made.counted_from == DAY
    assert all(job.counted == (job.submitted_s >= DAY) for job in made.jobs)
    assert any("first 24 hours" in note for note in made.notes)
    short = build(many(), lab(), Cut(None, 2, 1), dice())
    assert short.counted_from == 0.0
    assert all(job.counted for job in short.jobs)


def _sigma(sigma: float | None) -> Workload:
    return build(many(), lab(), Cut(0.5, 2, 14, sigma=sigma), dice())


def test_predictions_are_as_wrong_as_said_and_nothing_else_changes() -> None:
    from math import log
    from statistics import mean, pstdev

    errors = [log((job.predicted_s or 0) / job.run_time_s) for job in _sigma(2.0).jobs]
    assert mean(errors) == pytest.approx(0.0, abs=0.2)
    assert pstdev(errors) == pytest.approx(2.0, rel=0.06)
    assert all(job.predicted_s == job.run_time_s for job in _sigma(0.0).jobs)
    assert all(job.predicted_s is None for job in _sigma(None).jobs)
    assert [j.need_mib for j in _sigma(0.0).jobs] == [j.need_mib for j in _sigma(4.0).jobs]


def test_users_follow_zipf_and_only_what_is_drawn_is_said() -> None:
    made = build(many(), lab(), Cut(None, 0, None), dice())
    counts = [sum(job.user == f"user{n:02}" for job in made.jobs) for n in (1, 2, 4)]
    assert counts[0] == pytest.approx(2 * counts[1], rel=0.2)
    assert counts[0] == pytest.approx(4 * counts[2], rel=0.25)
    assert any("Zipf" in note for note in made.notes)
    known = Trace("t", (TraceJob(0, 9, 1, "ana", "vision", 2000, 40, 9, ("gpu",)),))
    notes = " ".join(build(known, lab(), Cut(), dice()).notes)
    assert "drawn" not in notes
    assert "Predicted" not in notes


def test_the_shipped_trace_is_what_its_tool_writes() -> None:
    tool = script(ROOT / "tools" / "sample_trace.py")
    text = (ROOT / "gpuconsole/data/sample-trace.csv").read_text(encoding="utf-8")
    assert text == "".join(tool.lines()), "run: python tools/sample_trace.py"
    assert text.startswith("# Synthetic")
