"""The speed-up of several devices, against figures worked out by hand."""

from __future__ import annotations

import pytest

from gpuconsole.placement.sizing.data_parallel_speedup import all_reduce_s, bandwidth_gb_s, speed_up

MB = 1e6


def test_links_in_the_order_of_their_rates() -> None:
    kinds = ["NV12", "NV4", "PIX", "PHB", "SYS", "network"]
    rates = [bandwidth_gb_s(kind) for kind in kinds]
    assert rates == [240.0, 80.0, 12.0, 10.0, pytest.approx(25 / 3), 1.0]
    assert rates == sorted(rates, reverse=True)


def test_a_card_gets_no_more_than_its_own_rate() -> None:
    assert bandwidth_gb_s("NV4", "NVLink3 bridge 112.5") == pytest.approx(45.0)
    assert bandwidth_gb_s("NV12", "NVLink3 600") == pytest.approx(240.0)
    assert bandwidth_gb_s("NV8", "NVLink3 400") == pytest.approx(160.0)
    assert bandwidth_gb_s("NV1", "NVLink2 300") == pytest.approx(20.0)
    assert bandwidth_gb_s("PIX", "NVLink3 600") == 12.0


def test_what_is_not_known_counts_as_slow() -> None:
    assert bandwidth_gb_s("") == bandwidth_gb_s("X") == bandwidth_gb_s("SYS")


def test_a_ring_moves_its_share_and_hops() -> None:
    # Two devices move the whole once: 120 MB at 12 GB/s are 10 ms; 5 buckets of 2 hops of 3 us.
    assert all_reduce_s(120 * MB, 2, 12.0) == pytest.approx(0.010 + 5 * 2 * 3e-6)
    # Eight move 14/8 of it: 17.5 ms; 5 buckets of 14 hops.
    assert all_reduce_s(120 * MB, 8, 12.0) == pytest.approx(0.0175 + 5 * 14 * 3e-6)
    assert all_reduce_s(120 * MB, 1, 12.0) == 0.0
    assert all_reduce_s(0.0, 8, 12.0) == 0.0


def test_what_is_hidden_behind_the_backward_pass_costs_nothing() -> None:
    # 10 ms of sums beside 20 ms of backward pass.
    found = speed_up(0.030, 120 * MB, 2, "PIX")
    assert found.step_s == pytest.approx(0.030)
    assert found.efficiency == pytest.approx(1.0)
    assert found.factor == pytest.approx(2.0)


def test_what_is_longer_than_the_backward_pass_is_waited_for() -> None:
    # 120 MB over the network: 120 ms and 5 x 2 hops of 30 us; the forward pass is 10 ms.
    found = speed_up(0.030, 120 * MB, 2, "network")
    assert found.step_s == pytest.approx(0.1303)
    assert found.efficiency == pytest.approx(0.030 / 0.1303)
    assert found.factor < 1.0


def test_one_device_is_itself() -> None:
    assert speed_up(0.030, 120 * MB, 1, "").factor == 1.0
