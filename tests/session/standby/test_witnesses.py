"""A majority of the hosts decides who leads, however they answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.containers import LeadMark
from gpuconsole.session.standby.witnesses import epoch_reached, judged, leader_after

A, B = "a" * 32, "b" * 32


def mark(epoch: int, head: str = B) -> LeadMark:
    return LeadMark(epoch, head, f"head-{head[0]}")


def test_a_majority_gives_an_epoch_and_silent_hosts_do_not() -> None:
    hosts = ("x", "y", "z")
    outcome, divided = judged({"x": (mark(1),), "y": (mark(1),)}, hosts, mark(1))
    assert (outcome.won, outcome.silent, divided) == (True, ("z",), False)
    outcome, divided = judged({"x": (mark(1),)}, hosts, mark(1))
    assert (outcome.won, outcome.by, divided) == (False, None, False)


def test_an_epoch_of_another_head_is_not_given_again() -> None:
    votes = {name: (mark(1, A),) for name in ("x", "y")}
    outcome, divided = judged(votes, ("x", "y", "z"), mark(1))
    assert (outcome.won, outcome.by, divided) == (False, mark(1, A), False)


def test_hosts_that_are_divided_give_an_epoch_to_nobody() -> None:
    votes = {"w": (mark(1, A),), "x": (mark(1, A),), "y": (mark(1),), "z": (mark(1),)}
    outcome, divided = judged(votes, tuple(votes), mark(1))
    assert (outcome.won, outcome.by, divided) == (False, None, True)
    # Not as long as one of them has not answered: it may decide.
    outcome, divided = judged(
        {name: votes[name] for name in ("w", "y", "z")}, tuple(votes), mark(1)
    )
    assert (outcome.won, divided) == (False, False)


@pytest.mark.parametrize("epoch", [3, 999_999_999])
def test_one_hostile_host_of_three_changes_nothing(epoch: int) -> None:
    """Whoever has rights on its engine writes there what he likes, and for whomever."""
    hosts = ("x", "y", "hostile")
    votes = {
        "x": (mark(2, A),),
        "y": (mark(2, A),),
        "hostile": (mark(epoch), mark(epoch, "c" * 32)),
    }
    # The head that leads goes on to lead.
    assert leader_after(votes, hosts, A, 2) is None
    # It can still dismiss its standby, and a standby can still take over: the others decide.
    for head in (A, B):
        asked = {**votes, "x": (mark(2, A), mark(3, head)), "y": (mark(2, A), mark(3, head))}
        asked["hostile"] = (mark(epoch, "c" * 32),)
        outcome, _ = judged(asked, hosts, mark(3, head))
        assert (outcome.won, outcome.by) == (True, None)
    assert epoch_reached(votes, hosts) == 2
    # A mark that is said to be later than it is lifts no head's epoch.
    reported = {"x": (mark(3),), "y": (mark(3),), "hostile": (mark(epoch),)}
    assert leader_after(reported, hosts, A, 2) == mark(3)


def test_a_few_marks_depose_nobody() -> None:
    hosts = ("x", "y", "z")
    votes = {"x": (mark(5),), "y": (mark(4, A),), "z": (mark(4, A),)}
    assert leader_after(votes, hosts, A, 4) is None
    assert leader_after({**votes, "y": (mark(4, A), mark(5))}, hosts, A, 4) == mark(5)


@given(
    st.integers(1, 7).flatmap(
        lambda count: st.tuples(
            st.just(count),
            st.lists(st.sampled_from([A, B, ""]), min_size=count, max_size=count),
            st.lists(st.booleans(), min_size=count, max_size=count),
            st.lists(st.booleans(), min_size=count, max_size=count),
        )
    )
)
def test_two_heads_never_both_get_an_epoch(
    drawn: tuple[int, list[str], list[bool], list[bool]],
) -> None:
    count, given_to, heard_by_a, heard_by_b = drawn
    hosts = tuple(f"host-{number}" for number in range(count))
    marks = {
        name: (mark(3, head),) if head else () for name, head in zip(hosts, given_to, strict=True)
    }
    seen_by = [
        {name: marks[name] for name, heard in zip(hosts, heard_by, strict=True) if heard}
        for heard_by in (heard_by_a, heard_by_b)
    ]
    outcomes = [
        judged(seen, hosts, mark(3, head))[0] for seen, head in zip(seen_by, (A, B), strict=True)
    ]
    assert not (outcomes[0].won and outcomes[1].won)
    for outcome, other in (outcomes, outcomes[::-1]):
        assert outcome.by is None or not other.by
        assert not (outcome.won and outcome.by)
