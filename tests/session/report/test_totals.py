"""Device-hours, use, energy and cost added up: shares, gangs, months, gaps and prices."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from gpuconsole.config import PriceSection
from gpuconsole.core.devices.device_use import DeviceUse, Holding
from gpuconsole.errors import UsageError
from gpuconsole.session.report.making import prices_of
from gpuconsole.session.report.model import MOST_ROWS, OTHERS, Key, Query, Row, Sums
from gpuconsole.session.report.totals import (
    Prices,
    Tally,
    idle_leases,
    month_edges,
    month_of,
)

HOUR = 3600.0
NOW = 100 * HOUR
WHEN = (0.0, NOW)
FREE = Prices(lambda host, model: None)


def held(
    job: str = "a",
    since: float = 0.0,
    until: float | None = HOUR,
    *,
    user: str = "ada",
    uuids: tuple[str, ...] = ("G0",),
    host: str = "h",
    shared: bool = False,
    use: tuple[float, float] | None = None,
    watts: float | None = None,
    model: str = "A100",
) -> Holding:
    """`use` is a share of 1 and the hours of one device over which it was measured."""
    uses: tuple[DeviceUse, ...] = ()
    if use is not None:
        part, known_s = use[0], use[1] * HOUR
        joules = 0.0 if watts is None else watts * known_s
        power_s = 0.0 if watts is None else known_s
        uses = (
            DeviceUse(job, 1, since, host, model, len(uuids), part * known_s, known_s, joules,
                      power_s, NOW, None),
        )  # fmt: skip
    return Holding(
        job, 1, f"job-{job}", user, "", "", host, uuids, len(uuids), since, until, uses, shared
    )


def tally(
    *holdings: Holding, by: tuple[Key, ...] = ("user",), prices: Prices = FREE,
    when: tuple[float, float] = WHEN, user: str = "",
) -> Tally:  # fmt: skip
    made = Tally(Query(*when, by), prices, {("h", "G0"): "T4"}, NOW)
    made.take(holdings, user)
    return made


def only(rows: tuple[Row, ...]) -> Sums:
    (row,) = rows
    return row.sums


def test_what_was_not_measured_is_unknown_and_no_zero() -> None:
    sums = only(tally(held()).rows())
    assert (sums.held_s, sums.unknown_s) == (HOUR, HOUR)
    assert (sums.use, sums.wasted_s, sums.kwh, sums.cost) == (None, None, None, None)
    document = sums.as_json()
    assert (document["wasted_hours"], document["kwh"], document["cost"]) == (None, None, None)
    assert document["use_measured_share"] == 0.0


def test_used_wasted_and_unknown_hours_add_up_to_those_held() -> None:
    one = held(until=4 * HOUR, use=(0.25, 3.0), watts=200.0)
    sums = only(tally(one).rows())
    assert sums.used_s == pytest.approx(0.75 * HOUR)
    assert sums.wasted_s == pytest.approx(2.25 * HOUR)
    assert sums.unknown_s == pytest.approx(1.0 * HOUR)
    assert sums.use == pytest.approx(25.0)
    assert sums.kwh == pytest.approx(0.6)
    assert sums.share(sums.energy_known_s) == pytest.approx(0.75)


def test_each_attempt_of_a_job_counts_for_its_own_time() -> None:
    first = held(until=2 * HOUR)
    again = held(since=10 * HOUR, until=11 * HOUR)._replace(attempt=2)
    sums = only(tally(first, again).rows())
    assert (sums.jobs, sums.attempts, sums.held_s) == (1, 2, 3 * HOUR)


def test_a_gang_counts_on_each_of_its_hosts() -> None:
    parts = (
        held(uuids=("G0", "G1"), use=(1.0, 2.0)),
        held(uuids=("G0", "G1"), host="i", use=(0.0, 2.0)),
    )
    rows = {row.words: row.sums for row in tally(*parts, by=("host",)).rows()}
    assert {words: sums.held_s for words, sums in rows.items()} == {
        ("h",): 2 * HOUR,
        ("i",): 2 * HOUR,
    }
    total = tally(*parts).total()
    assert (total.jobs, total.attempts, total.use) == (1, 1, 50.0)


def test_a_device_held_twice_is_halved_while_both_hold_it() -> None:
    first = held("a", 0.0, 4 * HOUR)
    second = held("b", 1 * HOUR, 3 * HOUR, user="bob", shared=True)
    rows = {row.words[0]: row.sums.held_s for row in tally(first, second).rows()}
    assert rows == {"ada": pytest.approx(3 * HOUR), "bob": pytest.approx(1 * HOUR)}
    assert tally(first, second).total().held_s == pytest.approx(4 * HOUR)
    # Who sees their own alone does not see more hours for that.
    assert only(tally(first, second, user="bob").rows()).held_s == pytest.approx(1 * HOUR)


def test_of_a_shared_pair_only_the_common_device_is_halved() -> None:
    first = held("a", 0.0, 2 * HOUR, uuids=("G0", "G1"))
    second = held("b", 0.0, 2 * HOUR, user="bob", shared=True)
    rows = {row.words[0]: row.sums.held_s for row in tally(first, second).rows()}
    assert rows == {"ada": pytest.approx(3 * HOUR), "bob": pytest.approx(1 * HOUR)}


def test_only_the_time_that_is_asked_for_counts_with_its_part_of_what_was_measured() -> None:
    one = held(until=4 * HOUR, use=(0.5, 4.0), watts=100.0)
    sums = only(tally(one, when=(1 * HOUR, 2 * HOUR)).rows())
    assert sums.held_s == HOUR
    assert sums.used_s == pytest.approx(HOUR / 2)
    assert sums.kwh == pytest.approx(0.1)


def test_a_job_that_runs_counts_until_now() -> None:
    assert only(tally(held(since=NOW - HOUR, until=None)).rows()).held_s == HOUR


def test_what_a_clock_ahead_measured_too_long_is_cut_to_the_time_held() -> None:
    sums = only(tally(held(use=(1.0, 1.1), watts=100.0)).rows())
    assert sums.used_s == pytest.approx(HOUR)
    assert sums.use_known_s == pytest.approx(HOUR)


def test_runs_from_before_have_the_mean_of_the_history() -> None:
    old = held(until=2 * HOUR)._replace(mean_use=25.0, mean_model="V100")
    (row,) = tally(old, by=("model",)).rows()
    assert row.words == ("V100",)
    assert (row.sums.use, row.sums.kwh) == (25.0, None)
    assert row.sums.wasted_s == pytest.approx(1.5 * HOUR)


def test_models_of_one_host_are_told_apart_and_the_rest_is_looked_up() -> None:
    one = held(uuids=("G0", "G1", "G2"))
    uses = (
        DeviceUse("a", 1, 0.0, "h", "A100", 1, HOUR, HOUR),
        DeviceUse("a", 1, 0.0, "h", "V100", 1, 0.0, HOUR),
    )
    rows = tally(one._replace(uses=uses), by=("model",)).rows()
    assert {row.words[0]: (row.sums.held_s, row.sums.use) for row in rows} == {
        "A100": (pytest.approx(HOUR), pytest.approx(100.0)),
        "V100": (pytest.approx(HOUR), pytest.approx(0.0)),
        "T4": (pytest.approx(HOUR), None),
    }


# --- prices -------------------------------------------------------------------------------------


def test_a_hosts_price_wins_and_a_cost_that_lacks_something_says_so() -> None:
    section = PriceSection(per_kwh=0.5, per_hour={"A100": 2.0})
    prices = prices_of(section, {"h": 3.0, "i": None})
    assert prices.hourly("h", "A100") == 3.0
    assert prices.hourly("i", "NVIDIA A100-SXM4-40GB") == 2.0
    assert prices.hourly("i", "V100") is None
    assert prices.hourly("gone", "") is None
    whole = only(tally(held(use=(1.0, 1.0), watts=1000.0), prices=prices).rows())
    assert (whole.cost, whole.cost_complete) == (pytest.approx(3.5), True)
    unmeasured = only(tally(held(), prices=prices).rows())
    assert (unmeasured.cost, unmeasured.cost_complete) == (3.0, False)
    unpriced = held("b", host="i", use=(1.0, 1.0), watts=1000.0, model="V100")
    both = tally(held(use=(1.0, 1.0), watts=1000.0), unpriced, prices=prices).total()
    assert (both.cost, both.cost_complete, both.unpriced_s) == (pytest.approx(4.0), False, HOUR)
    assert only(tally(held(), prices=FREE).rows()).cost is None


@pytest.mark.parametrize("price", [-1.0, float("nan"), 1e7])
def test_a_price_that_is_none_is_refused(price: float) -> None:
    with pytest.raises(ValueError, match="price"):
        PriceSection(per_hour={"A100": price})


# --- months -------------------------------------------------------------------------------------


@pytest.fixture
def zurich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(*parts: int) -> float:
    return datetime(*parts).timestamp()  # type: ignore[arg-type]


@pytest.mark.usefixtures("zurich")
def test_months_are_those_of_the_clock_on_the_wall() -> None:
    since, until = at(2030, 2, 20), at(2030, 4, 2)
    edges = month_edges(since, until)
    assert edges[:2] == (at(2030, 3, 1), at(2030, 4, 1))
    assert month_of(edges[0] - 1) == "2030-02"
    assert month_of(edges[0]) == "2030-03"
    # March has an hour less in the year's first change of clocks.
    assert edges[1] - edges[0] == (31 * 24 - 1) * HOUR
    autumn = month_edges(at(2030, 9, 30), at(2030, 11, 2))
    assert autumn[1] - autumn[0] == (31 * 24 + 1) * HOUR


@pytest.mark.usefixtures("zurich")
def test_an_attempt_over_the_end_of_a_month_counts_in_both() -> None:
    one = held(since=at(2030, 10, 31, 22), until=at(2030, 11, 1, 1), use=(0.5, 3.0))
    query = Query(at(2030, 10, 1), at(2030, 12, 1), ("user", "month"))
    made = Tally(query, FREE, {}, at(2030, 12, 1))
    made.take((one,))
    assert [(row.words, row.sums.held_s) for row in made.rows()] == [
        (("ada", "2030-10"), pytest.approx(2 * HOUR)),
        (("ada", "2030-11"), pytest.approx(1 * HOUR)),
    ]
    assert made.rows()[0].sums.used_s == pytest.approx(HOUR)
    assert made.total().attempts == 1


# --- queries and rows ---------------------------------------------------------------------------


@pytest.mark.parametrize("by", [(), ("user", "user"), ("colour",)])
def test_keys_that_are_none_are_refused(by: tuple[Key, ...]) -> None:
    with pytest.raises(UsageError):
        Query(0.0, 1.0, by)


def test_a_time_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(UsageError):
        Query(1.0, 1.0)


def test_rows_are_bounded_and_nothing_is_lost() -> None:
    many = [held(f"j{n}", user=f"u{n}", uuids=(f"G{n}",)) for n in range(MOST_ROWS + 3)]
    rows = tally(*many).rows()
    assert len(rows) == MOST_ROWS + 1
    assert rows[-1].words == (OTHERS,)
    assert (rows[-1].sums.jobs, rows[-1].sums.held_s) == (3, 3 * HOUR)


# --- idle leases --------------------------------------------------------------------------------


def running(job: str, busy_at: float | None, seen_at: float = NOW, **changes: object) -> Holding:
    one = held(job, NOW - 10 * HOUR, None, use=(0.1, 10.0))
    uses = tuple(use._replace(busy_at=busy_at, seen_at=seen_at) for use in one.uses)
    return one._replace(uses=uses, **changes)  # type: ignore[arg-type]


def test_idle_leases_come_longest_first_with_since_when() -> None:
    leases = idle_leases(
        [
            running("busy", NOW - 60.0),
            running("lately", NOW - 2 * HOUR),
            running("never", None),
            running("unseen", None, seen_at=NOW - HOUR),
            running("over", None)._replace(until=NOW - HOUR),
            held("unmeasured", NOW - 10 * HOUR, None),
        ],
        {}, NOW, HOUR,
    )  # fmt: skip
    assert [(lease.job, lease.since) for lease in leases] == [
        ("never", NOW - 10 * HOUR),
        ("lately", NOW - 2 * HOUR),
    ]


def test_a_gang_of_which_one_host_works_is_not_idle() -> None:
    works = running("gang", NOW - 60.0)
    waits = running("gang", NOW - 9 * HOUR, host="i")
    assert idle_leases([works, waits], {}, NOW, HOUR) == ()
    assert len(idle_leases([works._replace(uses=waits.uses), waits], {}, NOW, HOUR)) == 2
