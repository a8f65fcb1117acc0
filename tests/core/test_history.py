"""History: what is kept, for how long, and what a plot gets of it."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.fleet import Device, Host, HostFacts, HostState
from gpuconsole.core.history import (
    COARSE_S,
    FULL_DEVICES,
    History,
    Series,
    downsample,
    sampling_s,
)

T0 = 1_790_000_000.0


def host(at: float, *, devices: int = 2, name: str = "a", util: float | None = 50.0) -> Host:
    cards = tuple(
        Device(
            f"{name}-{index}",
            index,
            "A100",
            memory_used_mib=642.0 + index,
            utilization=util,
            temperature_c=64.5,
            power_w=310.2,
            sm_clock_mhz=1410.0,
        )
        for index in range(devices)
    )
    facts = HostFacts(cpu_percent=37.5, memory_used_mib=120_000.0)
    return Host(name, HostState.UP, devices=cards, facts=facts, sampled_at=at)


def test_every_figure_is_kept_as_it_was() -> None:
    history = History()
    history.feed([host(T0)])
    expected = {
        "utilization": 50.0,
        "memory_used_mib": 643.0,
        "temperature_c": 64.5,
        "power_w": pytest.approx(310.2),
        "sm_clock_mhz": 1410.0,
    }
    for metric, value in expected.items():
        assert history.device("a-1", metric, T0 - 10, T0 + 1).values == [value]  # type: ignore[arg-type]
    assert history.host("a", "cpu_percent", T0 - 10, T0 + 1).latest == 37.5
    assert history.host("a", "memory_used_mib", T0 - 10, T0 + 1).latest == 120_000.0


def test_an_unknown_device_has_an_empty_series() -> None:
    series = History().device("nobody", "utilization", 0.0, 60.0)
    assert series == Series(0.0, 60.0)
    assert series.latest is None
    assert series.peak is None
    assert downsample(series, 3) == (None, None, None)


def test_the_same_record_or_a_changed_state_adds_no_sample() -> None:
    history = History()
    seen = host(T0)
    history.feed([seen])
    history.feed([seen])
    history.feed([host(T0)])
    assert len(history.device("a-0", "utilization", T0 - 5, T0 + 5).times) == 1


def test_what_is_not_told_is_none_and_a_gap_in_the_plot() -> None:
    history = History()
    for second in range(10):
        history.feed([host(T0 + second, util=None if 4 <= second < 8 else 80.0)])
    series = history.device("a-0", "utilization", T0, T0 + 10)
    assert series.values[4] is None
    assert downsample(series, 5) == ((80, 80, 80), (80, 80, 80), None, None, (80, 80, 80))


def test_old_samples_become_summaries_and_end() -> None:
    history = History()
    total = int(COARSE_S * 1.25)
    for second in range(total):
        history.feed([host(T0 + second, devices=1, util=float(second % 20))])
    end = T0 + total
    recent = history.device("a-0", "utilization", end - 60, end)
    assert len(recent.times) == 62
    assert recent.values == recent.lows
    whole = history.device("a-0", "utilization", T0, end)
    assert whole.times[0] > T0
    assert COARSE_S * 0.95 < end - whole.times[0] < COARSE_S * 1.2
    assert whole.values[0] == pytest.approx(9.5, abs=0.5)
    assert (whole.lows[0], whole.highs[0]) == (0.0, 19.0)
    assert list(whole.times) == sorted(whole.times)
    assert all(column is not None for column in downsample(whole, 200)[20:])


def test_a_peak_inside_a_summary_is_not_lost() -> None:
    history = History()
    for second in range(3600):
        history.feed([host(T0 + second, devices=1, util=99.0 if second == 100 else 5.0)])
    series = history.device("a-0", "utilization", T0, T0 + 3600)
    assert series.peak is not None
    at, high = series.peak
    assert high == 99.0
    assert abs(at - (T0 + 100)) <= 20


def test_a_device_that_comes_and_one_that_goes() -> None:
    history = History()
    history.feed([host(T0, devices=2)])
    history.feed([host(T0 + 1, devices=3)])
    history.feed([host(T0 + 2, devices=1)])
    assert history.device("a-0", "utilization", T0, T0 + 3).values == [50.0, 50.0, 50.0]
    assert history.device("a-2", "utilization", T0, T0 + 3).times == ()


def test_a_host_that_left_is_forgotten() -> None:
    history = History()
    history.feed([host(T0), host(T0, name="b")])
    history.feed([host(T0 + 1)])
    assert history.device("b-0", "utilization", T0 - 1, T0 + 1).times == ()


@pytest.mark.parametrize(("back_s", "kept"), [(0, 0), (5, 0), (6, 6), (3600, 3600)])
def test_a_clock_set_back_begins_anew(back_s: float, kept: float) -> None:
    """A frame that is a few samples late is one that came out of turn."""
    history = History()
    history.feed([host(T0)])
    history.feed([host(T0 - back_s)])
    assert list(history.device("a-0", "utilization", T0 - 4000, T0 + 1).times) == [T0 - kept]


def test_a_large_fleet_is_sampled_less_often_for_the_same_time() -> None:
    assert sampling_s(0) == sampling_s(FULL_DEVICES) == 1.0
    assert sampling_s(8000) == 16.0
    history = History()
    for second in range(24):
        history.feed([host(T0 + second, devices=3 * FULL_DEVICES)])
    times = history.device("a-0", "utilization", T0, T0 + 24).times
    assert {after - before for before, after in list(pairwise(times))[1:]} == {3.0}
    assert len(times) in (8, 9)


def test_hosts_of_a_large_fleet_take_turns() -> None:
    history, names = History(), [f"h{number}" for number in range(12)]
    taken: dict[str, int] = {}
    for second in range(30):
        history.feed([host(T0 + second, devices=FULL_DEVICES // 4, name=name) for name in names])
    for name in names:
        times = history.host(name, "cpu_percent", T0 + 10, T0 + 30).times
        taken[name] = int(times[-1]) % 3
    assert {list(taken.values()).count(turn) for turn in range(3)} <= {3, 4, 5}


def test_a_host_that_changes_places_keeps_its_own_samples() -> None:
    history, utils = History(), {"a": 10.0, "b": 20.0}
    for second, names in enumerate(("ab", "ab", "ba")):
        history.feed(
            [host(T0 + second, devices=FULL_DEVICES, name=name, util=utils[name]) for name in names]
        )
    for name, util in utils.items():
        values = history.device(f"{name}-0", "utilization", T0, T0 + 3).values
        assert set(values) == {util}


def test_a_summary_has_least_mean_and_most_of_what_was_reported() -> None:
    history = History()
    for second in range(1200):
        util = None if second % 4 == 3 else float(second % 4)
        history.feed([host(T0 + second, util=util)])
    series = history.device("a-1", "utilization", T0, T0 + 60)
    assert (series.lows[1], series.values[1], series.highs[1]) == (0.0, 1.0, 2.0)


def test_what_is_no_number_is_not_told() -> None:
    history = History()
    strange = Device("x", 0, "?", utilization=math.nan, temperature_c=-40.0, power_w=math.inf)
    history.feed([Host("h", HostState.UP, devices=(strange,), sampled_at=T0)])
    assert history.device("x", "utilization", T0, T0 + 1).values == [None]
    assert history.device("x", "temperature_c", T0, T0 + 1).values == [-40.0]
    assert history.device("x", "power_w", T0, T0 + 1).values == [None]


@given(
    st.lists(st.one_of(st.none(), st.floats(0, 100)), min_size=1, max_size=60),
    st.integers(1, 40),
)
def test_columns_hold_what_the_samples_hold(values: list[float | None], columns: int) -> None:
    count = len(values)
    series = Series(0.0, count, range(count), values, values, values, [1.0] * count)
    got = downsample(series, columns)
    assert len(got) == columns
    known = [value for value in values if value is not None]
    told = [column for column in got if column is not None]
    assert bool(known) == bool(told)
    if known:
        assert min(column[0] for column in told) == min(known)
        assert max(column[2] for column in told) == max(known)
    for low, mean, high in told:
        assert low - 1e-9 <= mean <= high + 1e-9


def test_a_span_before_the_first_sample_is_empty() -> None:
    history = History()
    history.feed([host(T0)])
    series = history.device("a-0", "utilization", T0 - 100, T0 - 50)
    assert (list(series.times), series.peak) == ([], None)
