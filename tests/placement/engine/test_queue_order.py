"""What decides who is next: length, waiting time, deadlines."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest

from gpuconsole.core.jobs import Task
from gpuconsole.placement.engine.queue_order import URGENT_S, sort_key
from gpuconsole.placement.model import Policy, Request
from gpuconsole.placement.policy import named_policy

NOW = 1_000_000.0
HOUR = 3600.0
IMPATIENT = replace(named_policy("weighted"), patience=0.0, fair_share=0.0)


def request(deadline: float | None = None, devices: int = 1, since: float = NOW) -> Request:
    return Request("j", Task("t"), 4096.0, devices, since, run_time_s=HOUR, deadline=deadline)


def size_of(asked: Request, policy: Policy, now: float) -> float:
    return sort_key(asked, policy, now)[2]


@pytest.mark.parametrize(
    ("slack_s", "gain"),
    [
        (URGENT_S, 0.0),
        (URGENT_S - 1, log(URGENT_S / (URGENT_S - 1))),
        (HOUR, log(24.0)),
        (60.0, log(URGENT_S / 60.0)),
        (0.0, log(URGENT_S / 60.0)),
        (-HOUR, log(URGENT_S / 60.0)),
    ],
)
def test_a_deadline_counts_from_when_the_run_must_begin(slack_s: float, gain: float) -> None:
    without = size_of(request(), IMPATIENT, NOW)
    urgent = size_of(request(NOW + HOUR + slack_s), IMPATIENT, NOW)
    assert without - urgent == pytest.approx(gain)


def test_a_deadline_comes_nearer() -> None:
    asked = request(NOW + 10 * HOUR)
    sizes = [size_of(asked, IMPATIENT, NOW + passed * HOUR) for passed in range(9)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 9


def test_who_waits_gets_smaller_by_the_share_of_its_run_time() -> None:
    patient = replace(IMPATIENT, patience=2.0)
    waited = [size_of(request(since=NOW - wait), patient, NOW) for wait in (0.0, HOUR, 3 * HOUR)]
    assert waited[0] - waited[1] == pytest.approx(2.0)
    assert waited[0] - waited[2] == pytest.approx(4.0)


def test_devices_count_where_the_area_does() -> None:
    by_area = replace(IMPATIENT, order="area")
    four, one = (size_of(request(devices=n), by_area, NOW) for n in (4, 1))
    assert four - one == pytest.approx(log(4.0))
