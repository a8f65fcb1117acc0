"""What must never happen, over random states: `GPUCONSOLE_STATES=100000` draws so many."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.placement.states import check, random_state

STATES = int(os.environ.get("GPUCONSOLE_STATES", "4000"))
SLICES = 8


@pytest.mark.parametrize("part", range(SLICES))
def test_no_state_breaks_a_promise(part: int) -> None:
    for seed in range(part, STATES, SLICES):
        state = random_state(Random(seed))
        try:
            check(state)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
