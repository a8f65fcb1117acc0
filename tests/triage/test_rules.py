"""Each rule: what it finds, what it leaves alone, and how sure it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import Device, DeviceProcess, Host, HostFacts, HostState
from gpuconsole.core.incidents import Severity
from gpuconsole.core.jobs import JobState, Member
from gpuconsole.placement.engine.device_state import FATAL_XIDS
from gpuconsole.triage.rules import RULES
from gpuconsole.triage.xids import XIDS, xid_of
from tests.triage.labs import ASIDE, NOW, device, failed, found, host, job, lab, process

CRITICAL, WARNING, INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO


def rule_of(one: Device | Host, **more: Any) -> set[str]:
    """Return the names of the rules that find something."""
    return set(found(one if isinstance(one, Host) else host(one), **more))


def test_a_healthy_lab_is_left_alone() -> None:
    busy = device(1, utilization=97.0, memory_used_mib=36000.0, throttle=("power-cap",))
    assert not found(host(), host(device(), busy, name="b"))


@pytest.mark.parametrize(
    ("one", "rule", "severity"),
    [
        (device(lost=True, utilization=None, memory_used_mib=None), "gpu-lost", CRITICAL),
        (device(xid=79), "xid", CRITICAL),
        (device(xid=31), "xid", WARNING),
        (device(xid=7777), "xid", WARNING),
        (device(ecc_uncorrected=2), "memory-errors", WARNING),
        (device(health="Warning"), "unwell", WARNING),
        (device(health="Alarm"), "unwell", CRITICAL),
        (device(health="Verwirrt"), "unwell", CRITICAL),
        (device(retired_pages=10), "retired-pages", WARNING),
        (device(remap_failed=True), "remap-failed", CRITICAL),
        (device(remap_pending=True), "remap-pending", WARNING),
        (device(throttle=("hw-thermal",)), "heat", WARNING),
        (device(throttle=("sw-thermal", "power-cap")), "heat", WARNING),
        (device(throttle=("power-brake",)), "power-brake", WARNING),
        (device(memory_used_mib=40500.0, utilization=90.0), "memory-full", INFO),
        (device(processes=(process(642.0),)), "idle-memory", WARNING),
        (device(memory_used_mib=38000.0, utilization=12.0), "low-load", WARNING),
    ],
)
def test_a_device_in_trouble(one: Device, rule: str, severity: Severity) -> None:
    incidents = found(host(one))
    assert set(incidents) == {rule}
    incident = incidents[rule]
    assert incident.severity is severity
    assert incident.uuid == one.uuid
    assert incident.where == "a gpu 0"
    assert incident.evidence
    assert incident.reason


@pytest.mark.parametrize(
    "one",
    [
        device(throttle=("power-cap",)),
        device(retired_pages=9),
        device(retired_pages=None, ecc_uncorrected=None),
        device(memory_used_mib=39000.0, utilization=90.0),
        device(memory_used_mib=None, memory_total_mib=None, utilization=None, temperature_c=None),
        # A desktop or a driver holds a little on its own.
        device(processes=(process(200.0),)),
        device(processes=(process(20000.0),), utilization=40.0, memory_used_mib=20000.0),
        device(memory_used_mib=38000.0, utilization=None),
        device(xid=0),
    ],
)
def test_what_is_ordinary(one: Device) -> None:
    assert not found(host(one))


@pytest.mark.parametrize(
    ("more", "rule", "severity"),
    [
        ({"state": HostState.DOWN, "error": "No route to host."}, "unreachable", CRITICAL),
        ({"clock_skew_s": -7.5}, "clock-skew", WARNING),
        ({"clock_skew_s": 5.1}, "clock-skew", WARNING),
        ({"facts": HostFacts(disk_total_mib=1e6, disk_free_mib=4.9e4)}, "disk-full", WARNING),
        ({"facts": HostFacts(disk_total_mib=1e6, disk_free_mib=0.9e4)}, "disk-full", CRITICAL),
        ({"engine_error": "permission denied"}, "engine-silent", WARNING),
        ({"faults": (ASIDE,), "drained": "set aside"}, "set-aside", CRITICAL),
        ({"faults": (replace(ASIDE, image="reg/img:1"),)}, "set-aside", WARNING),
    ],
)
def test_a_host_in_trouble(more: dict[str, Any], rule: str, severity: Severity) -> None:
    incidents = found(host(**more))
    assert set(incidents) == {rule}
    assert incidents[rule].severity is severity
    assert incidents[rule].subject == "a"
    assert incidents[rule].where == "a"


@pytest.mark.parametrize(
    "more",
    [
        {"state": HostState.CONNECTING, "sampled_at": None},
        {"state": HostState.STALE},
        {"clock_skew_s": None},
        # Too few in a row to set anything aside.
        {"faults": (replace(ASIDE, until=0.0),)},
        {"clock_skew_s": 4.9},
        {"facts": HostFacts(disk_total_mib=1e6, disk_free_mib=5.1e4)},
        {"facts": HostFacts(disk_total_mib=0.0, disk_free_mib=0.0)},
    ],
)
def test_what_is_ordinary_of_a_host(more: dict[str, Any]) -> None:
    assert not found(host(**more))


def test_jobs_on_what_is_wrong_are_named_as_hit() -> None:
    train = job("train", "GPU-a0")
    down = found(host(state=HostState.DOWN), jobs=(train,))
    assert down["unreachable"].jobs == ("ana-train",)
    hot = found(host(device(throttle=("hw-thermal",))), jobs=(train,))
    assert hot["heat"].jobs == ("ana-train",)


def test_two_signals_are_more_certain_than_one() -> None:
    alone = found(host(device(lost=True)))["gpu-lost"]
    with_xid = found(host(device(lost=True, xid=79)))
    assert alone.confidence == "medium"
    assert with_xid["gpu-lost"].confidence == "high"
    assert "2 independent signals" in with_xid["gpu-lost"].reason


def test_a_card_that_is_hot_alone_is_told_from_a_hot_room() -> None:
    hot = device(0, temperature_c=92.0, throttle=("hw-thermal",))
    alone = found(host(hot, device(1, temperature_c=60.0)))["heat"]
    room = found(host(hot, device(1, temperature_c=90.0)))["heat"]
    assert "fan" in alone.reason
    assert "fan" not in room.reason


def test_memory_errors_that_grow_are_critical() -> None:
    made = lab()
    made.see(host(device(ecc_uncorrected=1)))
    made.see(host(device(ecc_uncorrected=4)), after=2.0)
    (incident,) = made.watch.current().values()
    assert incident.severity is CRITICAL
    assert "rising" in incident.title
    assert any("4 uncorrected memory errors, 1 when first seen" in e.text
               for e in incident.evidence)  # fmt: skip


def test_few_retired_pages_are_told_once_they_grow() -> None:
    made = lab()
    assert not made.see(host(device(retired_pages=1)))
    assert made.see(host(device(retired_pages=2)), after=2.0).opened[0].rule == "retired-pages"


def test_links_that_go_down_are_told_and_those_that_never_were_up_are_not() -> None:
    made = lab()
    assert not made.see(host(device(nvlinks_up=4, nvlinks_down=8)))
    later = device(nvlinks_up=3, nvlinks_down=9, nvlink_errors=12)
    opened = made.see(host(later), after=2.0).opened[0]
    assert opened.rule == "nvlink-down"
    said = " ".join(one.text for one in opened.evidence)
    assert "3 NVLinks are up, 4 when first seen" in said
    assert "12 errors" in said


def test_memory_shared_by_several_is_worse_than_one_that_keeps_it() -> None:
    full = device(memory_used_mib=40500.0, utilization=90.0)
    crowd = replace(full, processes=(process(20000.0), process(20000.0, "li")))
    assert found(host(full))["memory-full"].severity is INFO
    assert found(host(crowd))["memory-full"].severity is WARNING


def test_a_job_of_the_queue_that_loads_its_data_is_no_forgotten_process() -> None:
    idle = device(processes=(process(9000.0, "ana", "train".ljust(64, "c")),))
    assert "idle-memory" in rule_of(idle)
    assert "idle-memory" not in rule_of(idle, jobs=(job("train", "GPU-a0"),))


def test_who_holds_the_memory_is_in_the_title() -> None:
    incident = found(host(device(processes=(process(642.0, "wang"),))))["idle-memory"]
    assert incident.title == "idle, wang holds 642 MiB"


def test_busy_processors_explain_a_card_that_waits() -> None:
    card = device(memory_used_mib=38000.0, utilization=12.0)
    busy = found(host(card, facts=HostFacts(cpu_percent=97.0)))["low-load"]
    idle = found(host(card, facts=HostFacts(cpu_percent=9.0)))["low-load"]
    assert busy.confidence == "high"
    assert "data" in busy.reason
    assert idle.confidence == "medium"


# --- strangers ----------------------------------------------------------------------------------

OWN = process(9000.0, "ana", "train".ljust(64, "c"))


def crowd(*more: DeviceProcess) -> Device:
    return device(utilization=80.0, memory_used_mib=20000.0, processes=(OWN, *more))


def lease(user: str = "li") -> Lease:
    return Lease("GPU-a0", "li-1", "li-1.1", user, "another-journal", NOW)


@pytest.mark.parametrize(
    ("strangers", "confidence"),
    [
        ((), ""),
        ((process(4000.0, "wang", "f" * 64),), "high"),
        ((process(4000.0, "wang"),), "medium"),
    ],
)
def test_a_process_that_is_not_the_jobs(
    strangers: tuple[DeviceProcess, ...], confidence: str
) -> None:
    incidents = found(host(crowd(*strangers)), jobs=(job("train", "GPU-a0"),))
    assert (incidents["foreign-process"].confidence if incidents else "") == confidence
    if incidents:
        assert incidents["foreign-process"].jobs == ("ana-train",)
        assert incidents["foreign-process"].title.startswith("wang works on")


@pytest.mark.parametrize(
    ("seen_before", "severity"), [(True, INFO), (False, WARNING)], ids=["before", "after"]
)
def test_one_beside_which_the_job_was_placed_is_no_surprise(
    seen_before: bool, severity: Severity
) -> None:
    stranger = process(4000.0, "wang")
    made = lab()
    before = (replace(stranger, memory_mib=3000.0),) if seen_before else ()
    made.see(host(device(utilization=80.0, processes=before)))
    train = job("train", "GPU-a0")
    attempt = replace(train.attempts[0], created_at=NOW + 5)
    made.jobs = (replace(train, attempts=(attempt,)),)
    (incident,) = made.see(host(crowd(stranger)), after=10.0).opened
    assert (incident.rule, incident.severity) == ("foreign-process", severity)


def test_two_jobs_of_the_queue_may_share_a_device() -> None:
    second = process(4000.0, "ana", "other".ljust(64, "c"))
    jobs = (job("train", "GPU-a0"), job("other", "GPU-a0"))
    assert not found(host(crowd(second)), jobs=jobs)


def test_before_the_container_is_known_nobody_is_a_stranger() -> None:
    launching = job("train", "GPU-a0", state=JobState.LAUNCHING)
    attempt = replace(launching.attempts[0], container_id="")
    assert not found(host(crowd()), jobs=(replace(launching, attempts=(attempt,)),))


@pytest.mark.parametrize(
    ("one", "wrong"),
    [
        (process(4000.0, "li"), False),
        (process(4000.0, "li", "d" * 64), False),
        # In a container it has no known owner: names there are another world's.
        (process(4000.0, "root", "d" * 64), False),
        (process(4000.0, "wang"), True),
        (process(4000.0, ""), False),
    ],
)
def test_a_device_leased_to_another_console(one: DeviceProcess, wrong: bool) -> None:
    card = device(utilization=80.0, memory_used_mib=20000.0, processes=(one,))
    assert bool(found(host(card), leases={"a": (lease(),)})) is wrong


def test_a_device_shared_with_another_consoles_job_is_left_alone() -> None:
    stranger = process(4000.0, "li", "d" * 64)
    jobs = (job("train", "GPU-a0"),)
    assert not found(host(crowd(stranger)), jobs=jobs, leases={"a": (lease(),)})


# --- stragglers ---------------------------------------------------------------------------------


def gang(*loads: float | None) -> Host:
    return host(*(device(at, utilization=load) for at, load in enumerate(loads)))


@pytest.mark.parametrize(
    ("loads", "lagging"),
    [
        ((90, 92, 91, 30), [3]),
        ((90, 92, 91, 62), []),
        ((90, 20), [1]),
        # All do little: that is no one's fault.
        ((30, 30, 30, 2), []),
        ((90, 92, None, 30), []),
        ((95,), []),
    ],
)
def test_one_device_of_a_job_lags(loads: tuple[float | None, ...], lagging: list[int]) -> None:
    whole = gang(*loads)
    jobs = (job("train", *(one.uuid for one in whole.devices)),)
    made = lab(jobs=jobs)
    made.see(whole)
    # The first look at a host knows nothing of those behind the first device.
    made.see(whole, after=2.0)
    assert [one.index for one in made.opened if one.rule == "straggler"] == lagging


def test_a_straggler_on_another_host_of_the_gang_is_found() -> None:
    whole = job("train", "GPU-a0", "GPU-a1")
    member = Member("b", ("GPU-b0", "GPU-b1"), (0, 1), "gpuconsole-train-b")
    whole = replace(whole, attempts=(replace(whole.attempts[0], members=(member,)),))
    one = host(device(0, utilization=92.0), device(1, utilization=90.0))
    two = host(device(0, "b", utilization=91.0), device(1, "b", utilization=25.0), name="b")
    made = lab(jobs=(whole,))
    made.see(one, two)
    made.see(one, two, after=2.0)
    (incident,) = made.opened
    assert (incident.rule, incident.where) == ("straggler", "b gpu 1")
    assert incident.jobs == ("ana-train",)
    assert incident.confidence == "high"


# --- failing jobs -------------------------------------------------------------------------------


def test_different_jobs_that_fail_on_a_host_make_it_suspect() -> None:
    jobs = tuple(failed(f"job{at}", NOW - 100 * at - 50) for at in range(3))
    assert not found(host(), jobs=jobs[:2])
    incident = found(host(), host(name="b"), jobs=jobs)["failing-jobs"]
    assert incident.host == "a"
    assert incident.confidence == "high"
    assert set(incident.jobs) == {"ana-job0", "ana-job1", "ana-job2"}


def test_one_script_that_always_fails_is_rather_the_scripts_fault() -> None:
    jobs = tuple(failed(f"job{at}", NOW - 50, script="/p/broken.py") for at in range(3))
    assert found(host(), jobs=jobs)["failing-jobs"].confidence == "low"


def test_failures_of_long_ago_out_of_memory_or_of_lost_hosts_do_not_count() -> None:
    old = tuple(failed(f"job{at}", NOW - 7200) for at in range(3))
    assert not found(host(), jobs=old)
    fresh = [failed(f"job{at}", NOW - 50) for at in range(3)]
    oom = tuple(
        replace(one, state=JobState.OOM,
                attempts=(replace(one.attempts[0], ended_by="oom"),)) for one in fresh
    )  # fmt: skip
    assert not found(host(), jobs=oom)
    cancelled = tuple(replace(one, state=JobState.CANCELLED) for one in fresh)
    assert not found(host(), jobs=cancelled)
    lost = tuple(
        replace(one, attempts=(replace(one.attempts[0], ended_by="lost-host"),)) for one in fresh
    )
    assert not found(host(), jobs=lost)


@pytest.mark.parametrize(
    ("ended_by", "code", "counts"), [("own", 1, True), ("own", 143, False), ("gang", 1, False)]
)
def test_attempts_before_the_last_count_by_what_is_noted_of_them(
    ended_by: Any, code: int, counts: bool
) -> None:
    jobs = []
    for at in range(3):
        over = failed(f"job{at}", NOW - 50)
        first = replace(over.attempts[0], ended_by=ended_by, exit_code=code)
        again = replace(first, number=2, ended_at=None, exit_code=None, ended_by="")
        jobs.append(replace(over, state=JobState.QUEUED, attempts=(first, again)))
    assert bool(found(host(), jobs=tuple(jobs))) is counts


# --- the table ----------------------------------------------------------------------------------


def test_every_rule_can_be_told_apart() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    assert all((rule.test is None) is not (rule.device_test is None) for rule in RULES)


def test_numbers_that_bar_a_device_from_placement_speak_of_the_hardware() -> None:
    assert {number for number in FATAL_XIDS if xid_of(number).side != "hardware"} == set()
    assert {number for number in FATAL_XIDS if number not in XIDS} == set()


def test_hostile_words_do_not_reach_a_title() -> None:
    wild = DeviceProcess(1, "\x1b[31mroot\x1b]0;x\x07", 900.0, "a\nb\x1b[2J\u202ec", "")
    incident = found(host(device(processes=(wild,)), error="\x1b[2J"))["idle-memory"]
    words = " ".join((incident.title, *(one.text for one in incident.evidence)))
    assert "\x1b" not in words
    assert "\n" not in words
    assert "\u202e" not in words
    assert incident.title == "idle, root holds 900 MiB"


def test_a_tool_that_fails_is_one_incident_of_its_host() -> None:
    fault = "npu-smi did not answer within 10 s and was ended"
    silent = [
        device(index, memory_used_mib=None, utilization=None, error=fault) for index in range(8)
    ]
    incidents = found(host(*silent, error=fault))
    assert set(incidents) == {"devices-unread"}
    (first, second) = incidents["devices-unread"].evidence
    assert first.text == fault
    assert second.text == "8 of 8 devices say nothing"
    # One figure that cannot be read is no silent device.
    assert not found(host(device(error="power: unknown error"), error="x"))
    assert not found(host(error="no NVIDIA driver: NVML Shared Library Not Found"))
