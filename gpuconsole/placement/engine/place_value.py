"""What a place adds to the score of any job, for rankings, and what a job asks of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuconsole.placement.engine.board import Board, Cell, Site
from gpuconsole.placement.engine.features import gang_size
from gpuconsole.placement.engine.job_profile import Profile
from gpuconsole.placement.engine.ranking import Entry, Key, Need, step_of
from gpuconsole.placement.engine.scores import TERMS, Scorer, thrift, wholeness


class Worth:
    """What a place adds to the score of any job with so many devices, under one policy."""

    def __init__(
        self, profile: Profile, board: Board, count: int, links: Mapping[int, float]
    ) -> None:
        """`links` is what the best link between devices of a kind adds."""
        policy = profile.policy
        self._weights = {term: policy.weights.get(term, 0.0) for term in TERMS}
        self._count = count
        self._links = links
        self._mix = tuple(sorted(policy.mix.items()))
        self._cheapest = board.cheapest
        self._gang = gang_size(profile.request)
        self._threshold = policy.memory_threshold
        self._kinds = board.kinds

    def cells(self, site: Site) -> Iterator[tuple[Key, Entry[Cell]]]:
        """Yield the cells that have enough devices."""
        for cell in site.cells.values():
            if cell.shelf is not None and len(cell.spots) >= self._count:
                usable = self._usable(cell)
                value = self._value(site, cell.kind, cell.idle)
                key = cell.kind, cell.empty, step_of(usable)
                yield key, (-value, usable, cell.order, cell)

    def mixtures(self, site: Site) -> Iterator[tuple[Key, Entry[tuple[Site, int]]]]:
        """Yield the kinds of which several cells together have enough devices; the least idle
        device that is needed counts."""
        for kind, free in site.free.items():
            if free < self._count:
                continue
            cells = [c for c in site.cells.values() if c.kind == kind and c.shelf is not None]
            if len(cells) < 2:
                continue
            cells.sort(key=_idlest)
            left = self._count
            for cell in cells:
                left -= len(cell.spots)
                if left <= 0:
                    break
            value = self._value(site, kind, cell.idle)
            least = min(map(self._usable, cells))
            order = min(cell.order for cell in cells)
            key = kind, any(cell.empty for cell in cells), step_of(least)
            # Two with equal figures have different cells: they are not interchangeable.
            yield key, (-value, float(order), order, (site, kind))

    def _usable(self, cell: Cell) -> float:
        """Return the memory that a job may use; what is above the lab's threshold is no use."""
        total = self._kinds[cell.kind].total_mib
        return cell.spare_mib if total is None else min(cell.spare_mib, total * self._threshold)

    def _value(self, site: Site, kind: int, idle: float) -> float:
        w, free, size = self._weights, site.free[kind], site.size
        return (
            w["idle"] * idle
            + w["balance"] * (1.0 - site.in_use / size)
            + w["pack"] * (1.0 - (free - self._count) / size)
            + w["fragments"] * wholeness(free, self._count, self._mix)
            + (w["price"] + w["bulk"] * self._gang)
            * thrift(site.host.price_per_hour, self._cheapest)
            + self._links.get(kind, 0.0)
        )


def need_of(profile: Profile, scorer: Scorer, *, whole: bool = True) -> Need:
    """Return what a job asks of a ranking."""
    insists = profile.preference_ends is not None
    able = frozenset(
        kind
        for kind, view in enumerate(profile.views)
        if not view.code and not (insists and view.rank is None)
    )
    need = profile.request.need_mib
    return Need(
        base=scorer.base,
        able=able,
        empty_only=bool(profile.empty_only),
        mib=need or 0.0,
        limits=scorer.limits,
        weight=0.0 if need is None else max(0.0, scorer.weights["fit"]),
        whole=whole,
    )


def _idlest(cell: Cell) -> tuple[float, int]:
    return -cell.idle, cell.order
