"""The waiting jobs of a simulation, handed to the engine only where they have a chance.

The engine decides; this spares it the questions with a known answer, so that a pass over ten
thousand waiting jobs costs little more than one over ten. Jobs that fit in the same places form one
group, each in the order of the policy. A pass takes the first of all groups, then the next, and
leaves a group alone once no host has as many devices free as it asks for, or once the pass has
refused a job of it that is no longer. Where every device is either whole or held, as here, nothing
else decides whether a place is found: a test holds the outcome against passes over the plain queue.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import field
from math import inf

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement.engine.board import Board, Cell, Site
from gpuconsole.placement.engine.job_profile import Profile, profile
from gpuconsole.placement.engine.queue_order import Key, Shares, sort_key
from gpuconsole.placement.engine.search import host_code, shared_code
from gpuconsole.placement.model import Policy, Request

_LONGEST = 1e12
"""Length (s) assumed for a job without a prediction."""
ORDER_S = 2.0
"""Where the order changes with time, the line is put into order again so often (s) for each job in
it: a line of ten as good as always, one of a thousand every half hour."""


@dataclass(slots=True, eq=False)
class _Group:
    """Waiting jobs that the same places would suit."""

    devices: int
    hosts: int
    kinds: tuple[int, ...]
    """Kinds of device that would do."""
    sites: Sequence[Site] | None
    """Hosts that would do; None for all."""
    waiting: list[tuple[Key, Request]] = field(default_factory=list)
    """In order."""
    lengths: list[float] = field(default_factory=list)
    """Of the same jobs, shortest first."""
    refused_s: float = inf
    """Length of the shortest job that this pass has refused."""
    looked: int = -1
    """The look at the board by which `alone` is known."""
    alone: bool = False
    """Whether its devices are free somewhere."""


class Line(Sequence[Request]):
    """All waiting jobs. As a sequence it yields those that may start, for one pass of the engine:
    each is requested only after the engine has decided on the one before."""

    def __init__(self, board: Board, policy: Policy, shares: Shares) -> None:
        self._board = board
        self._policy = policy
        self._shares = shares
        self._groups: dict[object, _Group] = {}
        self._profiles: dict[str, Profile] = {}
        self._waiting = 0
        self._now = 0.0
        self._free: dict[int, list[int]] = {}
        """Free devices of each host by kind, most first."""
        self._partners: list[Cell] = []
        self._looks = 0
        self._stale = True
        self._fixed = not (policy.fair_share or policy.patience or policy.front_after_s)
        self._sorted_at = 0.0

    def __len__(self) -> int:
        return self._waiting

    def __getitem__(self, index: object) -> Request:  # type: ignore[override]
        raise TypeError("a line is passed over, not looked up")

    def add(self, request: Request, now: float) -> None:
        """Let a job join the line."""
        job_profile = profile(request, self._board, self._policy, now)
        self._profiles[request.job] = job_profile
        group = self._group(job_profile)
        key = sort_key(request, self._policy, now, self._shares)
        insort(group.waiting, (key, request))
        insort(group.lengths, _length(request))
        self._waiting += 1

    def profile(self, request: Request) -> Profile:
        """Return how the board looks to a job in the line."""
        return self._profiles[request.job]

    def came_free(self) -> None:
        """Note that devices were given back, or taken outside a pass."""
        self._stale = True

    def has_chance(self, now: float) -> bool:
        """Tell whether any job may start now; to be asked before a pass, which it prepares."""
        if not self._board.free and not self._policy.sharing:
            return False
        self._now = now
        if self._stale:
            self._look()
        for group in self._groups.values():
            group.refused_s = inf
        return any(
            group.waiting and self._room(group) and self._next(group, 0) is not None
            for group in self._groups.values()
        )

    def __iter__(self) -> Iterator[Request]:
        if not self._fixed and self._now - self._sorted_at >= ORDER_S * self._waiting:
            self._sort()
        mode = self._policy.backfill
        groups = [group for group in self._groups.values() if group.waiting]
        if mode == "skip":
            groups = [group for group in groups if self._room(group)]
        heads = [(group.waiting[0][0], number, 0) for number, group in enumerate(groups)]
        heapq.heapify(heads)
        while heads:
            _, number, index = heapq.heappop(heads)
            group = groups[number]
            # EASY keeps devices for the first job in order, whether or not it has a chance.
            keeping = mode == "easy" and self._board.reservation is None
            if not keeping:
                hopeful = self._next(group, index) if self._room(group) else None
                if hopeful != index and mode == "strict":
                    return
                if hopeful is None:
                    continue
                if hopeful != index:
                    heapq.heappush(heads, (group.waiting[hopeful][0], number, hopeful))
                    continue
            request = group.waiting[index][1]
            yield request
            if request.job in self._board.held:
                self._started(group, index)
            elif mode == "strict":
                return
            else:
                self._refused(group, request)
                index += 1
            if index < len(group.waiting):
                heapq.heappush(heads, (group.waiting[index][0], number, index))

    def _group(self, profile: Profile) -> _Group:
        request = profile.request
        key = (profile.shape(), request.task.share)
        group = self._groups.get(key)
        if group is None:
            kinds = tuple(number for number, view in enumerate(profile.views) if not view.code)
            sites = None
            if profile.picky:
                sites = [
                    site
                    for site in self._board.sites
                    if not host_code(profile, self._board, site, request.least_on_host)
                ]
            group = _Group(request.devices, request.task.hosts, kinds, sites)
            self._groups[key] = group
        return group

    def _started(self, group: _Group, index: int) -> None:
        _, request = group.waiting.pop(index)
        del group.lengths[bisect_left(group.lengths, _length(request))]
        del self._profiles[request.job]
        self._waiting -= 1
        self._look()

    def _refused(self, group: _Group, request: Request) -> None:
        easy = self._policy.backfill == "easy"
        group.refused_s = min(group.refused_s, _length(request) if easy else 0.0)

    def _look(self) -> None:
        """Take stock of what is free, and of who shares."""
        self._looks += 1
        self._stale = False
        free: dict[int, list[int]] = {kind: [] for kind in range(len(self._board.kinds))}
        for site in self._board.sites:
            for kind, count in site.free.items():
                if count:
                    free[kind].append(count)
        for counts in free.values():
            counts.sort(reverse=True)
        self._free = free
        if self._policy.sharing:
            self._partners = [
                cell
                for site in self._board.sites
                for cell in site.held
                if cell.holder is not None and cell.holder.share and cell.guest is None
            ]

    def _room(self, group: _Group) -> bool:
        """Tell whether a group's devices are free somewhere, or might be shared."""
        return self._room_alone(group) or (self._partners != [] and group.devices == 1)

    def _room_alone(self, group: _Group) -> bool:
        if group.looked != self._looks:
            group.looked = self._looks
            group.alone = any(self._has_room(group, kind) for kind in group.kinds)
        return group.alone

    def _has_room(self, group: _Group, kind: int) -> bool:
        hosts = group.hosts
        each = group.devices // hosts
        if group.sites is None:
            counts = self._free[kind]
            return len(counts) >= hosts and counts[hosts - 1] >= each
        return sum(site.free.get(kind, 0) >= each for site in group.sites) >= hosts

    def _next(self, group: _Group, index: int) -> int | None:
        """Return the next job of a group that is worth asking for, from a place on."""
        places = range(index, len(group.waiting))
        if self._partners and group.devices == 1:
            alone = self._room_alone(group)
            return next((p for p in places if self._may_share(group, p, alone)), None)
        if group.refused_s == inf:
            return next(iter(places), None)
        if not group.lengths or group.lengths[0] >= group.refused_s:
            return None
        return next((p for p in places if _length(group.waiting[p][1]) < group.refused_s), None)

    def _may_share(self, group: _Group, index: int, alone: bool) -> bool:
        request = group.waiting[index][1]
        if alone and _length(request) < group.refused_s:
            return True
        job_profile = self._profiles[request.job]
        return job_profile.request.task.share and any(
            not shared_code(job_profile, self._board, cell) for cell in self._partners
        )

    def _sort(self) -> None:
        """Put all groups into order again."""
        self._sorted_at = self._now
        for group in self._groups.values():
            keyed = (
                (sort_key(request, self._policy, self._now, self._shares), request)
                for _, request in group.waiting
            )
            group.waiting = sorted(keyed)


def _length(request: Request) -> float:
    return _LONGEST if request.run_time_s is None else request.run_time_s
