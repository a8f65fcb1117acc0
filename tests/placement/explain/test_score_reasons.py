"""Why a place was chosen: each sentence, where it says something, and how many devices are free."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.fleet import DeviceProcess, Host, PeerLink
from gpuconsole.core.services import SERVICE
from gpuconsole.placement import Holder, Policy, Request, decide
from gpuconsole.placement.engine.scores import TERMS
from gpuconsole.preflight.roofline import Work
from tests.placement.fleets import A100, GIB, NOW, RTX, card, fleet, held, up, wants

EVERY = Policy(weights=dict.fromkeys(TERMS, 1.0))


def reasons(
    request: Request, *hosts: Host, policy: Policy = EVERY, **holders: Holder
) -> tuple[str, ...]:
    """Return the sentences of a choice without the score at their end."""
    chosen = decide(request, fleet(*hosts), holders, policy, NOW).chosen
    assert chosen is not None
    *sentences, score = chosen.reasons
    assert score.startswith(f"Score {chosen.score:.2f} = ")
    return tuple(sentences)


def test_one_device_among_others() -> None:
    host = up("h", card("u"), card("v"), card("w"), price_per_hour=2.5)
    assert reasons(wants(10.2), host, w=held()) == (
        "Needs up to 10.2 GiB; 20.4 GiB may be used (85% of 24.0 GiB at most).",
        "No process uses it.",
        "Leaves 10.2 GiB unused.",
        "1 of 3 devices of h in use.",
        "Leaves 1 more free on the same host.",
        "71.2 TFLOPS where the fastest choice has 71.2.",
        "Costs 2.5 per device and hour, the cheapest 2.5.",
    )


def test_several_devices_and_their_links() -> None:
    def linked(*kinds: str) -> Host:
        peers = tuple(PeerLink(f"v{n}", kind) for n, kind in enumerate(kinds))
        return up(
            "h", card("u", A100, peers=peers), *(card(f"v{n}", A100) for n in range(len(kinds)))
        )

    two = reasons(wants(devices=2), linked("NV4"))
    assert two[:2] == (
        "Needs up to 10.0 GiB on each device; 34.0 GiB may be used (85% of 40.0 GiB at most).",
        "No process uses them.",
    )
    assert two[-1] == "The devices reach each other by NV4."
    assert "Leaves none free on the host." in two
    # The slowest link comes first.
    assert reasons(wants(devices=3), linked("NV4", "SYS"))[-1] == (
        "The devices reach each other by SYS, NV4."
    )
    apart = up("h", card("u"), card("w"))
    assert reasons(wants(devices=2), apart)[-1] == "The links between the devices are not known."


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"utilization": 39.6}, "eve has processes on gpu 0, 40% busy."),
        ({"utilization": None}, "eve has processes on gpu 0."),
        ({"utilization": 5.0, "processes": (DeviceProcess(1, "eve"), DeviceProcess(2, ""))},
         "eve, somebody has processes on gpu 0, 5% busy."),
    ],
)  # fmt: skip
def test_who_works_there_already(change: dict[str, object], sentence: str) -> None:
    host = up("h", replace(card("u", processes=(DeviceProcess(1, "eve"),)), **change))  # type: ignore[arg-type]
    assert sentence in reasons(wants(1), host)
    assert "1 of 1 devices of h in use." in reasons(wants(1), host)


def test_what_counts_as_in_use_and_as_free() -> None:
    """A device with memory in use is in use; a faulty or a divided one is neither."""
    host = up(
        "h", card("u"), card("full", memory_used_mib=0.1 * 24 * GIB + 1),
        card("edge", memory_used_mib=0.1 * 24 * GIB), card("sick", xid=79), card("cut", mig=True),
    )  # fmt: skip
    said = reasons(wants(1), host)
    assert "1 of 5 devices of h in use." in said
    assert "Leaves 1 more free on the same host." in said


def test_an_estimate_that_is_unknown_and_one_that_nobody_asked_for() -> None:
    host = up("h", card("u"))
    assert reasons(wants(None), host)[:2] == (
        "The estimate is unknown, so it gets the empty device to itself.",
        "No process uses it.",
    )
    assert reasons(wants(None, kind="session"), host)[0] == (
        "No amount of memory was asked for, so it gets the empty device to itself."
    )
    assert not [text for text in reasons(wants(None), host) if "unused" in text]


def test_steps_preference_and_origin() -> None:
    request = replace(wants(10, preferred_devices=("A100", "RTX_3090")), work=Work(1e13, 1e6))
    said = reasons(request, up("h", card("u", RTX)))
    assert "Number 2 of 2 preferred devices." in said
    (step,) = (text for text in said if text.startswith("A step takes about"))
    about, best = step.removeprefix("A step takes about ").split(" here, ")
    assert f"{about} on the fastest choice." == best
    npu = up("n", card("n0", "910B2", backend="npu", memory_total_mib=65536.0))
    assert "Made in China." in reasons(wants(backend="npu"), npu)
    rated = replace(wants(), rates={RTX: 2.0})
    assert not [text for text in reasons(rated, up("h", card("u"))) if "TFLOPS" in text]


def test_a_price_that_is_not_known_beside_one_that_is() -> None:
    hosts = (up("h", card("u", A100)), up("g", card("w"), price_per_hour=0.5))
    assert "No price is known, the cheapest 0.5." in reasons(wants(30), *hosts)
    assert not [text for text in reasons(wants(30), hosts[0]) if "price" in text]


def test_without_weights_the_order_of_the_inventory_decides() -> None:
    chosen = decide(wants(), fleet(up("h", card("u"))), {}, Policy(), NOW).chosen
    assert chosen is not None
    assert chosen.reasons[1:] == ("It comes first in the order of the inventory.",)


def test_a_gang_names_its_hosts_and_a_note_comes_before_the_score() -> None:
    hosts = (up("h", card("u")), up("g", card("w")))
    noted = replace(EVERY, note="A note.")
    said = reasons(wants(devices=2, hosts=2), *hosts, policy=noted)
    assert said[1] == "No host has enough devices free; it spreads over h, g."
    assert said[-1] == "A note."


def test_a_shared_device_says_with_whom() -> None:
    holder = replace(held("x"), share=True, need_mib=5 * GIB, utilization=33.4)
    request = replace(wants(10, share=True), utilization=20.0)
    policy = replace(EVERY, sharing=True)
    chosen = decide(request, fleet(up("h", card("u"))), {"u": holder}, policy, NOW).chosen
    assert chosen is not None
    assert chosen.reasons == (
        "Needs up to 10.0 GiB; 20.4 GiB may be used (85% of 24.0 GiB at most).",
        "No whole device is free; night run (x) of bob shares this one, needs up to 5.0 GiB and"
        " keeps it about 33 % busy.",
    )


def test_a_replica_says_where_the_others_are() -> None:
    hosts = (up("a", card("a0")), up("b", card("b0"), card("b1")), up("c", card("c0")))
    request = replace(wants(name="ocr", kind=SERVICE, sweep="ocr"), user="ann")
    on = Holder("1", "ocr", "ann", NOW, None, sweep="ocr")
    assert reasons(request, *hosts, a0=on, b0=replace(on, job="2"))[1] == (
        "Other replicas are on a, b."
    )
    full = {"a0": on, "b0": replace(on, job="2"), "c0": held()}
    assert reasons(request, *hosts, **full)[1] == (
        "Another replica of its service is on b, too: no other host will do now."
    )
    assert reasons(request, *hosts)[1] == "No process uses it."
