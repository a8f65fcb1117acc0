"""Services as data: when a replica is well, how long it waits, and what it is called."""

from __future__ import annotations

import pytest

from gpuconsole.core.services import (
    LONGEST_BACK_OFF_S,
    HealthCheck,
    Replica,
    Service,
    after_check,
    back_off_s,
    health_words,
    is_to_restart,
    open_connections,
    replica_name,
)

SERVICE = Service(8040, check=HealthCheck("http", failures=3, start_s=60.0, interval_s=5.0))
TABLES = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 0100007F:1F68 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000
   1: 0100007F:1F68 0100007F:D2A0 01 00000000:00000000 00:00000000 00000000  1000
   2: 0100007F:D2A0 0100007F:1F68 01 00000000:00000000 00:00000000 00000000  1000
   3: 0100007F:1F68 0100007F:D2A2 06 00000000:00000000 00:00000000 00000000  1000
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:1F68 00000000000000000000000001000000:D2A4 01 0:0
"""
"""One listener, one connection seen from both its ends, one that is over, one of IPv6."""


def test_pauses_double_to_a_longest_one() -> None:
    assert [back_off_s(number) for number in range(4)] == [2.0, 4.0, 8.0, 16.0]
    assert back_off_s(1000) == LONGEST_BACK_OFF_S


def test_one_that_starts_has_its_time_and_then_is_unhealthy() -> None:
    early = after_check(Replica(), SERVICE, "refused", 9, 59.0, 100.0)
    assert (early.health, early.since, early.said) == ("starting", 100.0, "refused")
    late = after_check(early, SERVICE, "refused", 10, 60.0, 101.0)
    assert (late.health, late.since) == ("unhealthy", 101.0)
    assert health_words(late, SERVICE) == (
        "It has never been healthy, 1m00s or more after its start. The last health check: refused"
    )
    assert health_words(early, SERVICE) == "It starts. The last health check: refused"


def test_one_that_was_healthy_becomes_unhealthy_after_several_bad_checks() -> None:
    known = after_check(Replica(), SERVICE, "", 0, 1.0, 100.0)
    assert (known.health, known.was_healthy) == ("healthy", True)
    for failed, health in ((1, "healthy"), (2, "healthy"), (3, "unhealthy")):
        known = after_check(known, SERVICE, "503", failed, 1.0, 100.0 + failed)
        assert known.health == health
    assert known.since == 103.0
    assert health_words(known, SERVICE) == "The last health check: 503"
    assert after_check(known, SERVICE, "", 0, 1.0, 110.0).health == "healthy"


@pytest.mark.parametrize(
    ("restart", "after_s", "expected"),
    [("always", 29.9, False), ("always", 30.0, True), ("never", 1e6, False)],
)
def test_an_unhealthy_one_is_restarted_after_as_many_more_checks(
    restart: str, after_s: float, expected: bool
) -> None:
    service = Service(8040, restart=restart, check=SERVICE.check)  # type: ignore[arg-type]
    known = Replica(health="unhealthy", since=100.0)
    assert is_to_restart(known, service, 100.0 + after_s) is expected
    assert not is_to_restart(Replica(health="starting", since=0.0), service, 1e9)


def test_open_connections_are_counted_at_the_servers_end() -> None:
    assert open_connections(TABLES, 8040) == 2
    assert open_connections(TABLES, 8041) == 0
    assert open_connections("no table at all", 8040) == 0


def test_a_number_is_given_once() -> None:
    taken = ["ocr[1]", "ocr[7]", "ocr[x]", "ocr", "other[9]"]
    assert replica_name("ocr", taken) == "ocr[8]"
    assert replica_name("new", taken) == "new[1]"
