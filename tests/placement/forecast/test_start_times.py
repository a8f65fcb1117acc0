"""Estimated starts by running the engine forward, and what a change would do to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostState
from gpuconsole.core.jobs import Task
from gpuconsole.placement import Holder, Request, named_policy
from gpuconsole.placement.engine.queue_order import USUAL_S
from gpuconsole.placement.forecast.start_times import HORIZON_S, Expected, forecast
from gpuconsole.placement.forecast.what_if import (
    Comparison,
    Moved,
    compare,
    sentences,
    wanted_labels,
    with_devices,
    with_labels_named,
    with_priority,
    without_host,
)
from gpuconsole.placement.rules.fair_share import Usage

NOW = 1_000.0
RTX = "NVIDIA GeForce RTX 3090"
BY_AGE = replace(named_policy(), order="fifo")


def host(name: str, devices: int) -> Host:
    cards = (
        Device(f"{name}-{index}", index, RTX, memory_total_mib=24576.0, memory_used_mib=1.0)
        for index in range(devices)
    )
    return Host(name, HostState.UP, devices=tuple(cards))


def fleet(*hosts: Host) -> FleetSnapshot:
    return FleetSnapshot(1, NOW, hosts)


def wants(job: str, devices: int = 1, seconds: float | None = 100.0, age: float = 0.0) -> Request:
    task = Task(job, run_time_s=seconds)
    return Request(job, task, 8000.0, devices, NOW - age, user="ann", run_time_s=seconds)


def held(job: str, ends: float | None) -> Holder:
    return Holder(job, job, "bob", NOW - 500, ends)


def starts(found: dict[str, Expected]) -> dict[str, float]:
    return {job: expected.starts_at - NOW for job, expected in found.items()}


def test_jobs_start_as_those_before_them_end() -> None:
    """One card, held for 50 s: then two jobs of 100 s each, one after the other."""
    queue = [wants("a", age=9), wants("b", age=8)]
    found = forecast(queue, fleet(host("h", 1)), {"h-0": held("x", NOW + 50)}, BY_AGE, NOW)
    assert starts(found) == {"a": 50.0, "b": 150.0}
    assert found["a"].hosts == ("h",)
    assert not found["a"].guess


def test_a_short_job_passes_and_a_long_one_does_not_delay_the_first() -> None:
    """Two cards, one busy for 200 s. The pair waits for both; 150 s fit before it, 250 s do not."""
    queue = [wants("pair", 2, age=9), wants("long", 1, 250, age=8), wants("short", 1, 150, age=7)]
    found = forecast(queue, fleet(host("h", 2)), {"h-0": held("x", NOW + 200)}, BY_AGE, NOW)
    assert starts(found) == {"short": 0.0, "pair": 200.0, "long": 300.0}


def test_what_is_not_known_makes_later_starts_a_guess() -> None:
    queue = [wants("a", seconds=None, age=9), wants("b", age=8)]
    found = forecast(queue, fleet(host("h", 1)), {}, BY_AGE, NOW)
    assert starts(found) == {"a": 0.0, "b": USUAL_S}
    assert (found["a"].guess, found["b"].guess) == (False, True)


def test_what_never_fits_has_no_start() -> None:
    found = forecast([wants("a", 4)], fleet(host("h", 2)), {}, BY_AGE, NOW)
    assert found == {}


def test_a_drained_host_delays_what_would_have_run_there() -> None:
    snapshot = fleet(host("h", 1), host("g", 1))
    queue = [wants("a", age=9), wants("b", age=8)]
    before = forecast(queue, snapshot, {}, BY_AGE, NOW)
    after = forecast(queue, without_host(snapshot, "g"), {}, BY_AGE, NOW)
    found = compare(queue, before, after, NOW)
    assert [(moved.job, moved.before, moved.after) for moved in found.moved] == [
        ("b", NOW, NOW + 100)
    ]
    assert (found.mean_before_s, found.mean_after_s, found.waiting) == (0.0, 50.0, 2)
    with pytest.raises(KeyError):
        without_host(snapshot, "nowhere")


def test_jobs_without_an_estimate_are_counted_and_told() -> None:
    """Two cards: a pair can start on them, four together never could."""
    snapshot = fleet(host("h", 2))
    queue = [wants("pair", 2), wants("four", 4)]
    before = forecast(queue, snapshot, {}, BY_AGE, NOW)
    same = compare(queue, before, before, NOW)
    assert sentences("priority pair 5", same) == [
        "priority pair 5: 2 jobs wait; 0 would start at another time.",
        "1 of them has no estimate: no start within 30 days can be foreseen.",
    ]
    more = forecast(queue, with_devices(snapshot, 4, "RTX_3090"), {}, BY_AGE, NOW)
    found = compare(queue, before, more, NOW)
    assert (found.untold_before, found.untold_after) == (1, 0)
    assert sentences("add 4 RTX_3090", found)[1] == (
        "Without the change 1 of them has no estimate, with it 0:"
        " no start within 30 days can be foreseen of those."
    )


def test_nothing_is_foreseen_beyond_the_horizon() -> None:
    """One card: held for a day less than the horizon, then by a job that runs for two."""
    queue = [wants("a", seconds=2 * 86400.0, age=9), wants("b", age=8)]
    held_long = {"h-0": held("x", NOW + HORIZON_S - 86400.0)}
    first_come = replace(BY_AGE, front_after_s=0.0)
    found = forecast(queue, fleet(host("h", 1)), held_long, first_come, NOW)
    assert set(found) == {"a"}
    # By then both have waited so long that the shorter one goes first.
    found = forecast(queue, fleet(host("h", 1)), held_long, BY_AGE, NOW)
    assert set(found) == {"a", "b"}
    assert found["b"].starts_at < found["a"].starts_at


def test_a_lab_that_nobody_has_seen_is_said_so() -> None:
    snapshot = fleet(Host("h", HostState.CONNECTING))
    queue = [wants("a")]
    none = forecast(queue, snapshot, {}, BY_AGE, NOW)
    blind = compare(queue, none, none, NOW, seen=False)
    assert sentences("drain h", blind) == [
        "drain h: 1 job waits; no host has shown its devices yet.",
        "It has no estimate: no start within 30 days can be foreseen.",
    ]
    more = forecast(queue, with_devices(snapshot, 1, "RTX_4090"), {}, BY_AGE, NOW)
    new = sentences("add 1 RTX_4090", compare(queue, none, more, NOW, seen=False))
    assert new[:2] == [
        "add 1 RTX_4090: 1 job waits; 1 would start at another time.",
        "This is of new devices alone: no host has shown its devices yet.",
    ]


def test_new_devices_are_taken_from_the_fleet_or_from_the_catalogue() -> None:
    snapshot = fleet(host("h", 1))
    queue = [wants(f"j{number}", age=9 - number) for number in range(3)]
    more = with_devices(snapshot, 9, "RTX_3090")
    assert [len(each.devices) for each in more.hosts] == [1, 8, 1]
    assert set(starts(forecast(queue, more, {}, BY_AGE, NOW)).values()) == {0.0}
    known = with_devices(snapshot, 4, "RTX_4090").hosts[1].devices[0]
    assert "4090" in known.model
    assert known.memory_total_mib == pytest.approx(24 * 1024)
    with pytest.raises(KeyError):
        with_devices(snapshot, 1, "Abacus 9000")


def test_new_hosts_have_the_labels_that_waiting_jobs_ask_for() -> None:
    queue = [
        replace(one, task=replace(one.task, labels=labels))
        for one, labels in (
            (wants("a"), {"pool": "train"}),
            (wants("b"), {"pool": "train", "rack": "r1"}),
            (wants("c"), {"pool": "small"}),
        )
    ]
    snapshot = fleet()
    labels = wanted_labels(queue)
    assert labels == {"pool": "train", "rack": "r1"}
    more = forecast(queue, with_devices(snapshot, 2, "RTX_3090", labels), {}, BY_AGE, NOW)
    assert set(more) == {"a", "b"}
    found = with_labels_named(compare(queue, {}, more, NOW), labels, queue)
    reported = sentences("add 2 RTX_3090", found)
    assert "The new hosts are given the labels pool=train, rack=r1." in reported
    assert "They lack labels that other jobs ask for: pool=small." in reported
    assert wanted_labels([wants("d")]) == {}


SAME = Comparison((), 2, None, None, guess=False)
MOVED = Moved("j", "train", "ann", NOW + 60, NOW + 120)


@pytest.mark.parametrize(
    ("comparison", "lines"),
    [
        (replace(SAME, waiting=0),
         ["drain h: no job waits for a place, so nothing would change."]),
        (replace(SAME, waiting=1), ["drain h: 1 job waits; 0 would start at another time."]),
        (SAME, ["drain h: 2 jobs wait; 0 would start at another time."]),
        # Means are of no interest where nothing moves.
        (replace(SAME, mean_before_s=60.0, mean_after_s=90.0, guess=True),
         ["drain h: 2 jobs wait; 0 would start at another time.",
          "The lengths of some jobs are not known: these are guesses."]),
        (replace(SAME, moved=(MOVED,), mean_before_s=60.0, mean_after_s=90.0),
         ["drain h: 2 jobs wait; 1 would start at another time.",
          "The mean wait from now would go from 1m00s to 1m30s."]),
        (replace(SAME, moved=(MOVED,)), ["drain h: 2 jobs wait; 1 would start at another time."]),
        (replace(SAME, seen=False), ["drain h: 2 jobs wait; no host has shown its devices yet."]),
        (replace(SAME, moved=(MOVED,), seen=False),
         ["drain h: 2 jobs wait; 1 would start at another time.",
          "This is of new devices alone: no host has shown its devices yet."]),
        (replace(SAME, labels=("a=b", "c=d"), lacking=("e=f", "g=h")),
         ["drain h: 2 jobs wait; 0 would start at another time.",
          "The new hosts are given the labels a=b, c=d.",
          "They lack labels that other jobs ask for: e=f, g=h."]),
        *((replace(SAME, waiting=waiting, untold_before=before, untold_after=after),
           [f"drain h: {'1 job waits' if waiting == 1 else '2 jobs wait'}; 0 would start at another"
            " time.", line])
          for waiting, before, after, line in (
            (1, 1, 1, "It has no estimate: no start within 30 days can be foreseen."),
            (2, 1, 1, "1 of them has no estimate: no start within 30 days can be foreseen."),
            (2, 2, 2, "2 of them have no estimate: no start within 30 days can be foreseen."),
            (2, 1, 0, "Without the change 1 of them has no estimate, with it 0: no start within 30"
             " days can be foreseen of those."),
            (2, 0, 2, "Without the change 0 of them have no estimate, with it 2: no start within 30"
             " days can be foreseen of those."))),
    ],
)  # fmt: skip
def test_what_a_change_does_in_a_few_sentences(comparison: Comparison, lines: list[str]) -> None:
    assert sentences("drain h", comparison) == lines


def test_the_largest_change_comes_first_and_what_has_no_start_before_it() -> None:
    queue = [wants(job) for job in "abcde"]

    def expected(**at: float) -> dict[str, Expected]:
        return {job: Expected(NOW + seconds, ("h",), False) for job, seconds in at.items()}

    before = expected(a=10, b=10, c=10, d=10)
    after = expected(a=10, b=20, c=-40, e=5)
    difference = compare(queue, before, after, NOW)
    assert [moved.job for moved in difference.moved] == ["d", "e", "c", "b"]
    assert (difference.mean_before_s, difference.mean_after_s) == (10.0, -10 / 3)
    assert (difference.untold_before, difference.untold_after, difference.waiting) == (1, 1, 5)
    assert not difference.guess
    guessed = {**after, "e": Expected(NOW, ("h",), True)}
    assert compare(queue, before, guessed, NOW).guess
    assert compare(queue, guessed, before, NOW).guess


@pytest.mark.parametrize(("count", "sizes"), [(1, [1]), (8, [8]), (9, [8, 1]), (16, [8, 8])])
def test_imagined_hosts_have_eight_devices_at_most(count: int, sizes: list[int]) -> None:
    _, *new = with_devices(fleet(host("h", 1)), count, "RTX_3090", {"a": "b"}).hosts
    assert [len(each.devices) for each in new] == sizes
    assert [each.name for each in new] == [f"new-{n}" for n in range(1, len(sizes) + 1)]
    assert [device.uuid for device in new[-1].devices] == [
        f"new-{len(sizes)}-{n}" for n in range(sizes[-1])
    ]
    assert all(each.labels == {"a": "b"} for each in new)


def test_a_raised_priority_goes_first() -> None:
    queue = [wants("a", age=9), wants("b", age=8)]
    raised = with_priority(queue, "b", 5)
    found = forecast(raised, fleet(host("h", 1)), {}, BY_AGE, NOW)
    assert starts(found) == {"b": 0.0, "a": 100.0}
    with pytest.raises(KeyError):
        with_priority(queue, "c", 1)


def test_a_gang_waits_for_the_hosts_that_are_free_soonest() -> None:
    """One host is full for ten days, two others have four cards each, one of them busy for 1 h."""
    snapshot = fleet(host("big", 8), host("a", 4), host("b", 4))
    long = {f"big-{number}": held("long", NOW + 864_000) for number in range(8)}
    busy = {"a-0": held("short", NOW + 3600)}
    task = Task("gang", hosts=2)
    gang = Request("gang", task, 8000.0, 8, NOW - 9, user="ann", run_time_s=100.0)
    queue = [gang, wants("other", seconds=500_000.0)]
    found = forecast(queue, snapshot, {**long, **busy}, BY_AGE, NOW)
    assert starts(found)["gang"] == 3600.0
    assert found["gang"].hosts == ("a", "b")


def test_a_job_stops_insisting_on_what_it_prefers() -> None:
    task = Task("t", preferred_devices=("A100",), preference_timeout_s=600.0)
    fast = Host("a", HostState.UP, devices=(
        Device("a-0", 0, "NVIDIA A100-SXM4-40GB", memory_total_mib=40960.0, memory_used_mib=1.0),
    ))  # fmt: skip
    snapshot = fleet(fast, host("h", 1))
    request = Request("t", task, 8000.0, 1, NOW, user="ann", run_time_s=60.0)
    found = forecast([request], snapshot, {"a-0": held("x", NOW + 90_000)}, BY_AGE, NOW)
    assert starts(found) == {"t": 600.0}
    assert found["t"].hosts == ("h",)


def test_what_a_job_holds_goes_with_it_and_what_others_hold_stays() -> None:
    mine = DeviceProcess(1, "bob", 20000.0, container_id="c" * 64)
    theirs = DeviceProcess(2, "eve", 9000.0)
    total = {"memory_total_mib": 24576.0, "utilization": 90.0}
    snapshot = fleet(
        Host("a", HostState.UP, devices=(
            Device("a-0", 0, RTX, memory_used_mib=20100.0, processes=(mine,), **total),
        )),
        Host("b", HostState.UP, devices=(
            Device("b-0", 0, RTX, memory_used_mib=23000.0, processes=(mine, theirs), **total),
        )),
    )  # fmt: skip
    holders = {"a-0": held("x", NOW + 100), "b-0": held("y", NOW + 50)}
    exclusive = Request("e", Task("e", exclusive=True), 8000.0, 1, NOW, run_time_s=60.0)
    large = Request("l", Task("l"), 16000.0, 1, NOW - 1, run_time_s=60.0)
    small = Request("s", Task("s"), 8000.0, 1, NOW - 2, run_time_s=60.0)
    found = forecast([exclusive], snapshot, holders, BY_AGE, NOW)
    assert (starts(found), found["e"].hosts) == ({"e": 100.0}, ("a",))
    found = forecast([large], snapshot, holders, BY_AGE, NOW)
    assert (starts(found), found["l"].hosts) == ({"l": 100.0}, ("a",))
    found = forecast([small], snapshot, holders, BY_AGE, NOW)
    assert (starts(found), found["s"].hosts) == ({"s": 50.0}, ("b",))


def test_users_take_turns_as_they_will_when_the_time_comes() -> None:
    """One card and three jobs of each of two users: whoever has had less goes next."""
    fair = replace(named_policy(), fair_share=1.0)
    queue = [
        replace(wants(f"{user}-{number}", age=age - number), user=user)
        for user, age in (("ann", 90), ("bob", 60))
        for number in range(3)
    ]
    usage = Usage()
    found = starts(forecast(queue, fleet(host("h", 1)), {}, fair, NOW, usage=usage))
    assert sorted(found, key=lambda job: found[job]) == [
        "ann-0", "bob-0", "ann-1", "bob-1", "ann-2", "bob-2",
    ]  # fmt: skip
    assert usage.user("ann", NOW).used == usage.user("ann", NOW).due, "the real use stays"


def test_what_runs_now_counts_until_it_ends() -> None:
    """Bob's job runs and goes on counting; ann has had nothing, so hers goes first."""
    fair = replace(named_policy(), fair_share=1.0)
    queue = [replace(wants("b", age=90), user="bob"), replace(wants("a", age=10), user="ann")]
    usage = Usage()
    usage.begin("x", "bob", "", 1, NOW - 500)
    found = forecast(
        queue, fleet(host("h", 1)), {"h-0": held("x", NOW + 50)}, fair, NOW, usage=usage
    )
    assert starts(found) == {"a": 50.0, "b": 150.0}
