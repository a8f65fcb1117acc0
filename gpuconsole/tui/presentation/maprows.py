"""Rows of the fleet map as styled pieces, one function a density."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style

from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.levels import (
    Condition,
    condition,
    heat_level,
    host_condition,
    level,
    power_percent,
)
from gpuconsole.tui.ink import Ink
from gpuconsole.tui.picture import Picture, host_totals
from gpuconsole.tui.presentation.cells import Piece, fit
from gpuconsole.tui.presentation.devices import Column, device_line, short_model
from gpuconsole.tui.presentation.maplayout import Density, Layout, Row, Shown
from gpuconsole.tui.presentation.metrics import BY_NAME, Metric, cell

_UNDERLINE = Style(underline=True)


@dataclass(frozen=True, slots=True)
class MapView:
    """All that decides how a row looks, but for the cursor."""

    ink: Ink
    picture: Picture
    shown: Sequence[Shown]
    layout: Layout
    metric: str
    columns: tuple[tuple[Column, int], ...]
    width: int


def draw_row(view: MapView, row: Row, cursor: tuple[int, int] | None) -> list[Piece]:
    """Return one row; `cursor` is (host, device) when it stands on this row."""
    if view.layout.density is Density.DEVICE_LINE:
        return _chosen(view, _device_line(view, row), cursor is not None)
    if view.layout.density is Density.HOST_LINE:
        return _chosen(view, _host_line(view, view.shown[row.hosts[0]].host), cursor is not None)
    return _cells(view, row, cursor[0] if cursor else None)


def host_heading(ink: Ink, width: int) -> list[Piece]:
    """Return the line above the density that shows a host a line."""
    cells, model, owner = _host_widths(width)
    words = f"  {'host':<14} {'devices':<{cells}} {'model' if model else '':<{model}}"
    words += f" {'util':>5} {'mem':>5} {'C':>4} {'W':>6} {'free':>4}"
    return [(fit(words + ("  owner" if owner else ""), width), ink.muted)]


def _host_widths(width: int) -> tuple[int, int, int]:
    """Return the cells for a host's devices, models and owners, 0 where there is no room."""
    cells = 16 if width >= 90 else 8
    model = 17 if width >= 74 else 0
    owner = width - (cells + model + 49)
    return cells, model, owner if owner >= 8 else 0


def _chosen(view: MapView, pieces: list[Piece], here: bool) -> list[Piece]:
    ink = view.ink
    if not here:
        return [("  ", ink.text), *pieces]
    rest = [(text, style if style.reverse else style + ink.ground) for text, style in pieces]
    return [(ink.glyphs.cursor + " ", ink.key + ink.ground), *rest]


def _device_line(view: MapView, row: Row) -> list[Piece]:
    item = view.shown[row.hosts[0]]
    if item.devices and row.device is not None:
        device = item.devices[row.device]
        return device_line(view.ink, view.picture, item.host, device, view.columns)
    return _quiet_host(view.ink, item.host, view.width - 2)


def _quiet_host(ink: Ink, host: Host, width: int) -> list[Piece]:
    """A host without devices: what is wrong, or that it is still being asked."""
    state = host_condition(host)
    words = host.error or {
        HostState.CONNECTING: "connecting",
        HostState.UP: "no devices found",
    }.get(host.state, host.state.value)
    glyph = ink.glyphs.conditions.get(state, " ")
    style = ink.conditions.get(state, ink.text)
    return [
        (fit(host.name, 12), ink.strong),
        (" ", ink.text),
        (glyph, style),
        ("  ", ink.text),
        (fit(words, max(4, width - 17)), ink.bad if state is Condition.DOWN else ink.muted),
    ]


def _host_line(view: MapView, host: Host) -> list[Piece]:
    ink, picture = view.ink, view.picture
    if not host.devices:
        return _quiet_host(ink, host, view.width - 2)
    totals = host_totals(host)
    metric = BY_NAME[view.metric]
    room, model_room, owner_room = _host_widths(view.width)
    cells = [cell(ink, picture, host, device, metric) for device in host.devices[:room]]
    temperatures = [d.temperature_c for d in host.devices if d.temperature_c is not None]
    hottest = f"{max(temperatures):.0f}" if temperatures else "n/a"
    owners = (picture.owner_name(device) for device in host.devices)
    names = dict.fromkeys(filter(None, ("drained" if host.drained else "", *owners)))
    figures = (
        f" {_percent(totals.utilization):>5} {_percent(totals.memory):>5}"
        f" {hottest:>4} {totals.power_w:>6.0f} {totals.free:>4}  "
    )
    return [
        (fit(host.name, 14) + " ", ink.strong),
        *cells,
        (" " * (room + 1 - len(cells)), ink.text),
        (fit(_models(host), model_room), ink.text),
        (figures, ink.text),
        (fit(", ".join(names) or "-", owner_room), ink.muted),
    ]


def _models(host: Host) -> str:
    counts: dict[str, int] = {}
    for device in host.devices:
        counts[short_model(device.model)] = counts.get(short_model(device.model), 0) + 1
    return " + ".join(f"{count}x {model}" for model, count in counts.items())


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.0f}%"


def _cells(view: MapView, row: Row, cursor: int | None) -> list[Piece]:
    ink, placed = view.ink, view.layout
    metric = BY_NAME[view.metric]
    pieces: list[Piece] = []
    if placed.gutter:
        pieces.append((fit(row.label, placed.gutter - 1) + " ", ink.muted))
    for at in row.hosts:
        host = view.shown[at].host
        drawn = _one_host(view, host, metric)
        if at == cursor:
            drawn = [(text, style + _UNDERLINE) for text, style in drawn]
        if placed.gap:
            before = ink.glyphs.left if at == cursor else " "
            if pieces and pieces[-1][0] == ink.glyphs.right:
                before = ""
            if before:
                pieces.append((before, ink.key))
        pieces += _merged(drawn)
        if at == cursor and placed.gap:
            pieces.append((ink.glyphs.right, ink.key))
    return pieces


def _one_host(view: MapView, host: Host, metric: Metric) -> list[Piece]:
    ink, width = view.ink, view.layout.cell_width
    if view.layout.density is Density.HOST_CELL:
        return [_host_cell(view, host, metric)]
    state = host_condition(host)
    if not host.devices:
        glyph = ink.glyphs.conditions.get(state, "?")
        return [(glyph, ink.conditions[state]), (" " * (width - 1), ink.text)]
    if view.layout.density is Density.DEVICE_CELL:
        drawn = [cell(ink, view.picture, host, device, metric) for device in host.devices]
    else:
        drawn = _halves(view, host, metric)
    return [*drawn, (" " * (width - len(drawn)), ink.text)]


def _halves(view: MapView, host: Host, metric: Metric) -> list[Piece]:
    ink, devices = view.ink, host.devices
    pieces: list[Piece] = []
    for at in range(0, len(devices), 2):
        pair = devices[at : at + 2]
        trouble = [device for device in pair if condition(host, device) is not Condition.OK]
        levels = [_level(view, device, metric) for device in pair]
        if trouble or metric.name == "owner":
            first = trouble[0] if trouble else pair[0]
            pieces.append(cell(ink, view.picture, host, first, metric))
        elif ink.ascii:
            step = max(levels)
            pieces.append((ink.glyphs.heat[step], ink.heat[step]))
        else:
            style = ink.heat_pairs[levels[0], levels[-1] if len(pair) == 2 else 0]
            pieces.append((ink.glyphs.half, style))
    return pieces


def _level(view: MapView, device: Device, metric: Metric) -> int:
    return metric.level(device) or 0


def _host_cell(view: MapView, host: Host, metric: Metric) -> Piece:
    ink = view.ink
    state = host_condition(host)
    if state is not Condition.OK:
        return ink.glyphs.conditions[state], ink.conditions[state]
    if metric.name == "owner" and host.devices:
        return cell(ink, view.picture, host, host.devices[0], metric)
    step = _host_level(host, metric)
    return ink.glyphs.heat[step], ink.heat[step]


def _host_level(host: Host, metric: Metric) -> int:
    if metric.name == "free":
        return level(100.0 * host_totals(host).free / max(1, len(host.devices))) or 0
    if metric.name == "temperature":
        return max((heat_level(device.temperature_c) or 0 for device in host.devices), default=0)
    totals = host_totals(host)
    if metric.name == "memory":
        return level(totals.memory) or 0
    if metric.name == "power":
        shares = [share for device in host.devices if (share := power_percent(device)) is not None]
        return level(sum(shares) / len(shares)) or 0 if shares else 0
    return level(totals.utilization) or 0


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Join neighbours of one style: fewer segments, less to write to the terminal."""
    result: list[Piece] = []
    for text, style in pieces:
        if result and result[-1][1] is style:
            result[-1] = (result[-1][0] + text, style)
        else:
            result.append((text, style))
    return result
