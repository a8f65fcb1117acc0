"""What was left out of a transfer: named up to a number, and counted."""

from __future__ import annotations

from gpuconsole.core.engines.transfers import MOST_NAMED, LeftOut, Omission


def test_what_is_left_out_is_named_with_its_reason() -> None:
    left = LeftOut().add("a\x1b[2J", "is a link").add("b", "is too large")
    assert left == LeftOut((Omission("a", "is a link"), Omission("b", "is too large")), 2)
    assert left.joined(left, "in/").named[2:] == (
        Omission("in/a", "is a link"), Omission("in/b", "is too large"),
    )  # fmt: skip
    assert left.lines(2) == ["a is a link", "b is too large"]
    assert left.lines(1) == ["a is a link", "and 1 more"]
    assert left.lines(0) == ["and 2 more"]


def test_beyond_its_most_nothing_is_named_any_more() -> None:
    left = LeftOut()
    for number in range(MOST_NAMED + 1):
        left = left.add(str(number), "is a link")
    assert (len(left.named), left.count) == (MOST_NAMED, MOST_NAMED + 1)
    both = left.joined(LeftOut().add("x", "is a link"), "")
    assert (len(both.named), both.count) == (MOST_NAMED, MOST_NAMED + 2)
