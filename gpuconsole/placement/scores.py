"""Candidates from eligible devices, ranked by a sum of terms, each with a sentence.

Every term is between 0 and 1 and counts its weight in the policy; the last sentence adds them up.
Equal scores go by the order of the inventory, so a decision is the same for the same picture.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import mul

from gpuconsole.core.catalogue import Spec
from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.units import format_mib, format_step
from gpuconsole.placement.model import Candidate, Place
from gpuconsole.placement.survey import Spot, Survey
from gpuconsole.preflight.cost import Work, roofline

MAX_CANDIDATES = 20

# From the common ancestor of two devices in `nvidia-smi topo -m`, nearest first.
_LINKS: Mapping[str, float] = {"PIX": 0.6, "PXB": 0.5, "PHB": 0.35, "NODE": 0.25, "SYS": 0.1}
_NVLINK = re.compile(r"NV(\d+)")
_TERMS = ("idle", "fit", "balance", "preferred", "speed", "links", "domestic", "price")


@dataclass(slots=True)
class _Choice:
    """Devices of one model on one host."""

    spots: Sequence[Spot]
    links: float = 0.0
    """Mean quality of the links among them, 0-1."""
    score: float = 0.0


def idleness(device: Device) -> float:
    """Return how far a device is free of others' work, 0-1; memory alone that is held counts half.

    Whoever works there already would slow the job down, and be slowed down by it.
    """
    work = (device.utilization or 0.0) / 100.0
    return 1.0 - work if not device.processes else 0.5 * (1.0 - work)


def _idle_first(group: Sequence[Spot], count: int) -> Sequence[Spot]:
    """Leave out the devices on which others work, where enough others remain."""
    idle = [spot for spot in group if not spot.device.processes]
    return idle if len(idle) >= count else group


@lru_cache(maxsize=256)
def link_quality(kind: str) -> float:
    """Return how good a link is for gradients, 0-1: NVLink (by count) > PIX > ... > SYS."""
    if match := _NVLINK.fullmatch(kind):
        return min(1.0, 0.8 + 0.2 * int(match.group(1)) / 12)
    return _LINKS.get(kind, 0.0)


def candidates(
    survey: Survey, most: int = MAX_CANDIDATES
) -> tuple[tuple[Candidate, ...], list[tuple[Spot, str]]]:
    """Return the best candidates, and the eligible devices that too few others stand beside."""
    count = survey.request.devices
    lonely: list[tuple[Spot, str]] = []
    if count == 1:
        choices = [_Choice((spot,)) for spot in survey.eligible]
    else:
        groups = groups_of(survey.eligible).values()
        lonely = [(spot, "count") for group in groups if len(group) < count for spot in group]
        choices = [_Choice(_idle_first(group, count)) for group in groups if len(group) >= count]
    if not choices:
        return (), lonely
    scorer = _Scorer(survey, choices)
    for choice in choices:
        choice.score = scorer.score(choice.spots[0])
    if count > 1:
        choices = _gangs(choices, count, scorer.weights[_TERMS.index("links")], most)
    top = heapq.nsmallest(most, choices, key=_rank)
    return tuple(_candidate(choice, survey, scorer) for choice in top), lonely


def _rank(choice: _Choice) -> tuple[float, int]:
    return -choice.score, choice.spots[0].order


def _gangs(groups: list[_Choice], count: int, weight: float, most: int) -> list[_Choice]:
    """Turn whole groups into their best-linked devices, for as long as a group can still win."""
    found: list[_Choice] = []
    best_scores: list[float] = []
    for group in sorted(groups, key=_rank):
        if len(found) >= most and group.score + weight <= best_scores[0]:
            break  # not even perfect links would bring it, or any after it, among the best
        choice = _closest(group.spots, count)
        choice.score = round(group.score + weight * choice.links, 9)
        found.append(choice)
        heapq.heappush(best_scores, choice.score)
        if len(best_scores) > most:
            heapq.heappop(best_scores)
    return found


def groups_of(spots: Iterable[Spot]) -> Mapping[tuple[str, str], list[Spot]]:
    """Group devices that can train together: one host, one model."""
    groups: dict[tuple[str, str], list[Spot]] = {}
    for spot in spots:
        groups.setdefault((spot.host.name, spot.device.model), []).append(spot)
    return groups


def _closest(group: Sequence[Spot], count: int) -> _Choice:
    """Take the devices with the best links to each other, grown greedily from every start."""
    peers = {
        spot.device.uuid: {peer.uuid: link_quality(peer.kind) for peer in spot.device.peers}
        for spot in group
    }
    if not any(peers.values()):
        return _Choice(tuple(group[:count]), 0.0)
    pairs = count * (count - 1) / 2
    top = max(max(row.values(), default=0.0) for row in peers.values())
    best = _Choice((), -1.0)
    for start in group:
        chosen, rest, total = [start], [spot for spot in group if spot is not start], 0.0
        while len(chosen) < count:
            gains = [sum(_link(peers, spot, other) for other in chosen) for spot in rest]
            gain = max(gains)
            chosen.append(rest.pop(gains.index(gain)))
            total += gain
        if total / pairs > best.links:
            best = _Choice(tuple(sorted(chosen, key=lambda spot: spot.order)), total / pairs)
        if best.links >= top or len(group) == count:
            break  # no other start can do better
    return best


def _link(peers: Mapping[str, Mapping[str, float]], one: Spot, other: Spot) -> float:
    first, second = one.device.uuid, other.device.uuid
    return peers[first].get(second, peers[second].get(first, 0.0))


class _Scorer:
    """The terms of a device; what its kind and its host add is reckoned once."""

    def __init__(self, survey: Survey, choices: Sequence[_Choice]) -> None:
        self.weights = [survey.policy.weights.get(term, 0.0) for term in _TERMS]
        self._survey = survey
        kinds = {choice.spots[0].kind for choice in choices}
        hosts = {choice.spots[0].host.name: choice.spots[0].host for choice in choices}
        prices = [h.price_per_hour for h in hosts.values() if h.price_per_hour is not None]
        self.rates, self.measures_steps = _rates(
            {kind: survey.kinds[kind].spec for kind in kinds}, survey.request.work
        )
        self.best_rate = max(self.rates.values())
        self.cheapest = min(prices, default=None)
        self._by_kind = {kind: self._kind_terms(kind) for kind in kinds}
        self._by_host = {name: self._host_terms(host) for name, host in hosts.items()}

    def terms(self, spot: Spot, links: float) -> tuple[float, ...]:
        """Return the value of each term, 0-1, in the order of the names."""
        preferred, speed, domestic = self._by_kind[spot.kind]
        balance, price = self._by_host[spot.host.name]
        need = self._survey.request.need_mib
        usable = self._survey.usable_mib(spot)
        fit = 0.0 if need is None or usable <= 0 else min(1.0, need / usable)
        return (idleness(spot.device), fit, balance, preferred, speed, links, domestic, price)

    def score(self, spot: Spot) -> float:
        """Return the weighted sum without links; rounded, so that equals compare as equal."""
        total: float = sum(map(mul, self.weights, self.terms(spot, 0.0)))
        return round(total, 9)

    def _kind_terms(self, place: int) -> tuple[float, float, float]:
        kind = self._survey.kinds[place]
        names = self._survey.request.task.preferred_devices
        preferred = 0.0 if kind.rank is None else 1.0 - kind.rank / len(names)
        speed = self.rates[place] / self.best_rate if self.best_rate else 0.0
        return preferred, speed, 1.0 if kind.spec is not None and kind.spec.domestic else 0.0

    def _host_terms(self, host: Host) -> tuple[float, float]:
        balance = 1.0 - self._survey.in_use(host) / len(host.devices)
        return balance, _thrift(host.price_per_hour, self.cheapest)


def _rates(specs: Mapping[int, Spec | None], work: Work | None) -> tuple[dict[int, float], bool]:
    """Return what ranks kinds by speed, 0 when unknown, and whether that is steps a second.

    Steps a second by the roofline, where the work of a step is known and the figures of every kind
    allow it, for only like may be compared with like; else the FP16 rate in TFLOPS.
    """
    if work is not None:
        seconds = {kind: spec and roofline(work, spec) for kind, spec in specs.items()}
        if all(seconds.values()):
            return {kind: 1.0 / one for kind, one in seconds.items() if one}, True
    return {kind: (spec and spec.rate_tflops) or 0.0 for kind, spec in specs.items()}, False


def _thrift(price: float | None, cheapest: float | None) -> float:
    if cheapest is None or price is None:
        return 0.0 if cheapest is None else 0.5
    return 1.0 if price <= cheapest else max(0.0, cheapest) / price


def _candidate(choice: _Choice, survey: Survey, scorer: _Scorer) -> Candidate:
    texts = _sentences(choice, survey, scorer)
    values = scorer.terms(choice.spots[0], choice.links)
    reasons, shares = [_need(choice, survey)], []
    for term, text, value, weight in zip(_TERMS, texts, values, scorer.weights, strict=True):
        if weight and text:
            reasons.append(f"{text}.")
            shares.append(f"{term} {value * weight:.2f}")
    if not any(scorer.weights):
        reasons.append("It comes first in the order of the inventory.")
    if survey.policy.note:
        reasons.append(survey.policy.note)
    if shares:
        reasons.append(f"Score {choice.score:.2f} = {' + '.join(shares)}.")
    devices: tuple[Device, ...] = tuple(spot.device for spot in choice.spots)
    place = Place(choice.spots[0].host.name, devices)
    return Candidate((place,), choice.score, tuple(reasons))


def _need(choice: _Choice, survey: Survey) -> str:
    spot, need = choice.spots[0], survey.request.need_mib
    if need is None:
        return "The estimate is unknown, so it gets the empty device to itself."
    usable = survey.usable_mib(spot)
    each = " on each device" if len(choice.spots) > 1 else ""
    return (
        f"Needs up to {format_mib(need)}{each}; {format_mib(usable)} may be used"
        f" ({survey.threshold:.0%} of {format_mib(spot.device.memory_total_mib)} at most)."
    )


def _sentences(choice: _Choice, survey: Survey, scorer: _Scorer) -> tuple[str, ...]:
    """Return a sentence for each term, "" where it says nothing about this choice."""
    spot = choice.spots[0]
    kind, host, need = survey.kinds[spot.kind], spot.host, survey.request.need_mib
    used = survey.in_use(host)
    beside = [device for device in (each.device for each in choice.spots) if device.processes]
    names = survey.request.task.preferred_devices
    left = survey.usable_mib(spot) - (need or 0.0)
    place = "" if kind.rank is None else f"Number {kind.rank + 1} of {len(names)} preferred devices"
    rate = scorer.rates[spot.kind]
    price = host.price_per_hour
    cost = "no price is known" if price is None else f"costs {price:g} per device and hour"
    return (
        _idle_text(spot.device if not beside else beside[0], len(choice.spots)),
        "" if need is None else f"Leaves {format_mib(max(0.0, left))} unused",
        f"{used} of {len(host.devices)} devices of {host.name} in use",
        place,
        _speed_text(rate, scorer),
        _links_text(choice),
        "Made in China" if kind.spec is not None and kind.spec.domestic else "",
        ""
        if scorer.cheapest is None
        else f"{cost[:1].upper()}{cost[1:]}, the cheapest {scorer.cheapest:g}",
    )


def _speed_text(rate: float, scorer: _Scorer) -> str:
    if not rate:
        return ""
    if scorer.measures_steps:
        step, best = format_step(1.0 / rate), format_step(1.0 / scorer.best_rate)
        return f"A step takes about {step} here, {best} on the fastest choice"
    return f"{rate:g} TFLOPS where the fastest choice has {scorer.best_rate:g}"


def _idle_text(device: Device, count: int) -> str:
    if not device.processes:
        return "Nobody works on it" if count == 1 else "Nobody works on them"
    users = ", ".join(sorted({process.user or "somebody" for process in device.processes}))
    work = "" if device.utilization is None else f", {device.utilization:.0f}% busy"
    return f"{users} has processes on gpu {device.index}{work}"


def _links_text(choice: _Choice) -> str:
    if len(choice.spots) < 2:
        return ""
    chosen = {spot.device.uuid for spot in choice.spots}
    kinds = {
        peer.kind for spot in choice.spots for peer in spot.device.peers if peer.uuid in chosen
    }
    if not kinds:
        return "The links between the devices are not known"
    return f"The devices reach each other by {', '.join(sorted(kinds, key=link_quality))}"
