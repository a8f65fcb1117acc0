"""What consoles of the simulated lab noted before this one opened: its troubles are not new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpuconsole.config import Thresholds
from gpuconsole.core.fleet import FleetSnapshot
from gpuconsole.core.incidents import Evidence, Incident
from gpuconsole.triage import Surroundings, Watch
from gpuconsole.triage.rules import RULES

_DAY_S = 86400.0
_NAMED = 6
"""Hosts with a past: the named ones, which are in a lab of any size."""
_SINCE_S: Mapping[str, float] = {
    "idle-memory": 2.1 * _DAY_S,
    "heat": 2400.0,
    "unreachable": 250.0,
    "low-load": 5400.0,
    "disk-full": 6.3 * 3600.0,
}
"""For how long a trouble has stood when the lab opens."""
_BEFORE_S: Mapping[str, tuple[float, ...]] = {
    "heat": (5.2 * _DAY_S, 19.4 * _DAY_S),
    "unreachable": (1.3 * 3600.0, 1.1 * _DAY_S, 3.8 * _DAY_S),
}
"""How long ago it had begun when it came and went before."""
_LASTED_S = 900.0


def noted_before(snapshot: FleetSnapshot) -> Iterator[Incident]:
    """Give the incidents that stand when the lab opens, those that are over before them.

    The rules themselves say what is wrong, as if it had held for long enough.
    """
    now = snapshot.taken_at
    patient = Thresholds.model_validate({rule.holds: 0 for rule in RULES})
    named = replace(snapshot, hosts=snapshot.hosts[:_NAMED])
    for incident in Watch(patient).step(named, Surroundings(), set(), now).opened:
        if incident.rule not in _SINCE_S:
            continue
        for ago in sorted(_BEFORE_S.get(incident.rule, ()), reverse=True):
            yield replace(_since(incident, now - ago), ended_at=now - ago + _LASTED_S)
        yield _since(incident, now - _SINCE_S[incident.rule])


def _since(incident: Incident, at: float) -> Incident:
    evidence = tuple(Evidence(at, evidence.source, evidence.text) for evidence in incident.evidence)
    return replace(incident, since=at, last_seen=at, evidence=evidence)
