"""What is answered where a script was read and run, and both say different memories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from gpuconsole.core.estimate import TIERS_DIFFER, Estimate, Memory, ScriptFault
from gpuconsole.preflight.card import Card
from gpuconsole.preflight.tiers.two_tiers import TwoTiers
from gpuconsole.preflight.verdicts import judge, verdicts


@dataclass(frozen=True)
class Says:
    """A tier that says the same number of MiB for each sample."""

    tier: Any
    each: float
    flags: tuple[str, ...] = ()
    own: int = 8
    errors: tuple[ScriptFault, ...] = ()
    known: bool = True

    def estimate(self, batch_size: int | None = None, **asked: Any) -> Estimate:
        batch = batch_size or self.own
        peak = self.each * batch
        memory = Memory(
            tensors_peak_mib=peak, reserved_mib=peak, total_mib=peak,
            low_mib=0.9 * peak, high_mib=1.2 * peak,
        )  # fmt: skip
        return Estimate(
            "train.py", batch, None, asked.get("backend", "gpu"), self.tier, 1.0,
            memory if self.known else None, flags=self.flags, errors=self.errors,
        )  # fmt: skip

    def reserved_at(self, backend: Any) -> Callable[[int], float | None]:
        return lambda batch: self.each * batch


RAN = Says("meta", 100.0)


def card(limit: float) -> Card:
    device = Card("A100", "gpu-1", "gpu", capacity_mib=limit / 0.5, threshold=0.5)
    assert device.limit_mib == limit
    return device


@pytest.mark.parametrize("read", [95.5, 100.0, 104.5])
def test_where_both_say_the_same_what_was_run_counts(read: float) -> None:
    both = TwoTiers(RAN, Says("static", read))
    assert both.estimate(8) == RAN.estimate(8)
    assert both.reserved_at("gpu")(8) == 800.0


@pytest.mark.parametrize(("ran", "read"), [(100.0, 150.0), (150.0, 100.0)])
def test_where_they_differ_the_larger_counts_and_the_range_holds_both(
    ran: float, read: float
) -> None:
    both = TwoTiers(Says("meta", ran), Says("static", read))
    answer = both.estimate(8)
    assert answer.memory is not None
    assert answer.memory.reserved_mib == 1200.0
    assert (answer.memory.low_mib, answer.memory.high_mib) == (720.0, 1440.0)
    assert answer.tier == "meta"
    assert TIERS_DIFFER in answer.flags
    assert f"Reading the script gives {8 * read:,.1f} MiB" in answer.notes[0]
    assert f"running it {8 * ran:,.1f} MiB" in answer.notes[0]
    assert both.reserved_at("gpu")(16) == 2400.0


def test_where_they_agree_at_what_is_asked_the_script_is_not_read_for_other_batches() -> None:
    class Once(Says):
        def reserved_at(self, backend: Any) -> Callable[[int], float | None]:
            raise AssertionError("followed again")

    assert TwoTiers(RAN, Once("static", 101.0), 8).reserved_at("gpu")(64) == 6400.0


def test_a_difference_that_no_device_notices_is_none() -> None:
    both = TwoTiers(Says("meta", 0.01), Says("static", 0.02))
    assert TIERS_DIFFER not in both.estimate(8).flags


@pytest.mark.parametrize(
    "read",
    [
        Says("static", 900.0, flags=("bound",)),
        Says("static", 900.0, own=4),
        Says("static", 900.0, errors=(ScriptFault("train.py", 3, "shapes"),)),
        Says("static", 900.0, known=False),
        Says("unknown", 900.0),
    ],
)
def test_what_reading_does_not_know_is_not_held_against_a_run(read: Says) -> None:
    assert TwoTiers(RAN, read).estimate() == RAN.estimate()
    assert TwoTiers(RAN, read).reserved_at("gpu")(8) == 800.0


def test_a_bound_of_the_run_stays_what_it_is() -> None:
    bound = Says("meta", 100.0, flags=("bound",))
    assert TwoTiers(bound, Says("static", 300.0)).estimate(8) == bound.estimate(8)


def test_an_unknown_run_says_no_more_for_what_was_read() -> None:
    unknown = Says("meta", 100.0, known=False)
    assert TwoTiers(unknown, Says("static", 300.0)).estimate(8).memory is None


def test_a_device_that_holds_one_of_both_alone_is_not_judged() -> None:
    both = TwoTiers(RAN, Says("static", 150.0))
    judged = verdicts(both, 8, [card(2000.0), card(1000.0), card(700.0)])
    words = [verdict.verdict for verdict in judged]
    assert words == ["fits", "unknown", "will-not-fit"]
    doubted = judge(both.estimate(8), card(1000.0), 5)
    assert doubted.reason.startswith("reading and running it differ: it may need up to 1.4 GiB")
    assert judge(RAN.estimate(8), card(900.0), 5).verdict == "will-not-fit"
