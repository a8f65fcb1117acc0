"""Training loops drawn at random: the meta tier never tells less than the allocator counts."""

from __future__ import annotations

import pytest

from benchmarks.meta_loops.__main__ import TOO_LOW, answers, report

pytestmark = pytest.mark.real
SEEDS = tuple(range(300, 318))
READ = (1001, 1019, 1027, 1032, 1036, 1074, 1093, 1128)


def test_no_drawn_loop_takes_more_than_was_told() -> None:
    rows = answers(SEEDS)
    ran = [one for one in rows if one.runs]
    told = [one for one in ran if one.told is not None]
    assert len(told) > len(SEEDS) // 2, report(rows)
    assert all(one.error >= -TOO_LOW for one in told), report(rows)
    close = [one for one in told if one.error <= TOO_LOW]
    assert len(close) >= 0.8 * len(told), report(rows)


def test_drawn_loops_are_read_as_they_run() -> None:
    """What is frozen at first, a queue, an evaluation, tensors that are written into."""
    rows = answers(READ, "static")
    assert len([one for one in rows if one.told is not None]) == len(READ), report(rows)
    assert all(abs(one.error) <= TOO_LOW for one in rows), report(rows)
