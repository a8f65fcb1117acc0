"""Fleet: the map of hosts and devices, the inspector, the filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.widgets import Static

from gpuconsole.core.history import DeviceMetric
from gpuconsole.core.wording import msg
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.render.device import marks_of, scale_of
from gpuconsole.tui.render.device_rows import device_table
from gpuconsole.tui.render.fleet_map.layout import Density, groupings
from gpuconsole.tui.render.fleet_map.metrics import BY_NAME, following
from gpuconsole.tui.render.fleet_map.selection import following_order
from gpuconsole.tui.render.host import event_lines, inspector_lines
from gpuconsole.tui.render.legend import cell_legend, empty_fleet, owner_legend
from gpuconsole.tui.render.placement import answer_line
from gpuconsole.tui.render.processes import host_process_lines
from gpuconsole.tui.render.text_cells import Piece, text
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs.kill_process import largest_process, signal_largest
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.widgets.fleet_map import FleetMap
from gpuconsole.tui.widgets.input_bar import AskBar, FilterBar
from gpuconsole.tui.widgets.panel import Line, Name, Panel, name_box
from gpuconsole.tui.widgets.plain_containers import Column, Row
from gpuconsole.tui.widgets.plot import Plot
from gpuconsole.tui.widgets.row_list import BOX

if TYPE_CHECKING:
    from gpuconsole.core.fleet import Device, Host
    from gpuconsole.core.jobs import Job
    from gpuconsole.placement.forecast.free_capacity import Answer, Ask

LARGE = 160
"""From so many columns on there may be a second pane below the map."""
LEAST_LOWER, MOST_LOWER = 12, 26
"""Lines of that pane: it takes only what the map leaves."""
DEEP_LOWER = 18
"""From so many lines on processes are above events, each with the whole width for its words."""
LEAST_DEVICES = 3
"""Rows of devices below hosts that have a line each: fewer are not worth a box."""
LEAST_EVENTS = 3
"""Lines of events below the inspector's facts: fewer are not worth a heading."""
PLOTTED_S = 900.0
ASK_AGAIN_S = 5.0
"""How long (s) an answer about free devices is valid."""


class FleetScreen(ConsoleScreen):
    """All hosts at a glance."""

    AREA = "fleet"
    MODE = "fleet"
    WIDGET_AREAS = ("map",)
    AUTO_FOCUS = "FleetMap"

    def __init__(self) -> None:
        super().__init__()
        self._filter_text = ""
        self._answer: Answer | None = None
        self._answered_at = 0.0
        self._named: tuple[object, ...] = ()
        self._inspected: tuple[tuple[object, ...], tuple[int, ...]] = ((None,) * 4, ())
        """What the inspector shows: the objects themselves, and its second and size."""

    def body(self) -> ComposeResult:
        """Map left, inspector right, filter below."""
        with Row(id="fleet"):
            with Column(id="fleet-left"):
                yield FleetMap(id="map")
                yield Panel(id="fleet-devices")
                yield Static("", id="fleet-empty", classes="panel empty", markup=False)
                with Row(id="fleet-lower"):
                    with Column(id="fleet-plots"):
                        yield Plot(id="fleet-load")
                        yield Plot(id="fleet-memory")
                    with Column(id="fleet-work"):
                        yield Panel(id="fleet-processes")
                        yield Panel(id="fleet-events")
            yield Panel(id="inspector")
        yield Line(id="answer-line")
        yield AskBar("where fit", "4x24, or 2 x 40 GiB nvlink", id="where")
        yield FilterBar(id="filter")

    def on_mount(self) -> None:
        """The inspector follows the cursor at once."""
        self.query_one(FleetMap).taken = self._bars
        self.watch(self.query_one(FleetMap), "moved", self._draw_inspector, init=False)

    def draw(self, picture: Picture) -> None:
        """Hand the picture to the map; the inspector follows the cursor."""
        fleet_map = self.query_one(FleetMap)
        if self.console.has_session:
            fleet_map.remember(self.session.history.device)
        fleet_map.show(picture)
        self._draw_empty()
        self._arrange()
        self._draw_inspector()
        if fleet_map.metric == "owner":
            self._draw_titles()
        if self._answer and not 0.0 <= picture.now - self._answered_at < ASK_AGAIN_S:
            self._find(self._answer.ask)

    def on_resize(self, event: events.Resize) -> None:
        """Where there is room, more is shown of what is under the cursor."""
        super().on_resize(event)
        self._draw_answer()
        self._arrange()

    def _bars(self) -> int:
        """How many lines are taken from the map by what opens below it."""
        bars = ("#answer-line", "#where", "#filter", "#slider")
        return sum(self.query_one(bar).display for bar in bars)

    def restyle(self) -> None:
        """Draw in another theme or language."""
        self.query_one(FleetMap).restyle()
        self.query_one(AskBar).restyle()
        super().restyle()
        self._draw_answer()
        self._draw_titles()

    def crumbs(self) -> str:
        """How many hosts of how many, and why."""
        total = len(self.picture.snapshot.hosts)
        shown = self.query_one(FleetMap).shown_hosts
        say = self.ink.say
        every = "1 host" if total == 1 else f"{total:,} hosts"
        words = say(f"{shown:,} of {total:,} hosts" if shown != total else every)
        return f"{say('filter:')} {self._filter_text}   {words}" if self._filter_text else words

    def under_cursor(self) -> tuple[Host | None, Device | None, Job | None]:
        """Return the device under the cursor, its host, and the job that holds it."""
        return self.with_owner(*self.query_one(FleetMap).current)

    # -- actions ----------------------------------------------------------------------------

    def action_open(self) -> None:
        """Open the host under the cursor."""
        host, device = self.query_one(FleetMap).current
        if host is not None:
            from gpuconsole.tui.screens.host import HostScreen

            self.app.push_screen(HostScreen(host.name, device.uuid if device else ""))

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one(FilterBar).open()

    def action_metric(self) -> None:
        """Show the next metric."""
        fleet_map = self.query_one(FleetMap)
        fleet_map.metric = following(fleet_map.metric)
        self._draw_titles()

    def action_density(self, step: int) -> None:
        """Show more or less of each host."""
        fleet_map = self.query_one(FleetMap)
        wanted = fleet_map.drawn_density + step
        fleet_map.density = Density(max(0, min(int(Density.DEVICE_LINE), wanted)))
        self._draw_titles()

    def action_group(self) -> None:
        """Group by the next label that the hosts have, by model, or not."""
        fleet_map = self.query_one(FleetMap)
        choices = groupings(self.picture.snapshot.hosts)
        at = choices.index(fleet_map.group) if fleet_map.group in choices else -1
        fleet_map.group = choices[(at + 1) % len(choices)]
        self._draw_titles()

    def action_order(self) -> None:
        """Sort in the next way."""
        fleet_map = self.query_one(FleetMap)
        fleet_map.order = following_order(fleet_map.order)
        self._draw_titles()

    def action_where(self) -> None:
        """Ask where so many devices with so much memory fit."""
        self.query_one(AskBar).open()

    def action_inspector(self) -> None:
        """Show or hide the inspector; narrow terminals hide it until asked."""
        self.toggle_class("-inspector-toggled")
        self.call_after_refresh(self._draw_inspector)

    def action_faults(self) -> None:
        """Show only hosts with faults, or all."""
        fleet_map = self.query_one(FleetMap)
        fleet_map.faults_only = not fleet_map.faults_only
        self._refresh_view()

    def action_containers(self) -> None:
        """Show the containers of every host."""
        from gpuconsole.tui.screens.container.containers import ContainersScreen

        self.app.push_screen(ContainersScreen())

    def action_session(self) -> None:
        """Open a session."""
        from gpuconsole.tui.screens.session_actions import open_new

        open_new(self)

    def action_signal(self) -> None:
        """Ask for a signal to the largest process of the device under the cursor."""
        signal_largest(self, *self.query_one(FleetMap).current)

    def footer_keys(self) -> Sequence[Key]:
        """What acts on what is under the cursor, then what acts on the map."""
        host, device = self.query_one(FleetMap).current
        keys = {key.id.partition(".")[2]: key for key in self.keys()}
        absent = {"open"} if host is None else set()
        if largest_process(host, device) is None:
            absent.add("signal")
        order = ("open", "filter", "where", "signal", "containers", "session", "metric", "faults",
                 "looser", "inspector", "order", "submit")  # fmt: skip
        return [keys[name] for name in order if name in keys and name not in absent]

    def action_copy(self) -> None:
        """Copy the host's name."""
        host, _ = self.query_one(FleetMap).current
        if host is not None:
            self.app.copy_to_clipboard(host.name)
            self.tell(msg("Copied {name}.", name=host.name))

    def action_back(self) -> None:
        """Clear what narrows the map, then go back."""
        fleet_map = self.query_one(FleetMap)
        if self._answer is not None:
            self._show_answer(None)
        elif self._filter_text:
            self.query_one(FilterBar).clear()
        elif fleet_map.faults_only:
            self.action_faults()
        else:
            super().action_back()

    # -- messages ---------------------------------------------------------------------------

    @on(FilterBar.Changed)
    def _filter_typed(self, event: FilterBar.Changed) -> None:
        self._filter_text = event.text.strip()
        self.query_one(FleetMap).narrow(event.filter)
        shown = self.query_one(FleetMap).shown_hosts
        if self._filter_text:
            matching = "1 host matches" if shown == 1 else f"{shown:,} hosts match"
            say = self.ink.say
            self.query_one(FilterBar).note(say(matching) + say("   esc clears"))
        self._refresh_view()

    @on(FilterBar.Left)
    def _filter_left(self) -> None:
        if not self._filter_text:
            self.query_one(FilterBar).remove_class("-open")
        self.query_one(FleetMap).focus()

    @on(AskBar.Asked)
    def _asked_where(self, event: AskBar.Asked) -> None:
        from gpuconsole.placement.forecast.free_capacity import read

        try:
            ask = read(event.text)
        except ValueError as error:
            self.query_one(AskBar).refuse(self.ink.say(str(error)))
            return
        self.query_one(AskBar).action_leave()
        self._find(ask, go=True)

    @on(AskBar.Left)
    def _ask_left(self) -> None:
        self.query_one(FleetMap).focus()

    @on(FleetMap.Opened)
    def _clicked_twice(self) -> None:
        self.action_open()

    @on(FleetMap.CursorMoved)
    def _cursor_moved(self) -> None:
        self._draw_inspector()
        # What acts on another device is not the same.
        self.draw_footer()

    @on(FleetMap.Shrunk)
    def _view_changed(self) -> None:
        self._refresh_view()

    # -- free capacity ----------------------------------------------------------------------

    def _find(self, ask: Ask, *, go: bool = False) -> None:
        """Look where it fits, and stand on the first place when it was asked just now."""
        self._answered_at = self.picture.now

        def found(answer: Answer) -> None:
            if not go and self._answer is None:
                return  # it was cleared meanwhile
            self._show_answer(answer)
            if go and answer.places:
                first = answer.places[0]
                self.query_one(FleetMap).move_to(first.host, first.devices[0].uuid)

        session = self.session
        self.ask_session(lambda: session.foresight.where(ask), found, group="where", exclusive=True)

    def _show_answer(self, answer: Answer | None) -> None:
        self._answer = answer
        self.set_class(answer is not None, "-answered")
        fleet_map = self.query_one(FleetMap)
        fleet_map.lit = answer.uuids if answer is not None else frozenset()
        self._draw_answer()
        self._draw_devices()
        self._draw_titles()

    # -- drawing ----------------------------------------------------------------------------

    def _draw_answer(self) -> None:
        if self._answer is not None:
            line = answer_line(self.ink, self._answer, self.size.width)
            self.query_one("#answer-line", Line).put(line)

    def _arrange(self) -> None:
        """Give what the map does not need to rows of devices, then to a second pane, if that is
        enough for one."""
        if not self.ready:
            return
        left, fleet_map = self.query_one("#fleet-left"), self.query_one(FleetMap)
        bars = self._bars()
        width, height = left.size.width, left.size.height + bars
        density, lines = fleet_map.needs(max(1, width - 2), max(1, height - 2))
        # A bar takes its line from what is below the map, not from the map.
        spare = height - 2 - lines - bars if fleet_map.shown_hosts else 0
        rows = min(fleet_map.most_devices, spare - BOX) if density is Density.HOST_LINE else 0
        shown = self._show_below("#fleet-devices", rows + BOX if rows >= LEAST_DEVICES else 0)
        spare -= shown
        enough = self.size.width >= LARGE and spare + bars >= LEAST_LOWER
        lower = self._show_below("#fleet-lower", min(spare, MOST_LOWER) if enough else 0)
        if self.has_class("-deep") is not (lower >= DEEP_LOWER):
            self.set_class(lower >= DEEP_LOWER, "-deep")
            self.call_after_refresh(self._draw_below)

    def _show_below(self, pane_id: str, lines: int) -> int:
        """Show a pane of so many lines below the map, or hide it; return the lines."""
        pane = self.query_one(pane_id)
        shown = lines > 0
        if shown:
            pane.styles.height = lines
        if shown is not pane.display:
            pane.display = shown
            self.call_after_refresh(self._draw_below)
        return max(0, lines)

    def _draw_below(self) -> None:
        """Draw what is below the map about what is under the cursor."""
        self._draw_devices()
        self._draw_lower()

    def _draw_devices(self) -> None:
        """Draw the devices of the host under the cursor, where hosts have a line each."""
        panel, fleet_map = self.query_one("#fleet-devices", Panel), self.query_one(FleetMap)
        host, device = fleet_map.current
        if not panel.display or host is None:
            return
        panel.entitle(Name(host.name), "left/right device" if host.devices else "")
        if host.devices:
            width, shows, lit = panel.inner_width, fleet_map.shows, fleet_map.lit
            table = device_table(self.ink, self.picture, host, device, width, shows, lit)
            panel.put(table, pinned=1)
            at = next((row for row, each in enumerate(host.devices) if each is device), 0)
            panel.scroll_to(y=max(0, at + 2 - panel.size.height), animate=False)
        else:
            panel.put([[(self.ink.say(host.error or host.state.value), self.ink.muted)]])

    def _draw_lower(self) -> None:
        """Draw the past of the device under the cursor, and what runs and happened on its host."""
        lower = self.query_one("#fleet-lower")
        host, device = self.query_one(FleetMap).current
        if not lower.display or host is None:
            return
        ink, picture = self.ink, self.picture
        plots: tuple[tuple[str, DeviceMetric, str], ...] = (
            ("#fleet-load", "utilization", "utilisation %"),
            ("#fleet-memory", "memory_used_mib", "memory GiB"),
        )
        for plot_id, metric, name in plots:
            plot = self.query_one(plot_id, Plot)
            if device is None:
                plot.entitle(name)
                plot.put([[(ink.say("No device is under the cursor."), ink.muted)]])
                continue
            plot.entitle(f"{name}, last 15 minutes", f"{host.name} gpu {device.index}")
            session = self.session
            series = session.history.device(device.uuid, metric, PLOTTED_S)
            job = picture.owners.get(device.uuid)
            marks = marks_of(device, metric, job, session.settings.memory_threshold)
            plot.show(series, scale_of(device, metric), marks)
        load = self.query_one("#fleet-processes", Panel)
        load.entitle("processes", Name(host.name))
        load.put(host_process_lines(ink, host, picture.jobs, load.inner_width), pinned=1)
        news = self.query_one("#fleet-events", Panel)
        news.entitle("events", Name(host.name))
        news.put(event_lines(ink, picture, host, news.inner_width))

    def _refresh_view(self) -> None:
        self._draw_empty()
        self._arrange()
        self._draw_titles()
        self.draw_frame()

    def _draw_titles(self) -> None:
        fleet_map = self.query_one(FleetMap)
        metric = BY_NAME[fleet_map.metric]
        say = self.ink.say
        title = f"{say('Fleet')}: {say(metric.title)}"
        title += say(f"  by {fleet_map.group}") if fleet_map.group else ""
        title += say(f"  {fleet_map.order} first") if fleet_map.order in ("load", "free") else ""
        title += say(f"  by {fleet_map.order}") if fleet_map.order in ("name", "trouble") else ""
        title += say("  faults only") if fleet_map.faults_only else ""
        title += f"  /{self._filter_text}" if self._filter_text else ""
        legend: str | list[Piece] = cell_legend(self.ink, metric, fleet_map.drawn_density)
        if metric.name == "owner":
            legend = self._owner_legend()
        named = (title, str(legend), self.ink)
        if named != self._named:
            self._named = named
            name_box(fleet_map, title, legend)

    def _owner_legend(self) -> list[Piece]:
        picture, owners = self.picture, self.query_one(FleetMap).owners
        users = (
            picture.user_name(device) for host in picture.snapshot.hosts for device in host.devices
        )
        counts = Counter(user for user in users if user)
        return owner_legend(self.ink, owners, counts, self.query_one(FleetMap).size.width - 4)

    def _draw_inspector(self) -> None:
        self._draw_below()
        panel = self.query_one("#inspector", Panel)
        if not panel.display or not panel.size.width:
            return
        host, device = self.query_one(FleetMap).current
        if host is None:
            panel.entitle("inspector", "i hides")
            self._inspected = ((None,) * 4, ())
            panel.put([[(self.ink.say("Nothing is under the cursor."), self.ink.muted)]])
            return
        picture = self.picture
        seen = (host, device, picture.owners, self.ink)
        when = (int(picture.now), panel.inner_width, panel.size.height)
        drawn, then = self._inspected
        if when == then and all(new is old for new, old in zip(seen, drawn, strict=True)):
            return
        self._inspected = seen, when
        panel.entitle(Name(host.name), "i hides")
        width = panel.inner_width
        lines = inspector_lines(self.ink, picture, host, device, width)
        room = panel.size.height - len(lines) - 2
        if room >= LEAST_EVENTS and not self.query_one("#fleet-lower").display:
            news = event_lines(self.ink, picture, host, width)
            lines += [[], [(self.ink.say("events"), self.ink.title)], *news[:room]]
        panel.put(lines)

    def _draw_empty(self) -> None:
        fleet_map = self.query_one(FleetMap)
        empty, words = fleet_map.shown_hosts == 0, self.query_one("#fleet-empty", Static)
        # A class of the screen would have the style of every widget worked out again, at each start
        # twice.
        fleet_map.display, words.display = not empty, empty
        if empty:
            sentences = empty_fleet(
                bool(self.picture.snapshot.hosts),
                self._filter_text,
                faults=fleet_map.faults_only,
                opened=self.console.opened,
            )
            lines = [[(self.ink.say(line), self.ink.text)] for line in sentences]
            words.update(text(lines), layout=False)
