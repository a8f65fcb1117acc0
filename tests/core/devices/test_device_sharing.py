"""Who may stand on a device together, and how a claim says what it takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.devices.device_sharing import (
    MOST_MIB,
    Share,
    fit_together,
    read_share,
    share_label,
)

FIRST, SECOND = Share(8000.0, 20000.0), Share(12000.0, 20000.0, beside=True)


def test_alone_everybody_may_stand() -> None:
    assert fit_together(None, [])
    assert fit_together(FIRST, [])


def test_two_that_share_stand_together_within_the_lower_limit() -> None:
    assert fit_together(SECOND, [FIRST])
    assert fit_together(FIRST, [SECOND])
    assert not fit_together(Share(12000.1, 20000.0, beside=True), [FIRST])
    assert not fit_together(Share(12000.0, 19999.0, beside=True), [FIRST])
    assert not fit_together(SECOND, [Share(8000.0, 19999.0)])


def test_nobody_stands_beside_one_that_does_not_share() -> None:
    assert not fit_together(SECOND, [None])
    assert not fit_together(None, [FIRST])


def test_one_must_know_that_it_is_the_second() -> None:
    assert not fit_together(FIRST, [FIRST])
    assert fit_together(SECOND, [Share(8000.0, 20000.0, beside=True)])


def test_at_most_two() -> None:
    small = Share(10.0, 20000.0, beside=True)
    assert not fit_together(small, [small, small])


@given(st.floats(0.001, MOST_MIB - 1), st.floats(0.001, MOST_MIB - 1), st.booleans())
def test_a_label_never_allows_more_than_was_meant(memory: float, limit: float, late: bool) -> None:
    said = read_share(share_label(Share(memory, limit, late)))
    assert said is not None
    assert memory <= said.memory_mib <= memory + 0.0011
    assert limit - 0.0011 <= said.limit_mib <= limit
    assert said.beside is late


@pytest.mark.parametrize(
    "text",
    [None, "", "soon", "1", "1/", "1/2/aside", "-1/2", "nan/2", "inf/2", "1e9/2e9", "0/5", "5/0",
     "99999999/1", "1/99999999", "1/2\n", "1/2/beside\x00", "9" * 400],
)  # fmt: skip
def test_a_hostile_label_shares_nothing(text: str | None) -> None:
    assert read_share(text) is None
