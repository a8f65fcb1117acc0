"""Why a job waits: the whole reason, when it should start, and what a person could do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.fleet import Host, HostState
from gpuconsole.placement import Holder, Request, Waiting, decide, named_policy
from gpuconsole.placement.model import Shun
from tests.placement.fleets import A100, GIB, NOW, card, fleet, held, up, wants

RAISE = "Raise its priority to be next, or cancel a job that holds a device."
FEWER = "Ask for fewer devices."
FREE_IT = "Ask those who hold memory outside the queue to free it."
CHECK = "See `gpuconsole check` about the hosts and devices that are out."
CLAIM = Holder("c", "claim", "zoe", NOW - 60, None, claimed_until=NOW + 120)
QUEUES = (
    "Jobs that wait for these devices in other queues are not visible here, and priorities do not"
    " hold between queues; `gpuconsole dispatch --lab` serves one queue to all."
)
TWO = (
    "2 devices could do it (2 together are needed): 1 in use by jobs, 1 free but too few together."
)


def waits(request: Request, *hosts: Host, **holders: Holder) -> Waiting:
    decision = decide(request, fleet(*hosts), holders, named_policy(), NOW)
    assert decision.waiting is not None
    return decision.waiting


def ask(user: str) -> str:
    return f"Ask {user} to cancel a job that holds a device: only its owner can."


def removed_in(time: str) -> str:
    return (
        f"Wait: a claim of a console that ended before its job started is removed in about {time}."
    )


@pytest.mark.parametrize(
    ("request_", "hosts", "holders", "reason", "options"),
    [
        (wants(), (up("h", card("u")),), {"u": held()}, "1 device could do it: 1 in use by jobs.",
         (RAISE,)),
        (wants(), (up("h", card("u"), card("w")),), {"u": held(), "w": held("y")},
         "2 devices could do it: 2 in use by jobs.", (RAISE,)),
        (wants(exclusive=True), (up("h", card("u", memory_used_mib=9 * GIB)),), {},
         "1 device could do it: 1 not empty.", (FREE_IT,)),
        (wants(None), (up("h", card("u", memory_used_mib=9 * GIB)),), {},
         "1 device could do it: 1 not empty.",
         (FREE_IT, "Answer preflight's questions: with an estimate it can use part of a card.")),
        (wants(), (up("h", card("u", memory_used_mib=15 * GIB)),), {},
         "1 device could do it: 1 with too little memory free.", (FREE_IT,)),
        (wants(), (up("h", card("u"), state=HostState.DOWN),), {},
         "1 device could do it: 1 on hosts out of reach.", (CHECK,)),
        (wants(), (up("h", card("u", xid=79)), up("g", card("w", lost=True))), {},
         "2 devices could do it: 2 faulty.", (CHECK,)),
        (wants(), (up("h", card("u"), drained="disks"),), {},
         "1 device could do it: 1 on drained hosts.",
         ("Take a host back with `gpuconsole undrain`.",)),
        (wants(), (up("h", card("u"), engine_error="h, no answer."),), {},
         "1 device could do it: 1 on hosts with a Docker engine that does not answer. h: its Docker"
         " engine does not answer: no answer; `gpuconsole check h` says what to do.", ()),
        (wants(30), (up("a", card("a0", A100)), up("r", card("r0"))), {"a0": held()},
         "1 device could do it: 1 in use by jobs.",
         ("Bring it below 20.4 GiB to use 1 smaller device too.", RAISE)),
        (wants(30), (up("a", card("a0", A100)), up("r", card("r0"), card("r1"))), {"a0": held()},
         "1 device could do it: 1 in use by jobs.",
         ("Bring it below 20.4 GiB to use 2 smaller devices too.", RAISE)),
        (wants(), (up("h", card("u"), card("w"), card("x")),
                   up("g", card("y", memory_used_mib=15 * GIB))),
         {"u": held(), "w": held("y"), "x": held("z")},
         "4 devices could do it: 3 in use by jobs, 1 with too little memory free.",
         (RAISE, FREE_IT)),
    ],
)  # fmt: skip
def test_what_holds_a_job_back_is_counted_the_most_first(
    request_: Request,
    hosts: tuple[Host, ...],
    holders: dict[str, Holder],
    reason: str,
    options: tuple[str, ...],
) -> None:
    why = waits(request_, *hosts, **holders)
    assert (why.reason, why.options) == (reason, options)
    assert (why.estimated_start, why.undated) == (None, "")


@pytest.mark.parametrize(
    ("request_", "hosts", "holders", "seconds", "reason"),
    [
        (wants(), (up("h", card("u")),), {"u": held("x", NOW + 60)}, 60.0,
         "1 device could do it: 1 in use by jobs. The first should be free in about 1m00s."),
        # Who has overrun takes as long again as it has run; so does one that should end now.
        (wants(), (up("h", card("u")),), {"u": held("x", NOW)}, 3600.0,
         "1 device could do it: 1 in use by jobs. The first should be free in about 1h00m."),
        # A device that two share is free when both have ended.
        (wants(), (up("h", card("u")),),
         {"u": replace(held("x", NOW + 60), beside=Holder("g", "g", "ann", NOW, NOW + 90))}, 90.0,
         "1 device could do it: 1 in use by jobs. The first should be free in about 1m30s."),
        (wants(devices=2), (up("h", card("u"), card("w")),), {"u": held("x", NOW + 60)}, 60.0,
         f"{TWO} Enough of them should be free in about 1m00s."),
        (wants(devices=2, hosts=2), (up("h", card("u")), up("g", card("w"))),
         {"u": held("x", NOW + 60)}, 60.0, f"{TWO} Enough of them should be free in about 1m00s."),
        # The earlier of two hosts, each with the later of its devices.
        (wants(devices=2), (up("h", card("u"), card("w")), up("g", card("y"), card("z"))),
         {"u": held("a", NOW + 30), "w": held("b", NOW + 90), "y": held("c", NOW + 40),
          "z": held("d", NOW + 50)}, 50.0,
         "4 devices could do it (2 together are needed): 4 in use by jobs."
         " Enough of them should be free in about 50s."),
    ],
)  # fmt: skip
def test_when_enough_devices_should_be_free(
    request_: Request,
    hosts: tuple[Host, ...],
    holders: dict[str, Holder],
    seconds: float,
    reason: str,
) -> None:
    why = waits(request_, *hosts, **holders)
    assert (why.estimated_start, why.reason) == (NOW + seconds, reason)
    assert why.undated == reason.rpartition(". ")[0] + "."
    assert why.options == ((FEWER,) if request_.devices > 1 else ()) + (RAISE,)


@pytest.mark.parametrize("share", [False, True])
def test_a_device_that_cannot_be_shared_may_be_freed(share: bool) -> None:
    policy = replace(named_policy(), sharing=True)
    holder = replace(held(), share=True, need_mib=GIB, utilization=90.0)
    request = replace(wants(1, share=share), utilization=20.0)
    why = decide(request, fleet(up("h", card("u"))), {"u": holder}, policy, NOW).waiting
    assert why is not None
    assert why.options == (RAISE,)


def test_others_who_hold_memory_may_free_it() -> None:
    policy = replace(named_policy(), avoid_foreign=True)
    host = up("h", card("u", memory_used_mib=9 * GIB))
    why = decide(wants(1), fleet(host), {}, policy, NOW).waiting
    assert why is not None
    assert why.options == (FREE_IT,)


def test_without_an_end_of_the_guest_no_start_is_known() -> None:
    pair = replace(held("x", NOW + 60), beside=Holder("g", "g", "ann", NOW, None))
    assert waits(wants(), up("h", card("u")), u=pair).estimated_start is None


@pytest.mark.parametrize(
    ("request_", "hosts", "reason", "options"),
    [
        (wants(devices=2), (up("h", card("u")),),
         "It needs 2 devices of one model on one host; the most there is, is 1.",
         ("Ask for 1 device at most.", "Let it spread over several hosts (`--hosts`).")),
        (wants(devices=5), (up("h", card("u"), card("w")),),
         "It needs 5 devices of one model on one host; the most there is, is 2.",
         ("Ask for 2 devices at most.", "Let it spread over several hosts (`--hosts`).")),
        (wants(60), (up("a", card("u", A100)), up("r", card("w"))),
         "It needs up to 60.0 GiB; the largest device that it may use, NVIDIA A100-SXM4-40GB on a,"
         " offers 34.0 GiB (85% of 40.0 GiB).",
         ("Lower the batch size, or use mixed precision or recompute.",)),
        (wants(60, allow_mixed_precision=False, memory_threshold=0.5), (up("r", card("w")),),
         "It needs up to 60.0 GiB; the largest device that it may use, NVIDIA GeForce RTX 3090 on"
         " r, offers 12.0 GiB (50% of 24.0 GiB).", ("Lower the batch size, or use recompute.",)),
        (wants(backend="npu"), (up("h", card("u")),), "No device for npu is known in this fleet.",
         ("Choose another back end, or add a host.",)),
        (wants(), (), "No device for gpu is known in this fleet.",
         ("Choose another back end, or add a host.",)),
        *((wants(labels=wanted, anti_labels=unwanted), (up("h", card("u"), labels={"rack": "8"}),),
           f"No host with a device for gpu {words}.",
           ("Correct the labels of the task or of the inventory.",))
          for wanted, unwanted, words in (
            ({"a": "b", "c": "d"}, {}, "carries a=b, c=d"),
            ({}, {"rack": "", "kind": "old"}, "is without rack, kind=old"),
            ({"a": "b"}, {"rack": "8"}, "carries a=b and is without rack=8"))),
    ],
)  # fmt: skip
def test_what_can_never_run_says_what_would(
    request_: Request, hosts: tuple[Host, ...], reason: str, options: tuple[str, ...]
) -> None:
    why = waits(request_, *hosts)
    assert (why.reason, why.options) == (reason, options)
    assert (why.estimated_start, why.blockers) == (None, ())


def test_hosts_that_have_not_answered_yet_may_be_able_to() -> None:
    quiet = [Host(name, HostState.CONNECTING) for name in "gh"]
    check = "See `gpuconsole check` about those hosts."
    start = "No host has been seen yet: where it could run is not known."
    assert waits(wants(), *quiet[:1]) == Waiting(
        f"{start} 1 host has not shown its devices yet.", (), None, (check,)
    )
    assert waits(wants(), *quiet) == Waiting(
        f"{start} 2 hosts have not shown their devices yet.", (), None, (check,)
    )


@pytest.mark.parametrize(
    ("user", "holders", "options"),
    [
        ("", {"u": CLAIM}, (ask("zoe"), QUEUES, removed_in("2m00s"))),
        ("zoe", {"u": CLAIM}, (QUEUES, removed_in("2m00s"))),
        ("", {"u": CLAIM, "w": held()}, (RAISE, ask("zoe"), QUEUES, removed_in("2m00s"))),
        ("", {"u": CLAIM, "w": replace(CLAIM, job="d", user="amy", claimed_until=NOW + 30)},
         (ask("zoe"), ask("amy"), QUEUES, removed_in("30s"))),
        ("", {"u": replace(CLAIM, claimed_until=NOW)}, (ask("zoe"), QUEUES)),
        ("", {"u": replace(CLAIM, claimed_until=NOW + 1)}, (ask("zoe"), QUEUES, removed_in("1s"))),
        ("", {"u": replace(CLAIM, user="another console")}, (QUEUES, removed_in("2m00s"))),
    ],
)  # fmt: skip
def test_of_another_queue_the_owner_is_named_and_when_a_claim_ends(
    user: str, holders: dict[str, Holder], options: tuple[str, ...]
) -> None:
    devices = [card(uuid) for uuid in sorted(holders)]
    assert waits(replace(wants(), user=user), up("h", *devices), **holders).options == options


def test_at_most_three_owners_are_named() -> None:
    claims = {f"u{n}": replace(CLAIM, job=f"c{n}", user=f"user{n}") for n in range(4)}
    options = waits(wants(), up("h", *map(card, claims)), **claims).options
    assert options[:4] == (ask("user0"), ask("user1"), ask("user2"), QUEUES)


def test_a_preferred_device_is_insisted_on_for_a_while() -> None:
    asked = wants(preferred_devices=("A100",), preference_timeout_s=300.0, since=NOW - 88)
    hosts = (up("r", card("r0")), up("a", card("a0", A100)))
    why = waits(asked, *hosts, a0=held())
    assert why.reason == (
        "2 devices could do it: 1 not preferred, 1 in use by jobs. It insists on preferred devices"
        " for another 3m32s. The first should be free in about 3m32s."
    )
    assert why.options == (
        "Drop `preferred_devices`, or lower the timeout: others are free now.",
        RAISE,
    )
    # One that is in use is free for it only when it takes others, too.
    start = waits(asked, *hosts, r0=held("x", NOW + 60), a0=held("y", NOW + 500)).estimated_start
    assert start == NOW + 212


def test_a_host_that_the_job_shuns_says_why_and_for_how_long() -> None:
    request = replace(wants(), shunned={"h": Shun(NOW + 60, "It failed on h twice.")})
    why = waits(request, up("h", card("u")))
    assert why.reason == (
        "1 device could do it: 1 on hosts set aside. It failed on h twice."
        " The first should be free in about 1m00s."
    )
    assert why.estimated_start == NOW + 60
    assert why.options == (
        "Repair the hosts that are set aside; `gpuconsole undrain HOST` ends a pause at once.",
    )
