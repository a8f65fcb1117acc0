"""Placement decisions: each filter with its sentence, ranking, queue order, why-waiting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuconsole.config import LabSettings
from gpuconsole.core.fleet import (
    Device,
    DeviceProcess,
    Host,
    HostState,
    PeerLink,
)
from gpuconsole.core.services import SERVICE, Service
from gpuconsole.placement import (
    POLICIES,
    Board,
    Decision,
    Holder,
    Policy,
    Request,
    Waiting,
    decide,
    lab_policy,
    named_policy,
    pass_over,
    plan,
)
from gpuconsole.placement.engine.job_profile import profile
from gpuconsole.placement.engine.queue_pass import held_devices
from gpuconsole.placement.engine.scores import TERMS, Scorer
from gpuconsole.placement.explain.rejections import MAX_REJECTIONS
from gpuconsole.placement.policy import DEFAULT_WEIGHTS
from gpuconsole.preflight.roofline import Work
from tests.placement.fleets import A100, GIB, NOW, RTX, V100, card, fleet, held, up, wants


def place(request: Request, *hosts: Host, policy: str = "weighted", **holders: Holder) -> Decision:
    return decide(request, fleet(*hosts), holders, named_policy(policy), NOW)


def refusal(request: Request, host: Host, **holders: Holder) -> tuple[str, str]:
    decision = decide(request, fleet(host), holders, named_policy(), NOW)
    assert decision.chosen is None
    (rejection,) = decision.rejections
    return rejection.filter, rejection.reason


@pytest.mark.parametrize(
    ("request_", "host", "filter_", "words"),
    [
        (wants(21), up("h", card("u")), "memory", "20.4 GiB may be used (85% of 24.0 GiB)"),
        (wants(), up("h", card("u", lost=True)), "health", "Device 0 has dropped off the bus"),
        (wants(), up("h", card("u", ecc_uncorrected=3)), "health", "3 uncorrected memory errors"),
        (wants(), up("h", card("u", xid=79)), "health", "XID 79"),
        (wants(), up("h", card("u", throttle=("hw-thermal",), temperature_c=94.0)), "health",
         "slowed down by hw-thermal at 94 °C"),
        (wants(), up("h", card("u", mig=True)), "mig", "only the slices take jobs"),
        (wants(), up("h", card("u", "910B2", backend="npu")), "backend", "device for npu"),
        (wants(labels={"pool": "train"}), up("h", card("u")), "labels", "carry pool=train"),
        (wants(), up("h", card("u"), state=HostState.STALE, sampled_at=NOW - 9), "host",
         "h is stale; its last frame is 9s old"),
        (wants(), up("h", card("u"), state=HostState.DOWN, error="no route"), "host",
         "h is down: no route."),
        (wants(), up("h", card("u", memory_used_mib=None)), "held", "memory cannot be read"),
        (wants(), up("h", card("u", memory_total_mib=None)), "held", "memory cannot be read"),
        (wants(10), up("h", card("u", memory_used_mib=15 * GIB)), "held",
         "8.5 GiB may be used, for 15.0 GiB are held by something that cannot be seen"),
        (wants(10), up("h", card("u", memory_used_mib=15 * GIB,
                                 processes=(DeviceProcess(1, "eve"),))), "held",
         "held by 1 process of eve"),
        (wants(exclusive=True), up("h", card("u", processes=(DeviceProcess(1, "eve"),))),
         "exclusive", "a device to itself; 100 MiB are held by 1 process of eve"),
        (wants(None), up("h", card("u", memory_used_mib=5 * GIB)), "unknown",
         "only an empty device will do"),
        (wants(devices=2), up("h", card("u")), "count", "needs 2 of one model on one host"),
    ],
)  # fmt: skip
def test_a_refused_device_says_why(request_: Request, host: Host, filter_: str, words: str) -> None:
    found, reason = refusal(request_, host)
    assert found == filter_
    assert words in reason
    assert reason.endswith(".")


def test_a_leased_device_names_its_holder_and_when_it_is_free() -> None:
    found, reason = refusal(wants(), up("h", card("u")), u=held(ends_at=NOW + 90))
    assert found == "leased"
    assert reason == "Leased for 1h00m to night run (other) of bob, free in about 1m30s."


def test_a_device_that_the_job_already_holds_will_do() -> None:
    assert place(wants(), up("h", card("u")), u=held("j1")).chosen is not None


def test_a_slice_of_a_divided_device_will_do() -> None:
    host = up("h", card("MIG-1", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", mig=True))
    assert place(wants(10), host).chosen is not None


def slices(parent: Device, *profiles: str) -> tuple[Device, ...]:
    """Return a divided card and its slices."""
    parts = (
        card(
            f"MIG-{place}",
            f"NVIDIA A100-SXM4-40GB MIG {profile}",
            index=place,
            memory_total_mib=float(profile.partition(".")[2].removesuffix("gb")) * GIB,
            parent_uuid=parent.uuid,
            mig_profile=profile,
        )
        for place, profile in enumerate(profiles, start=1)
    )
    return (replace(parent, mig=True), *parts)


def test_jobs_go_to_the_slices_and_never_to_the_card() -> None:
    host = up("h", *slices(card("u", "NVIDIA A100-SXM4-40GB"), "1g.5gb", "3g.20gb"))
    chosen = place(wants(10), host).chosen
    assert chosen is not None
    assert [device.uuid for device in chosen.places[0].devices] == ["MIG-2"]
    decision = place(wants(10), host, **{"MIG-2": held()})
    assert decision.chosen is None
    reasons = {one.uuid: (one.filter, one.reason) for one in decision.rejections}
    assert reasons["u"] == ("mig", "It is divided into MIG slices; only the slices take jobs.")
    assert reasons["MIG-1"][0] == "memory"
    assert reasons["MIG-2"][0] == "leased"


def test_slices_do_not_work_together() -> None:
    host = up("h", *slices(card("u", "NVIDIA A100-SXM4-40GB"), "3g.20gb", "3g.20gb"))
    decision = place(wants(2, devices=2), host)
    assert decision.chosen is None
    assert {one.filter for one in decision.rejections} == {"mig"}
    assert "a process sees one of those at most" in decision.rejections[1].reason
    assert place(wants(2, devices=1), host).chosen is not None


@pytest.mark.parametrize("fault", [{"xid": 79}, {"remap_failed": True}, {"ecc_uncorrected": 1}])
def test_a_slice_suffers_what_its_card_does(fault: dict[str, Any]) -> None:
    host = up("h", *slices(card("u", "NVIDIA A100-SXM4-40GB", **fault), "3g.20gb"))
    decision = place(wants(2), host)
    assert decision.chosen is None
    assert decision.rejections[1].filter == "health"
    assert "is a part of device 0, which" in decision.rejections[1].reason


def test_a_row_that_waits_for_a_reset_is_no_reason_to_stay_away() -> None:
    assert place(wants(), up("h", card("u", remap_pending=True))).chosen is not None


def test_a_host_without_known_devices_is_told_once() -> None:
    decision = place(wants(), Host("h", HostState.CONNECTING))
    assert [(r.host, r.uuid, r.filter) for r in decision.rejections] == [("h", "", "host")]
    assert decision.waiting is not None
    assert decision.waiting.reason == (
        "No host has been seen yet: where it could run is not known."
        " 1 host has not shown its devices yet."
    )
    assert decision.waiting.options == ("See `gpuconsole check` about those hosts.",)


def test_a_back_end_that_only_unseen_hosts_may_have_is_said_so() -> None:
    other = up("h", card("u", "K100_AI", backend="dcu"))
    decision = place(wants(), other, Host("g", HostState.CONNECTING))
    assert decision.waiting is not None
    assert decision.waiting.reason == (
        "No device for gpu is known in this fleet. 1 host has not shown its devices yet."
    )
    assert decision.waiting.options[0].startswith("Choose another back end")


def test_the_limit_is_the_smaller_of_threshold_and_what_others_leave() -> None:
    empty = up("h", card("u", memory_used_mib=0.0))
    assert place(wants(24 * 0.85), empty).chosen is not None
    assert place(wants(24 * 0.85 + 0.01), empty).chosen is None
    beside = up("h", card("u", memory_used_mib=12 * GIB))
    assert place(wants(24 - 12 - 0.02 * 24), beside).chosen is not None
    assert place(wants(24 - 12 - 0.02 * 24 + 0.01), beside).chosen is None


def test_a_task_may_lower_the_threshold_but_not_raise_it() -> None:
    host = up("h", card("u"))
    assert place(wants(13, memory_threshold=0.5), host).chosen is None
    assert place(wants(21, memory_threshold=0.99), host).chosen is None


def test_an_unknown_estimate_gets_an_empty_device_and_says_so() -> None:
    chosen = place(wants(None), up("h", card("u"))).chosen
    assert chosen is not None
    assert chosen.reasons[0] == ("The estimate is unknown, so it gets the empty device to itself.")


def test_of_a_session_no_estimate_is_spoken_of() -> None:
    chosen = place(wants(None, kind="session"), up("h", card("u"))).chosen
    assert chosen is not None
    assert chosen.reasons[0].startswith("No amount of memory was asked for")
    used = place(wants(None, kind="jupyter"), up("h", card("u", memory_used_mib=9 * GIB)))
    assert used.chosen is None
    assert [refused.reason for refused in used.rejections] == [
        "No amount of memory was asked for, so only an empty device will do; 9.0 GiB "
        "are held by something that cannot be seen."
    ]


# --- ranking ------------------------------------------------------------------------------------


def chosen_uuids(decision: Decision) -> list[str]:
    assert decision.chosen is not None
    return [device.uuid for device in decision.chosen.devices]


def test_each_policy_ranks_in_its_own_way() -> None:
    hosts = (
        up("v", card("v0", V100), card("v1", V100), card("v2", V100)),
        up("r", card("r0", RTX), card("r1", RTX)),
        up("a", card("a0", A100), card("a1", A100)),
    )
    leases = {"v1": held(), "r1": held()}
    picked = {
        name: chosen_uuids(place(wants(), *hosts, policy=name, **leases)) for name in POLICIES
    }
    assert picked == {
        "weighted": ["a0"],
        "rl_based": ["a0"],
        "best_fit": ["r0"],
        "first_fit": ["v0"],
        "balanced": ["a0"],
        "fragmentation_aware": ["r0"],
        "cost_performance": ["a0"],
    }


def test_the_untrained_policy_says_what_ranks_instead() -> None:
    chosen = place(wants(), up("h", card("u")), policy="rl_based").chosen
    assert chosen is not None
    assert "no trained weights" in chosen.reasons[-2]


def test_an_idle_card_comes_before_one_on_which_others_work() -> None:
    busy = card(
        "a", memory_used_mib=12000.0, utilization=90.0, processes=(DeviceProcess(7, "zhao", 12000),)
    )
    for policy in ("weighted", "best_fit", "balanced"):
        decision = place(wants(4.0), up("h", busy, card("b")), policy=policy)
        assert decision.chosen is not None
        assert [device.uuid for device in decision.chosen.devices] == ["b"]
        worse = decision.candidates[1].reasons
        assert "zhao has processes on gpu 0, 90% busy." in worse
    pair = place(wants(4.0, devices=2), up("h", busy, card("b"), card("c")))
    assert pair.chosen is not None
    assert [device.uuid for device in pair.chosen.devices] == ["b", "c"]


def test_reasons_carry_their_numbers_and_add_up() -> None:
    host = up("h", card("u"), card("w"), price_per_hour=2.0)
    cheap = up("c", card("x"), price_per_hour=1.0)
    decision = place(wants(10.2, preferred_devices=("A100", "RTX_3090")), host, cheap, w=held())
    by_host = {candidate.host: candidate for candidate in decision.candidates}
    assert by_host["h"].reasons == (
        "Needs up to 10.2 GiB; 20.4 GiB may be used (85% of 24.0 GiB at most).",
        "No process uses it.",
        "Leaves 10.2 GiB unused.",
        "1 of 2 devices of h in use.",
        "Leaves none free on the host.",
        "Number 2 of 2 preferred devices.",
        "71.2 TFLOPS where the fastest choice has 71.2.",
        "Costs 2 per device and hour, the cheapest 1.",
        "Score 19.18 = idle 9.00 + fit 0.70 + pack 0.40 + fragments 0.39 + preferred 1.50"
        " + speed 6.00 + price 1.20.",
    )
    assert by_host["h"].score == pytest.approx(19.185)
    assert decision.chosen is by_host["c"]


def test_domestic_first_is_a_weight() -> None:
    host = up("n", card("n0", "910B2", backend="npu", memory_total_mib=65536.0))
    policy = named_policy(weights={**DEFAULT_WEIGHTS, "domestic": 10.0})
    chosen = decide(wants(backend="npu"), fleet(host), {}, policy, NOW).chosen
    assert chosen is not None
    assert "Made in China." in chosen.reasons
    assert "domestic 10.00" in chosen.reasons[-1]


def test_a_device_where_a_stranger_works_comes_last_among_equals() -> None:
    busy = card("a", processes=(DeviceProcess(9, "eve", 500.0),), memory_used_mib=600.0)
    assert chosen_uuids(place(wants(1), up("h", busy, card("b")))) == ["b"]


def test_the_defaults_of_config_and_placement_are_the_same() -> None:
    assert LabSettings().weights.model_dump() == dict(DEFAULT_WEIGHTS)
    policy = lab_policy(LabSettings(memory_threshold=0.7), name="best_fit")
    assert (policy.name, policy.memory_threshold) == ("best_fit", 0.7)
    assert lab_policy(LabSettings(policy="balanced")).name == "balanced"


# --- several devices ----------------------------------------------------------------------------


def linked(kinds: dict[tuple[int, int], str], count: int = 4) -> Host:
    def peers(me: int) -> tuple[PeerLink, ...]:
        return tuple(
            PeerLink(f"u{other}", kinds.get((min(me, other), max(me, other)), "SYS"))
            for other in range(count)
            if other != me
        )

    return up("h", *(card(f"u{me}", A100, peers=peers(me)) for me in range(count)))


def test_several_devices_are_those_with_the_best_links() -> None:
    host = linked({(1, 3): "NV12", (0, 1): "PIX", (0, 2): "PIX"})
    decision = place(wants(devices=2), host)
    assert chosen_uuids(decision) == ["u1", "u3"]
    assert decision.chosen is not None
    assert "The devices reach each other by NV12." in decision.chosen.reasons
    assert "links 2.50" in decision.chosen.reasons[-1]


def test_several_devices_are_of_one_model_on_one_host() -> None:
    mixed = up("m", card("m0", A100), card("m1", RTX), card("m2", RTX))
    assert chosen_uuids(place(wants(devices=2), mixed)) == ["m1", "m2"]
    split = (up("a", card("a0")), up("b", card("b0")))
    decision = place(wants(devices=2), *split)
    assert decision.waiting is not None
    assert decision.waiting.options == (
        "Ask for 1 device at most.",
        "Let it spread over several hosts (`--hosts`).",
    )


# --- waiting ------------------------------------------------------------------------------------


def waits(request: Request, *hosts: Host, **holders: Holder) -> Waiting:
    decision = decide(request, fleet(*hosts), holders, named_policy(), NOW)
    assert decision.waiting is not None
    return decision.waiting


def test_waiting_for_leases_names_blockers_and_the_first_end() -> None:
    host = up("h", card("u"), card("w"))
    why = waits(wants(), host, u=held("x", NOW + 600), w=held("y", NOW + 60))
    assert why.estimated_start == NOW + 60
    assert {blocker.job for blocker in why.blockers} == {"x", "y"}
    assert why.reason.startswith("2 devices could do it: 2 in use by jobs.")
    assert "about 1m00s" in why.reason


def test_several_devices_start_when_the_last_of_them_is_free() -> None:
    host = up("h", card("u"), card("w"), card("z"))
    leases = {"u": held("x", NOW + 600), "w": held("y", NOW + 60), "z": held("q")}
    assert waits(wants(devices=2), host, **leases).estimated_start == NOW + 600
    assert waits(wants(devices=3), host, **leases).estimated_start is None


def test_what_can_never_run_says_what_the_fleet_offers() -> None:
    why = waits(wants(60), up("h", card("u", A100)), up("r", card("w")))
    assert "A100-SXM4-40GB on h, offers 34.0 GiB (85% of 40.0 GiB)" in why.reason
    assert "carries a=b" in waits(wants(labels={"a": "b"}), up("h", card("u"))).reason
    assert "No device for xpu" in waits(wants(backend="xpu"), up("h", card("u"))).reason


def test_smaller_devices_are_named_as_an_option() -> None:
    why = waits(wants(30), up("a", card("a0", A100)), up("r", card("r0")), a0=held())
    assert "Bring it below 20.4 GiB to use 1 smaller device too." in why.options


# --- preferred devices --------------------------------------------------------------------------


def preferring(since: float = NOW, **task: Any) -> Request:
    names = ("A100-SXM4-40GB", "V100-32GB")
    return wants(since=since, preferred_devices=names, preference_timeout_s=300.0, **task)


def test_a_preferred_device_is_waited_for_until_the_timeout() -> None:
    hosts = (up("r", card("r0")), up("a", card("a0", A100)))
    why = waits(preferring(NOW - 88), *hosts, a0=held())
    assert why.estimated_start == NOW + 212
    assert "for another 3m32s" in why.reason
    decision = place(preferring(NOW - 88), *hosts, a0=held())
    texts = {r.filter: r.reason for r in decision.rejections}
    assert texts["preferred"].endswith("it may do in 3m32s.")
    assert chosen_uuids(place(preferring(NOW - 300), *hosts, a0=held())) == ["r0"]


def test_the_order_of_preference_counts() -> None:
    hosts = (up("v", card("v0", V100)), up("a", card("a0", A100)), up("r", card("r0")))
    assert chosen_uuids(place(preferring(), *hosts)) == ["a0"]
    backwards = wants(preferred_devices=("RTX_3090", "A100"), preference_timeout_s=9.0)
    weights = {"preferred": 1.0}
    chosen = decide(backwards, fleet(*hosts), {}, Policy(weights=weights), NOW)
    assert chosen_uuids(chosen) == ["r0"]


def test_nobody_waits_for_a_device_that_the_fleet_does_not_have() -> None:
    assert chosen_uuids(place(preferring(), up("r", card("r0")))) == ["r0"]


# --- the queue ----------------------------------------------------------------------------------


BY_AGE = replace(named_policy(), order="fifo")


def order(*requests: Request, hosts: tuple[Host, ...]) -> dict[str, list[str]]:
    decisions = plan(requests, fleet(*hosts), {}, named_policy(), NOW)
    return {
        decision.job: [device.uuid for device in decision.chosen.devices] if decision.chosen else []
        for decision in decisions
    }


def test_devices_chosen_for_one_job_are_held_against_the_next() -> None:
    picked = order(
        wants(job="a"), wants(job="b"), wants(job="c"), hosts=(up("h", card("u"), card("w")),)
    )
    assert picked == {"a": ["u"], "b": ["w"], "c": []}


def test_priority_goes_before_submission() -> None:
    early, late = wants(job="a", since=NOW - 9), wants(job="b", priority=5)
    assert order(early, late, hosts=(up("h", card("u")),)) == {"b": ["u"], "a": []}
    late = wants(job="b")
    assert order(late, early, hosts=(up("h", card("u")),)) == {"a": ["u"], "b": []}


def test_a_later_job_passes_a_blocked_one_but_takes_nothing_kept_for_it() -> None:
    lease = {"u1": held()}
    hosts = (up("h", card("u0"), card("u1")), up("g", card("g0")))
    big = wants(job="big", devices=2, since=NOW - 9)
    small = [wants(job=f"s{number}", since=NOW - number) for number in (5, 4)]
    decisions = plan([big, *small], fleet(*hosts), lease, BY_AGE, NOW)
    picked = [d.chosen.devices[0].uuid if d.chosen else None for d in decisions]
    assert picked == [None, "g0", None]
    assert decisions[2].waiting is not None
    assert "1 kept for a job before it" in decisions[2].waiting.reason


def test_only_the_first_of_equal_jobs_keeps_devices() -> None:
    lease = {f"{host}1": held() for host in "hg"}
    hosts = tuple(up(host, card(f"{host}0"), card(f"{host}1")) for host in "hg")
    big = [wants(job=f"big{number}", devices=2, since=NOW - 9 + number) for number in range(2)]
    small = [wants(job=f"s{number}", since=NOW - 5 + number) for number in range(2)]
    decisions = plan([*big, *small], fleet(*hosts), lease, BY_AGE, NOW)
    picked = [d.chosen.devices[0].uuid if d.chosen else None for d in decisions]
    assert picked == [None, None, "g0", None]


def test_a_job_that_can_never_run_keeps_nothing() -> None:
    hosts = (up("h", card("u0"), card("u1")),)
    picked = order(wants(job="big", devices=4, since=NOW - 9), wants(job="s"), hosts=hosts)
    assert picked == {"big": [], "s": ["u0"]}


def test_equal_jobs_wait_for_equal_reasons() -> None:
    queue = [wants(job=f"j{number}") for number in range(3)]
    first, second, third = plan(queue, fleet(up("h", card("u"))), {}, named_policy(), NOW)
    assert first.chosen is not None
    assert second.job == "j1"
    assert replace(third, job="j1") == second
    assert second.waiting is not None
    assert [blocker.job for blocker in second.waiting.blockers] == ["j0"]


def test_beyond_the_limit_rejections_are_counted() -> None:
    hosts = [up(f"h{n}", *(card(f"u{n}-{i}") for i in range(8))) for n in range(80)]
    decision = decide(wants(60), fleet(*hosts), {}, named_policy(), NOW)
    assert len(decision.rejections) == MAX_REJECTIONS + 1
    assert decision.rejections[-1].reason == "128 more devices, for the same kind of reason."


# -- speed by the work of a step


def test_a_step_bound_by_memory_prefers_the_wider_bus() -> None:
    """The RTX 3090 has the higher float32 rate, the V100 nearly its bandwidth, the A100 more."""
    speedy = Policy(weights={"speed": 1.0})
    hosts = fleet(up("a", card("rtx", RTX)), up("b", card("a100", A100)))

    def chosen(work: Work | None) -> tuple[str, str]:
        decision = decide(replace(wants(), work=work), hosts, {}, speedy, NOW)
        assert decision.chosen is not None
        return decision.chosen.devices[0].uuid, " ".join(decision.chosen.reasons)

    traffic, text = chosen(Work(flops=1e9, bytes=1e10))
    assert traffic == "a100"
    assert "A step takes about" in text
    assert chosen(Work(flops=1e13, bytes=1e6))[0] == "rtx"
    assert "TFLOPS" in chosen(None)[1]
    served = wants(kind=SERVICE, service=Service(8040))
    decision = decide(replace(served, work=Work(1e9, 1e10)), hosts, {}, speedy, NOW)
    assert decision.chosen is not None
    assert "step" not in " ".join(decision.chosen.reasons)


def test_devices_without_figures_are_compared_by_what_all_have() -> None:
    speedy = Policy(weights={"speed": 1.0})
    hosts = fleet(up("a", card("odd", "Unheard Of 9000")), up("b", card("a100", A100)))
    request = replace(wants(), work=Work(1e13, 1e10))
    decision = decide(request, hosts, {}, speedy, NOW)
    assert decision.chosen is not None
    assert decision.chosen.devices[0].uuid == "a100"
    assert "TFLOPS" in " ".join(decision.chosen.reasons)


# -- what people misread


def test_a_job_that_outlived_its_prediction_is_not_free_at_once() -> None:
    late = Holder("x", "night run", "bob", NOW - 500, NOW - 100)
    why = waits(wants(), up("h", card("u")), u=late)
    assert why.estimated_start == NOW + 500
    assert "about 8m20s" in why.reason


def test_enough_devices_are_awaited_not_the_first() -> None:
    host = up("h", card("u"), card("w"))
    why = waits(wants(devices=2), host, u=held("x", NOW + 600), w=held("y", NOW + 60))
    assert "Enough of them should be free in about 10m00s." in why.reason


def test_only_jobs_that_must_are_preempted() -> None:
    policy = replace(named_policy(), preemption=True)
    hosts = (up("h", *(card(f"u{number}") for number in range(5))),)
    big = replace(held("big"), since=NOW - 900, resumable=True)
    small = replace(held("small"), since=NOW - 10, resumable=True)
    holders = {**{f"u{number}": big for number in range(4)}, "u4": small}
    outcome, _ = pass_over(
        [wants(devices=4, priority=5)], Board.of(fleet(*hosts), holders), policy, NOW
    )
    assert outcome.preempted == ("big",)


def test_a_guest_counts_for_its_own_user() -> None:
    board = Board.of(fleet(up("h", card("u"))), {"u": replace(held("x"), share=True)})
    (cell,) = board.held["x"]
    board.take([(cell, cell.spots)], Holder("g", "g", "ann", NOW, None))
    counts = held_devices(board)
    assert (counts["user:bob"], counts["user:ann"]) == (1, 1)


def test_two_who_share_a_device_are_both_known_from_the_picture() -> None:
    pair = replace(held("x"), beside=Holder("g", "guest", "ann", NOW, NOW + 60))
    board = Board.of(fleet(up("h", card("u"))), {"u": pair})
    assert held_devices(board)["user:ann"] == 1
    why = waits(wants(), up("h", card("u")), u=pair)
    assert [blocker.job for blocker in why.blockers] == ["x", "g"]
    board.release("x")
    assert held_devices(board) == {"user:ann": 1, "account:": 1}
    board.release("g")
    assert board.free == 1


def test_the_score_is_the_sum_of_its_terms() -> None:
    """The fast sum over shelves and the terms that people are shown say the same."""
    hosts = (
        up("a", card("a0", A100), card("a1", A100), price_per_hour=9.0),
        up("r", card("r0"), card("r1", memory_used_mib=9 * GIB), price_per_hour=2.0),
    )
    weights = {term: 1.0 + place for place, term in enumerate(TERMS)}
    board = Board.of(fleet(*hosts), {"a0": held()})
    for request in (wants(3), wants(21), wants(3, devices=2), replace(wants(5), run_time_s=9e4)):
        made = profile(request, board, Policy(weights=weights), NOW)
        scorer = Scorer(made, board, request.devices)
        for shelf in board.shelves():
            terms = scorer.terms(shelf, 0.0)
            total = sum(weights[term] * value for term, value in terms.items())
            assert scorer.score(shelf) == pytest.approx(total)


def test_without_mixed_precision_devices_are_ranked_by_single_precision() -> None:
    """The A100 leads in half precision, the RTX 3090 in single."""
    speedy = Policy(weights={"speed": 1.0})
    hosts = fleet(up("a", card("rtx", RTX)), up("b", card("a100", A100)))

    def chosen(allowed: bool | None) -> str:
        request = wants()
        task = replace(request.task, allow_mixed_precision=allowed)
        decision = decide(replace(request, task=task), hosts, {}, speedy, NOW)
        assert decision.chosen is not None
        return decision.chosen.devices[0].uuid

    assert [chosen(allowed) for allowed in (None, True, False)] == ["a100", "a100", "rtx"]


def replica(job: str) -> Request:
    """Return a replica of ann's service; both of its hosts' devices would do."""
    wanted = wants(job=job, name=f"ocr[{job}]", kind="service", sweep="ocr")
    return replace(wanted, user="ann")


def test_replicas_of_a_service_go_to_different_hosts_where_these_will_do() -> None:
    """By the score alone both go to the first host: whole hosts are kept for large jobs."""
    hosts = (up("a", card("a0"), card("a1"), card("a2")), up("b", card("b0", memory_used_mib=9000)))
    two, three = plan([replica("1"), replica("2")], fleet(*hosts), {}, Policy(), NOW), replica("3")
    chosen = [each.chosen for each in two]
    assert [each and each.places[0].host for each in chosen] == ["a", "b"]
    assert chosen[1] is not None
    assert "Other replicas are on a." in chosen[1].reasons
    # Others of her jobs, and services of others, do not count.
    for other in (replace(replica("2"), user="eve"), replace(wants(job="2"), user="ann")):
        (_, found) = plan([replica("1"), other], fleet(*hosts), {}, Policy(), NOW)
        assert found.chosen is not None
        assert found.chosen.places[0].host == "a"
    # Where no other host will do, one host has both, and the reasons say so.
    running = {
        uuid: Holder(job, "ocr", "ann", NOW, None, sweep="ocr")
        for uuid, job in (("a0", "1"), ("b0", "2"))
    }
    for decision in (
        decide(three, fleet(*hosts), running, Policy(), NOW),
        plan([three], fleet(*hosts), running, Policy(), NOW)[0],
    ):
        assert decision.chosen is not None
        assert decision.chosen.places[0].host == "a"
        assert any(
            "Another replica of its service is on a, too" in r for r in decision.chosen.reasons
        )
