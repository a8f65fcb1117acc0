"""Hosts that come and go together are one toast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuconsole.core.events import Event
from gpuconsole.tui.runtime.notifications import TOGETHER_S, Crowds


class Timers:
    """The part of an app that lets a moment pass."""

    def __init__(self) -> None:
        self.set: list[tuple[float, Callable[[], Any]]] = []

    def call_later(self, callback: Callable[..., Any], *given: Any) -> None:
        callback(*given)

    def set_timer(self, delay: float, callback: Callable[[], Any]) -> None:
        self.set.append((delay, callback))

    def ring(self) -> None:
        for delay, callback in self.set:
            assert delay == TOGETHER_S
            callback()
        self.set.clear()


def crowds() -> tuple[Crowds, Timers, list[Event]]:
    timers, reported = Timers(), list[Event]()
    return Crowds(timers, reported.append), timers, reported  # type: ignore[arg-type]


def up(name: str) -> Event:
    return Event("host", name, f"{name} is up.", 1.0)


def down(name: str) -> Event:
    return Event("host", name, f"{name} is down. No route to host.", 2.0, "error")


def test_what_is_no_host_is_told_at_once() -> None:
    made, timers, reported = crowds()
    job = Event("job", "j1", "train: running", 1.0)
    made.take(job)
    assert reported == [job]
    assert not timers.set


def test_few_hosts_are_told_one_by_one() -> None:
    made, timers, reported = crowds()
    for event in (up("a"), down("b"), up("c")):
        made.take(event)
    assert reported == []
    assert len(timers.set) == 1
    timers.ring()
    assert sorted(one.message for one in reported) == [
        "a is up.", "b is down. No route to host.", "c is up."
    ]  # fmt: skip


def test_many_hosts_are_one_event_for_each_thing_that_they_do() -> None:
    made, timers, reported = crowds()
    for number in range(40):
        made.take(up(f"n{number}"))
    for number in range(40, 48):
        made.take(down(f"n{number}"))
    timers.ring()
    assert [(one.message, one.severity) for one in reported] == [
        ("40 hosts are up.", "information"),
        ("8 hosts are down: n40, n41, n42, n43, n44 and 3 more.", "error"),
    ]
    made.take(up("late"))
    timers.ring()
    assert reported[-1].message == "late is up."


def test_many_incidents_are_one_event_for_each_severity() -> None:
    made, timers, reported = crowds()
    for number in range(30):
        made.take(Event("incident", f"n{number}", f"n{number} gpu 0: Memory full", 1.0, "warning"))
    for number in range(2):
        made.take(Event("incident", f"m{number}", f"m{number}: Not reachable", 2.0, "error"))
    made.take(down("m0"))
    assert reported == [], "a rack that is lost brings dozens: they are gathered first"
    timers.ring()
    assert [(one.kind, one.message, one.severity) for one in reported] == [
        (
            "incident",
            "30 incidents: n0 gpu 0, n1 gpu 0, n2 gpu 0, n3 gpu 0, n4 gpu 0 and 25 more.",
            "warning",
        ),
        ("incident", "m0: Not reachable", "error"),
        ("incident", "m1: Not reachable", "error"),
        ("host", "m0 is down. No route to host.", "error"),
    ]
