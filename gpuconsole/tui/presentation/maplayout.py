"""Where each host stands on the map, for every density. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from gpuconsole.core.fleet import Device, Host


class Density(IntEnum):
    """From least to most of each host."""

    HOST_CELL = 0
    HALF_BLOCKS = 1
    DEVICE_CELL = 2
    HOST_LINE = 3
    DEVICE_LINE = 4


@dataclass(frozen=True, slots=True)
class Shown:
    """A host that passed the filter, with those of its devices that did."""

    host: Host
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One line: the hosts on it by their place in the shown list, or one device of one host."""

    label: str
    hosts: tuple[int, ...]
    device: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """All rows of the map at one density and width."""

    density: Density
    rows: tuple[Row, ...]
    gutter: int = 0
    cell_width: int = 1
    gap: int = 0
    row_of: dict[tuple[int, int], int] = field(default_factory=dict)
    """(host, device) to row; the device is 0 unless each device has its own line."""

    @property
    def heading(self) -> int:
        """Lines that stay on top while the rows scroll."""
        return 1 if self.density >= Density.HOST_LINE else 0

    def row(self, host: int, device: int) -> int:
        """Return the row of a host, or of one device of it."""
        wanted = device if self.density is Density.DEVICE_LINE else 0
        return self.row_of.get((host, wanted), self.row_of.get((host, 0), 0))


def layout(shown: Sequence[Shown], density: Density, width: int) -> Layout:
    """Place the shown hosts."""
    if density is Density.DEVICE_LINE:
        rows = [
            Row("", (at,), device)
            for at, item in enumerate(shown)
            for device in range(max(1, len(item.devices)))
        ]
        return _indexed(density, rows)
    if density is Density.HOST_LINE:
        return _indexed(density, [Row("", (at,), None) for at in range(len(shown))])
    return _grid(shown, density, width)


def natural_density(shown: Sequence[Shown], width: int, height: int) -> Density:
    """Return the most detailed density at which everything fits."""
    for density in (Density.DEVICE_LINE, Density.HOST_LINE, Density.DEVICE_CELL):
        placed = layout(shown, density, width)
        if len(placed.rows) + placed.heading <= height:
            return density
    half = layout(shown, Density.HALF_BLOCKS, width)
    return Density.HALF_BLOCKS if len(half.rows) <= height else Density.HOST_CELL


def _grid(shown: Sequence[Shown], density: Density, width: int) -> Layout:
    most = max((len(item.host.devices) for item in shown), default=1) or 1
    cell = {Density.HOST_CELL: 1, Density.HALF_BLOCKS: (most + 1) // 2}.get(density, most)
    gap = 0 if density is Density.HOST_CELL else 1
    groups = _racks(shown) if density is Density.DEVICE_CELL else [("", list(range(len(shown))))]
    gutter = min(14, max((len(label) for label, _ in groups), default=0))
    gutter += 1 if gutter else 0
    per_row = max(1, (width - gutter + gap) // (cell + gap))
    rows: list[Row] = []
    for label, members in groups:
        rows += [
            Row(label if start == 0 else "", tuple(members[start : start + per_row]))
            for start in range(0, len(members), per_row)
        ]
    return _indexed(density, rows, gutter, cell, gap)


def _racks(shown: Sequence[Shown]) -> list[tuple[str, list[int]]]:
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
    density: Density, rows: list[Row], gutter: int = 0, cell: int = 1, gap: int = 0
) -> Layout:
    row_of = {
        (host, row.device or 0): number for number, row in enumerate(rows) for host in row.hosts
    }
    return Layout(density, tuple(rows), gutter, cell, gap, row_of)
