"""The agent's lines: what they draw, and that a wrong one costs only itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.fleet import Device, DeviceProcess, Host, HostState, PeerLink
from gpuconsole.remote.polling.agent_frames import FrameError, Picture

BASE = Host("h", address="10.0.0.1", labels={"rack": "r1"}, price_per_hour=2.0)
CONTAINER = "ab" * 32


def whole(**changes: Any) -> dict[str, Any]:
    frame: dict[str, Any] = {
        "t": 1000.0,
        "f": 1,
        "h": {"c": 12.5, "n": 8, "M": 2048, "m": 1024, "v": "550.1", "r": "12.4", "N": ["0-7"]},
        "s": [
            {"i": 0, "u": "GPU-a", "n": "A100", "b": "00:01", "N": 1, "p": [["GPU-b", "NV4"]]},
            {"i": 1, "u": "GPU-b", "n": "A100", "b": "00:02", "N": None},
        ],
        "d": {
            "0": {"M": 40960 * 1024, "m": 1536, "u": 97, "w": 2505, "r": 0x44, "p": [[7, 512]]},
            "1": {"t": 40, "x": "", "L": 0},
        },
        "p": {"7": ["alice", "python train.py", CONTAINER]},
    }
    return frame | changes


def line(frame: Any) -> bytes:
    return json.dumps(frame).encode()


def picture() -> Picture:
    drawn = Picture(BASE)
    drawn.apply(line(whole()), 1000.5)
    return drawn


def test_a_whole_line_draws_the_host() -> None:
    host = Picture(BASE).apply(line(whole()), 1000.5)
    assert host is not None
    assert (host.name, host.state, host.labels) == ("h", HostState.UP, {"rack": "r1"})
    assert (host.facts.cpu_percent, host.facts.memory_used_mib) == (12.5, 1.0)
    assert host.facts.numa_cpus == ("0-7",)
    assert host.devices[0] == Device(
        "GPU-a",
        0,
        "A100",
        memory_total_mib=40960.0,
        memory_used_mib=1.5,
        utilization=97.0,
        power_w=250.5,
        throttle=("hw-thermal", "power-cap"),
        pci_bus_id="00:01",
        numa_node=1,
        peers=(PeerLink("GPU-b", "NV4"),),
        processes=(DeviceProcess(7, "alice", 0.5, "python train.py", CONTAINER),),
        vendor="nvidia",
    )


def test_a_change_replaces_only_what_changed() -> None:
    drawn = picture()
    first = drawn.apply(line({"t": 1001.0}), 1001.5)
    second = drawn.apply(line({"t": 1002.0, "d": {"1": {"t": 55}}}), 1002.5)
    assert first is not None
    assert second is not None
    assert second.devices[0] is first.devices[0]
    assert second.devices[1].temperature_c == 55
    assert second.facts is first.facts


def test_what_cannot_be_read_any_more_is_unknown() -> None:
    host = picture().apply(line({"t": 1.0, "d": {"0": {"m": None, "p": None}}}), 1001.0)
    assert host is not None
    assert host.devices[0].memory_used_mib is None
    assert host.devices[0].processes == ()
    assert host.devices[0].utilization == 97


def test_the_sample_is_dated_on_the_consoles_clock() -> None:
    drawn = picture()
    early = drawn.apply(line({"t": 5000.0, "k": [3998.5, 0.01]}), 1001.6)
    assert early is not None
    assert (early.sampled_at, early.clock_skew_s) == (1001.5, 3998.5)
    late = drawn.apply(line({"t": 9000.0}), 1002.0)
    assert late is not None
    assert late.sampled_at == 1002.0, "no frame is younger than its arrival"


def test_the_idle_power_cap_and_the_sum_bit_mean_nothing() -> None:
    drawn = picture()
    masks = {0x05: (), 0x04: ("power-cap",), 0x08: ("hw-slowdown",), 0x88: ("power-brake",)}
    for mask, words in masks.items():
        host = drawn.apply(line({"t": 1.0, "d": {"0": {"r": mask}}}), 1.0)
        assert host is not None
        assert host.devices[0].throttle == words


def test_foreign_text_is_cleaned() -> None:
    name = "\x1b]0;owned\x07\x1b[31mpython\u202e\nx" + "y" * 9999
    frame = whole(p={"7": [name, name, ""]})
    host = Picture(BASE).apply(line(frame), 1.0)
    assert host is not None
    process = host.devices[0].processes[0]
    assert process.command.startswith("python x")
    assert len(process.command) <= 256
    assert process.user.isprintable()


BAD_LINES = [
    b"",
    b"garbage",
    b"[" * 100_000,
    b'{"t": 1' + b"0" * 5000 + b"}",
    b"[]",
    b"null",
    b"{}",
    line({"t": "now"}),
    line({"t": float("nan")}),
    line({"t": True}),
    line({"t": 1.0, "d": {"2": {}}}),
    line({"t": 1.0, "d": {"-1": {}}}),
    line({"t": 1.0, "d": {"x": {}}}),
    line({"t": 1.0, "d": [1]}),
    line({"t": 1.0, "d": {"0": 5}}),
    line({"t": 1.0, "d": {"0": {"m": "lots"}}}),
    line({"t": 1.0, "d": {"0": {"m": -1}}}),
    line({"t": 1.0, "d": {"0": {"m": 1e300}}}),
    line({"t": 1.0, "d": {"0": {"u": 101}}}),
    line({"t": 1.0, "d": {"0": {"p": [[1]]}}}),
    line({"t": 1.0, "d": {"0": {"p": [["1", 2]]}}}),
    line({"t": 1.0, "d": {"0": {"p": [[1, 2]] * 5000}}}),
    line({"t": 1.0, "d": {"0": {"x": ["list"]}}}),
    line({"t": 1.0, "s": [{"i": 0, "u": "a", "n": "m"}] * 2}),
    line({"t": 1.0, "s": [{"i": n, "u": str(n), "n": "m"} for n in range(500)]}),
    line({"t": 1.0, "s": [{"i": 0}]}),
    line({"t": 1.0, "h": {"N": ["0-3; rm"]}}),
    line({"t": 1.0, "p": {"7": ["u", "c", "../../etc"]}}),
    line({"t": 1.0, "k": []}),
]


@pytest.mark.parametrize("bad", BAD_LINES, ids=range(len(BAD_LINES)))
def test_a_wrong_line_costs_itself_and_a_whole_one_mends_it(bad: bytes) -> None:
    drawn = picture()
    with pytest.raises(FrameError):
        drawn.apply(bad, 1001.0)
    assert not drawn.whole
    assert drawn.apply(line({"t": 1002.0}), 1002.0) is None
    assert drawn.apply(line(whole()), 1003.0) == Picture(BASE).apply(line(whole()), 1003.0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("tfkhsdp0127MmuwWrxLXNib") | st.text(max_size=3), inner)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from("tfkhsdp"), JSON))
def test_no_line_does_more_than_fail(frame: dict[str, Any]) -> None:
    try:
        host = picture().apply(line({"t": 1.0} | frame), 1.0)
    except FrameError:
        return
    assert host is None or isinstance(host, Host)
