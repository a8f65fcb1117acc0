"""The fleet map: one Line API widget for any number of hosts, redrawn only where it changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gpuconsole.core.filters import Filter
from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.levels import Condition, host_condition
from gpuconsole.tui.ink import ink_of
from gpuconsole.tui.picture import Picture
from gpuconsole.tui.presentation.cells import strip
from gpuconsole.tui.presentation.devices import columns_for, heading
from gpuconsole.tui.presentation.maplayout import Density, Layout, Shown, layout, natural_density
from gpuconsole.tui.presentation.maprows import MapView, draw_row, host_heading
from gpuconsole.tui.widgets.bindings import bindings


class FleetMap(ScrollView, can_focus=True):
    """Hosts and devices at one of five densities, with a cursor kept by host and device."""

    BINDINGS = bindings("map")

    metric: reactive[str] = reactive("utilisation")
    density: reactive[Density | None] = reactive[Density | None](None)
    """None means the most detailed that fits."""
    faults_only: reactive[bool] = reactive(False)

    @dataclass
    class CursorMoved(Message):
        """The cursor stands on another host or device."""

        host: Host | None
        device: Device | None

    @dataclass
    class Shrunk(Message):
        """What is shown changed: number of hosts, density."""

        hosts: int

    def __init__(self, *, with_host: bool = True, id: str | None = None) -> None:
        super().__init__(id=id)
        self._with_host = with_host
        self._picture = Picture()
        self._filter = Filter()
        self._shown: tuple[Shown, ...] = ()
        self._cursor: tuple[str, str] = ("", "")
        self._at = (0, 0)
        self._layout: Layout | None = None
        self._laid_for: tuple[int, int, Density | None] = (0, 0, None)
        self._strips: dict[int, Strip] = {}

    # -- what it is given -------------------------------------------------------------------

    def show(self, picture: Picture) -> None:
        """Draw a new picture, only the rows whose host or owner changed."""
        old, self._picture = self._picture, picture
        shown = self._select(picture)
        same_places = len(shown) == len(self._shown) and all(
            new.host.name == was.host.name and len(new.devices) == len(was.devices)
            for new, was in zip(shown, self._shown, strict=True)
        )
        before, self._shown = self._shown, shown
        if not same_places or old.owners is not picture.owners or self._layout is None:
            self._renew(keep_layout=same_places)
            return
        placed = self._placed()
        changed = [
            placed.row(at, device)
            for at, (new, was) in enumerate(zip(shown, before, strict=True))
            if new.host is not was.host
            for device in self._lines_of(new)
        ]
        self._repaint(changed)

    def narrow(self, filter_: Filter) -> None:
        """Show only what the filter lets pass."""
        self._filter = filter_
        self._shown = self._select(self._picture)
        self._renew()

    def restyle(self) -> None:
        """Forget what was drawn: the theme or the symbols changed."""
        self._strips.clear()
        self.refresh()

    @property
    def current(self) -> tuple[Host | None, Device | None]:
        """The host and device under the cursor."""
        return self._current()

    @property
    def shown_hosts(self) -> int:
        """How many hosts pass the filter."""
        return len(self._shown)

    @property
    def drawn_density(self) -> Density:
        """The density in use, chosen or natural."""
        return self._placed().density

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
        if placed.density >= Density.HOST_LINE:
            self._stand_on_row(row + (down or right))
            return
        members = placed.rows[row].hosts
        if right:
            self._stand(max(0, min(len(self._shown) - 1, host + right)), 0)
        else:
            column = members.index(host)
            to = placed.rows[max(0, min(len(placed.rows) - 1, row + down))].hosts
            self._stand(to[min(column, len(to) - 1)], 0)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a page."""
        height = max(1, self.size.height - self._placed().heading - 1)
        self._stand_on_row(self._placed().row(*self._at) + pages * height)

    def action_edge(self, way: int) -> None:
        """Move the cursor to the first or last row."""
        placed = self._placed()
        if placed.rows:
            row = placed.rows[0 if way < 0 else -1]
            self._stand(row.hosts[0 if way < 0 else -1], row.device or 0)

    def on_click(self, event: events.Click) -> None:
        """Stand on the host or device that was clicked."""
        placed = self._placed()
        spot = event.get_content_offset(self)
        if spot is None or spot.y < placed.heading:
            return
        row = spot.y + self.scroll_offset.y - placed.heading
        if row >= len(placed.rows):
            return
        if placed.density >= Density.HOST_LINE:
            self._stand_on_row(row)
            return
        hosts = placed.rows[row].hosts
        column = (spot.x - placed.gutter - placed.gap) // (placed.cell_width + placed.gap)
        self._stand(hosts[max(0, min(len(hosts) - 1, column))], 0)

    # -- drawing ----------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line of the widget."""
        placed = self._placed()
        ink = ink_of(self)
        width = self.size.width
        if y < placed.heading:
            if placed.density is Density.HOST_LINE:
                return strip(host_heading(ink, width), width, ink.text)
            columns = columns_for(width - 3, with_host=self._with_host)
            return strip([("  ", ink.text), *heading(ink, columns)], width, ink.text)
        row = y + self.scroll_offset.y - placed.heading
        if row >= len(placed.rows):
            return Strip.blank(width, ink.text)
        known = self._strips.get(row)
        if known is None or known.cell_length != width:
            here = placed.row(*self._at) == row
            pieces = draw_row(
                self._view(placed, width), placed.rows[row], self._at if here else None
            )
            known = strip(pieces, width, ink.chosen if here and placed.heading else ink.text)
            self._strips[row] = known
        return known

    def _view(self, placed: Layout, width: int) -> MapView:
        columns = columns_for(width - 3, with_host=self._with_host)
        return MapView(
            ink_of(self), self._picture, self._shown, placed, self.metric, columns, width
        )

    def _placed(self) -> Layout:
        """Lay out for the present size; drawing may come before the first Resize."""
        width, height = self.size
        wanted = (width, height, self.density)
        if self._layout is None or self._laid_for != wanted:
            density = self.density
            if density is None:
                density = natural_density(self._shown, max(1, width), max(1, height))
            self._layout = layout(self._shown, density, max(1, width))
            self._laid_for = wanted
            self._strips.clear()
            self.virtual_size = Size(width, len(self._layout.rows) + self._layout.heading)
        return self._layout

    # -- watching ---------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Lay out anew and keep the cursor in view."""
        self._renew()

    def watch_metric(self) -> None:
        """Every row shows another figure."""
        self.restyle()

    def watch_density(self) -> None:
        """Every row stands elsewhere."""
        self._renew()

    def watch_faults_only(self) -> None:
        """Other hosts are shown."""
        self._shown = self._select(self._picture)
        self._renew()

    def notify_style_update(self) -> None:
        """A theme changed below: what was drawn has the old colours."""
        super().notify_style_update()
        self._strips.clear()

    # -- within -----------------------------------------------------------------------------

    def _select(self, picture: Picture) -> tuple[Shown, ...]:
        before: Mapping[str, Shown] = {item.host.name: item for item in self._shown}
        plain = not self._filter.terms
        chosen: list[Shown] = []
        for host in picture.snapshot.hosts:
            if self.faults_only and host_condition(host) is Condition.OK:
                continue
            known = before.get(host.name)
            if plain:
                same = known is not None and known.host is host and known.devices is host.devices
                chosen.append(known if same and known else Shown(host, host.devices))
                continue
            devices = self._filter.devices(host, picture.users)
            if devices is not None:
                chosen.append(Shown(host, devices))
        return tuple(chosen)

    def _renew(self, *, keep_layout: bool = False) -> None:
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
        """Put the cursor back on its host by name, or on what now stands in its place."""
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

    def _stand_on_row(self, row: int) -> None:
        placed = self._placed()
        if not placed.rows:
            return
        chosen = placed.rows[max(0, min(len(placed.rows) - 1, row))]
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

    def _lines_of(self, item: Shown) -> range:
        """The devices of a host that have a line of their own; all others share one."""
        each = self._placed().density is Density.DEVICE_LINE
        return range(max(1, len(item.devices)) if each else 1)

    def _repaint(self, rows: Iterable[int]) -> None:
        """Forget these rows, and draw those of them that are in view."""
        top, height = self.scroll_offset.y, self.size.height
        shift = self._placed().heading - top
        regions = []
        for row in set(rows):
            self._strips.pop(row, None)
            if 0 <= row + shift < height:
                regions.append(Region(0, row + shift, self.size.width, 1))
        if regions:
            self.refresh(*regions)

    def _current(self) -> tuple[Host | None, Device | None]:
        host, device = self._at
        if not 0 <= host < len(self._shown):
            return None, None
        item = self._shown[host]
        return item.host, item.devices[device] if device < len(item.devices) else None

    def _announce(self) -> None:
        self.post_message(self.CursorMoved(*self._current()))
