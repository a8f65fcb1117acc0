"""The watch: a rule's finding becomes an incident once it has held long enough, and is resolved
once it is gone.

Only a host with a changed record, jobs, leases or engine is looked at again; the holding times of
pending conditions are checked apart. A host that does not answer neither opens nor ends anything:
its incidents stay as they were.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gpuconsole.config import Thresholds
from gpuconsole.core.fleet import Device, FleetSnapshot, Host, HostState
from gpuconsole.core.incidents import Evidence, Incident, incident_id
from gpuconsole.core.roll import roll_of
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.triage.context import Surroundings
from gpuconsole.triage.model import Finding, Past, Rule, Scene
from gpuconsole.triage.rule_filter import RuleFilter
from gpuconsole.triage.rules import BY_NAME, HOST_RULES
from gpuconsole.triage.smoothing import remember

MOST_EVIDENCE, FIRST_EVIDENCE = 12, 4
_SPREAD = 0.6180339887
"""Golden: turns of neighbours lie far apart."""
EARLIER_S = 120.0
"""Jobs that failed so shortly before are evidence too: a job often dies first."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What one look brought."""

    opened: tuple[Incident, ...] = ()
    closed: tuple[Incident, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.opened or self.closed)


@dataclass(slots=True)
class _Condition:
    """Something that a rule says, from its first sight on."""

    incident: Incident
    """As it was first seen, without what `first` says as long as that is there."""
    first: Finding | None = None
    """The first finding, until its words are wanted: most conditions end before they open."""
    opened: bool = False
    finding: Finding | None = None
    gone_since: float | None = None
    hidden_since: float | None = None
    seen: float = 0.0


class _Turns:
    """When the hosts of a large fleet are to be looked at again."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._seen: list[HostState | None] = []
        """The state in which the host at each place was looked at."""
        self._until = array("d")
        """Until when it need not be looked at again in that state."""
        self._arranged: tuple[float, float] = (0.0, 0.0)
        """How long a turn is, and when it was asked last what is due."""

    def look_at(self, name: str) -> None:
        """Let a host be due at the next look."""
        if name in self._names:
            self._until[self._names.index(name)] = -math.inf

    def due(
        self,
        hosts: Sequence[Host],
        looked_at: Mapping[str, Host],
        touched: set[str],
        now: float,
        every_s: float,
    ) -> Iterator[Host]:
        """Yield the hosts with a turn that has begun, those in another state than before, and those
        that are touched; all where a turn takes no time. A host with the same record as in
        `looked_at` keeps its turn until it has another."""
        names, states, *_ = roll_of(hosts)
        before_s, before = self._arranged
        if names != self._names or every_s != before_s or now < before:
            self._names = names
            self._seen, self._until = [None] * len(names), array("d", [-math.inf]) * len(names)
        self._arranged = every_s, now
        seen, until = self._seen, self._until
        for place, (state, old, rests) in enumerate(zip(states, seen, until, strict=True)):
            waits = not (touched and names[place] in touched)
            if now < rests and state is old and waits:
                continue
            host = hosts[place]
            if waits and looked_at.get(host.name) is host:
                continue
            if every_s > 0.0:
                turn = int(now / every_s + place * _SPREAD)
                seen[place], until[place] = state, (turn + 1 - place * _SPREAD) * every_s
            yield host


class Watch:
    """Remembers what holds and since when. `known` are the incidents that stand already."""

    def __init__(self, limits: Thresholds, incidents: Iterable[Incident] = ()) -> None:
        self._limits = limits
        self._holds = {name: float(getattr(limits, rule.holds)) for name, rule in BY_NAME.items()}
        self._rules = RuleFilter(limits)
        self._past: dict[str, Past] = {}
        self._hosts: dict[str, Host] = {}
        self._turns = _Turns()
        self._conditions: dict[str, _Condition] = {}
        self._by_host: dict[str, set[str]] = {}
        self._waiting: set[str] = set()
        """Ids of conditions for which time decides: to open, to end, to be given up."""
        for incident in incidents:
            first = _at_first_sight(incident)
            self._keep(_Condition(first, opened=True, seen=incident.last_seen))

    def adopt(self, incident: Incident) -> None:
        """Take up an incident that another watch opened; whether it holds is seen at the next
        look."""
        condition = self._conditions.get(incident.id)
        if condition is None:
            condition = self._keep(_Condition(_at_first_sight(incident), seen=incident.last_seen))
            self._hosts.pop(incident.host, None)
            self._turns.look_at(incident.host)
        elif not condition.opened:
            _put_into_words(condition)
            condition.incident = replace(condition.incident, since=incident.since)
            self._waiting.discard(incident.id)
        condition.opened = True

    def step(
        self, snapshot: FleetSnapshot, around: Surroundings, touched: set[str], now: float
    ) -> Changes:
        """Look at everything that changed, and tell what opened and ended."""
        for host in self.due(snapshot, touched, now):
            self.examine(host, around, now)
        return self.settle(now)

    def due(
        self, snapshot: FleetSnapshot, touched: set[str], now: float, every_s: float = 0.0
    ) -> Iterator[Host]:
        """Give the hosts that are to be looked at; those that left are forgotten.

        With `every_s` hosts take turns: one of which only figures changed is looked at once in so
        many seconds, and not all at the same moment.
        """
        yield from self._turns.due(snapshot.hosts, self._hosts, touched, now, every_s)
        if len(self._hosts) > len(snapshot.hosts) or self._by_host.keys() - self._hosts.keys():
            names = {host.name for host in snapshot.hosts}
            for name in {*self._hosts, *self._by_host} - names:
                # The host left the inventory: its incidents end.
                self._hosts.pop(name, None)
                self._miss(name, set(), now)

    def examine(self, host: Host, around: Surroundings, now: float) -> None:
        """Ask all rules about one host."""
        self._hosts[host.name] = host
        up = host.state is HostState.UP
        if up:
            at = now if host.sampled_at is None else host.sampled_at
            remember(self._past, host.devices, at)
        scene = Scene(
            host,
            now,
            self._limits,
            self._past,
            around.holders,
            around.on_host.get(host.name, ()),
            around.leases.get(host.name),
            around.silent.get(host.name, ""),
            around.failures.get(host.name, ()),
        )
        keys = {
            self._see(scene, rule, device, finding)
            for rule, device, finding in findings(scene, self._rules)
        }
        self._miss(host.name, keys, now, up=up)

    def settle(self, now: float) -> Changes:
        """Tell what has held long enough, and what has been gone long enough."""
        opened, closed = [], []
        for key in tuple(self._waiting):
            condition = self._conditions[key]
            if condition.gone_since is not None:
                if now - condition.gone_since >= self._limits.clear_after:
                    closed.append(replace(_incident(condition), ended_at=condition.gone_since))
                    self._drop(key)
            elif condition.hidden_since is not None:
                if not condition.opened and now - condition.hidden_since > self._limits.clear_after:
                    self._drop(key)
            elif now - condition.incident.since >= self.holds_s(condition.incident.rule):
                condition.opened = True
                self._waiting.discard(key)
                opened.append(_incident(condition))
        return Changes(tuple(opened), tuple(closed))

    def current(self) -> dict[str, Incident]:
        """Return the open incidents by id, as they were last seen."""
        return {
            key: _incident(condition)
            for key, condition in self._conditions.items()
            if condition.opened
        }

    def in_sight(self, key: str) -> bool:
        """Tell whether the cause of an incident holds at this moment, and is seen to."""
        condition = self._conditions.get(key)
        return (
            condition is not None
            and condition.gone_since is None
            and condition.hidden_since is None
        )

    def holds_s(self, rule: str) -> float:
        """Return for how long a rule must hold."""
        return self._holds.get(rule, 0.0)

    # -- within -----------------------------------------------------------------------------

    def _see(self, scene: Scene, rule: Rule, device: Device | None, finding: Finding) -> str:
        """Note that a rule holds; return the id of what it says."""
        place = device.uuid if device is not None else scene.host.name
        subject = f"{place}/{finding.part}" if finding.part else place
        key = incident_id(rule.name, subject)
        condition = self._conditions.get(key)
        if condition is None:
            condition = self._keep(_first(scene, rule, device, subject, finding))
            self._waiting.add(key)
        elif condition.opened:
            self._waiting.discard(key)
        condition.finding, condition.seen = finding, scene.now
        condition.gone_since = condition.hidden_since = None
        condition.incident = _joined(condition.incident, scene, device, finding)
        return key

    def _miss(self, host: str, present: set[str], now: float, *, up: bool = True) -> None:
        """Note what no longer holds on a host, or can no longer be seen."""
        for key in self._by_host.get(host, set()) - present:
            condition = self._conditions[key]
            rule = BY_NAME.get(condition.incident.rule)
            if not up and rule is not None and not rule.blind:
                if condition.hidden_since is None:
                    condition.hidden_since = now
                if not condition.opened or condition.gone_since is not None:
                    condition.gone_since = None
                    self._waiting.add(key)
            elif not condition.opened:
                self._drop(key)
            elif condition.gone_since is None:
                condition.gone_since, condition.hidden_since = now, None
                self._waiting.add(key)

    def _keep(self, condition: _Condition) -> _Condition:
        self._conditions[condition.incident.id] = condition
        self._by_host.setdefault(condition.incident.host, set()).add(condition.incident.id)
        return condition

    def _drop(self, key: str) -> None:
        condition = self._conditions.pop(key)
        self._waiting.discard(key)
        names = self._by_host[condition.incident.host]
        names.discard(key)
        if not names:
            del self._by_host[condition.incident.host]


def _first(
    scene: Scene, rule: Rule, device: Device | None, subject: str, finding: Finding
) -> _Condition:
    """Return the condition as it is when its cause is first seen."""
    incident = Incident(
        rule=rule.name,
        subject=subject,
        severity=finding.severity or rule.severity,
        title=finding.title,
        host=scene.host.name,
        since=scene.now,
        last_seen=scene.now,
        uuid=device.uuid if device is not None else "",
        index=device.index if device is not None else None,
    )
    return _Condition(incident, finding)


def _at_first_sight(incident: Incident) -> Incident:
    """Return a known incident without what was seen of it later: that is seen again."""
    first = tuple(
        evidence
        for evidence in incident.evidence
        if evidence.at <= incident.since or evidence.source == "job"
    )
    return replace(incident, evidence=first or incident.evidence[:FIRST_EVIDENCE])


def _joined(incident: Incident, scene: Scene, device: Device | None, finding: Finding) -> Incident:
    """Return the incident with what is new of its jobs: those it hits, and those that failed."""
    if not finding.jobs and not scene.failures:
        return incident
    jobs = tuple(dict.fromkeys((*incident.jobs, *finding.jobs)))
    ends = tuple(
        Evidence(
            failure.at,
            "job",
            msg("{name} failed: {why_text}", name=failure.name, why_text=failure.cause),
        )
        for failure in scene.failures
        if failure.at >= incident.since - EARLIER_S
        and (device is None or device.uuid in failure.uuids)
        and incident.rule != "failing-jobs"
    )
    new = tuple(end for end in ends if end not in incident.evidence)
    if jobs == incident.jobs and not new:
        return incident
    evidence = (*incident.evidence, *new)[:MOST_EVIDENCE]
    return replace(incident, jobs=jobs, evidence=evidence)


def _incident(condition: _Condition) -> Incident:
    """Return a condition's incident as it was last seen."""
    _put_into_words(condition)
    first, finding = condition.incident, condition.finding
    if finding is None:
        return first
    texts = {evidence.text for evidence in first.evidence}
    later = tuple(each for each in _evidence(condition.seen, finding) if each.text not in texts)
    rule = BY_NAME[first.rule]
    return replace(
        first,
        severity=finding.severity or rule.severity,
        title=finding.title,
        last_seen=condition.seen,
        confidence=finding.confidence,
        reason=finding.reason,
        evidence=_in_time((*first.evidence, *later)),
    )


def _put_into_words(condition: _Condition) -> None:
    """Add what was seen first to a condition's incident."""
    first, incident = condition.first, condition.incident
    if first is not None:
        evidence = (*_evidence(incident.since, first), *incident.evidence)[:MOST_EVIDENCE]
        condition.first, condition.incident = None, replace(incident, evidence=evidence)


def _evidence(at: float, finding: Finding) -> tuple[Evidence, ...]:
    return tuple(Evidence(at, source, text) for source, text in finding.signals)


def _in_time(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    return tuple(sorted(evidence, key=lambda each: each.at)[-MOST_EVIDENCE:])


Holding = tuple[Rule, Device | None, Finding]
"""A rule that holds, of which device (None: of the host), and what it says."""


def findings(scene: Scene, rules: RuleFilter) -> Iterator[Holding]:
    """Yield what the rules say of a host and its devices."""
    up = scene.host.state is HostState.UP
    for rule, of_host in _OF_HOSTS if up else _OF_LOST_HOSTS:
        finding = of_host(scene)
        if finding is not None:
            yield rule, None, finding
    for device, asked in rules.worth_asking(scene) if up else ():
        for rule, test in asked:
            finding = test(scene, device)
            if finding is not None:
                yield rule, device, finding


_OF_HOSTS = tuple((rule, rule.test) for rule in HOST_RULES if rule.test is not None)
_OF_LOST_HOSTS = tuple((rule, test) for rule, test in _OF_HOSTS if rule.blind)
