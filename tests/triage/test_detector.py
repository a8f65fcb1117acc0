"""The watch: conditions hold before they open, are gone before they end, and cost what changes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.config import Thresholds
from gpuconsole.core.fleet import DeviceProcess, FleetSnapshot, Host, HostState
from gpuconsole.core.incidents import Incident
from gpuconsole.triage import RULES, Surroundings, Watch, usage_rules
from gpuconsole.triage import detector as watching
from tests.triage.labs import NOW, Lab, device, failed, host, job, lab, process

LIMITS = Thresholds()
CLEAR = LIMITS.clear_after
DOWN = host(state=HostState.DOWN, error="No route to host.")
LOST = host(device(lost=True))
FINE = host()


def patient(**more: object) -> Lab:
    return lab(Thresholds.model_validate(more))


def test_a_host_that_is_away_for_a_moment_is_no_incident() -> None:
    made = patient()
    made.hold(DOWN, seconds=LIMITS.unreachable_for - 2)
    made.hold(FINE, seconds=60)
    assert made.opened == made.closed == []


def test_what_holds_long_enough_opens_once_and_says_since_when() -> None:
    made = patient()
    made.hold(FINE, seconds=10)
    made.see(DOWN, after=1.0)
    since = made.now
    made.hold(DOWN, seconds=100)
    (incident,) = made.opened
    assert incident.since == since
    assert made.ids == ["unreachable:a"]


def test_what_is_gone_ends_after_a_while_with_the_time_at_which_it_went() -> None:
    made = patient()
    made.hold(DOWN, seconds=40)
    made.see(FINE, after=2.0)
    gone = made.now
    made.hold(FINE, seconds=CLEAR - 2)
    assert made.ids == ["unreachable:a"]
    assert not made.watch.in_sight("unreachable:a")
    made.hold(FINE, seconds=4)
    assert made.ids == []
    assert [one.ended_at for one in made.closed] == [gone]


def test_what_comes_back_before_it_has_ended_is_the_same_incident() -> None:
    made = patient()
    made.hold(DOWN, seconds=40)
    for _ in range(5):
        made.hold(FINE, seconds=CLEAR - 4)
        made.hold(DOWN, seconds=4)
    assert len(made.opened) == 1
    assert made.closed == []
    made.see(FINE, after=2.0)
    gone = made.now
    made.hold(FINE, seconds=CLEAR + 4)
    assert [one.ended_at for one in made.closed] == [gone]


def test_what_comes_back_later_is_a_new_one_of_the_same_id() -> None:
    made = patient()
    made.hold(DOWN, seconds=40)
    made.hold(FINE, seconds=CLEAR + 4)
    made.hold(DOWN, seconds=40)
    first, second = made.opened
    assert first.id == second.id
    assert second.since > first.since + CLEAR


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_opening_and_ending_take_turns_and_never_flap(seen: list[bool]) -> None:
    made = patient(fault_for=6)
    reported: list[tuple[str, float]] = []
    for lost in seen:
        changes = made.see(LOST if lost else FINE, after=2.0)
        reported += [("opened", made.now)] * len(changes.opened)
        reported += [("closed", made.now)] * len(changes.closed)
    assert [what for what, _ in reported] == ["opened", "closed"] * (len(reported) // 2) + (
        ["opened"] if len(reported) % 2 else []
    )
    for (_, before), (what, at) in itertools.pairwise(reported):
        assert at - before >= (CLEAR if what == "closed" else 6)


@given(st.lists(st.booleans(), min_size=20, max_size=120))
def test_an_incident_stands_only_while_its_cause_was_there_lately(seen: list[bool]) -> None:
    made = patient(fault_for=6)
    for lost in seen:
        made.see(LOST if lost else FINE, after=2.0)
    # The look that first found the cause gone is one more than the pauses since.
    window = seen[-int(CLEAR // 2) - 1 :]
    if made.ids:
        assert any(window)
    if len(seen) >= 15 and all(seen[-5:]):
        assert made.ids


def test_heat_that_comes_and_goes_with_each_reading_is_one_incident() -> None:
    made = patient()
    hot, cool = host(device(throttle=("hw-thermal",))), host(device())
    for _ in range(120):
        made.see(hot, after=1.0)
        made.see(hot, after=1.0)
        made.see(cool, after=1.0)
    assert [one.rule for one in made.opened] == ["heat"]
    assert made.closed == []


def test_one_hot_reading_now_and_then_is_nothing() -> None:
    made = patient()
    hot, cool = host(device(throttle=("hw-thermal",))), host(device())
    made.hold(cool, seconds=30)
    for _ in range(60):
        made.see(hot, after=1.0)
        for _ in range(6):
            made.see(cool, after=1.0)
    assert made.opened == []


def test_a_pause_in_the_work_is_not_idle_and_a_blip_does_not_hide_a_forgotten_process() -> None:
    made = patient(idle_for=120)
    busy = host(device(utilization=90.0, processes=(process(),)))
    idle = host(device(utilization=0.0, processes=(process(),)))
    for _ in range(8):
        made.hold(busy, seconds=60)
        made.hold(idle, seconds=40)
    assert made.opened == []
    made.hold(idle, seconds=400)
    assert [one.rule for one in made.opened] == ["idle-memory"]


def test_short_bursts_of_work_are_work() -> None:
    made = patient(idle_for=6)
    held = (process(),)
    for _ in range(40):
        made.see(host(device(utilization=90.0, processes=held)), after=2.0)
        made.hold(host(device(utilization=0.0, processes=held)), seconds=10)
    assert made.opened == []


# --- what cannot be seen ------------------------------------------------------------------------


def test_what_is_wrong_on_a_host_out_of_sight_stays_as_it_was() -> None:
    made = patient()
    made.hold(LOST, seconds=10)
    seen = made.now
    away = replace(LOST, state=HostState.DOWN, error="gone")
    made.hold(away, seconds=600)
    assert made.ids == ["gpu-lost:GPU-a0", "unreachable:a"]
    assert made.watch.current()["gpu-lost:GPU-a0"].last_seen == seen
    made.hold(FINE, seconds=CLEAR + 4)
    assert made.ids == []


def test_nothing_opens_for_what_was_not_seen_to_hold() -> None:
    made = patient(fault_for=20)
    made.hold(LOST, seconds=8)
    made.hold(replace(LOST, state=HostState.STALE), seconds=28)
    assert made.opened == []
    # A short gap does not begin the time again; a long one does.
    made.see(LOST, after=2.0)
    assert [one.rule for one in made.opened] == ["gpu-lost"]
    other = patient(fault_for=20)
    other.hold(LOST, seconds=8)
    other.hold(replace(LOST, state=HostState.STALE), seconds=CLEAR + 10)
    other.see(LOST, after=2.0)
    assert other.opened == []


def test_a_host_that_leaves_the_inventory_takes_its_incidents_with_it() -> None:
    made = patient()
    made.hold(LOST, host(name="b"), seconds=20)
    assert made.ids
    made.hold(host(name="b"), seconds=CLEAR + 4)
    assert made.ids == []
    assert len(made.closed) == 1


def test_a_device_that_is_gone_from_its_host_ends_what_was_said_of_it() -> None:
    made = patient()
    made.hold(host(device(0), device(1, xid=79)), seconds=20)
    made.hold(host(device(0)), seconds=CLEAR + 4)
    assert made.ids == []


# --- what stood before --------------------------------------------------------------------------


def standing(**more: object) -> Incident:
    made = patient()
    made.hold(DOWN, seconds=40)
    return replace(made.opened[0], since=NOW - 9000, **more)  # type: ignore[arg-type]


def test_an_incident_known_from_before_goes_on_at_once() -> None:
    made = lab(LIMITS, (standing(),))
    made.see(DOWN)
    assert made.opened == []
    (incident,) = made.watch.current().values()
    assert incident.since == NOW - 9000
    assert incident.last_seen == made.now


def test_an_incident_known_from_before_ends_only_when_its_host_was_seen_well() -> None:
    made = lab(LIMITS, (standing(),))
    made.hold(replace(FINE, state=HostState.DOWN), seconds=60)
    assert made.closed == []
    made.hold(FINE, seconds=CLEAR + 4)
    assert [one.id for one in made.closed] == ["unreachable:a"]


def test_an_incident_of_a_rule_that_is_no_more_ends() -> None:
    old = replace(standing(), rule="of-old")
    made = lab(LIMITS, (old,))
    made.hold(FINE, seconds=CLEAR + 4)
    assert [one.rule for one in made.closed] == ["of-old"]


def test_what_another_watch_opened_is_taken_up() -> None:
    made = patient()
    made.see(DOWN)
    made.watch.adopt(standing())
    assert made.watch.current()["unreachable:a"].since == NOW - 9000
    made.hold(DOWN, seconds=60)
    assert made.opened == []
    made.watch.adopt(replace(standing(), rule="clock-skew", title="clock off"))
    made.hold(FINE, seconds=CLEAR + 6)
    assert sorted(one.rule for one in made.closed) == ["clock-skew", "unreachable"]


def test_its_evidence_is_still_of_when_it_was_seen_here() -> None:
    made = patient()
    made.see(DOWN)
    first = made.now
    made.watch.adopt(standing())
    made.hold(DOWN, seconds=10)
    assert {one.at for one in made.watch.current()["unreachable:a"].evidence} == {first}


# --- evidence -----------------------------------------------------------------------------------


def test_words_are_made_when_a_condition_opens_and_are_those_of_its_first_sight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worded: list[str] = []
    put = usage_rules._words

    def words(of: DeviceProcess) -> str:
        worded.append(of.user)
        return put(of)

    monkeypatch.setattr(usage_rules, "_words", words)
    full = host(device(memory_used_mib=40900.0, utilization=90.0, processes=(process(40000.0),)))
    made = patient(memory_full_for=60)
    made.see(full)
    first = made.now
    made.hold(full, seconds=50)
    assert worded == []
    made.hold(full, seconds=20)
    assert set(worded) == {"wang"}
    (incident,) = made.watch.current().values()
    assert incident.evidence[0].at == incident.since == first


def test_jobs_that_died_with_the_device_are_evidence() -> None:
    made = patient()
    made.see(FINE)
    made.jobs = (
        failed("died", made.now + 3, uuid="GPU-a0"),
        failed("elsewhere", made.now + 3, uuid="GPU-a7"),
    )
    made.hold(LOST, seconds=10)
    (incident,) = made.watch.current().values()
    words = [one.text for one in incident.evidence if one.source == "job"]
    assert words == ["died failed: ValueError: no"]


def test_jobs_once_hit_stay_named() -> None:
    made = patient()
    made.jobs = (job("train", "GPU-a0"),)
    made.hold(LOST, seconds=10)
    made.jobs = ()
    made.hold(LOST, seconds=10)
    assert made.watch.current()["gpu-lost:GPU-a0"].jobs == ("ana-train",)


def test_evidence_keeps_the_first_sight_and_the_last_and_is_bounded() -> None:
    made = patient(slowed_for=10)
    for step in range(60):
        hot = device(throttle=("hw-thermal",), temperature_c=84.0 + step % 9)
        made.see(host(hot), after=2.0)
    (incident,) = made.watch.current().values()
    assert incident.evidence[0].at == incident.since
    assert incident.evidence[-1].at == made.now
    assert len(incident.evidence) <= watching.MOST_EVIDENCE


def test_the_first_sight_outlives_any_number_of_consoles() -> None:
    made = patient(slowed_for=10)
    warm = host(device(throttle=("hw-thermal",), temperature_c=84.0))
    made.hold(warm, seconds=20)
    (first,) = made.watch.current().values()
    known = first
    for temperature in range(85, 99):
        hotter = host(device(throttle=("hw-thermal",), temperature_c=float(temperature)))
        next_one = lab(LIMITS, (known,), now=made.now + 1000.0 * (temperature - 84))
        next_one.hold(hotter, seconds=4)
        (known,) = next_one.watch.current().values()
    assert known.evidence[: len(first.evidence)] == first.evidence
    assert "98 C" in known.evidence[-1].text
    assert len(known.evidence) < 2 * len(first.evidence) + 1


# --- cost ---------------------------------------------------------------------------------------


def test_only_what_changed_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    original = Watch.examine

    def counted(self: Watch, one: Host, around: Surroundings, now: float) -> None:
        looked.append(one.name)
        original(self, one, around, now)

    monkeypatch.setattr(Watch, "examine", counted)
    made = patient()
    hosts = tuple(host(name=name) for name in "abcd")
    made.look(FleetSnapshot(1, made.now, hosts))
    assert looked == ["a", "b", "c", "d"]
    looked.clear()
    made.look(FleetSnapshot(2, made.now, hosts))
    assert looked == []
    new = (hosts[0], host(name="b", clock_skew_s=1.0), *hosts[2:])
    made.look(FleetSnapshot(3, made.now, new))
    assert looked == ["b"]
    looked.clear()
    made.jobs = (job("train", "GPU-c0", where="c"),)
    made.look(FleetSnapshot(4, made.now, new))
    assert looked == ["c"]
    looked.clear()
    made.silent = {"d": "permission denied"}
    made.look(FleetSnapshot(5, made.now, new))
    made.look(FleetSnapshot(6, made.now, new))
    assert looked == ["d"]


def test_hosts_of_a_large_fleet_take_turns_but_not_one_that_is_lost() -> None:
    made = patient()
    names = [f"h{number}" for number in range(100)]

    def looked(after: float, **states: HostState) -> list[str]:
        made.now += after
        hosts = tuple(
            host(name=name, at=made.now, state=states.get(name, HostState.UP)) for name in names
        )
        due = list(made.watch.due(FleetSnapshot(0, made.now, hosts), set(), made.now, 10.0))
        for one in due:
            made.watch.examine(one, made.around, made.now)
        return [one.name for one in due]

    assert looked(0.0) == names
    rounds = [looked(2.0) for _ in range(5)]
    assert sorted(itertools.chain(*rounds)) == sorted(names), "each once in ten seconds"
    assert max(map(len, rounds)) < 30
    assert "h7" in looked(0.1, h7=HostState.DOWN)
    assert "h7" in looked(0.1), "and as soon as it is back"
    assert looked(-3600.0) == names, "a clock that was set back begins again"
    assert "h8" not in looked(0.1)
    made.watch.adopt(replace(standing(), host="h8", subject="h8"))
    assert "h8" in looked(0.1), "of which another console tells something"
    names.insert(0, "new")
    assert "new" in looked(0.1), "and a host that is new"


def test_a_turn_without_news_waits_for_the_next_news() -> None:
    made = patient()

    def looked(after: float, hosts: tuple[Host, ...]) -> int:
        made.now += after
        due = list(made.watch.due(FleetSnapshot(0, made.now, hosts), set(), made.now, 10.0))
        for one in due:
            made.watch.examine(one, made.around, made.now)
        return len(due)

    silent, heard = (tuple(host(name=f"h{n}", at=NOW + s) for n in range(100)) for s in (0, 10))
    assert looked(0.0, silent) == 100
    assert looked(10.0, silent) == 0, "the turn of each has begun, and none has news"
    assert looked(0.1, heard) == 100
    assert looked(0.1, silent) < 5


def test_times_run_on_while_no_host_has_news() -> None:
    made = patient()
    picture = FleetSnapshot(1, made.now, (DOWN,))
    made.look(picture)
    made.now += LIMITS.unreachable_for
    assert [one.rule for one in made.look(picture).opened] == ["unreachable"]


def test_every_rule_names_a_threshold_for_its_time() -> None:
    watch = Watch(LIMITS)
    assert all(watch.holds_s(rule.name) == getattr(LIMITS, rule.holds) for rule in RULES)
    assert watch.holds_s("of-old") == 0.0
