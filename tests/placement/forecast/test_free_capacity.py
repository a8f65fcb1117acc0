"""Where so many devices with so much memory are free."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gpuconsole.core.fleet import Device, DeviceProcess, FleetSnapshot, Host, HostState, PeerLink
from gpuconsole.placement.forecast.free_capacity import Answer, Ask, read, where


def card(uuid: str, index: int = 0, gib: float = 24.0, **more: object) -> Device:
    values: dict[str, object] = {"memory_total_mib": gib * 1024, "memory_used_mib": 10.0}
    return Device(uuid, index, "RTX 3090", utilization=0.0, **{**values, **more})  # type: ignore[arg-type]


def cards(name: str, count: int, gib: float = 24.0, **more: object) -> Host:
    devices = tuple(card(f"{name}{at}", at, gib) for at in range(count))
    return Host(name, HostState.UP, devices=devices, **more)  # type: ignore[arg-type]


def found(text: str, *hosts: Host, held: dict[str, str] | None = None) -> Answer:
    return where(read(text), FleetSnapshot(hosts=hosts), held or {})


def places(answer: Answer) -> dict[str, list[int]]:
    return {place.host: [device.index for device in place.devices] for place in answer.places}


@pytest.mark.parametrize(
    ("text", "ask"),
    [
        ("4x24", Ask(4, 24)),
        ("4 x 24GiB nvlink", Ask(4, 24, True)),
        (" 2 * 40 gb ", Ask(2, 40)),
        ("80g", Ask(1, 80)),
        ("1×7.5", Ask(1, 7.5)),
    ],
)
def test_asks_are_read(text: str, ask: Ask) -> None:
    assert read(text) == ask
    assert read(str(ask)) == ask


FORM = "Write how many and how much: 4x24, or 2 x 40 GiB nvlink."
RANGE = "Ask for 1 to 1024 devices and for more than 0 GiB."


@pytest.mark.parametrize(
    ("text", "why"),
    [("", FORM), ("four", FORM), ("4x", FORM), ("4x24 pcie", FORM), ("-1x4", FORM),
     ("0x24", RANGE), ("4x0", RANGE), ("1025x1", RANGE), ("9999x1", RANGE)],
)  # fmt: skip
def test_what_is_no_ask_is_told(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=rf"\A{re.escape(why)}\Z"):
        read(text)


def test_the_largest_and_the_smallest_ask() -> None:
    assert read("1024x0.1 linked") == Ask(1024, 0.1, True)
    assert str(Ask(1024, 0.1, True)) == "1024 x 0.1 GiB nvlink"


@pytest.mark.parametrize(
    ("used", "fits"), [(0.0, True), (100.0, True), (1719.0, True), (1721.0, False)]
)
def test_so_much_is_free_at_least(used: float, fits: bool) -> None:
    """Of 24 GiB 93 % must be free: 22,855.68 MiB."""
    host = Host("h", HostState.UP, devices=(card("a", memory_used_mib=used),))
    assert bool(found("24", host).places) is fits


def test_a_card_of_its_nominal_size_counts() -> None:
    assert places(found("1x24", Host("h", HostState.UP, devices=(card("a", 0, 22.5),)))) == {
        "h": [0]
    }
    assert not found("1x24", Host("h", HostState.UP, devices=(card("a", 0, 22.0),))).places


def test_the_tightest_host_comes_first() -> None:
    assert list(places(found("2x24", cards("wide", 8), cards("tight", 2)))) == ["tight", "wide"]


def test_what_others_hold_does_not_count() -> None:
    host = cards("h", 4)
    worked = card("h0", 0, processes=(DeviceProcess(7, "wang", 300.0),))
    host = replace(host, devices=(worked, *host.devices[1:]))
    answer = found("3x24", host, held={"h1": "li"})
    assert not answer.places
    assert answer.nearest is not None
    assert (answer.nearest.host, len(answer.nearest.devices)) == ("h", 2)
    assert dict(answer.nearest.missing) == {0: "used by wang", 1: "held by li"}
    assert places(found("2x24", host, held={"h1": "li"})) == {"h": [2, 3]}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"lost": True}, "faulty"),
        ({"xid": 79}, "faulty"),
        ({"mig": True}, "cut into slices"),
        ({"memory_total_mib": 16384.0}, "has 16 GiB"),
        ({"memory_used_mib": None}, "does not tell its memory"),
        ({"memory_used_mib": 9000.0}, "in use"),
        ({"utilization": 40.0}, "in use"),
        ({"utilization": 1.0}, "in use"),
        ({"processes": (DeviceProcess(1, "li"), DeviceProcess(2, ""))}, "used by ?, li"),
        ({"memory_used_mib": 2000.0}, "not enough free"),
    ],
)
def test_a_device_says_why_it_will_not_do(change: dict[str, object], reason: str) -> None:
    host = Host("h", HostState.UP, devices=(replace(card("a"), **change),))  # type: ignore[arg-type]
    nearest = found("1x24", host).nearest
    assert nearest is not None
    assert nearest.missing == ((0, reason),)


@pytest.mark.parametrize(
    "host",
    [
        cards("h", 2, drained="drained by bo"),
        replace(cards("h", 2), state=HostState.DOWN),
        replace(cards("h", 2), state=HostState.STALE),
        cards("h", 2, engine_error="connection refused"),
    ],
)
def test_a_host_that_takes_no_jobs_does_not_count(host: Host) -> None:
    assert not found("1x24", host).places


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (cards("h", 1, drained="drained by bo"), "drained"),
        (replace(cards("h", 1), state=HostState.DOWN), "down"),
        (replace(cards("h", 1), state=HostState.STALE), "stale"),
        (cards("h", 1, engine_error="connection refused"), "Docker is silent"),
    ],
)
def test_a_host_that_takes_no_jobs_says_why(host: Host, reason: str) -> None:
    nearest = found("1x24", host).nearest
    assert nearest is not None
    assert nearest.missing == ((0, reason),)


def test_a_slice_will_do_alone() -> None:
    host = Host(
        "h", HostState.UP, devices=(card("a", parent_uuid="p"), card("b", 1, parent_uuid="p"))
    )
    assert places(found("1x24", host)) == {"h": [0]}
    nearest = found("2x24", host).nearest
    assert nearest is not None
    assert nearest.missing == ((0, "a slice"), (1, "a slice"))


def test_over_several_hosts_when_none_has_enough() -> None:
    answer = found("5x24", cards("a", 2), cards("b", 4))
    assert answer.together
    assert {host: len(ids) for host, ids in places(answer).items()} == {"b": 4, "a": 1}
    assert len(answer.uuids) == 5


def test_nvlink_wants_an_island() -> None:
    pairs = tuple(
        replace(each, peers=(PeerLink(f"p{each.index ^ 1}", "NV4"), PeerLink("p9", "SYS")))
        for each in cards("p", 4).devices
    )
    host = Host("p", HostState.UP, devices=pairs)
    assert places(found("2x24 nvlink", host)) == {"p": [0, 1]}
    assert not found("3x24 nvlink", host).places
    assert places(found("2x24 nvlink", host, held={"p0": "li"})) == {"p": [2, 3]}
    assert not found("2x24 nvlink", cards("q", 4), cards("r", 4)).together


def test_an_empty_fleet_has_no_nearest() -> None:
    assert found("1x1") == Answer(Ask(1, 1))
