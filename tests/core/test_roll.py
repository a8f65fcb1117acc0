"""What is read of a whole fleet once is what its records say."""

from __future__ import annotations

from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.roll import Roll, roll_of

UP = Host(
    "a", HostState.UP, devices=(Device("u", 0, "A100"), Device("v", 1, "A100")), sampled_at=7.0
)
DOWN = Host("b", HostState.DOWN)


def test_each_fleet_has_its_own_roll() -> None:
    assert roll_of((UP, DOWN)) == Roll(
        ("a", "b"), (HostState.UP, HostState.DOWN), (2, 0), (7.0, None), 2
    )
    assert roll_of((DOWN,)) == Roll(("b",), (HostState.DOWN,), (0,), (None,), 0)
    assert roll_of(()) == Roll((), (), (), (), 0)


def test_the_same_picture_is_read_once() -> None:
    hosts = (UP, DOWN)
    assert roll_of(hosts) is roll_of(hosts)


def test_a_list_is_read_again_for_it_may_have_changed() -> None:
    hosts = [UP]
    assert roll_of(hosts).names == ("a",)
    hosts[0] = DOWN
    assert roll_of(hosts).names == ("b",)
