"""Containers of all hosts as rows: their order, columns that fit, and hosts that do not answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpuconsole.core.engines.host_containers import HostContainer, HostContainers
from gpuconsole.core.filters import Filter
from gpuconsole.core.units import format_duration
from gpuconsole.tui.render.text_cells import Align, Piece, fit, fitting_columns
from gpuconsole.tui.style.styles import Ink

ORDERS = ("host", "name", "state", "since", "image")
GAP = 1
_TROUBLE = "!"
"""Before a host's name in the key of the row that says what is wrong with it."""


class Column(NamedTuple):
    """A column: dropped when room is short, the highest `rank` first."""

    title: str
    width: int
    rank: int
    align: Align = "left"


COLUMNS = (
    Column("host", 12, 0),
    Column("state", 10, 0),
    Column("since", 7, 3, "right"),
    Column("gpu", 7, 1),
    Column("who", 18, 2),
    Column("image", 30, 4),
)
LEAST_NAME, MOST_NAME = 20, 36


def trouble_key(host: str) -> str:
    """Return the key of the row that says what is wrong with a host."""
    return _TROUBLE + host


def ordered(
    listings: Iterable[HostContainers], order: str, chosen: Filter
) -> dict[str, HostContainer | HostContainers]:
    """Return what is shown by the keys of its rows: containers that match, in an order of `ORDERS`,
    and every host that could not be asked, or has more than are listed."""
    hosts = tuple(listings)
    rows = [each for host in hosts for each in host.containers if chosen.container(each)]
    if order == "name":
        rows.sort(key=lambda each: (each.name, each.host))
    elif order == "state":
        rows.sort(key=lambda each: (not each.runs, each.state))
    elif order == "since":
        rows.sort(key=lambda each: -(each.created_at or 0.0))
    elif order == "image":
        rows.sort(key=lambda each: (each.image, each.host))
    else:
        groups: dict[str, list[HostContainer]] = {host.host: [] for host in hosts}
        for each in rows:
            groups[each.host].append(each)
        return {key: row for host in hosts for key, row in _group(host, groups[host.host])}
    shown: dict[str, HostContainer | HostContainers] = {_key(each): each for each in rows}
    return shown | {trouble_key(host.host): host for host in hosts if host.error or host.left_out}


def _group(
    host: HostContainers, rows: Iterable[HostContainer]
) -> Iterable[tuple[str, HostContainer | HostContainers]]:
    yield from ((_key(each), each) for each in rows)
    if host.error or host.left_out:
        yield trouble_key(host.host), host


def _key(each: HostContainer) -> str:
    return f"{each.host}:{each.id}"


def columns_for(width: int) -> tuple[Column, ...]:
    """Return the columns that fit in `width` cells beside the names."""
    return tuple(fitting_columns(COLUMNS, _needed, width))


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.width + GAP for column in columns) + LEAST_NAME


def heading(ink: Ink, width: int) -> list[Piece]:
    """Return the line above the rows."""
    columns = columns_for(width)
    pieces: list[Piece] = [(fit(ink.say("container"), _name_width(columns, width)), ink.muted)]
    for column in columns:
        words = fit(ink.say(column.title), column.width, column.align)
        pieces += [(" " * GAP, ink.text), (words, ink.muted)]
    return pieces


def row(
    ink: Ink,
    shown: HostContainer | HostContainers,
    now: float,
    width: int,
    owners: Mapping[str, str] | None = None,
) -> list[Piece]:
    """Return a container, or what is wrong with a host, as a line. `owners` are words for jobs, by
    their ids."""
    if isinstance(shown, HostContainers):
        said = ink.say(shown.error or f"{shown.left_out} older ones are not shown.")
        head = fit(shown.host, min(len(shown.host), MOST_NAME)) + "  "
        style = ink.bad if shown.error else ink.muted
        return [(head, style), (fit(said, max(1, width - len(head))), style)]
    columns = columns_for(width)
    style = ink.text if shown.runs else ink.muted
    words = _words(ink, shown, now, owners or {})
    pieces: list[Piece] = [(fit(shown.name, _name_width(columns, width)), style)]
    for column in columns:
        text = fit(words[column.title], column.width, column.align)
        pieces += [(" " * GAP, ink.text), (text, style)]
    used = sum(column.width + GAP for column in columns) + _name_width(columns, width)
    if width - used > GAP:
        pieces += [(" " * GAP, ink.text), (fit(shown.command, width - used - GAP), ink.muted)]
    return pieces


def _words(
    ink: Ink, shown: HostContainer, now: float, owners: Mapping[str, str]
) -> Mapping[str, str]:
    since = "" if shown.created_at is None else format_duration(max(0.0, now - shown.created_at))
    return {
        "host": shown.host,
        "state": ink.say(shown.state),
        "since": since,
        "gpu": ",".join(map(str, shown.devices)),
        "who": owners.get(shown.job) or ",".join(shown.users) or shown.job,
        "image": shown.image,
    }


def _name_width(columns: Iterable[Column], width: int) -> int:
    left = width - sum(column.width + GAP for column in columns)
    return max(1, min(left, MOST_NAME))
