"""The position of each host on the map, for every density and grouping. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, overload

from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.roll import roll_of
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.render.device_rows import short_model

UNGROUPED = ""
BY_MODEL = "model"


class Density(IntEnum):
    """From least to most of each host."""

    HOST_CELL = 0
    HALF_BLOCKS = 1
    DEVICE_CELL = 2
    HOST_LINE = 3
    DEVICE_LINE = 4


class Shown(NamedTuple):
    """A host that passed the filter, with those of its devices that did."""

    host: Host
    devices: tuple[Device, ...]


class Everything(Sequence[Shown]):
    """All hosts with all their devices, which is what is shown without a filter.

    Each is put together when it is asked for: to do so for a thousand at each paint, and to free
    those of the paint before, takes half as long as to draw them.
    """

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts

    def __len__(self) -> int:
        return len(self.hosts)

    @overload
    def __getitem__(self, place: int) -> Shown: ...

    @overload
    def __getitem__(self, place: slice) -> Everything: ...

    def __getitem__(self, place: int | slice) -> Shown | Everything:
        if isinstance(place, slice):
            return Everything(self.hosts[place])
        host = self.hosts[place]
        return Shown(host, host.devices)


def hosts_of(shown: Sequence[Shown]) -> Sequence[Host]:
    """Return the hosts that are shown, by their places."""
    return shown.hosts if isinstance(shown, Everything) else [host for host, _ in shown]


def device_counts(shown: Sequence[Shown]) -> tuple[int, ...]:
    """Return how many devices each of them shows."""
    if isinstance(shown, Everything):
        return roll_of(shown.hosts).devices
    return tuple([len(devices) for _, devices in shown])


@dataclass(frozen=True, slots=True)
class Row:
    """One line: the hosts on it by their place in the shown list, or one device of one host, or
    the heading of a group with all its hosts."""

    label: str
    hosts: tuple[int, ...]
    device: int | None = None
    heading: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """All rows of the map at one density and width."""

    density: Density
    rows: tuple[Row, ...]
    first_row: tuple[int, ...]
    """The row of each shown host; the first of them, where each device has its own line."""
    group_row: tuple[int, ...] = ()
    """The heading's row of each shown host; empty without groups."""
    gutter: int = 0
    cell_width: int = 1
    gap: int = 0

    @property
    def heading(self) -> int:
        """Lines that stay on top while the rows scroll."""
        return 1 if self.density >= Density.HOST_LINE else 0

    def cells(self, row: Row) -> int:
        """Return how wide a row of cells is; the map may be narrower than its widest host."""
        return self.gutter + self.gap + len(row.hosts) * (self.cell_width + self.gap)

    def row(self, host: int, device: int) -> int:
        """Return the row of a host, or of one device of it."""
        if not 0 <= host < len(self.first_row):
            return 0
        return self.first_row[host] + (device if self.density is Density.DEVICE_LINE else 0)

    def rows_of(self, hosts: Sequence[int], shown: Sequence[Shown]) -> set[int]:
        """Return the rows that change with these hosts, their groups' headings among them."""
        rows = {self.first_row[host] for host in hosts}
        if self.density is Density.DEVICE_LINE:
            for host in hosts:
                first = self.first_row[host]
                rows.update(range(first, first + len(shown[host].devices)))
        if self.group_row:
            rows.update(self.group_row[host] for host in hosts)
        return rows


def groupings(hosts: Sequence[Host]) -> tuple[str, ...]:
    """Return by what hosts can be grouped: nothing, each label that one has, the model."""
    labels = dict.fromkeys(label for host in hosts for label in host.labels)
    return (UNGROUPED, *labels, *(() if BY_MODEL in labels else (BY_MODEL,)))


def group_of(host: Host, by: str) -> str:
    """Return the group of a host."""
    if by in host.labels or by != BY_MODEL:
        return host.labels.get(by, "")
    return " + ".join(dict.fromkeys(short_model(device.model) for device in host.devices))


def layout(shown: Sequence[Shown], density: Density, width: int, group: str = UNGROUPED) -> Layout:
    """Place the shown hosts, in groups where that is asked for."""
    if group == UNGROUPED and density is Density.DEVICE_CELL:
        return _indexed(shown, density, _gutters(shown), width)
    if group == UNGROUPED:
        return _indexed(shown, density, [("", list(range(len(shown))))], width)
    groups: dict[str, list[int]] = {}
    for at, item in enumerate(shown):
        groups.setdefault(group_of(item.host, group), []).append(at)
    return _indexed(shown, density, sorted(groups.items(), key=_last_is_none), width, headed=True)


def natural_density(
    shown: Sequence[Shown], width: int, height: int, group: str = UNGROUPED
) -> Density:
    """Return the most detailed density at which everything fits."""
    for density in reversed(Density):
        placed = layout(shown, density, width, group)
        if len(placed.rows) + placed.heading <= height:
            return density
    return Density.HOST_CELL


def _last_is_none(named: tuple[str, list[int]]) -> tuple[bool, str]:
    return not named[0], named[0]


def _gutters(shown: Sequence[Shown]) -> list[tuple[str, list[int]]]:
    """Group by the rack label, where every host has one; else by name, a host a group."""
    if not all("rack" in item.host.labels for item in shown):
        if len(shown) > 24:
            return [("", list(range(len(shown))))]
        return [(item.host.name, [at]) for at, item in enumerate(shown)]
    groups: dict[str, list[int]] = {}
    for at, item in enumerate(shown):
        groups.setdefault(item.host.labels["rack"], []).append(at)
    return list(groups.items())


def _indexed(
    shown: Sequence[Shown],
    density: Density,
    groups: Sequence[tuple[str, list[int]]],
    width: int,
    *,
    headed: bool = False,
) -> Layout:
    gutter, cell, gap = (0, 1, 0) if density >= Density.HOST_LINE else _grid(
        shown, density, () if headed else [label for label, _ in groups]
    )  # fmt: skip
    per_row = 1 if density >= Density.HOST_LINE else max(1, (width - gutter - gap) // (cell + gap))
    rows: list[Row] = []
    first_row, group_row = [0] * len(shown), [0] * len(shown) if headed else []
    for label, members in groups:
        if headed:
            for host in members:
                group_row[host] = len(rows)
            rows.append(Row(label, tuple(members), heading=True))
        for start in range(0, len(members), per_row):
            part = members[start : start + per_row]
            for host in part:
                first_row[host] = len(rows)
            if density is Density.DEVICE_LINE:
                count = max(1, len(shown[part[0]].devices))
                rows += [Row("", (part[0],), device) for device in range(count)]
            else:
                rows.append(Row(label if start == 0 and not headed else "", tuple(part)))
    return Layout(
        density, tuple(rows), tuple(first_row), tuple(group_row), gutter, cell, gap
    )  # fmt: skip


def _grid(shown: Sequence[Shown], density: Density, labels: Sequence[str]) -> tuple[int, int, int]:
    """Return the cells for labels at the left, for a host, and between two."""
    most = max((len(item.host.devices) for item in shown), default=1) or 1
    cell = {Density.HOST_CELL: 1, Density.HALF_BLOCKS: (most + 1) // 2}.get(density, most)
    gutter = min(14, max((len(label) for label in labels), default=0))
    return gutter + (1 if gutter else 0), cell, 0 if density is Density.HOST_CELL else 1
