"""A device as a line of a table: model, memory, FP16 TFLOPS, NVLink, load and the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import lru_cache, partial

from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.core.devices.health_levels import (
    Condition,
    condition,
    heat_level,
    is_busy,
    level,
    memory_percent,
)
from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.render.fleet_map.metrics import METRICS, Metric, is_free, owner_style
from gpuconsole.tui.render.fleet_map.owners import Owners
from gpuconsole.tui.render.plots.sparkline import SPANS_S, Sparks
from gpuconsole.tui.render.text_cells import Align, Piece, bar, fit, fitting_columns
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.style.styles import READABLE, Ink


@dataclass(frozen=True, slots=True)
class Column:
    """A column: dropped when room is short, the highest `rank` first; `grow` takes the rest.

    `draw` takes ink, picture, host, device and width.
    """

    title: str
    width: int
    rank: int
    draw: Callable[..., list[Piece]]
    right: bool = False
    grow: bool = False


@lru_cache(maxsize=1024)
def short_model(model: str) -> str:
    """Return the model without the words that every card of a maker carries."""
    for word in ("NVIDIA ", "GeForce ", "Tesla ", "Huawei "):
        model = model.replace(word, "")
    return model


def memory_words(device: Device) -> str:
    """Return used and total memory in GiB."""
    if device.memory_total_mib is None:
        return "n/a"
    total = f"{device.memory_total_mib / 1024:.0f}G"
    if device.memory_used_mib is None:
        return f"n/a/{total}"
    return f"{device.memory_used_mib / 1024:.1f}/{total}"


def free_words(device: Device) -> str:
    """Return the free memory in whole GiB, or `-` if the device is in use."""
    free = device.memory_free_mib
    if is_busy(device) or free is None:
        return "-"
    return f"{free / 1024:.0f}"


def fp16_words(device: Device) -> str:
    """Return the nominal dense FP16 rate in TFLOPS."""
    spec = Catalogue.load().lookup(device.model, device.memory_total_mib)
    if spec is None or spec.fp16_tflops is None:
        return "n/a"
    return f"{spec.fp16_tflops:.0f}"


def link_words(device: Device) -> str:
    """Return how the device reaches its neighbours: as read, else as its model is built."""
    if device.backend != "gpu":
        # Other makers have links of their own, for which the words of `nvidia-smi` say little.
        return _nominal_link(device)
    nvlink = [peer.kind for peer in device.peers if peer.kind.startswith("NV")]
    if nvlink:
        return max(nvlink, key=lambda kind: (len(kind), kind))
    if device.peers:
        return min((peer.kind for peer in device.peers), key=_distance)
    return _nominal_link(device)


def _nominal_link(device: Device) -> str:
    spec = Catalogue.load().lookup(device.model, device.memory_total_mib)
    if spec is None:
        return "n/a"
    return spec.interconnect.split(" ")[0] if spec.interconnect else "none"


def _distance(kind: str) -> int:
    order = ("PIX", "PXB", "PHB", "NODE", "SYS")
    return order.index(kind) if kind in order else len(order)


def _host(ink: Ink, picture: Picture, host: Host, device: Device, width: int) -> list[Piece]:
    first = bool(host.devices) and host.devices[0] is device
    return [(fit(host.name, width), ink.strong if first else ink.muted)]


def _index(ink: Ink, picture: Picture, host: Host, device: Device, width: int) -> list[Piece]:
    state = condition(host, device)
    number = fit(str(device.index), width - 1, "right")
    if state is Condition.OK:
        return [(number + " ", ink.text)]
    return [(number, ink.text), (ink.glyphs.conditions[state], ink.conditions[state])]


def _model(ink: Ink, picture: Picture, host: Host, device: Device, width: int) -> list[Piece]:
    return [(fit(short_model(device.model), width), ink.text)]


def _memory(ink: Ink, picture: Picture, host: Host, device: Device, width: int) -> list[Piece]:
    step = level(memory_percent(device))
    style = ink.muted if step is None else ink.heat[max(READABLE, step)]
    return [(fit(memory_words(device), width, "right"), style)]


def _fp16(ink: Ink, picture: Picture, host: Host, device: Device, width: int) -> list[Piece]:
    return [(fit(fp16_words(device), width, "right"), ink.text)]


def _link(ink: Ink, picture: Picture, host: Host, device: Device, width: int) -> list[Piece]:
    return [(fit(link_words(device), width), ink.text)]


def _shown(view: Shows, ink: Ink, picture: Picture, host: Host, device: Device, width: int
) -> list[Piece]:  # fmt: skip
    """Return the metric of the map: a bar and its figure, or in a word that the device is free,
    or in trouble."""
    state = condition(host, device)
    if state is Condition.DOWN or (state is Condition.FAULT and device.utilization is None):
        word = "down" if state is Condition.DOWN else "lost" if device.lost else "fault"
        return [(fit(ink.say(word), width), ink.bad)]
    if state is Condition.ASLEEP:
        return [(fit(ink.say("asleep"), width), ink.muted)]
    metric = view.metric
    sound = state in (Condition.OK, Condition.THROTTLED)
    if metric.frees and sound and is_free(device) and device.uuid not in picture.owners:
        return [(fit(f"{ink.glyphs.free} {ink.say('free')}", width), ink.free)]
    share, figure, step = metric.share(device), metric.figure(device), metric.level(device)
    style = ink.muted if step is None else ink.heat[step]
    words = "n/a" if figure is None else f"{figure:.0f}{metric.unit}"
    letter: list[Piece] = []
    if metric.name == "owner" and (user := picture.user_name(device)):
        slot = view.owners.slot(user)
        style = owner_style(ink, slot)
        letter = [(view.owners.letter(slot) + " ", style)]
    room = width - 5 - (2 if letter else 0)
    return [*letter, *bar(ink, share, room, style), (fit(words, 5, "right"), ink.text)]


def _past(view: Shows, ink: Ink, picture: Picture, host: Host, device: Device, width: int
) -> list[Piece]:  # fmt: skip
    metric = view.metric
    if view.sparks is None or condition(host, device) in (Condition.DOWN, Condition.ASLEEP):
        return [(" " * width, ink.text)]
    full = metric.full(device)
    return [view.sparks.piece(ink, device, metric.past, full, width, picture.now)]


def _temperature(ink: Ink, picture: Picture, host: Host, device: Device, width: int) -> list[Piece]:
    step = heat_level(device.temperature_c)
    words = "n/a" if device.temperature_c is None else f"{device.temperature_c:.0f}"
    hot = step is not None and step >= 8
    return [(fit(words, width, "right"), ink.warn if hot else ink.text)]


def _power(ink: Ink, picture: Picture, host: Host, device: Device, width: int) -> list[Piece]:
    words = "n/a" if device.power_w is None else f"{device.power_w:.0f}"
    return [(fit(words, width, "right"), ink.text)]


def _owner(ink: Ink, picture: Picture, host: Host, device: Device, width: int) -> list[Piece]:
    name = picture.owner_name(device)
    is_ours = device.uuid in picture.owners
    return [(fit(name or "-", width), ink.text if is_ours else ink.muted)]


@dataclass(frozen=True, slots=True)
class Shows:
    """What the table shows beside the facts: a metric, and where its past comes from."""

    metric: Metric = METRICS[0]
    owners: Owners = field(default_factory=Owners)
    sparks: Sparks | None = None


COLUMNS: tuple[Column, ...] = (
    Column("host", 10, 0, _host),
    Column("gpu", 4, 0, _index, right=True),
    Column("model", 14, 0, _model),
    Column("memory", 8, 0, _memory, right=True),
    Column("load", 10, 0, _shown),
    Column("last 5m", 12, 4, _past),
    Column("C", 3, 2, _temperature, right=True),
    Column("W", 4, 3, _power, right=True),
    Column("owner", 8, 1, _owner, grow=True),
)
DETAILS: tuple[Column, ...] = (
    Column("FP16", 5, 5, _fp16, right=True),
    Column("link", 7, 6, _link),
)
"""What never changes: on the host's own screen, where there is room."""
GAP = 1
_GROWTH = {"host": 6, "model": 8, "load": 8, "last 5m": 18, "FP16": 6}
_LAST = dict(zip(SPANS_S, ("last 30s", "last 1m", "last 2m", "last 5m"), strict=True))
_OF_METRIC = {"memory": "held", "temperature": "temp", "power": "power", "free": "free"}


def columns_for(
    width: int, shows: Shows | None = None, *, with_host: bool = True, with_details: bool = False
) -> tuple[tuple[Column, int], ...]:
    """Return the columns that fit in `width` cells, with their widths."""
    shows = shows or Shows()
    first = COLUMNS if with_host else COLUMNS[1:]
    if with_details:
        at = 1 + next(place for place, column in enumerate(first) if column.title == "memory")
        first = (*first[:at], *DETAILS, *first[at:])
    chosen = [
        replace(column, draw=partial(column.draw, shows)) if column.draw in (_shown, _past)
        else column
        for column in first
        if column.draw is not _past or (shows.sparks is not None and shows.sparks.span_s)
    ]  # fmt: skip
    chosen = fitting_columns(chosen, _needed, width)
    spare = max(0, width - _needed(chosen))
    extra = {name: min(spare // 4, most) for name, most in _GROWTH.items()}
    spare -= sum(extra[column.title] for column in chosen if column.title in extra)
    titles = {"load": _OF_METRIC.get(shows.metric.name, "load")}
    if shows.sparks is not None and shows.sparks.span_s:
        titles["last 5m"] = _LAST[shows.sparks.span_s]
    return tuple(
        (
            replace(column, title=titles.get(column.title, column.title)),
            column.width + extra.get(column.title, 0) + (spare if column.grow else 0),
        )
        for column in chosen
    )


def heading(ink: Ink, columns: tuple[tuple[Column, int], ...]) -> list[Piece]:
    """Return the line above the table."""
    pieces: list[Piece] = []
    for column, width in columns:
        title = "FP16 TFLOPS" if column.title == "FP16" and width >= 11 else column.title
        align: Align = "right" if column.right else "left"
        pieces.append((fit(ink.say(title), width, align), ink.muted))
        pieces.append((" " * GAP, ink.text))
    return pieces


def device_line(
    ink: Ink, picture: Picture, host: Host, device: Device, columns: tuple[tuple[Column, int], ...]
) -> list[Piece]:
    """Return one device as a line of the table."""
    pieces: list[Piece] = []
    for column, width in columns:
        pieces += column.draw(ink, picture, host, device, width)
        pieces.append((" " * GAP, ink.text))
    return pieces


def marked(ink: Ink, pieces: list[Piece]) -> list[Piece]:
    """Return the line of a device that answers what was asked for, with its mark."""
    free, lit = ink.glyphs.free + " ", ink.glyphs.lit + " "
    words = (
        (text.replace(free, lit, 1) if style == ink.free else text, style)
        for text, style in pieces
    )  # fmt: skip
    return [(text, style if style.reverse else ink.match) for text, style in words]


def device_table(
    ink: Ink,
    picture: Picture,
    host: Host,
    cursor: Device | None,
    width: int,
    shows: Shows,
    lit: frozenset[str] = frozenset(),
) -> list[list[Piece]]:
    """Return the devices of a host as lines with a heading; `cursor` is the marked one, `lit` are
    those that stand out, by UUID."""
    columns = columns_for(width - 2, shows, with_host=False)
    mark, space = (ink.glyphs.cursor + " ", ink.key), ("  ", ink.text)
    lines = [[space, *heading(ink, columns)]]
    for device in host.devices:
        pieces = device_line(ink, picture, host, device, columns)
        pieces = marked(ink, pieces) if device.uuid in lit else pieces
        lines.append([mark if device is cursor else space, *pieces])
    return lines


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.width + GAP for column in columns)
