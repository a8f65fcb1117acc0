"""Incidents of real hosts: a real sshd, the agent, and a driver that says what a test wants."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.core.incidents import Incident, IncidentState, Severity
from gpuconsole.session.session import Session
from tests.real.rig.hosts import Lab
from tests.real.rig.sessions import Desk, seen, until

pytestmark = pytest.mark.real

QUICK = """\
lab:
  triage:
    limits: {unreachable_for: 1, fault_for: 0, slowed_for: 0, idle_for: 1, clear_after: 2}
"""
HW_THERMAL = 0x40
"""NVML's bit for a card that slows itself for heat."""


def standing(session: Session) -> dict[str, Incident]:
    return {one.rule: one for one in session.triage.incidents() if one.ended_at is None}


async def test_what_the_driver_says_becomes_incidents_and_ends(lab: Lab, tmp_path: Path) -> None:
    host = lab.add(devices=2)
    process = host.popen(["sleep", "300"])
    try:
        host.driver.set({
            "0.util": 0, "0.procs": f"{process.pid}:642", "0.throttle": HW_THERMAL,
            "0.ecc_uncorrected": 2,
        })  # fmt: skip
        desk = Desk(lab, tmp_path / "desk", QUICK)
        async with desk.session() as session:
            await seen(session)
            wanted = {"heat", "memory-errors", "idle-memory"}
            await until(lambda: wanted <= standing(session).keys(), what="three incidents")
            found = standing(session)
            assert "642 MiB" in found["idle-memory"].title
            assert any("sleep 300" in one.text for one in found["idle-memory"].evidence)
            assert found["memory-errors"].severity is Severity.WARNING
            host.driver.set({"1.lost": 1, "0.xid": 79, "0.ecc_uncorrected": 5})
            await until(lambda: {"gpu-lost", "xid"} <= standing(session).keys(), what="two more")
            await until(
                lambda: standing(session)["memory-errors"].severity is Severity.CRITICAL,
                what="errors that rise are critical",
            )
            assert standing(session)["gpu-lost"].uuid == host.uuids[1]
            host.driver.set({"1.lost": 0, "0.procs": "", "0.ecc_uncorrected": 0, "0.throttle": 0})
            gone = {"gpu-lost", "memory-errors", "idle-memory"}
            await until(lambda: not gone & standing(session).keys(), what="they end")
    finally:
        process.kill()
        process.wait()


async def test_a_host_that_is_cut_off_is_unreachable_until_it_is_back(
    lab: Lab, tmp_path: Path
) -> None:
    host, other = lab.add(devices=1), lab.add(devices=1)
    desk = Desk(lab, tmp_path / "desk", QUICK)
    async with desk.session() as session:
        await seen(session)
        host.cut()
        await until(lambda: "unreachable" in standing(session), what="it is unreachable")
        incident = standing(session)["unreachable"]
        assert (incident.host, incident.severity) == (host.name, Severity.CRITICAL)
        assert incident.evidence[0].source == "link"
        await session.triage.acknowledge("unreachable")
        host.heal()
        await until(lambda: "unreachable" not in standing(session), what="it is over")
        states = [one.state(session.now()) for one in session.triage.incidents()]
        assert states == [IncidentState.RESOLVED]
        assert all(one.host != other.name for one in session.triage.incidents())
