"""The fleet map: one Line API widget for any number of hosts, redrawn only where it changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice

from textual import events
from textual.geometry import Offset, Size
from textual.message import Message
from textual.reactive import reactive, var
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpuconsole.core.filters import Filter
from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.render.device_rows import Column, Shows, columns_for, heading
from gpuconsole.tui.render.fleet_map.layout import (
    UNGROUPED,
    Density,
    Layout,
    Row,
    Shown,
    hosts_of,
    layout,
    natural_density,
)
from gpuconsole.tui.render.fleet_map.metrics import BY_NAME, Cells
from gpuconsole.tui.render.fleet_map.owners import Owners
from gpuconsole.tui.render.fleet_map.rows import MapView, draw_row, host_heading
from gpuconsole.tui.render.fleet_map.selection import Choice, Occupants
from gpuconsole.tui.render.plots.sparkline import Past, Sparks
from gpuconsole.tui.render.text_cells import strip, whole_strip
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.style.styles import Ink, ink_of
from gpuconsole.tui.widgets.framed_lines import FramedLines
from gpuconsole.tui.widgets.jumpable import Place

_HEADING = -1
"""Where the heading is remembered, beside the rows by their numbers."""
_LABEL_WIDTH = 2
"""Cells of a letter to jump by, where there are many."""


class FleetMap(ScrollView, FramedLines, can_focus=True):
    """Hosts and devices at one of five densities, with a cursor kept by host and device."""

    BINDINGS = bindings("map")

    metric: reactive[str] = reactive("utilisation")
    density: reactive[Density | None] = reactive[Density | None](None)
    """None means the most detailed that fits."""
    faults_only: reactive[bool] = reactive(False)
    group: reactive[str] = reactive(UNGROUPED)
    """The label by which hosts are grouped, `model`, or nothing."""
    order: reactive[str] = reactive("inventory")
    moved: var[int] = var(0)
    """Counts the cursor's moves: who watches it draws in the map's own paint, not one later."""
    lit: reactive[frozenset[str]] = reactive(frozenset())
    """Devices that are to stand out, by UUID."""

    @dataclass
    class CursorMoved(Message):
        """The cursor moved to another host or device."""

        host: Host | None
        device: Device | None

    class Opened(Message):
        """What is under the cursor was clicked twice."""

    @dataclass
    class Shrunk(Message):
        """What is shown changed: number of hosts, density."""

        hosts: int

    def __init__(self, *, with_host: bool = True, id: str | None = None) -> None:
        super().__init__(id=id)
        self._with_host = with_host
        self._picture = Picture()
        self._choice = Choice()
        self._owners = Owners()
        self._cells: Cells | None = None
        self._seen: MapView | None = None
        self._shown: Sequence[Shown] = ()
        self._occupants = Occupants()
        self._cursor: tuple[str, str] = ("", "")
        self._at = (0, 0)
        self._layout: Layout | None = None
        self._laid_for: tuple[object, ...] = ()
        self._asked: tuple[tuple[object, ...], tuple[Density, int]] = ((), (Density.HOST_CELL, 0))
        self._strips: dict[int, Strip] = {}
        self._sparks: Sparks | None = None
        self._past: Past | None = None
        self.taken: Callable[[], int] = lambda: 0
        """Lines that bars around the map have taken from it for now."""

    # -- what it is given -------------------------------------------------------------------

    def show(self, picture: Picture) -> None:
        """Draw a new picture, only the rows with a host or owner that changed."""
        old, self._picture = self._picture, picture
        self._seen = None
        before = self._occupants
        self._show_chosen()
        if self._sparks is not None and self._sparks.fit(self._answering(), picture.now):
            self.restyle()
        same = self._layout is not None and self._occupants.are_those_of(before)
        if not same or old.owners is not picture.owners:
            self._renew(keep_layout=same)
            return
        changed = self._occupants.changed_since(before)
        self._repaint(self._placed().rows_of(changed, self._shown))

    def remember(self, past: Past) -> None:
        """Draw the devices' last minutes from here, from now on."""
        if past != self._past:
            self._past, self._sparks = past, Sparks(past)
            self._sparks.fit(self._answering(), self._picture.now)
            self.restyle()

    def narrow(self, filter_: Filter) -> None:
        """Show only what the filter lets pass."""
        self._choice.filter = filter_
        self._choose()

    def restyle(self) -> None:
        """Forget what was drawn: the theme or the symbols changed."""
        self._forget()
        self.refresh()

    @property
    def current(self) -> tuple[Host | None, Device | None]:
        """The host and device under the cursor."""
        host, device = self._at
        if not 0 <= host < len(self._shown):
            return None, None
        item = self._shown[host]
        return item.host, item.devices[device] if device < len(item.devices) else None

    @property
    def owners(self) -> Owners:
        """The letters of the users that have been drawn."""
        return self._owners

    @property
    def shown_hosts(self) -> int:
        """How many hosts pass the filter."""
        return len(self._shown)

    @property
    def drawn_density(self) -> Density:
        """The density in use, chosen or natural."""
        return self._placed().density

    @property
    def shows(self) -> Shows:
        """What rows of devices show beside the facts."""
        return Shows(BY_NAME[self.metric], self._owners, self._sparks)

    @property
    def most_devices(self) -> int:
        """How many devices the largest host has."""
        return max(self._occupants.devices, default=0)

    def needs(self, width: int, height: int) -> tuple[Density, int]:
        """Return how the hosts would be drawn in a map of this size, and in how many lines."""
        shown, density = self._shown, self.density
        asked = (width, height, density, self.group, len(shown), sum(self._occupants.devices))
        if asked != self._asked[0]:
            if density is None:
                density = natural_density(shown, width, height, self.group)
            placed = layout(shown, density, width, self.group)
            self._asked = asked, (density, len(placed.rows) + placed.heading)
        return self._asked[1]

    def move_to(self, host: str, uuid: str = "") -> None:
        """Put the cursor on a host, and on one of its devices."""
        self._cursor = (host, uuid)
        self._find_cursor()
        self._follow_cursor()

    # -- actions ----------------------------------------------------------------------------

    def action_move(self, right: int, down: int) -> None:
        """Move the cursor by one, on the rows as they are drawn."""
        placed = self._placed()
        if not self._shown:
            return
        host, device = self._at
        row = placed.row(host, device)
        if placed.density is Density.HOST_LINE and right:
            last = max(0, len(self._shown[host].devices) - 1)
            self._stand(host, max(0, min(last, device + right)))
            return
        if placed.density >= Density.HOST_LINE:
            self._stand_on_row(row + (down or right), down or right)
            return
        members = placed.rows[row].hosts
        if right:
            self._stand(max(0, min(len(self._shown) - 1, host + right)), 0)
        else:
            column = members.index(host)
            to = self._row_near(row + down, down).hosts
            self._stand(to[min(column, len(to) - 1)], 0)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a page."""
        height = max(1, self.size.height - self._placed().heading - 1)
        self._stand_on_row(self._placed().row(*self._at) + pages * height, pages)

    def action_edge(self, way: int) -> None:
        """Move the cursor to the first or last row."""
        rows = self._placed().rows
        if rows:
            row = self._row_near(0 if way < 0 else len(rows) - 1, -way)
            self._stand(row.hosts[0 if way < 0 else -1], row.device or 0)

    def jump_places(self) -> list[Place]:
        """Return the hosts or rows in sight."""
        placed, top = self._placed(), self.scroll_offset.y
        bottom = min(len(placed.rows), top + self.size.height - placed.heading)
        step = placed.cell_width + placed.gap
        places: list[Place] = []
        for number in range(top, bottom):
            row, y = placed.rows[number], number - top + placed.heading
            if row.heading:
                continue
            if placed.density >= Density.HOST_LINE or step <= _LABEL_WIDTH:
                places.append(Place(Offset(0, y), partial(self._stand_on_row, number)))
                continue
            for column, host in enumerate(row.hosts):
                at = Offset(placed.gutter + placed.gap + column * step, y)
                places.append(Place(at, partial(self._stand, host, 0)))
        return places

    def on_click(self, event: events.Click) -> None:
        """Stand on the host or device that was clicked; a second click opens it."""
        placed = self._placed()
        spot = event.get_content_offset(self)
        if spot is None or spot.y < placed.heading:
            return
        row = spot.y + self.scroll_offset.y - placed.heading
        if row >= len(placed.rows):
            return
        if placed.density >= Density.HOST_LINE or placed.rows[row].heading:
            self._stand_on_row(row)
            self._click_opens(event)
            return
        hosts = placed.rows[row].hosts
        column = (spot.x - placed.gutter - placed.gap) // (placed.cell_width + placed.gap)
        self._stand(hosts[max(0, min(len(hosts) - 1, column))], 0)
        self._click_opens(event)

    def _click_opens(self, event: events.Click) -> None:
        if event.chain == 2:
            self.post_message(self.Opened())

    # -- drawing ----------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line of the widget."""
        (line,) = self.lines_at(range(y, y + 1))
        return line

    def lines_at(self, places: range) -> list[Strip]:
        """Draw lines of the widget; what did not change is the line of before."""
        placed, ink, width = self._placed(), ink_of(self), self.size.width
        shift = self.scroll_offset.y - placed.heading
        lines = []
        for place in places:
            row = _HEADING if place < placed.heading else place + shift
            line = self._strips.get(row)
            if line is None or line.cell_length != width:
                line = self._strips[row] = self._drawn(ink, placed, row, width)
            lines.append(line)
        return lines

    def _drawn(self, ink: Ink, placed: Layout, row: int, width: int) -> Strip:
        """Draw a row, the heading above the rows, or the room below them."""
        if row == _HEADING:
            if placed.density is Density.HOST_LINE:
                return strip(host_heading(ink, width, self.metric), width, ink.text)
            pieces = heading(ink, self._columns(width))
            return strip([("  ", ink.text), *pieces], width, ink.text)
        if row >= len(placed.rows):
            return Strip.blank(width, ink.text)
        here = placed.row(*self._at) == row
        pieces = draw_row(self._view(placed, width), placed.rows[row], self._at if here else None)
        drawn = placed.rows[row]
        if placed.heading or drawn.heading or placed.cells(drawn) > width:
            return strip(pieces, width, ink.chosen if here and placed.heading else ink.text)
        return whole_strip(pieces, width)

    def _view(self, placed: Layout, width: int) -> MapView:
        """Return what all rows of a paint share."""
        view = self._seen
        if view is None or view.layout is not placed or view.width != width:
            ink = ink_of(self)
            self._cells = self._cells or Cells(ink, self._owners)
            view = self._seen = MapView(
                ink, self._picture, self._shown, hosts_of(self._shown), placed, self.metric,
                self._columns(width), width,
                self._cells, self._owners, self.lit, self.group,
            )  # fmt: skip
        return view

    def _columns(self, width: int) -> tuple[tuple[Column, int], ...]:
        hosts = self._with_host
        return columns_for(width - 3, self.shows, with_host=hosts, with_details=not hosts)

    def _placed(self) -> Layout:
        """Lay out for the present size; drawing may come before the first Resize."""
        width, height = self.size
        wanted = (width, height, self.density, self.group)
        if self._layout is None or self._laid_for != wanted:
            density = self.density
            if density is None:
                # What a bar takes for a while changes nothing of how much is shown of a host.
                room = max(1, height + self.taken())
                density = natural_density(self._shown, max(1, width), room, self.group)
            self._layout = layout(self._shown, density, max(1, width), self.group)
            self._laid_for = wanted
            self._strips.clear()
            self.virtual_size = Size(width, len(self._layout.rows) + self._layout.heading)
        return self._layout

    # -- watching ---------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Lay out again and keep the cursor in view."""
        self._renew()

    def watch_metric(self) -> None:
        """Every row shows another figure."""
        self.restyle()

    def watch_density(self) -> None:
        """Recompute the layout when the density changes."""
        self._renew()

    def watch_group(self) -> None:
        """Recompute the layout when the grouping changes."""
        self._renew()

    def watch_faults_only(self) -> None:
        """Other hosts are shown."""
        self._choice.faults_only = self.faults_only
        self._choose()

    def watch_order(self) -> None:
        """Hosts stand in another order."""
        self._choice.order = self.order
        self._choose()

    def watch_lit(self) -> None:
        """Other devices stand out."""
        self.restyle()

    def notify_style_update(self) -> None:
        """A theme changed below: what was drawn has the old colours."""
        super().notify_style_update()
        self._forget()

    # -- within -----------------------------------------------------------------------------

    def _answering(self) -> list[str]:
        """Return a device of each of the first hosts that send figures."""
        hosts = (each for each in self._shown if each.host.state is HostState.UP and each.devices)
        return [each.devices[0].uuid for each in islice(hosts, 4)]

    def _forget(self) -> None:
        """Forget all that was made in the ink, or for the metric, of before."""
        self._strips.clear()
        self._cells = self._seen = None

    def _show_chosen(self) -> None:
        self._shown = self._choice.of(self._picture)
        self._occupants = Occupants(self._shown)

    def _choose(self) -> None:
        self._show_chosen()
        self._renew()

    def _renew(self, *, keep_layout: bool = False) -> None:
        self._seen = None
        if not self.is_mounted:
            return
        if keep_layout:
            self._strips.clear()
        else:
            self._layout = None
        self._placed()
        self._find_cursor()
        self._follow_cursor()
        self.refresh()
        self.post_message(self.Shrunk(len(self._shown)))

    def _find_cursor(self) -> None:
        """Put the cursor back on its host by name, or on what is now in its place."""
        name, uuid = self._cursor
        for at, item in enumerate(self._shown):
            if item.host.name == name:
                uuids = [device.uuid for device in item.devices]
                self._at = (at, uuids.index(uuid) if uuid in uuids else 0)
                return
        self._at = (min(self._at[0], max(0, len(self._shown) - 1)), 0)

    def _follow_cursor(self) -> None:
        placed = self._placed()
        row = placed.row(*self._at)
        top, height = self.scroll_offset.y, self.size.height
        if row < top:
            self.scroll_to(y=row, animate=False, force=True)
        elif row + placed.heading >= top + height:
            self.scroll_to(y=row + placed.heading - height + 1, animate=False, force=True)
        self._announce()

    def _row_near(self, row: int, way: int = 1) -> Row:
        """Return this row, or the next that is no heading, that way if there is one."""
        rows = self._placed().rows
        row = max(0, min(len(rows) - 1, row))
        for step in (1 if way >= 0 else -1, -1 if way >= 0 else 1):
            at = row
            while 0 <= at < len(rows):
                if not rows[at].heading:
                    return rows[at]
                at += step
        return rows[row]

    def _stand_on_row(self, row: int, way: int = 1) -> None:
        if self._placed().rows:
            chosen = self._row_near(row, way)
            self._stand(chosen.hosts[0], chosen.device or 0)

    def _stand(self, host: int, device: int) -> None:
        placed = self._placed()
        rows = {placed.row(*self._at), placed.row(host, device)}
        self._at = (host, device)
        item = self._shown[host]
        uuid = item.devices[device].uuid if device < len(item.devices) else ""
        self._cursor = (item.host.name, uuid)
        self._repaint(rows)
        self._follow_cursor()

    def _repaint(self, rows: Iterable[int]) -> None:
        """Forget these rows, and draw those of them that are in view."""
        height = self.size.height
        shift = self._placed().heading - self.scroll_offset.y
        seen = set()
        for row in rows:
            self._strips.pop(row, None)
            if 0 <= row + shift < height:
                seen.add(row + shift)
        self.refresh_rows(seen)

    def _announce(self) -> None:
        self.moved += 1
        self.post_message(self.CursorMoved(*self.current))
