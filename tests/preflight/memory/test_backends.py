"""Each back end's own terms: what is common to all stays common, the rest is named."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from gpuconsole.core.fleet import Backend, Device, FleetSnapshot, Host
from gpuconsole.core.jobs import Task
from gpuconsole.preflight import analyse, cards, report
from gpuconsole.preflight.memory.allocator import fragmentation, reserved
from gpuconsole.preflight.memory.backends import TERMS, WORDS, terms, unproven
from gpuconsole.preflight.memory.trace import Trace

SCRIPT = Path(__file__).parents[3] / "gpuconsole" / "data" / "examples" / "mnist_cnn.py"
OTHERS: tuple[Backend, ...] = tuple(one for one in TERMS if one not in ("cpu", "gpu"))


def trace(*sizes: int) -> Trace:
    return Trace(list(range(len(sizes))), list(sizes), ["activations"] * len(sizes))


def test_every_back_end_has_terms_and_a_name() -> None:
    assert set(TERMS) == set(WORDS) == set(get_args(Backend))


@pytest.mark.parametrize(
    ("backend", "bytes_"),
    [("gpu", 256 + 1024), ("dcu", 256 + 1024), ("xpu", 64 + 1024), ("npu", 512 + 1536),
     ("mlu", 512 + 1536), ("gcu", 256 + 1280), ("musa", 512 + 1024)],
)  # fmt: skip
def test_the_allocator_rounds_as_each_back_end_does(backend: Backend, bytes_: int) -> None:
    own = terms(backend)
    assert reserved(trace(40, 1024), own.alignment_bytes, own.padding_bytes) == bytes_
    assert fragmentation(trace(40, 1024), own) == pytest.approx(bytes_ / 1064)


def test_tensors_are_the_same_on_every_device_and_what_lies_around_them_is_not() -> None:
    analysis = analyse(SCRIPT)
    common = analysis.estimate(backend="gpu").memory
    assert common is not None
    for backend in OTHERS:
        memory = analysis.estimate(backend=backend).memory
        assert memory is not None
        assert memory.tensors_peak_mib == common.tensors_peak_mib
        assert memory.high_mib >= common.total_mib
    npu, xpu = (analysis.estimate(backend=one).memory for one in ("npu", "xpu"))
    assert npu is not None
    assert xpu is not None
    # A free block is found or missed by a few bytes, so a coarser rounding may even save.
    assert len({npu.reserved_mib, common.reserved_mib, xpu.reserved_mib}) == 3
    assert npu.context_spread_mib == 600


def test_what_was_not_compared_is_said_with_the_estimate() -> None:
    analysis = analyse(SCRIPT)
    for backend in OTHERS:
        said = [one for one in analysis.estimate(backend=backend).notes if "Unproven" in one]
        assert said == [unproven(backend)]
        assert f"({backend})" in said[0]
    for known in ("gpu", "cpu"):
        assert not any("Unproven" in one for one in analysis.estimate(backend=known).notes)


def test_a_fleet_is_judged_by_each_devices_own_back_end() -> None:
    fleet = FleetSnapshot(hosts=(
        Host("a", devices=(Device("g", 0, "A100", "gpu", 40960.0, 0.0),)),
        Host("b", devices=(Device("n", 0, "Ascend 910B3", "npu", 40960.0, 0.0),)),
        Host("c", devices=(Device("x", 0, "P800 OAM", "xpu", 40960.0, 0.0),)),
    ))  # fmt: skip
    found = report(Task("t", script=str(SCRIPT)), cards(fleet, 0.85), analysis=analyse(SCRIPT))
    assert [one.backend for one in found.verdicts] == ["gpu", "npu", "xpu"]
    gpu, npu, xpu = (one.headroom_mib for one in found.verdicts)
    assert gpu is not None
    assert npu is not None
    assert xpu is not None
    # The same capacity: the wider range of the context alone takes 300 MiB of it.
    assert npu == pytest.approx(gpu - 300, abs=2)
    assert xpu == pytest.approx(gpu - 300, abs=2)
    assert npu != xpu
