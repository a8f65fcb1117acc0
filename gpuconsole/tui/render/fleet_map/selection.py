"""Which hosts the map shows and in what order: filter, trouble only, sorting."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from gpuconsole.core.devices.health_levels import Condition
from gpuconsole.core.filters import Filter
from gpuconsole.core.fleet import Host
from gpuconsole.core.roll import roll_of
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.render.fleet_map.layout import Everything, Shown, device_counts, hosts_of
from gpuconsole.tui.snapshot import Picture

RESORT_S = 5.0
"""Hosts keep their places for so long, or the eye could not follow them."""
_WORST_FIRST = tuple(Condition)


def _by_load(picture: Picture, host: Host) -> float:
    load = picture.of_host(host).utilization
    return 1.0 if load is None else -load


def _by_trouble(picture: Picture, host: Host) -> tuple[int, int]:
    sums = picture.of_host(host)
    return _WORST_FIRST.index(sums.worst), -sums.bad


ORDERS: Mapping[str, Callable[[Picture, Host], object] | None] = {
    "inventory": None,
    "name": lambda picture, host: host.name,
    "load": _by_load,
    "free": lambda picture, host: -picture.of_host(host).free,
    "trouble": _by_trouble,
}


def following_order(name: str) -> str:
    """Return the order after this one, around."""
    names = list(ORDERS)
    return names[(names.index(name) + 1) % len(names)]


@dataclass(slots=True)
class Choice:
    """What is chosen to be shown; remembers the places of a live order for a while."""

    filter: Filter = field(default_factory=Filter)
    faults_only: bool = False
    order: str = "inventory"
    _places: Mapping[str, int] | None = None
    _placed: tuple[float, str] = (0.0, "")

    def of(self, picture: Picture) -> Sequence[Shown]:
        """Return what is shown of a picture."""
        everything = Everything(picture.snapshot.hosts)
        if self.filter.terms or self.faults_only:
            return tuple(self._sorted(picture, list(self._passing(picture))))
        if ORDERS[self.order] is None:
            return everything
        return tuple(self._sorted(picture, list(everything)))

    def _passing(self, picture: Picture) -> Iterator[Shown]:
        for host in picture.snapshot.hosts:
            if self.faults_only and picture.of_host(host).worst is Condition.OK:
                continue
            devices = self.filter.devices(host, picture.users)
            if devices is not None:
                yield Shown(host, devices)

    def _sorted(self, picture: Picture, chosen: list[Shown]) -> list[Shown]:
        key = ORDERS[self.order]
        if key is None:
            return chosen
        placed_at, placed_by = self._placed
        fresh = self._places is None or placed_by != self.order
        if fresh or not 0.0 <= picture.now - placed_at < RESORT_S:
            hosts = sorted(picture.snapshot.hosts, key=lambda host: key(picture, host))  # type: ignore[arg-type, return-value]
            self._places = {host.name: at for at, host in enumerate(hosts)}
            self._placed = (picture.now, self.order)
        places = self._places or {}
        return sorted(chosen, key=lambda item: places.get(item.host.name, len(places)))


class Occupants:
    """Which host each place of the map shows.

    Two are compared without a look at the records of the earlier one: those of a thousand hosts are
    no longer in the processor's caches, and to fetch them takes longer than to draw the map.
    """

    def __init__(self, shown: Sequence[Shown] = ()) -> None:
        self._shown = shown
        """Held, so that no other record takes the address of one of these."""
        hosts = hosts_of(shown)
        self._names = roll_of(hosts).names
        self.devices = device_counts(shown)
        """How many devices each of them shows."""
        self._addresses = array("Q", map(id, hosts))

    def are_those_of(self, earlier: Occupants) -> bool:
        """Whether each place has the same host, with as many devices."""
        return self._names == earlier._names and self.devices == earlier.devices

    def changed_since(self, earlier: Occupants) -> list[int]:
        """Return the places with another record than before."""
        pairs = zip(self._addresses, earlier._addresses, strict=True)
        return [place for place, (now, then) in enumerate(pairs) if now != then]
