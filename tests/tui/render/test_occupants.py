"""Which host each place of the map shows, and where there is another record of it."""

from __future__ import annotations

from gpuconsole.core.fleet import Device, Host
from gpuconsole.tui.render.fleet_map.layout import Everything, Shown, device_counts, hosts_of
from gpuconsole.tui.render.fleet_map.selection import Occupants


def occupants(*hosts: Host) -> Occupants:
    return Occupants(tuple(Shown(host, host.devices) for host in hosts))


def test_only_another_record_is_a_change() -> None:
    first, second = Host("a"), Host("b")
    before, now = occupants(first, second), occupants(first, Host("b"))
    assert now.are_those_of(before)
    assert now.changed_since(before) == [1]
    assert before.changed_since(before) == []


def test_other_hosts_or_other_numbers_of_devices_are_others() -> None:
    host = Host("a", devices=(Device("u", 0, "A100"),))
    for other in (Host("a"), Host("b", devices=host.devices)):
        assert not occupants(other).are_those_of(occupants(host))
    assert not occupants().are_those_of(occupants(host))


def test_a_new_record_never_takes_the_address_of_the_one_before() -> None:
    before = occupants(Host("a"))
    for _ in range(100):
        now = occupants(Host("a"))
        assert now.changed_since(before) == [0]
        before = now


def test_everything_is_what_a_list_of_all_would_be() -> None:
    hosts = (Host("a", devices=(Device("u", 0, "A100"),)), Host("b"))
    everything, listed = Everything(hosts), [Shown(host, host.devices) for host in hosts]
    assert list(everything) == listed
    assert everything[-1] == listed[-1]
    assert list(everything[1:]) == listed[1:]
    assert list(hosts_of(everything)) == hosts_of(listed)
    assert device_counts(everything) == device_counts(listed) == (1, 0)
    assert not Everything(())
