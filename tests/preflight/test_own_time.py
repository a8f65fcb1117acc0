"""The limits of a run count the time that it takes itself."""

from __future__ import annotations

from typing import Any

import pytest

from gpuconsole.preflight.meta.script import session
from gpuconsole.preflight.probe.training import going_on


def test_what_a_run_waits_for_a_processor_is_not_its_own_time() -> None:
    now = {"clock": 100.0, "waited": 7.0}
    passed = going_on.OwnTime(lambda: now["clock"], lambda: now["waited"])
    now.update(clock=190.0, waited=77.0)
    assert (passed.all_s, passed.own_s) == (90.0, 20.0)
    now.update(waited=0.0)
    assert passed.own_s == 90.0, "a kernel that does not count"


def test_nothing_is_taken_off_where_the_kernel_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(going_on, "WAITED", "/nowhere")
    assert going_on.waited_s() == 0.0


@pytest.mark.parametrize(
    ("waited", "late", "ends"),
    [(0.0, session.SOON_S, session.LAST_S), (0.9, session.LONGEST_S, session.LONGEST_S)],
    ids=["idle", "busy"],
)
def test_a_busy_machine_ends_no_run_before_it_has_had_its_time(
    monkeypatch: pytest.MonkeyPatch, waited: float, late: float, ends: float
) -> None:
    """`waited` is the share of the time that the run waits for a processor."""

    class Left(Exception):  # noqa: N818 - it ends a run as the end of its process does
        pass

    class Run:
        late = False

    def leave() -> None:
        raise Left

    now = [0.0]
    when: list[float] = []

    def sleep(seconds: float) -> None:
        if run.late and not when:
            when.append(now[0])
        now[0] += seconds

    run: Any = Run()
    monkeypatch.setattr(session.time, "sleep", sleep)
    monkeypatch.setattr(session, "_leave", leave)
    passed = going_on.OwnTime(lambda: now[0], lambda: waited * now[0])
    with pytest.raises(Left):
        session.Session.watch_time(run, passed)
    assert (when or [ends])[0] == late
    assert now[0] == ends
