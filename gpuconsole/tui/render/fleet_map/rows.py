"""Rows of the fleet map as styled pieces, one function a density."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from rich.cells import cell_len
from rich.style import Style

from gpuconsole.core.devices.health_levels import Condition, host_condition
from gpuconsole.core.fleet import Host, HostState
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.tui.render.device_rows import Column, device_line, free_words, marked, short_model
from gpuconsole.tui.render.fleet_map.layout import Density, Layout, Row, Shown
from gpuconsole.tui.render.fleet_map.metrics import BY_NAME, Cells, Metric, device_codes, host_codes
from gpuconsole.tui.render.fleet_map.owners import Owners
from gpuconsole.tui.render.text_cells import Piece, fit
from gpuconsole.tui.snapshot import HostSums, Picture, Totals, hottest_c
from gpuconsole.tui.style.styles import Ink

_UNDERLINE = Style(underline=True)


@dataclass(frozen=True, slots=True)
class MapView:
    """All that decides how a row looks, but for the cursor."""

    ink: Ink
    picture: Picture
    shown: Sequence[Shown]
    hosts: Sequence[Host]
    """The hosts of `shown`."""
    layout: Layout
    metric: str
    columns: tuple[tuple[Column, int], ...]
    width: int
    cells: Cells
    owners: Owners
    lit: frozenset[str] = frozenset()
    group: str = ""


def draw_row(view: MapView, row: Row, cursor: tuple[int, int] | None) -> list[Piece]:
    """Return one row; `cursor` is (host, device) when it is on this row.

    A row of cells is `Layout.cells` wide, and filled up to the map's width.
    """
    if row.heading:
        return _group_heading(view, row)
    if view.layout.density is Density.DEVICE_LINE:
        return _chosen(view, _device_line(view, row), cursor is not None)
    if view.layout.density is Density.HOST_LINE:
        return _chosen(view, _host_line(view, view.hosts[row.hosts[0]]), cursor is not None)
    return _cells(view, row, cursor[0] if cursor else None)


def host_heading(ink: Ink, width: int, metric: str = "") -> list[Piece]:
    """Return the line above the density that shows a host a line."""
    cells, model, owner = _host_widths(width)
    say = ink.say
    words = f"  {fit(say('host'), 14)} {fit(say('devices'), cells)} {fit(say('model'), model)}"
    words += f" {fit(say('util'), 5, 'right')} {fit(say('mem'), 5, 'right')} {'C':>4} {'W':>6}"
    words += f" {fit(say('free'), 4, 'right')}"
    last = say("  free GiB of each device") if metric == "free" else say("  owner")
    return [(fit(words + (last if owner else ""), width), ink.muted)]


def _host_widths(width: int) -> tuple[int, int, int]:
    """Return the cells for a host's devices, models and owners, 0 where there is no room."""
    cells = 16 if width >= 90 else 8
    model = 17 if width >= 74 else 0
    owner = width - (cells + model + 49)
    return cells, model, owner if owner >= 8 else 0


def _group_heading(view: MapView, row: Row) -> list[Piece]:
    """Name, number of hosts, free devices and mean load of a group."""
    ink, say = view.ink, view.ink.say
    hosts = [view.hosts[at] for at in row.hosts]
    totals = Totals.of(view.picture.of_host(host) for host in hosts)
    name = f"{view.group} {row.label}" if row.label else say(msg("no {label}", label=view.group))
    count = say(f"{len(hosts):,} host" if len(hosts) == 1 else f"{len(hosts):,} hosts")
    words = f"  {count}  " + say(f"{totals.free:,} of {totals.devices:,} free") + "  "
    words += say(f"util {_percent(totals.utilization)}")
    words += say(f"  mem {_percent(totals.memory)}")
    bad = say(f"  {totals.bad} bad") if totals.bad else ""
    room = max(4, view.width - cell_len(words) - cell_len(bad) - 1)
    title = fit(name, room).rstrip()
    return [
        (title, ink.strong),
        (words, ink.muted),
        (bad, ink.bad),
        (" ", ink.text),
        (_rule(ink) * max(0, room - cell_len(title)), ink.rule),
    ]


def _rule(ink: Ink) -> str:
    return "-" if ink.ascii else "─"


def _chosen(view: MapView, pieces: list[Piece], here: bool) -> list[Piece]:
    ink = view.ink
    if not here:
        return [("  ", ink.text), *pieces]
    # What has a ground of its own keeps it: its letters have the colour of the map's.
    plain = ink.text.bgcolor
    rest = [
        (text, style + ink.ground if style.bgcolor == plain and not style.reverse else style)
        for text, style in pieces
    ]
    return [(ink.glyphs.cursor + " ", ink.key + ink.ground), *rest]


def _device_line(view: MapView, row: Row) -> list[Piece]:
    item = view.shown[row.hosts[0]]
    if item.devices and row.device is not None:
        device = item.devices[row.device]
        pieces = device_line(view.ink, view.picture, item.host, device, view.columns)
        return marked(view.ink, pieces) if device.uuid in view.lit else pieces
    return _quiet_host(view.ink, item.host, view.width - 2)


def _quiet_host(ink: Ink, host: Host, width: int) -> list[Piece]:
    """A host without devices: what is wrong, or that it is still being asked."""
    down = host.state is HostState.DOWN and not host.power
    state = Condition.DOWN if down else Condition.ASLEEP if host.power else Condition.STALE
    login = bool(host.cluster) and not host.node
    words = host.error or {
        HostState.CONNECTING: "connecting",
        HostState.UP: "login node of a Slurm cluster" if login else "no devices found",
    }.get(host.state, host.state.value)
    up = host.state is HostState.UP
    glyph, style = (" ", ink.text) if up else (ink.glyphs.conditions[state], ink.conditions[state])
    return [
        (fit(host.name, 12), ink.strong),
        (" ", ink.text),
        (glyph, style),
        ("  ", ink.text),
        (fit(ink.say(words), max(4, width - 17)), ink.bad if down else ink.muted),
    ]


def _host_line(view: MapView, host: Host) -> list[Piece]:
    ink, picture = view.ink, view.picture
    if not host.devices:
        return _quiet_host(ink, host, view.width - 2)
    sums = picture.of_host(host)
    room, model_room, owner_room = _host_widths(view.width)
    codes = device_codes(picture, host, BY_NAME[view.metric], view.owners, view.lit)
    cells = _merged([view.cells.one[code] for code in codes[:room]])
    heat = hottest_c(host)
    hottest = "n/a" if heat is None else f"{heat:.0f}"
    figures = (
        f" {_percent(sums.utilization):>5} {_percent(sums.memory):>5}"
        f" {hottest:>4} {sums.power_w:>6.0f} {sums.free:>4}  "
    )
    return [
        (fit(host.name, 14) + " ", ink.strong),
        *cells,
        (" " * (room + 1 - min(room, len(codes))), ink.text),
        (fit(_models(tuple([device.model for device in host.devices])), model_room), ink.text),
        (figures, ink.text),
        (fit(_last_words(view, host, sums), owner_room), ink.muted),
    ]


def _last_words(view: MapView, host: Host, sums: HostSums) -> str:
    """Who is on the host, or, where that is asked, what each device has left."""
    if view.metric == "free":
        return " ".join(free_words(device) for device in host.devices)
    owners = (view.picture.owner_name(device) for device in host.devices)
    word = "drained" if host.aside is None else "set aside"
    drained = view.ink.say(word) if host.drained else ""
    silent = view.ink.say("engine silent") if host.engine_error else ""
    names = dict.fromkeys(filter(None, (silent, drained, *owners)))
    return ", ".join(names) or "-"


@lru_cache(maxsize=1024)
def _models(models: tuple[str, ...]) -> str:
    counts = Counter(map(short_model, models))
    return " + ".join(f"{count}x {model}" for model, count in counts.items())


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.0f}%"


def _cells(view: MapView, row: Row, cursor: int | None) -> list[Piece]:
    ink, placed = view.ink, view.layout
    metric = BY_NAME[view.metric]
    pieces: list[Piece] = []
    if placed.gutter:
        pieces.append((fit(row.label, placed.gutter - 1) + " ", ink.muted))
    if not placed.gap:
        codes = host_codes(view.picture, view.hosts, row.hosts, metric, view.owners, view.lit)
        pieces += map(view.cells.one.__getitem__, codes)
        if cursor is not None:
            at = row.hosts.index(cursor) - len(row.hosts)
            pieces[at] = (pieces[at][0], ink.here)
        return _filled(pieces, row, view)
    between = (" ", ink.text)
    before = between
    for at in row.hosts:
        drawn = _one_host(view, view.hosts[at], metric)
        if at == cursor:
            pieces.append((ink.glyphs.left, ink.key))
            pieces += [(text, style + _UNDERLINE) for text, style in drawn]
            before = (ink.glyphs.right, ink.key)
        else:
            pieces.append(before)
            pieces += drawn
            before = between
    pieces.append(before)
    return _filled(pieces, row, view)


def _filled(pieces: list[Piece], row: Row, view: MapView) -> list[Piece]:
    """Return a row of hosts at least as wide as the map."""
    rest = view.width - view.layout.cells(row)
    if rest > 0:
        pieces.append((" " * rest, view.ink.text))
    return _merged(pieces)


def _one_host(view: MapView, host: Host, metric: Metric) -> list[Piece]:
    ink, width = view.ink, view.layout.cell_width
    cells = view.cells
    if not host.devices:
        up, state = host.state is HostState.UP, host_condition(host)
        glyph = " " if up else ink.glyphs.conditions.get(state, " ")
        return [(glyph, ink.conditions.get(state, ink.text)), (" " * (width - 1), ink.text)]
    codes = device_codes(view.picture, host, metric, view.owners, view.lit)
    if view.layout.density is Density.DEVICE_CELL:
        drawn = [cells.one[code] for code in codes]
    else:
        if len(codes) % 2:
            codes.append(0)
        drawn = [cells.two[pair] for pair in zip(codes[::2], codes[1::2], strict=True)]
    if len(drawn) < width:
        drawn.append((" " * (width - len(drawn)), ink.text))
    # Under a filter a host may have got more devices than it was given room for.
    return drawn[:width]


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Join neighbours of one style: fewer segments, less to write to the terminal."""
    result: list[Piece] = []
    text, style = "", None
    for more, next_style in pieces:
        if next_style is style:
            text += more
            continue
        if style is not None:
            result.append((text, style))
        text, style = more, next_style
    if style is not None:
        result.append((text, style))
    return result
