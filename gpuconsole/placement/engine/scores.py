"""What a place is worth to a job: a sum of terms, each between 0 and 1, times their weights.

A shelf is scored, not a device: everything but the links among several devices is equal for all
cells that stand on it. Equal scores go by the order of the inventory.
"""

from __future__ import annotations

from functools import lru_cache

from gpuconsole.placement.engine import features
from gpuconsole.placement.engine.board import Board, Shelf
from gpuconsole.placement.engine.job_profile import Profile

TERMS = (
    *("idle", "fit", "balance", "pack", "fragments", "preferred", "speed", "length"),
    *("links", "domestic", "price", "bulk"),
)


class Scorer:
    """The terms of a shelf for one job; what its kind adds is reckoned once."""

    def __init__(self, profile: Profile, board: Board, count: int) -> None:
        """`count` is the number of devices taken from one host."""
        weights = profile.policy.weights
        self.weights = {term: weights.get(term, 0.0) for term in TERMS}
        self.profile = profile
        self.count = count
        self.cheapest = board.cheapest
        self.mix = tuple(sorted(profile.policy.mix.items()))
        self.length = profile.length()
        self.gang = features.gang_size(profile.request)
        self._kinds = [self._kind_terms(number) for number in range(len(profile.views))]
        w = self.weights
        self.base = [
            w["preferred"] * preferred + w["domestic"] * domestic
            + (w["speed"] + w["length"] * self.length) * speed
            for preferred, speed, domestic in self._kinds
        ]  # fmt: skip
        # A pass over a long queue scores thousands of shelves: what a job fixes is looked up once.
        self._need = profile.request.need_mib if w["fit"] else None
        self.limits = [view.limit_mib or 0.0 for view in profile.views]
        self._price = w["price"] + w["bulk"] * self.gang
        self._whole: dict[int, float] = {}
        self._learned: tuple[float, ...] = ()
        if profile.policy.learned is not None:
            full = 1.0 - board.free / max(1, board.size)
            factors = (self.length, self.gang, full)
            self._learned = features.folded(profile.policy.learned.place, factors)

    def score(self, shelf: Shelf) -> float:
        """Return the weighted sum without links; rounded, so that equals compare as equal."""
        w, free, size = self.weights, shelf.site_free, shelf.size
        total = self.base[shelf.kind] + w["idle"] * shelf.idle
        if self._need is not None:
            limit, spare = self.limits[shelf.kind], shelf.spare_mib
            usable = limit if limit < spare else spare
            total += w["fit"] * (self._need / usable if usable > self._need else usable > 0.0)
        if w["balance"]:
            total += w["balance"] * (1.0 - shelf.in_use / size)
        total += w["pack"] * (1.0 - (free - self.count) / size)
        whole = self._whole.get(free)
        if whole is None:
            whole = self._whole[free] = wholeness(free, self.count, self.mix)
        total += w["fragments"] * whole
        if self._price:
            total += self._price * thrift(shelf.price, self.cheapest)
        if self.profile.policy.learned is not None:
            total += self.correction(shelf)
        return round(total, 9)

    def correction(self, shelf: Shelf) -> float:
        """Return what training adds to the score; 0 without."""
        learned = self.profile.policy.learned
        if learned is None:
            return 0.0
        fit, pack, fragments, speed, price, reserved = self._learned
        added = (
            fit * self._fit(shelf)
            + pack * (1.0 - (shelf.site_free - self.count) / shelf.size)
            + fragments * wholeness(shelf.site_free, self.count, self.mix)
            + speed * self._kinds[shelf.kind][1]
            + price * thrift(shelf.price, self.cheapest)
            + reserved * shelf.reserved
        )
        return max(-learned.place_clip, min(learned.place_clip, added))

    def terms(self, shelf: Shelf, links: float) -> dict[str, float]:
        """Return the value of each term, 0-1, in the order of the names."""
        preferred, speed, domestic = self._kinds[shelf.kind]
        return {
            "idle": shelf.idle,
            "fit": self._fit(shelf),
            "balance": 1.0 - shelf.in_use / shelf.size,
            "pack": 1.0 - (shelf.site_free - self.count) / shelf.size,
            "fragments": wholeness(shelf.site_free, self.count, self.mix),
            "preferred": preferred,
            "speed": speed,
            "length": speed * self.length,
            "links": links,
            "domestic": domestic,
            "price": thrift(shelf.price, self.cheapest),
            "bulk": thrift(shelf.price, self.cheapest) * self.gang,
        }

    def _fit(self, shelf: Shelf) -> float:
        need = self.profile.request.need_mib
        usable = self.profile.usable_mib(shelf.kind, shelf.spare_mib)
        return 0.0 if need is None or usable <= 0 else min(1.0, need / usable)

    def _kind_terms(self, number: int) -> tuple[float, float, float]:
        view, names = self.profile.views[number], self.profile.request.task.preferred_devices
        preferred = 0.0 if view.rank is None else 1.0 - view.rank / len(names)
        best = self.profile.best_rate
        speed = min(1.0, view.rate / best) if best else 0.0
        return preferred, speed, 1.0 if view.spec is not None and view.spec.domestic else 0.0


def scorer_for(profile: Profile, board: Board, count: int) -> Scorer:
    """Return the scorer of a job for so many devices of a host; made once where the state of the
    lab is no part of the score."""
    if profile.policy.learned is not None:
        return Scorer(profile, board, count)
    scorer = profile.scorers.get(count)
    if scorer is None:
        scorer = profile.scorers[count] = Scorer(profile, board, count)
    return scorer


def thrift(price: float | None, cheapest: float | None) -> float:
    """Return how cheap a device is, 0-1: the cheapest one's price over its own."""
    if cheapest is None or price is None:
        return 0.0 if cheapest is None else 0.5
    return 1.0 if price <= cheapest else max(0.0, cheapest) / price


@lru_cache(maxsize=4096)
def wholeness(free: int, count: int, mix: tuple[tuple[int, float], ...]) -> float:
    """Return how little taking `count` of `free` devices fragments a host, 0-1.

    Fragments are the devices that the next job, drawn from the mix of sizes, could not use (the
    measure of "Beware of Fragmentation", ATC'23, for whole devices); half is no change, and four
    devices more or fewer make the whole scale.
    """
    added = _fragments(free - count, mix) - _fragments(free, mix)
    return max(0.0, min(1.0, 0.5 - added / 8.0))


def _fragments(free: int, mix: tuple[tuple[int, float], ...]) -> float:
    return sum(share * free for size, share in mix if free < size)
