"""Why a place was chosen: the terms of its score as sentences, with the sum at the end."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconsole.core.engines.terminals import SESSIONS
from gpuconsole.core.fleet import Device
from gpuconsole.core.services import SERVICE
from gpuconsole.core.units import format_mib, format_step
from gpuconsole.core.wording import msg
from gpuconsole.placement.engine.board import Board, Cell, Site, Spot
from gpuconsole.placement.engine.device_state import holds_memory
from gpuconsole.placement.engine.job_profile import Profile
from gpuconsole.placement.engine.scores import TERMS, Scorer
from gpuconsole.placement.engine.search import Chosen, Pick
from gpuconsole.placement.engine.topology import link_quality
from gpuconsole.placement.model import Candidate


def candidate(pick: Pick, profile: Profile, board: Board) -> Candidate:
    """Return a pick with a sentence for each part of its score."""
    reasons = [_need(pick, profile)]
    if pick.shared:
        reasons.append(_shared_text(pick))
    else:
        reasons += _terms(pick, profile, board)
    if len({id(cell.site) for cell, _ in pick.chosen}) > 1:
        reasons.insert(1, _gang_text(pick))
    if apart := _replicas_text(pick, profile, board):
        reasons.insert(1, apart)
    if profile.policy.note:
        reasons.insert(len(reasons) - 1, profile.policy.note)
    return Candidate(board.places(_by_site(pick)), pick.score, tuple(reasons), pick.shared)


def _by_site(pick: Pick) -> Chosen:
    """Join the cells of one host."""
    joined: dict[int, tuple[Cell, list[Spot]]] = {}
    for cell, spots in pick.chosen:
        joined.setdefault(cell.site.place, (cell, []))[1].extend(spots)
    return tuple(
        (cell, tuple(sorted(spots, key=lambda spot: spot.order))) for cell, spots in joined.values()
    )


def _terms(pick: Pick, profile: Profile, board: Board) -> list[str]:
    cell = pick.chosen[-1][0]
    scorer = Scorer(profile, board, len(pick.chosen[0][1]))
    assert cell.shelf is not None
    values = scorer.terms(cell.shelf, pick.links)
    texts = _sentences(pick, profile, scorer)
    reasons, shares = [], []
    for term in TERMS:
        weight, value = scorer.weights[term], values[term]
        if weight and (texts[term] or value * weight):
            if texts[term] and texts[term] not in reasons:
                reasons.append(texts[term])
            shares.append(f"{term} {value * weight:.2f}")
    correction = scorer.correction(cell.shelf)
    if correction:
        shares.append(f"learned {correction:+.2f}")
    if not any(scorer.weights.values()):
        reasons.append("It comes first in the order of the inventory.")
    if shares:
        reasons.append(msg("Score {n} = {terms}.", n=f"{pick.score:.2f}", terms=" + ".join(shares)))
    return reasons


def _need(pick: Pick, profile: Profile) -> str:
    cell, spots = pick.chosen[0]
    need = profile.request.need_mib
    if need is None and profile.request.task.kind in SESSIONS:
        return "No amount of memory was asked for, so it gets the empty device to itself."
    if need is None:
        return "The estimate is unknown, so it gets the empty device to itself."
    usable = profile.usable_mib(cell.kind, cell.spare_mib if not pick.shared else float("inf"))
    each = " on each device" if profile.request.devices > 1 else ""
    return (
        f"Needs up to {format_mib(need)}{each}; {format_mib(usable)} may be used"
        f" ({profile.threshold:.0%} of {format_mib(spots[0].device.memory_total_mib)} at most)."
    )


def _shared_text(pick: Pick) -> str:
    holder = pick.chosen[0][0].holder
    assert holder is not None
    return msg(
        "No whole device is free; {name} ({job}) of {user} shares this one, needs up "
        "to {size} and keeps it about {n} % busy.",
        name=holder.name,
        job=holder.job,
        user=holder.user,
        size=format_mib(holder.need_mib),
        n=f"{holder.utilization or 0:.0f}",
    )


def _gang_text(pick: Pick) -> str:
    hosts = [cell.site.host.name for cell, _ in pick.chosen]
    return msg("No host has enough devices free; it spreads over {hosts}.", hosts=", ".join(hosts))


def _replicas_text(pick: Pick, profile: Profile, board: Board) -> str:
    """Say of a replica where the others of its service are; "" where it is the only one."""
    if profile.request.task.kind != SERVICE:
        return ""
    chosen = {cell.site.place: cell.site for cell, _ in pick.chosen}
    here = [site.host.name for site in chosen.values() if profile.has_replica(site)]
    if here:
        return msg(
            "Another replica of its service is on {hosts}, too: no other host will do now.",
            hosts=", ".join(here),
        )
    others = [site.host.name for site in board.sites if profile.has_replica(site)]
    return msg("Other replicas are on {hosts}.", hosts=", ".join(others)) if others else ""


def _sentences(pick: Pick, profile: Profile, scorer: Scorer) -> dict[str, str]:
    """Return a sentence for each term, "" where it says nothing about this choice."""
    cell, _ = pick.chosen[0]
    view, site, need = profile.views[cell.kind], cell.site, profile.request.need_mib
    chosen = [spot.device for _, each in pick.chosen for spot in each]
    beside = next((device for device in chosen if device.processes), chosen[0])
    names = profile.request.task.preferred_devices
    left = profile.usable_mib(cell.kind, cell.spare_mib) - (need or 0.0)
    price = site.host.price_per_hour
    cost = "No price is known" if price is None else f"Costs {price:g} per device and hour"
    count, rest = _beside(site, chosen)
    in_use = msg(
        "{n} of {all} devices of {host} in use.", n=count, all=site.size, host=site.host.name
    )
    return {
        "idle": _idle_text(beside, len(chosen)),
        "fit": "" if need is None else f"Leaves {format_mib(max(0.0, left))} unused.",
        "balance": in_use,
        "pack": in_use,
        "fragments": f"Leaves {rest} more free on the same host."
        if rest
        else "Leaves none free on the host.",
        "preferred": ""
        if view.rank is None
        else f"Number {view.rank + 1} of {len(names)} preferred devices.",
        "speed": _speed_text(view.rate, profile),
        "length": "",
        "links": _links_text(chosen),
        "domestic": "Made in China." if view.spec is not None and view.spec.domestic else "",
        "bulk": "",
        "price": "" if scorer.cheapest is None else f"{cost}, the cheapest {scorer.cheapest:g}.",
    }


def _beside(site: Site, chosen: Sequence[Device]) -> tuple[int, int]:
    """Return how many devices of a host are in use before a job starts, and how many stay free.

    Both count the same devices: each is in use, free, chosen, or faulty and neither. A device is in
    use when a job holds it, a process is on it, or its memory is not empty.
    """
    in_use = sum(len(cell.spots) for cell in site.held)
    free = 0
    mine = {device.uuid for device in chosen}
    for spot in (spot for cell in site.cells.values() for spot in cell.spots):
        if spot.device.processes or holds_memory(spot.device):
            in_use += 1
        elif not (spot.fault or spot.device.divided or spot.device.uuid in mine):
            free += 1
    return in_use, free


def _speed_text(rate: float, profile: Profile) -> str:
    if not rate or profile.request.rates is not None:
        return ""
    if profile.measures_steps:
        step, best = format_step(1.0 / rate), format_step(1.0 / profile.best_rate)
        return f"A step takes about {step} here, {best} on the fastest choice."
    return f"{rate:g} TFLOPS where the fastest choice has {profile.best_rate:g}."


def _idle_text(device: Device, count: int) -> str:
    if not device.processes:
        return "No process uses it." if count == 1 else "No process uses them."
    users = ", ".join(sorted({process.user or "somebody" for process in device.processes}))
    if device.utilization is None:
        return msg("{users} has processes on gpu {index}.", users=users, index=device.index)
    busy = f"{device.utilization:.0f}%"
    return msg(
        "{users} has processes on gpu {index}, {percent} busy.",
        users=users, index=device.index, percent=busy,
    )  # fmt: skip


def _links_text(devices: list[Device]) -> str:
    if len(devices) < 2:
        return ""
    chosen = {device.uuid for device in devices}
    kinds = {peer.kind for device in devices for peer in device.peers if peer.uuid in chosen}
    if not kinds:
        return "The links between the devices are not known."
    links = ", ".join(sorted(kinds, key=link_quality))
    return msg("The devices reach each other by {links}.", links=links)
