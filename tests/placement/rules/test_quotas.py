"""Quotas, devices per host, and reserved windows: code, sentence, and when it lifts."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from gpuconsole.core.jobs import Task
from gpuconsole.placement.model import Request
from gpuconsole.placement.rules.quotas import (
    Limits,
    Quota,
    Refusal,
    Use,
    Window,
    period_end,
    period_start,
)

HOUR = 3600.0


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()


NOW = at("2030-01-16T12:00")
"""A Wednesday."""


def request(devices: int = 1, user: str = "ada", **more: Any) -> Request:
    task = Task(
        "t", devices=devices, account=more.pop("account", ""), labels=more.pop("labels", {})
    )
    return Request("q", task, 100.0, devices, NOW, user=user, **more)


def test_devices_at_once() -> None:
    limits = Limits((Quota(devices=4),))
    use = Use()
    use.begin("1", "ada", "", 2, NOW, ends_at=NOW + HOUR)
    use.begin("2", "ada", "", 1, NOW, ends_at=NOW + 2 * HOUR)
    use.begin("3", "bob", "", 4, NOW)
    assert limits.refused(request(), use, NOW) is None
    found = limits.refused(request(2), use, NOW)
    assert found == Refusal(
        "quota",
        "User ada may have 4 devices at once and holds 3; this one asks for 2. It lifts when"
        " one of those jobs ends, about 2030-01-16 13:00 UTC.",
    )
    assert limits.refused(request(1, "bob"), use, NOW) is not None
    use.end("1", NOW + 10)
    assert limits.refused(request(2), use, NOW + 10) is None


@pytest.mark.parametrize(
    ("quota", "holds", "asks", "reason"),
    [
        (Quota(devices=1), 0, 1, ""), (Quota(devices=4), 3, 1, ""), (Quota(), 99, 99, ""),
        (Quota(devices=1), 1, 1, "User ada may have 1 device at once and holds 1."),
        (Quota(devices=4), 4, 1, "User ada may have 4 devices at once and holds 4."),
        (Quota(devices=4), 3, 2,
         "User ada may have 4 devices at once and holds 3; this one asks for 2."),
        (Quota("grant", "account", 2), 1, 2,
         "Account grant may have 2 devices at once and holds 1; this one asks for 2."),
    ],
)  # fmt: skip
def test_a_quota_of_devices_at_its_limit(quota: Quota, holds: int, asks: int, reason: str) -> None:
    use = Use()
    use.begin("1", "ada", "grant", holds, NOW)
    refusal = Limits((quota,)).refused(request(asks, account="grant"), use, NOW)
    lifts = " It lifts when one of those jobs ends."
    assert (refusal.sentence if refusal else "") == (f"{reason}{lifts}" if reason else "")


@pytest.mark.parametrize(
    ("hours", "reason"),
    [
        (1.99, ""),
        (2.0, "User ada may have 2 device-hours a day: 2.0 are used. The next day begins"
         " 2030-01-17 00:00 UTC."),
        (2.5, "User ada may have 2 device-hours a day: 2.5 are used. The next day begins"
         " 2030-01-17 00:00 UTC."),
    ],
)  # fmt: skip
def test_a_quota_of_device_hours_at_its_limit(hours: float, reason: str) -> None:
    use = Use()
    use.begin("1", "ada", "", 1, NOW - hours * HOUR)
    refusal = Limits((Quota(device_hours=2.0, period="day"),)).refused(request(), use, NOW)
    assert (refusal.sentence if refusal else "") == reason


@pytest.mark.parametrize(
    ("limits", "hosts", "room"),
    [
        (Limits(), 1, None), (Limits((Quota(devices=4),)), 1, 3),
        (Limits((Quota(devices=4), Quota("grant", "account", 2))), 1, 1),
        (Limits((Quota(device_hours=4.0),)), 1, None),
        (Limits(max_devices_per_host=2), 1, 2), (Limits(max_devices_per_host=2), 3, 6),
        (Limits((Quota(devices=4),), max_devices_per_host=2), 3, 3),
    ],
)  # fmt: skip
def test_how_many_devices_a_job_may_take_now(limits: Limits, hosts: int, room: int | None) -> None:
    use = Use()
    use.begin("1", "ada", "grant", 1, NOW)
    asked = Request("q", Task("t", hosts=hosts, account="grant"), 100.0, 1, NOW, user="ada")
    assert limits.room(asked, use) == room


@pytest.mark.parametrize(
    ("window", "whom"),
    [
        ({}, "no user"), ({"users": ("a", "b")}, "a, b"), ({"accounts": ("c",)}, "c"),
        ({"users": ("a",), "accounts": ("c",)}, "a, c"),
        ({"labels": {"k": "v", "l": "w"}}, "jobs that ask for k=v, l=w"),
        ({"users": ("a",), "labels": {"k": "v"}}, "a and jobs that ask for k=v"),
    ],
)  # fmt: skip
def test_for_whom_a_window_is_kept(window: dict[str, Any], whom: str) -> None:
    assert Window("w", NOW, NOW + HOUR, **window).whom == whom


@pytest.mark.parametrize(
    ("before_s", "run_time_s", "rest"),
    [
        (-1.0, None, "."), (0.0, 1.0, "."), (HOUR + 1, None, None), (HOUR, None,
         ", which begins in 1h00m; the run time of this job is unknown."),
        (HOUR, HOUR, None), (HOUR, HOUR + 60, "; this job should run 1h01m and would not be done."),
    ],
)  # fmt: skip
def test_what_a_window_says_before_and_in_it(
    before_s: float, run_time_s: float | None, rest: str | None
) -> None:
    window = Window("paper", NOW, NOW + 2 * HOUR, users=("tea",), clear_s=HOUR)
    asked = request(run_time_s=run_time_s)
    refusal = Limits(windows=(window,)).kept(asked, "a", NO_MODEL, NOW - before_s)
    text = "Kept for tea (paper) from 2030-01-16 12:00 UTC to 2030-01-16 14:00 UTC"
    assert (refusal and refusal.sentence) == (None if rest is None else text + rest)


def test_when_it_lifts_is_when_enough_have_ended() -> None:
    limits = Limits((Quota(devices=4),))
    use = Use()
    use.begin("1", "ada", "", 1, NOW, ends_at=NOW + HOUR)
    use.begin("2", "ada", "", 3, NOW, ends_at=NOW + 5 * HOUR)
    wants_two, wants_one = (limits.refused(request(n), use, NOW) for n in (2, 1))
    assert wants_two is not None
    assert wants_one is not None
    assert wants_one.sentence.endswith("about 2030-01-16 13:00 UTC.")
    assert wants_two.sentence.endswith("about 2030-01-16 17:00 UTC.")
    use.begin("3", "eve", "", 4, NOW)
    unknown = limits.refused(request(1, "eve"), use, NOW)
    assert unknown is not None
    assert unknown.sentence.endswith("It lifts when one of those jobs ends.")


def test_a_quota_of_ones_own_goes_before_that_of_each() -> None:
    limits = Limits((Quota(devices=1), Quota(name="ada", devices=8), Quota("grant", "account", 2)))
    use = Use()
    assert limits.refused(request(8), use, NOW) is None
    assert limits.refused(request(2, "bob"), use, NOW) is not None
    found = limits.refused(request(3, account="grant"), use, NOW)
    assert found is not None
    assert found.sentence.startswith("Account grant may have 2 devices at once")


def test_a_job_that_no_quota_would_ever_let_start_is_told_so() -> None:
    limits = Limits((Quota(devices=4),))
    assert limits.never(request(4)) is None
    found = limits.never(request(5))
    assert found is not None
    assert found.sentence == "It asks for 5 devices; user ada may have 4 at once."


def test_device_hours_of_a_week() -> None:
    limits = Limits((Quota(device_hours=60.0),))
    use = Use()
    # Sunday 20:00 to Monday 04:00, two devices: 8 device-hours of this week, 8 of the last one.
    use.begin("1", "ada", "", 2, at("2030-01-13T20:00"))
    use.end("1", at("2030-01-14T04:00"))
    assert use.device_hours("user", "ada", "week", NOW) == pytest.approx(8.0)
    # Running since Tuesday noon with two: 48 more by now, 56 in all; 60 at 14:00.
    use.begin("2", "ada", "", 2, at("2030-01-15T12:00"))
    assert use.device_hours("user", "ada", "week", NOW) == pytest.approx(56.0)
    assert use.device_hours("user", "ada", "day", NOW) == pytest.approx(24.0)
    assert use.device_hours("user", "ada", "month", NOW) == pytest.approx(64.0)
    assert limits.refused(request(), use, NOW) is None
    found = limits.refused(request(), use, NOW + 2 * HOUR)
    assert found == Refusal(
        "quota",
        "User ada may have 60 device-hours a week: 60.0 are used. The next week begins"
        " 2030-01-21 00:00 UTC.",
    )
    # In the next week what runs on counts from its beginning.
    assert use.device_hours("user", "ada", "week", at("2030-01-21T03:00")) == pytest.approx(6.0)


def test_a_job_noted_twice_or_ended_twice_counts_once() -> None:
    use = Use()
    for _ in range(2):
        use.begin("1", "ada", "x", 4, NOW)
    assert use.devices("user", "ada") == use.devices("account", "x") == 4
    copy = use.copy()
    for _ in range(2):
        use.end("1", NOW + HOUR)
    assert use.devices("user", "ada") == 0
    assert use.device_hours("account", "x", "day", NOW + HOUR) == pytest.approx(4.0)
    assert copy.devices("user", "ada") == 4


def test_devices_per_host() -> None:
    limits = Limits(max_devices_per_host=3)
    assert limits.crowded(request(1), "a", 2, 1) is None
    found = limits.crowded(request(2), "a", 2, 2)
    assert found is not None
    assert found.code == "host-quota"
    assert found.sentence == "One user may have 3 devices on one host; ada holds 2 on a."
    large = limits.crowded(request(4), "a", 0, 4)
    assert large is not None
    assert large.sentence == "One user may have 3 devices on one host; it asks for 4."
    assert Limits().crowded(request(99), "a", 99, 99) is None


def test_devices_that_start_in_the_same_moment_count_too() -> None:
    limits, use = Limits((Quota(devices=4),)), Use()
    assert limits.refused(request(2), use, NOW, {"user:ada": 2}) is None
    assert limits.refused(request(2), use, NOW, {"user:ada": 3}) is not None


def NO_MODEL(model: str) -> bool:  # noqa: N802
    raise AssertionError("no model is asked for")


COURSE = Window(
    "course",
    at("2030-01-16T14:00"),
    at("2030-01-16T18:00"),
    hosts=("a", "b"),
    users=("tea",),
    labels={"course": "ml"},
    clear_s=HOUR,
)


@pytest.mark.parametrize(
    ("moment", "run_time_s", "refused"),
    [
        ("2030-01-16T12:00", None, False),
        ("2030-01-16T12:00", 2 * HOUR, False),
        ("2030-01-16T12:00", 2 * HOUR + 1, True),
        ("2030-01-16T13:30", None, True),
        ("2030-01-16T13:30", 1800.0, False),
        ("2030-01-16T14:00", 1.0, True),
        ("2030-01-16T17:59", 1.0, True),
        ("2030-01-16T18:00", None, False),
    ],
)
def test_a_window_keeps_hosts(moment: str, run_time_s: float | None, refused: bool) -> None:
    limits = Limits(windows=(COURSE,))
    found = limits.kept(request(run_time_s=run_time_s), "a", NO_MODEL, at(moment))
    assert (found is not None) is refused
    if found is not None:
        assert found.code == "window"
        assert "tea" in found.sentence
        assert "(course) from 2030-01-16 14:00 UTC to 2030-01-16 18:00 UTC" in found.sentence


def test_a_window_admits_its_own_and_leaves_other_hosts_alone() -> None:
    limits = Limits(windows=(COURSE,))
    now = at("2030-01-16T15:00")
    assert limits.kept(request(user="tea"), "a", NO_MODEL, now) is None
    assert limits.kept(request(labels={"course": "ml"}), "a", NO_MODEL, now) is None
    assert limits.kept(request(labels={"course": "db"}), "a", NO_MODEL, now) is not None
    assert limits.kept(request(), "c", NO_MODEL, now) is None


def test_a_window_for_models() -> None:
    window = Window("paper", NOW, NOW + HOUR, models=("A100-SXM4-40GB",), accounts=("grant",))
    limits = Limits(windows=(window,))
    found = limits.kept(request(), "any", {"A100-SXM4-40GB"}.__contains__, NOW)
    assert found is not None
    assert limits.kept(request(), "any", {"RTX 3090"}.__contains__, NOW) is None
    assert (
        limits.kept(request(account="grant"), "any", {"A100-SXM4-40GB"}.__contains__, NOW) is None
    )


def test_a_window_that_comes_back() -> None:
    weekly = Window("c", at("2030-01-14T10:00"), at("2030-01-14T12:00"), "week", users=("tea",))
    assert weekly.span(at("2030-01-14T11:00")) == (weekly.begins_at, weekly.ends_at)
    assert weekly.span(at("2030-01-14T12:00")) == (at("2030-01-21T10:00"), at("2030-01-21T12:00"))
    assert weekly.span(at("2030-03-11T11:59")) == (at("2030-03-11T10:00"), at("2030-03-11T12:00"))
    once = Window("c", at("2030-01-14T10:00"), at("2030-01-14T12:00"))
    assert once.span(at("2030-01-14T12:00")) is None


def test_periods_are_those_of_the_calendar() -> None:
    assert period_start("day", NOW) == at("2030-01-16T00:00")
    assert period_end("day", NOW) == at("2030-01-17T00:00")
    assert period_start("week", NOW) == at("2030-01-14T00:00")
    assert period_end("week", NOW) == at("2030-01-21T00:00")
    assert period_start("month", NOW) == at("2030-01-01T00:00")
    assert period_end("month", NOW) == at("2030-02-01T00:00")
    assert period_end("month", at("2030-02-28T10:00")) == at("2030-03-01T00:00")


def test_what_has_ended_in_a_period_adds_up() -> None:
    use = Use()
    for number in range(3):
        use.begin(str(number), "ada", "grant", 2, NOW + number * HOUR)
        use.end(str(number), NOW + (number + 0.5) * HOUR)
    for kind, name in (("user", "ada"), ("account", "grant")):
        assert use.device_hours(kind, name, "day", NOW + 3 * HOUR) == pytest.approx(3.0)
