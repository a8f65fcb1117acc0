"""The best place on a board of different hosts, without scoring all of them.

Where someone works on many devices, or prices differ, hardly two cells are on one shelf, and a long
queue would score thousands of shelves for each job. A ranking keeps what a score owes to the place
alone: everything but the job's view of a kind of device and how well its memory is filled. Places
are in bins by kind and memory, the highest first, so that a search looks at the bins that could
have the best place, and in each only at places that could still be it. What it looks at is scored
as everywhere: a test holds the answers against those of a search through all shelves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from math import inf, log
from typing import TYPE_CHECKING, Generic, TypeVar

from gpuconsole.core.util.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from gpuconsole.placement.engine.board import Site

T = TypeVar("T")
R = TypeVar("R")
FEW_SHELVES = 128
"""A board with no more shelves is searched shelf by shelf."""
MOST_RANKINGS = 32
"""Of one board: for more policies and sizes of job it is searched shelf by shelf."""
_STEP = 0.1
"""Memory within a bin differs by this share."""
_EDGE = 1e-6
"""Places with a bound closer than this to the best score may be the best: scores have 9 digits."""

Entry = tuple[float, float, int, T]
"""What the place adds to the score, negated; memory (MiB); position; the place."""
Key = tuple[int, bool, int]
"""Kind, whether no one works there, step of memory."""
Scored = tuple[float, int, bool, R]
"""A score, a position, whether no place with an equal entry has a higher score; the answer."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a search asks for."""

    base: list[float]
    """What each kind of device adds to the score for the job."""
    able: frozenset[int]
    """Kinds that would do."""
    empty_only: bool
    mib: float
    """Memory; 0 where it is not known."""
    limits: list[float]
    """Memory that the job may fill, by kind."""
    weight: float
    """What filling memory well adds to the score at most."""
    whole: bool
    """Whether each device of a place has the memory of its bin; else its smallest one has."""


class Ranking(Generic[T]):
    """Places of a board for jobs that take so many devices of a host, under one policy."""

    def __init__(self, places: Callable[[Site], Iterable[tuple[Key, Entry[T]]]]) -> None:
        """`places` yields those of a host with their bins."""
        self._places = places
        self._bins: dict[Key, list[Entry[T]]] = {}
        self._of_site: dict[int, list[tuple[Key, Entry[T]]]] = {}
        self.changed: set[int] = set()
        """Hosts that have changed since the last search."""

    def refresh(self, sites: list[Site]) -> None:
        """Take in what has changed."""
        for number in self.changed:
            for key, entry in self._of_site.pop(number, ()):
                entries = self._bins[key]
                del entries[bisect_left(entries, entry)]
            present = list(self._places(sites[number]))
            for key, entry in present:
                insort(self._bins.setdefault(key, []), entry)
            if present:
                self._of_site[number] = present
        self.changed.clear()

    def best(self, need: Need, score: Callable[[T], Scored[R] | None]) -> R | None:
        """Return the answer with the highest score, of equal ones the first in the inventory.

        `score` returns None for a place that will not do.
        """
        top, first, best = -inf, 0, None
        for bound, base, entries in self._promising(need):
            if bound < top - _EDGE:
                break
            at = 0
            while at < len(entries) and base - entries[at][0] >= top - _EDGE:
                value, usable, _, place = entries[at]
                at += 1
                scored = score(place)
                if scored is None:
                    continue
                if scored[0] > top or (scored[0] == top and scored[1] < first):
                    top, first, _, best = scored
                if scored[2]:
                    # Those that are alike come later in the order of the inventory.
                    at = bisect_right(entries, (value, usable, inf), at)
        return best

    def _promising(self, need: Need) -> Iterator[tuple[float, float, list[Entry[T]]]]:
        """Yield bins by the score that a place in them has at most, highest first."""
        bins = []
        for (kind, empty, step), entries in self._bins.items():
            if not entries or kind not in need.able or (need.empty_only and not empty):
                continue
            filled = need.weight
            if need.mib and step >= 0:
                least, limit = (1 + _STEP) ** step, need.limits[kind]
                if need.whole and need.mib > least * (1 + _STEP) * (1 + _EDGE):
                    continue
                if limit > 0:
                    filled *= min(1.0, need.mib / min(least, limit))
            base = need.base[kind] + filled
            bins.append((base - entries[0][0], base, entries))
        bins.sort(key=_bound)
        return iter(bins)


def _bound(each: tuple[float, float, object]) -> float:
    return -each[0]


def step_of(mib: float) -> int:
    """Return the step of an amount of memory; -1 for less than 1 MiB or an unknown one."""
    return int(log(mib) / log(1 + _STEP)) if mib >= 1.0 else -1
