"""Why a device is refused: the whole sentence for each filter, with its numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.fleet import DeviceProcess, Host, HostState
from gpuconsole.placement import Holder, Policy, Request, decide, named_policy
from gpuconsole.placement.model import Shun
from tests.placement.fleets import A100, GIB, NOW, card, fleet, held, up, wants

PLAIN = named_policy()
SHARING = replace(PLAIN, sharing=True)
SHARED = replace(held("x", NOW + 60), share=True, need_mib=15_000.0, utilization=50.0)
LEASE = "Leased for 1h00m to night run (x) of bob, free in about 1m00s"


def refused(
    request: Request, host: Host, policy: Policy = PLAIN, **holders: Holder
) -> list[tuple[str, str]]:
    decision = decide(request, fleet(host), holders, policy, NOW)
    assert decision.chosen is None
    return [(rejection.filter, rejection.reason) for rejection in decision.rejections]


def users(*names: str) -> tuple[DeviceProcess, ...]:
    return tuple(DeviceProcess(number, name) for number, name in enumerate(names))


@pytest.mark.parametrize(
    ("host", "filter_", "reason"),
    [
        (up("h", card("u"), state=HostState.STALE, sampled_at=NOW - 9), "host",
         "h is stale; its last frame is 9s old."),
        (up("h", card("u"), state=HostState.DOWN), "host", "h is down."),
        (up("h", card("u"), state=HostState.DOWN, error="no route."), "host",
         "h is down: no route."),
        (up("h", card("u"), drained="new disks."), "drained", "h takes no new jobs: new disks."),
        (up("h", card("u"), engine_error="h, no answer."), "engine",
         "h: its Docker engine does not answer: no answer; `gpuconsole check h` says what to do."),
        (up("h", card("u", memory_used_mib=15 * GIB)), "held",
         "Needs up to 10.0 GiB; 8.5 GiB may be used, for 15.0 GiB are held by something that cannot"
         " be seen."),
        (up("h", card("u", memory_used_mib=15 * GIB, processes=users("eve"))), "held",
         "Needs up to 10.0 GiB; 8.5 GiB may be used, for 15.0 GiB are held by 1 process of eve."),
        (up("h", card("u", memory_used_mib=None)), "held",
         "Its memory cannot be read, so nothing can be promised there."),
        (up("h", card("u", memory_total_mib=10 * GIB)), "memory",
         "Needs up to 10.0 GiB, 8.5 GiB may be used (85% of 10.0 GiB)."),
        (up("h", card("u", A100, mig=True)), "mig",
         "It is divided into MIG slices; only the slices take jobs."),
        (up("h", card("u", "910B2", backend="npu")), "backend",
         "It is a device for npu, the task needs gpu."),
        (Host("h", HostState.CONNECTING), "host", "No device of it is known: it is connecting."),
        (Host("h", HostState.DOWN, error="no route"), "host",
         "No device of it is known: no route."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_host_or_a_device(host: Host, filter_: str, reason: str) -> None:
    assert refused(wants(), host) == [(filter_, reason)]


@pytest.mark.parametrize(
    ("processes", "used", "words"),
    [
        ((), 5 * GIB, "5.0 GiB are held by something that cannot be seen"),
        ((), None, "its memory cannot be read"),
        (users("eve"), 100.0, "100 MiB are held by 1 process of eve"),
        (users(""), 100.0, "100 MiB are held by 1 process"),
        (users("", ""), 100.0, "100 MiB are held by 2 processes"),
        (users("eve", "ann", "eve", ""), 100.0, "100 MiB are held by 4 processes of ann, eve"),
        (users(*"dcba"), 100.0, "100 MiB are held by 4 processes of a, b, c"),
    ],
)
@pytest.mark.parametrize(
    ("request_", "policy", "filter_", "why"),
    [
        (wants(exclusive=True), PLAIN, "exclusive", "The task wants a device to itself"),
        (wants(None), PLAIN, "unknown",
         "The estimate is unknown, so only an empty device will do"),
        (wants(None, kind="session"), PLAIN, "unknown",
         "No amount of memory was asked for, so only an empty device will do"),
        (wants(), replace(PLAIN, avoid_foreign=True), "foreign",
         "The lab leaves devices alone on which others work"),
    ],
)  # fmt: skip
def test_who_holds_what_on_a_device_that_is_not_empty(
    request_: Request,
    policy: Policy,
    filter_: str,
    why: str,
    processes: tuple[DeviceProcess, ...],
    used: float | None,
    words: str,
) -> None:
    host = up("h", card("u", processes=processes, memory_used_mib=used))
    assert refused(request_, host, policy) == [(filter_, f"{why}; {words}.")]


@pytest.mark.parametrize(
    ("wanted", "unwanted", "reason"),
    [
        ({"pool": "train", "rack": "7"}, {"a": "b"}, "Its host does not carry pool=train, rack=7."),
        ({"rack": "8", "pool": "train"}, {"rack": ""}, "Its host does not carry pool=train."),
        ({}, {"rack": "", "kind": "old", "a": "b", "x": ""},
         "Its host carries rack=8, kind=old, which the task rules out."),
        ({}, {"rack": "7", "kind": "old"}, "Its host carries kind=old, which the task rules out."),
    ],
)  # fmt: skip
def test_labels_that_are_missing_or_too_many(
    wanted: dict[str, str], unwanted: dict[str, str], reason: str
) -> None:
    host = up("h", card("u"), labels={"rack": "8", "kind": "old"})
    request = wants(labels=wanted, anti_labels=unwanted)
    assert refused(request, host) == [("labels", reason)]


@pytest.mark.parametrize(
    ("holder", "reason"),
    [
        (held("x", NOW + 60), f"{LEASE}."),
        (held("x"), "Leased for 1h00m to night run (x) of bob."),
        (held("x", NOW), "Leased for 1h00m to night run (x) of bob, longer than was expected."),
        (held("x", NOW - 1), "Leased for 1h00m to night run (x) of bob, longer than was expected."),
        # A name that is the id is said once; a start in the future is one of now.
        (Holder("x", "x", "bob", NOW + 5, None), "Leased for 0s to x of bob."),
        (replace(held("x", NOW + 60), beside=Holder("g", "guest", "ann", NOW, None)),
         f"{LEASE}, and shared with guest (g) of ann."),
    ],
)  # fmt: skip
def test_a_lease_says_since_when_and_until_when(holder: Holder, reason: str) -> None:
    assert refused(wants(), up("h", card("u")), u=holder) == [("leased", reason)]


@pytest.mark.parametrize(
    ("request_", "filter_", "why"),
    [
        (wants(share=True), "memory",
         "both jobs together could need more memory than may be used"),
        (replace(wants(1, share=True), utilization=51.0), "utilization",
         "both jobs together would keep it more than 100 % busy, or it is not known"),
        (wants(1, share=True), "utilization",
         "both jobs together would keep it more than 100 % busy, or it is not known"),
    ],
)  # fmt: skip
def test_a_lease_that_may_be_shared_says_why_it_is_not(
    request_: Request, filter_: str, why: str
) -> None:
    host = up("h", card("u"))
    assert refused(request_, host, SHARING, u=SHARED) == [(filter_, f"{LEASE}; {why}.")]
    # Where one of the three does not share, that is no matter.
    alone = replace(request_, task=replace(request_.task, share=False))
    for asked, policy, holder in (
        (alone, SHARING, SHARED),
        (request_, PLAIN, SHARED),
        (request_, SHARING, replace(SHARED, share=False)),
    ):
        assert refused(asked, host, policy, u=holder) == [("leased", f"{LEASE}.")]


def test_two_together_may_fill_a_device_to_its_bounds() -> None:
    holder = replace(SHARED, need_mib=10 * GIB, utilization=50.0)
    fits = replace(wants(10.4, share=True), utilization=50.0)
    decision = decide(fits, fleet(up("h", card("u"))), {"u": holder}, SHARING, NOW)
    assert decision.chosen is not None
    assert decision.chosen.shared


def test_several_devices_are_too_few_together() -> None:
    host = up("h", card("u"), card("w"))
    request = wants(1, devices=2, share=True)
    assert refused(request, host, SHARING, u=SHARED) == [
        ("leased", f"{LEASE}; it is shared only while no whole device is free, and by one-device"
         " jobs."),
        ("count", "The task needs 2 of one model on one host; fewer are free."),
    ]  # fmt: skip


@pytest.mark.parametrize(("until", "refuses"), [(NOW + 1, True), (NOW, False)])
def test_a_job_shuns_a_host_until_a_moment(until: float, refuses: bool) -> None:
    request = replace(wants(), shunned={"h": Shun(until, "It failed on h twice.")})
    decision = decide(request, fleet(up("h", card("u"))), {}, PLAIN, NOW)
    assert (decision.chosen is None) is refuses
    if refuses:
        assert [(each.filter, each.reason) for each in decision.rejections] == [
            ("aside", "It failed on h twice.")
        ]
