"""Whatever a host says, the rules answer in words that can be kept and shown."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.config import Thresholds
from gpuconsole.core.containers import Lease
from gpuconsole.core.fleet import Device, DeviceProcess, Host, HostFacts, HostState
from gpuconsole.core.incidents import worst_first
from gpuconsole.triage import Scene, Watch, actions_for, ticket
from gpuconsole.triage.detector import findings
from gpuconsole.triage.model import Finding, Past
from gpuconsole.triage.rule_filter import RuleFilter
from gpuconsole.triage.rules import DEVICE_RULES
from gpuconsole.triage.smoothing import remember
from tests.triage.labs import IMPATIENT, NOW, Lab, job

figures = st.none() | st.floats(0, 1e6)
percents = st.none() | st.floats(0, 100)
counts = st.none() | st.integers(0, 2**31)
words = st.text(max_size=30)
processes = st.builds(
    DeviceProcess,
    pid=st.integers(1, 2**22),
    user=words,
    memory_mib=figures,
    command=words,
    container_id=st.sampled_from(["", "c" * 64, "train".ljust(64, "c")]),
)
throttles = st.sets(st.sampled_from(["power-cap", "hw-thermal", "sw-thermal", "power-brake", "?"]))


def device(index: int) -> st.SearchStrategy[Device]:
    return st.builds(
        Device,
        uuid=st.just(f"GPU-{index}"),
        index=st.just(index),
        model=words,
        memory_total_mib=figures,
        memory_used_mib=figures,
        utilization=percents,
        temperature_c=figures,
        power_w=figures,
        sm_clock_mhz=figures,
        throttle=throttles.map(lambda found: tuple(sorted(found))),
        ecc_uncorrected=counts,
        retired_pages=counts,
        xid=st.none() | st.integers(0, 500),
        processes=st.lists(processes, max_size=4).map(tuple),
        lost=st.booleans(),
        error=words,
    )


hosts = st.builds(
    Host,
    name=st.just("a"),
    state=st.sampled_from(HostState),
    devices=st.tuples(device(0), device(1)),
    facts=st.builds(HostFacts, cpu_percent=percents, disk_total_mib=figures, disk_free_mib=figures),
    sampled_at=st.none() | st.floats(NOW - 1e5, NOW + 1e5),
    error=words,
    clock_skew_s=st.none() | st.floats(-1e5, 1e5),
    engine_error=words,
)


def shown(incident: Any, host: Host, now: float) -> str:
    document = json.dumps(incident.as_json(now), allow_nan=False)
    actions = actions_for(incident, host, (JOB,))
    assert 3 <= len(actions) <= 9
    return document + ticket(incident, host, now) + "".join(one.label for one in actions)


JOB = job("train", "GPU-0", "GPU-1")


@given(st.lists(hosts, min_size=1, max_size=4), st.sampled_from([IMPATIENT, Thresholds()]))
def test_every_answer_can_be_kept_and_shown(pictures: list[Host], limits: Thresholds) -> None:
    made = Lab(Watch(limits), jobs=(JOB,))
    for picture in pictures:
        made.see(picture, after=7.0)
    standing = tuple(made.watch.current().values())
    assert len({one.id for one in standing}) == len(standing)
    for incident in worst_first(standing, made.now):
        assert incident.since <= incident.last_seen <= made.now
        text = shown(incident, pictures[-1], made.now)
        assert not any(ord(letter) < 32 and letter != "\n" for letter in text)
    ended = [one.id for one in made.closed]
    assert all(one.ended_at is not None and one.ended_at >= one.since for one in made.closed)
    assert len(ended) <= len(made.opened)


LEASE = Lease("GPU-1", "elsewhere", "elsewhere-1", "bob", "theirs", NOW - 60)


@given(hosts, st.sampled_from([IMPATIENT, Thresholds()]), st.booleans())
def test_only_rules_that_could_not_hold_are_not_asked(
    picture: Host, limits: Thresholds, held: bool
) -> None:
    past: dict[str, Past] = {}
    remember(past, picture.devices, NOW - 60)
    remember(past, picture.devices, NOW)
    holders = {"GPU-0": (JOB,)} if held else {}
    leases = {"GPU-1": (LEASE,)} if held else None
    scene = Scene(picture, NOW, limits, past, holders, (), leases)
    asked = [
        (rule, one, worded(reported))
        for one in picture.devices
        for rule in DEVICE_RULES
        if rule.device_test is not None
        and picture.state is HostState.UP
        and (reported := rule.device_test(scene, one)) is not None
    ]
    found = findings(scene, RuleFilter(limits))
    assert [
        (rule, one, worded(reported)) for rule, one, reported in found if one is not None
    ] == asked


def worded(reported: Finding) -> Finding:
    return replace(reported, seen=reported.signals)
