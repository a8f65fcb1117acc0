"""How well the devices of one host reach each other, and which of them are closest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from gpuconsole.placement.engine.board import Spot

# From the common ancestor of two devices in `nvidia-smi topo -m`, nearest first.
_LINKS: Mapping[str, float] = {"PIX": 0.6, "PXB": 0.5, "PHB": 0.35, "NODE": 0.25, "SYS": 0.1}
_NVLINK = re.compile(r"NV(\d+)")


@lru_cache(maxsize=256)
def link_quality(kind: str) -> float:
    """Return how good a link is for gradients, 0-1: NVLink (by count) > PIX > ... > SYS."""
    if match := _NVLINK.fullmatch(kind):
        return min(1.0, 0.8 + 0.2 * int(match.group(1)) / 12)
    return _LINKS.get(kind, 0.0)


def closest(group: Sequence[Spot], count: int) -> tuple[tuple[Spot, ...], float]:
    """Return the devices with the best links to each other, grown greedily from every start, and
    the mean quality of the links among them."""
    if count < 2:
        return tuple(group[:count]), 0.0
    peers = {
        spot.device.uuid: {peer.uuid: link_quality(peer.kind) for peer in spot.device.peers}
        for spot in group
    }
    if not any(peers.values()):
        return tuple(group[:count]), 0.0
    if (alike := _alike(peers)) is not None:
        return tuple(group[:count]), alike
    pairs = count * (count - 1) / 2
    top = max(max(row.values(), default=0.0) for row in peers.values())
    best: tuple[Spot, ...] = ()
    best_links = -1.0
    for start in group:
        chosen, rest, total = [start], [spot for spot in group if spot is not start], 0.0
        while len(chosen) < count:
            gains = [sum(_link(peers, spot, other) for other in chosen) for spot in rest]
            gain = max(gains)
            chosen.append(rest.pop(gains.index(gain)))
            total += gain
        if total / pairs > best_links:
            best, best_links = tuple(sorted(chosen, key=_order)), total / pairs
        if best_links >= top or len(group) == count:
            break  # no other start can do better
    return best, best_links


def _alike(peers: Mapping[str, Mapping[str, float]]) -> float | None:
    """Return the quality of the links where all of them are equal, as on most hosts."""
    links = {row.get(other) for uuid, row in peers.items() for other in peers if other != uuid}
    return links.pop() if len(links) == 1 else None


def _order(spot: Spot) -> int:
    return spot.order


def _link(peers: Mapping[str, Mapping[str, float]], spot: Spot, other: Spot) -> float:
    first, second = spot.device.uuid, other.device.uuid
    return peers[first].get(second, peers[second].get(first, 0.0))
