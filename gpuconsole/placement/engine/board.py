"""The fleet as the engine works on it: devices sorted into cells, who holds them, and what is free.

A cell is a set of devices of one host between which a job need not choose. Cells that are alike
stand on one shelf, so that a thousand equal hosts are scored once, and taking or giving back a
device touches only its own host. A board is built from one picture of the fleet; the simulator
keeps one board and moves time.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple, TypeVar

from gpuconsole.core.fleet import Device, FleetSnapshot, Host
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.placement.engine.device_state import (
    condition_of,
    health_fault,
    host_fault,
    idleness,
    is_empty,
    once_free,
    spare_mib,
)
from gpuconsole.placement.engine.ranking import FEW_SHELVES, MOST_RANKINGS, Ranking
from gpuconsole.placement.model import Holder, Place

T = TypeVar("T")


class Spot(NamedTuple):
    """A device at its place."""

    order: int
    """Position in the order of the inventory."""
    device: Device
    kind: int
    """Index of its kind on the board."""
    fault: str
    """`host`, `engine`, `drained`, `aside` or `health` when it cannot take any job now, else ""."""
    condition: str
    """"" for a device that is not used outside the queue, else its UUID, so that it is equal to no
    other."""
    spare_mib: float | None
    """Memory beside what others hold and what stays free of everybody; None when unknown."""


class Kind(NamedTuple):
    """What devices of one kind have in common."""

    model: str
    total_mib: float | None
    backend: str
    divided: bool
    """Cut into MIG slices: only the slices take jobs."""
    part: bool = False
    """Whether it is such a slice."""


class Shelf(NamedTuple):
    """What the score of a cell depends on: cells with equal figures stand on one shelf."""

    kind: int
    free: int
    """Devices in the cell."""
    site_free: int
    """Devices of this kind free on the host."""
    size: int
    """Devices of the host."""
    in_use: int
    price: float | None
    idle: float
    empty: bool
    spare_mib: float
    reserved: bool


@dataclass(slots=True, eq=False)
class Site:
    """A host on the board."""

    place: int
    host: Host
    size: int
    cells: dict[tuple[int, str, str], Cell] = field(default_factory=dict)
    """Cells without a holder, by kind, fault and condition."""
    held: list[Cell] = field(default_factory=list)
    in_use: int = 0
    """Devices that are claimed or worked on."""
    free: dict[int, int] = field(default_factory=dict)
    """Devices without holder and fault, by kind."""
    kinds: set[int] = field(default_factory=set)
    """Kinds of its devices, whether free or not."""


@dataclass(slots=True, eq=False)
class Cell:
    """Devices of one host between which a job need not choose."""

    site: Site
    kind: int
    fault: str
    condition: str
    spots: list[Spot]
    """In the order of the inventory; never empty while the cell is on the board."""
    holder: Holder | None = None
    guest: Holder | None = None
    """The second job on a shared device."""
    idle: float = 1.0
    empty: bool = True
    spare_mib: float = -1.0
    """Least of its devices; below 0 when unknown."""
    shelf: Shelf | None = None
    closest: dict[int, tuple[tuple[Spot, ...], float]] = field(default_factory=dict)
    """By number: the closest of its devices and the quality of their links, once asked for."""

    @property
    def order(self) -> int:
        """Position of its first device in the order of the inventory."""
        return self.spots[0].order


@dataclass(frozen=True, slots=True)
class Reservation:
    """Devices kept for the first job that cannot start."""

    job: str
    name: str
    when: float
    """When it is expected to start."""
    kind: int
    sites: tuple[int, ...]
    spare: int
    """Devices of each of these hosts that it does not need even then."""


class Board:
    """All cells, and the shelves of those that are free."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self.kinds: list[Kind] = []
        self.silent: tuple[Host, ...] = ()
        """Hosts with devices that are not known yet."""
        self.cheapest: float | None = None
        self.linked = False
        """Whether any host tells how its devices are linked."""
        self.nearest: dict[int, float] = {}
        """The best link between devices of a kind, where it has been asked for."""
        self.reservation: Reservation | None = None
        self.free = 0
        """Devices without holder and fault."""
        self.size = 0
        """All devices."""
        self.held: dict[str, list[Cell]] = {}
        """The cells that a job holds, as holder or guest."""
        self.crowded: set[int] = set()
        """Hosts with free devices in several cells."""
        self._rooms: list[list[int]] = []
        """By kind and number: hosts that have so many of its devices free."""
        self._rankings: dict[Hashable, Ranking[Any]] = {}
        self._shelves: dict[Shelf, list[tuple[int, int, Cell]]] = {}
        self._sites_by_name: dict[str, Site] = {}
        self._serial = 0

    @classmethod
    def of(cls, snapshot: FleetSnapshot, holders: Mapping[str, Holder] | None = None) -> Board:
        """Return the board of a picture; `holders` maps device UUIDs to who holds them."""
        board = cls()
        kinds: dict[Kind, int] = {}
        claims = holders or {}
        order = 0
        for host in snapshot.hosts:
            if host.devices:
                order = board._add(host, kinds, claims, order)
        board.kinds = list(kinds)
        most = max((site.size for site in board.sites), default=0)
        board._rooms = [[0] * (most + 1) for _ in kinds]
        for site in board.sites:
            for kind, free in site.free.items():
                board._rooms[kind][free] += 1
        board.size = order
        board.silent = tuple(host for host in snapshot.hosts if not host.devices)
        prices = [s.host.price_per_hour for s in board.sites if s.host.price_per_hour is not None]
        board.cheapest = min(prices, default=None)
        for site in board.sites:
            board._shelve(site)
        return board

    def shelves(self) -> Iterator[Shelf]:
        """Yield the shelves that are not empty."""
        gone = []
        for shelf, heap in self._shelves.items():
            while heap and heap[0][2].shelf != shelf:
                heapq.heappop(heap)
            if heap:
                yield shelf
            else:
                gone.append(shelf)
        for shelf in gone:
            del self._shelves[shelf]

    def first(self, shelf: Shelf) -> Cell:
        """Return the first cell of a shelf in the order of the inventory."""
        return self._shelves[shelf][0][2]

    def on(self, shelf: Shelf) -> list[Cell]:
        """Return the cells of a shelf in the order of the inventory."""
        cells = {id(cell): cell for _, _, cell in self._shelves[shelf] if cell.shelf == shelf}
        return sorted(cells.values(), key=lambda cell: cell.order)

    def in_turn(self, shelf: Shelf) -> Iterator[Cell]:
        """Yield the cells of a shelf in the order of the inventory; sorted only past the first."""
        yield self.first(shelf)
        yield from self.on(shelf)[1:]

    def has_room(self, kinds: Iterable[int], count: int) -> bool:
        """Tell whether any host has so many devices of one of these kinds free."""
        return any(any(self._rooms[kind][count:]) for kind in kinds)

    @property
    def various(self) -> bool:
        """Whether so many places differ that a ranking finds the best one sooner."""
        return len(self._shelves) > FEW_SHELVES

    def ranking(self, key: Hashable, make: Callable[[], Ranking[T]]) -> Ranking[T] | None:
        """Return a ranking of the free cells as they are now; None if there are too many others."""
        ranking = self._rankings.get(key)
        if ranking is None:
            if len(self._rankings) >= MOST_RANKINGS:
                return None
            ranking = self._rankings[key] = make()
            ranking.changed.update(range(len(self.sites)))
        if ranking.changed:
            ranking.refresh(self.sites)
        return ranking

    def site(self, name: str) -> Site | None:
        """Return the host of that name."""
        return self._sites_by_name.get(name)

    def take(self, chosen: Sequence[tuple[Cell, Sequence[Spot]]], holder: Holder) -> None:
        """Give devices of free cells, or the rest of shared ones, to a holder."""
        for cell, spots in chosen:
            if cell.holder is None:
                self._hold(cell, spots, holder)
            else:
                cell.guest = holder
                self.held.setdefault(holder.job, []).append(cell)
        for site in {id(cell.site): cell.site for cell, _ in chosen}.values():
            self._shelve(site)

    def release(self, job: str) -> None:
        """Give back what a job holds; a guest stays and becomes the holder."""
        for cell in self.held.pop(job, ()):
            if cell.guest is not None and cell.guest.job == job:
                cell.guest = None
            elif cell.guest is not None:
                cell.holder, cell.guest = cell.guest, None
            else:
                self._unhold(cell)
            self._shelve(cell.site)

    def reserve(self, reservation: Reservation | None) -> None:
        """Keep devices for a job, or none any more."""
        touched = set(self.reservation.sites) if self.reservation else set()
        self.reservation = reservation
        touched |= set(reservation.sites) if reservation else set()
        for place in touched:
            self._shelve(self.sites[place])

    def places(self, chosen: Sequence[tuple[Cell, Sequence[Spot]]]) -> tuple[Place, ...]:
        """Return chosen devices by host."""
        return tuple(
            Place(cell.site.host.name, tuple(spot.device for spot in spots))
            for cell, spots in chosen
        )

    def _add(
        self, host: Host, kinds: dict[Kind, int], claims: Mapping[str, Holder], order: int
    ) -> int:
        site = Site(len(self.sites), host, len(host.devices))
        self.sites.append(site)
        self._sites_by_name[host.name] = site
        down = host_fault(host)
        for device in host.devices:
            kind = Kind(
                device.model,
                device.memory_total_mib,
                device.backend,
                device.divided,
                bool(device.parent_uuid),
            )
            number = kinds.setdefault(kind, len(kinds))
            site.kinds.add(number)
            holder = claims.get(device.uuid)
            if holder is None:
                condition, spare = condition_of(device), spare_mib(device)
            else:
                condition, spare = once_free(device)
            fault = down or ("health" if health_fault(device, host) else "")
            spot = Spot(order, device, number, fault, condition, spare)
            order += 1
            self.linked = self.linked or bool(device.peers)
            if holder is None:
                self._put(site, spot)
            else:
                held = Cell(site, number, fault, condition, [spot], holder, holder.beside)
                site.held.append(held)
                self.held.setdefault(holder.job, []).append(held)
                if holder.beside is not None:
                    self.held.setdefault(holder.beside.job, []).append(held)
            site.in_use += holder is not None or bool(device.processes)
        return order

    def _put(self, site: Site, spot: Spot) -> None:
        key = (spot.kind, spot.fault, spot.condition)
        cell = site.cells.get(key)
        spare = -1.0 if spot.spare_mib is None else spot.spare_mib
        if cell is None:
            cell = Cell(site, spot.kind, spot.fault, spot.condition, [spot], spare_mib=spare)
            if spot.condition:
                cell.idle, cell.empty = idleness(spot.device), is_empty(spot.device)
            site.cells[key] = cell
        else:
            insort(cell.spots, spot, key=_order)
            cell.closest.clear()
            cell.spare_mib = min(cell.spare_mib, spare)
        if not spot.fault:
            self._count(site, spot.kind, 1)

    def _hold(self, cell: Cell, spots: Iterable[Spot], holder: Holder) -> None:
        taken = list(spots)
        site = cell.site
        for spot in taken:
            cell.spots.remove(spot)
            cell.closest.clear()
            site.in_use += not spot.device.processes
        if not cell.spots:
            cell.shelf = None
            del site.cells[cell.kind, cell.fault, cell.condition]
        if not cell.fault:
            self._count(site, cell.kind, -len(taken))
        held = Cell(site, cell.kind, cell.fault, cell.condition, taken, holder)
        site.held.append(held)
        self.held.setdefault(holder.job, []).append(held)

    def _count(self, site: Site, kind: int, more: int) -> None:
        """Count devices that came free, or no longer are."""
        before = site.free.get(kind, 0)
        site.free[kind] = before + more
        self.free += more
        if self._rooms:
            rooms = self._rooms[kind]
            rooms[before] -= 1
            rooms[before + more] += 1

    def _unhold(self, cell: Cell) -> None:
        site = cell.site
        site.held.remove(cell)
        for spot in cell.spots:
            site.in_use -= not spot.device.processes
            self._put(site, spot)

    def _shelve(self, site: Site) -> None:
        """Stand the free cells of a host where they belong now."""
        reservation = self.reservation
        for ranking in self._rankings.values():
            ranking.changed.add(site.place)
        if len(site.cells) > 1:
            self.crowded.add(site.place)
        else:
            self.crowded.discard(site.place)
        for cell in site.cells.values():
            if cell.fault:
                continue
            shelf = Shelf(
                cell.kind,
                len(cell.spots),
                site.free[cell.kind],
                site.size,
                site.in_use,
                site.host.price_per_hour,
                cell.idle,
                cell.empty,
                cell.spare_mib,
                reservation is not None
                and cell.kind == reservation.kind
                and site.place in reservation.sites,
            )
            if shelf != cell.shelf:
                cell.shelf = shelf
                self._serial += 1
                heap = self._shelves.setdefault(shelf, [])
                heapq.heappush(heap, (cell.order, self._serial, cell))
                if len(heap) > 2 * len(self.sites) + 64:
                    self._shelves[shelf] = _standing(heap, shelf)


def _standing(heap: list[tuple[int, int, Cell]], shelf: Shelf) -> list[tuple[int, int, Cell]]:
    """Return a heap without the entries of cells that have left, and each cell once."""
    present = {id(entry[2]): entry for entry in heap if entry[2].shelf == shelf}
    return sorted(present.values())


def _order(spot: Spot) -> int:
    return spot.order
