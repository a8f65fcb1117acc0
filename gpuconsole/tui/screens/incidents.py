"""Triage: what is wrong, affected, what can be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Static

from gpuconsole.core.incidents import (
    WRITING,
    Action,
    Incident,
    IncidentState,
    matches,
    worst_first,
)
from gpuconsole.core.jobs import Job
from gpuconsole.core.units import format_duration, format_mib
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.triage.rules import BY_NAME, described
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.keymap.user_keymap import bindings
from gpuconsole.tui.render.host import event_lines, state_lines
from gpuconsole.tui.render.incidents import (
    Curve,
    Row,
    action_lines,
    columns,
    counts,
    empty_lines,
    evidence_lines,
    heading,
    plot_lines,
    row_pieces,
    who_is_hit,
)
from gpuconsole.tui.render.processes import host_process_lines
from gpuconsole.tui.render.text_cells import Piece, text
from gpuconsole.tui.screens import incidents_actions
from gpuconsole.tui.screens.list_screen import ListScreen
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.widgets.input_bar import FilterBar
from gpuconsole.tui.widgets.panel import Name, Panel, name_box
from gpuconsole.tui.widgets.row_list import Rows

PLOTTED_S, LEAST_PLOTTED_S = 1800.0, 120.0
"""How much of the device's past is drawn: what is known of the last half hour."""
LARGE_WIDTH, LARGE_HEIGHT = 160, 48
"""From this size on the host of an incident is shown too."""


class Pane(Panel):
    """A panel that tells when it has another size: its lines are made for its width."""

    class Resized(Message):
        """Lines are to be made again."""

    def on_resize(self) -> None:
        """Tell it."""
        self.post_message(self.Resized())


class Actions(Pane, can_focus=True):
    """What can be done, by number. With the focus here digits mean actions, not screens."""

    BINDINGS = bindings("actions")

    @dataclass
    class Moved(Message):
        """Another action is looked at."""

        step: int

    @dataclass
    class Chosen(Message):
        """An action is to be done; 0 is the one that is looked at."""

        number: int

    class Left(Message):
        """The list has the keys again."""

    def action_move(self, step: int) -> None:
        """Look at another action."""
        self.post_message(self.Moved(step))

    def action_do(self, number: int) -> None:
        """Do one."""
        self.post_message(self.Chosen(number))

    def action_leave(self) -> None:
        """Go back to the list."""
        self.post_message(self.Left())


class TriageScreen(ListScreen):
    """Incidents, evidence and actions."""

    AREA = "triage"
    MODE = "triage"
    WIDGET_AREAS = ("actions", "table")
    THINGS = "incidents"

    def __init__(self) -> None:
        super().__init__(self.draw_titles)
        self._resolved = False
        self._made: tuple[object, ...] = ()
        """What the rows were made of."""
        self._rows: dict[str, Row] = {}
        self._jobs: Mapping[str, Job] = {}
        self._action = 0
        self._over = 0

    def body(self) -> ComposeResult:
        """The list above; evidence, actions, the device's last minutes and the host below."""
        with Vertical(id="triage"):
            yield Rows(id="incidents")
            yield Static("", id="triage-empty", classes="panel empty", markup=False)
            with Horizontal(id="triage-lower"):
                yield Pane(id="evidence")
                yield Actions(id="actions")
            yield Pane(id="triage-plot")
            with Horizontal(id="triage-host"):
                yield Panel(id="triage-state")
                yield Panel(id="triage-processes")
                yield Panel(id="triage-events")
        yield FilterBar(id="filter")

    def draw(self, picture: Picture) -> None:
        """Bring the list and what is below it up to date."""
        self._list(picture)
        self.set_class(not self._ids, "-empty")
        self.draw_titles()
        if self._ids:
            sizes = columns(self.query_one(Rows).inner_width)
            now, ink = picture.now, self.ink

            def pieces(key: str, number: int) -> list[Piece]:
                return row_pieces(ink, self._row(key), now, sizes)

            self.query_one(Rows).put(self._ids, pieces, heading(ink, sizes))
        else:
            self._draw_empty()
        self._draw_lower()

    def crumbs(self) -> str:
        """What is shown, and the active filter."""
        incident = self._chosen
        say = self.ink.say
        place = f"{say('Triage')} > {incident.where}" if incident is not None else say("Triage")
        return f"{say('filter:')} {self._filter_text}   {place}" if self._filter_text else place

    # -- actions ----------------------------------------------------------------------------

    def action_open(self) -> None:
        """Open the host of the incident, at its device."""
        incident = self._chosen
        if incident is not None:
            incidents_actions.open_host(self, incident)

    def action_acknowledge(self) -> None:
        """Say of the marked incidents, or of the chosen one, that they have been seen."""
        for incident in self._meant():
            incidents_actions.acknowledge(self, incident)
        self.query_one(Rows).unmark()

    def action_snooze(self) -> None:
        """Put the chosen incident off for an hour."""
        for incident in self._meant():
            incidents_actions.snooze(self, incident)
        self.query_one(Rows).unmark()

    def action_resolve(self) -> None:
        """Say that it is no fault."""
        for incident in self._meant():
            incidents_actions.resolve(self, incident)
        self.query_one(Rows).unmark()

    def action_copy(self) -> None:
        """Copy as a ticket."""
        incident = self._chosen
        if incident is not None:
            incidents_actions.copy_ticket(self, incident)

    def action_resolved(self) -> None:
        """Show what is over, or hide it."""
        self._resolved = not self._resolved
        self.show(self.picture)

    def action_actions(self) -> None:
        """Give the keys to the actions."""
        self.add_class("-pane-actions")
        self.query_one(Actions).focus()
        self._draw_lower()

    def action_pane(self) -> None:
        """Show evidence or actions, where there is room for one of them."""
        self.toggle_class("-pane-actions")
        self.call_after_refresh(self._draw_lower)

    def footer_keys(self) -> Sequence[Key]:
        """While an action is chosen, its keys alone: digits mean actions then."""
        actions = self.query_one_optional(Actions)
        if actions is None or not actions.has_focus:
            last = next(key for key in self.console.keys_of("table") if key.id == "table.last")
            go = "app.simulate_key('end')"
            keys = [*self.keys()]
            after = next(at for at, key in enumerate(keys) if key.id == "triage.resolved")
            return [*keys[:after], replace(last, action=go, footer=True, pair="end"), *keys[after:]]
        return self.console.keys_of("actions")

    def action_leave(self) -> None:
        """Choose no action."""
        self.query_one(Actions).action_leave()

    def action_do(self, number: int) -> None:
        """Do the numbered action; 0 is the one that is looked at."""
        incident, actions = self._chosen, self._actions()
        number = number or self._action + 1
        if incident is None or number > len(actions):
            return
        self._action = number - 1
        action = actions[self._action]
        self._draw_lower()
        if self.console.read_only and action.kind in WRITING:
            self.tell(msg("Read-only: {label} was not done.", label=self.ink.say(action.label)))
            return
        incidents_actions.do(self, incident, action)

    # -- messages ---------------------------------------------------------------------------

    @on(Rows.Reached)
    def _row_reached(self) -> None:
        self._action = 0
        self._draw_lower()
        self.draw_frame()

    @on(Rows.Opened)
    def _row_opened(self) -> None:
        self.action_open()

    @on(Actions.Moved)
    def _action_moved(self, event: Actions.Moved) -> None:
        most = max(0, len(self._actions()) - 1)
        self._action = max(0, min(most, self._action + event.step))
        self._draw_lower()

    @on(Actions.Chosen)
    def _action_chosen(self, event: Actions.Chosen) -> None:
        # The answer, whatever it is, ends the choosing.
        self._actions_left()
        self.action_do(event.number)

    @on(Actions.Left)
    def _actions_left(self) -> None:
        self.remove_class("-pane-actions")
        self.query_one(Rows).focus()
        self.call_after_refresh(self._draw_lower)

    def on_descendant_focus(self) -> None:
        """The pane with the keys shows which action is meant, and the footer which keys."""
        self.call_after_refresh(self._draw_lower)
        self.call_after_refresh(self.draw_frame)

    @on(Pane.Resized)
    def _pane_resized(self) -> None:
        self._draw_lower()

    # -- drawing ----------------------------------------------------------------------------

    def _list(self, picture: Picture) -> None:
        """Make the rows when incidents, jobs, the filter or the minute have changed."""
        minute = int(picture.now // 15)
        back = frozenset(
            incident.id for incident in picture.incidents if picture.recovering(incident)
        )
        state = (picture.incidents, picture.jobs, self._filter, self._resolved, minute, back)
        if (
            len(state) == len(self._made)
            and all(
                new is old or new == old for new, old in zip(state[2:], self._made[2:], strict=True)
            )
            and state[0] is self._made[0]
            and state[1] is self._made[1]
        ):
            return
        self._made = state
        ordered = worst_first(picture.incidents, picture.now)
        over = [
            incident
            for incident in ordered
            if incident.state(picture.now) is IncidentState.RESOLVED
        ]
        self._over = len(over)
        shown = [incident for incident in ordered if self._resolved or incident not in over]
        shown = [incident for incident in shown if matches(self._filter, incident, picture.now)]
        wanted = {job for incident in shown for job in incident.jobs}
        self._jobs = {job.id: job for job in picture.jobs if job.id in wanted}
        hosts = {host.name: host for host in picture.snapshot.hosts}
        self._rows = {
            _key(incident): Row(
                incident,
                who_is_hit(incident, self._jobs, hosts.get(incident.host)),
                recovering=picture.recovering(incident),
            )
            for incident in shown
        }
        ids = tuple(self._rows)
        self._ids = self._ids if ids == self._ids else ids

    def _row(self, key: str) -> Row:
        """Return a row as it is drawn: what can be done is asked only for those in sight."""
        row = self._rows[key]
        if not row.do:
            actions = self.session.triage.actions(row.incident)
            row = self._rows[key] = replace(row, do=actions[0].label if actions else "-")
        return row

    def draw_titles(self) -> None:
        """Name the list: what is wrong, the filter, the marks."""
        rows = self.query_one(Rows)
        say = self.ink.say
        now = self.picture.now
        title = f"{say('triage')}  {counts(self.ink, self.picture.incidents, now)}"
        if self._filter_text:
            title += f"  /{self._filter_text}"
        if rows.marked:
            title += say(f"  {len(rows.marked)} marked")
        over = f"v shows {self._over} resolved"
        if self._resolved:
            over = f"v hides {self._over} resolved"
        name_box(rows, title, over if self._over else "")

    def _draw_empty(self) -> None:
        ink = self.ink
        if self._filter_text:
            words = [
                msg("No incidents match `{filter}`.", filter=self._filter_text),
                "",
                "esc clears the filter.",
            ]
            lines = [[(ink.say(line), ink.text)] for line in words]
        else:
            lines = empty_lines(ink, self.picture, self.session.triage.looked_at, self._over)
        self.query_one("#triage-empty", Static).update(text(lines), layout=False)

    def _draw_lower(self) -> None:
        if not self.ready:
            return
        incident = self._chosen
        evidence, actions = self.query_one("#evidence", Panel), self.query_one(Actions)
        narrow = self.size.width < 100
        evidence.entitle("evidence", "F6 actions" if narrow else "")
        actions.entitle("actions", "F6 evidence" if narrow else "x, then a number")
        if incident is None:
            evidence.put([])
            actions.put([])
            self._draw_plot(None)
            self._draw_host(None)
            return
        rule = BY_NAME.get(incident.rule)
        limits = self.session.settings.triage.limits
        sentence = described(rule, limits) if rule is not None else "a rule of another version"
        if evidence.display and evidence.size.width:
            evidence.put(
                evidence_lines(
                    self.ink, self._rows[_key(incident)], self._jobs, sentence, self.picture.now,
                    evidence.inner_width, low=self.size.height < 30,
                )
            )  # fmt: skip
        if actions.display and actions.size.width:
            possible = self._actions()
            self._action = max(0, min(self._action, len(possible) - 1))
            actions.put(
                action_lines(
                    self.ink, possible, self._action, actions.inner_width,
                    read_only=self.console.read_only, here=actions.has_focus,
                )
            )  # fmt: skip
        self._draw_plot(incident)
        self._draw_host(incident)

    def _draw_host(self, incident: Incident | None) -> None:
        """The state of the incident's host, what runs and what happened there."""
        host = self.picture.snapshot.host(incident.host) if incident is not None else None
        room = self.size.width >= LARGE_WIDTH and self.size.height >= LARGE_HEIGHT
        if (shown := room and host is not None) != self.has_class("-hosted"):
            self.set_class(shown, "-hosted")
            if shown:
                self.call_after_refresh(self._draw_lower)
                return
        if not shown or host is None:
            return
        ink, picture = self.ink, self.picture
        state = self.query_one("#triage-state", Panel)
        state.entitle(Name(host.name))
        state.put(state_lines(ink, picture, host, state.inner_width))
        load = self.query_one("#triage-processes", Panel)
        load.entitle("processes", Name(host.name))
        load.put(host_process_lines(ink, host, picture.jobs, load.inner_width))
        news = self.query_one("#triage-events", Panel)
        news.entitle("events", Name(host.name))
        news.put(event_lines(ink, picture, host, news.inner_width))

    def _draw_plot(self, incident: Incident | None) -> None:
        """The device's last half hour, where there is one and it was watched."""
        panel = self.query_one("#triage-plot", Panel)
        uuid = incident.uuid if incident is not None else ""
        if bool(uuid) != self.has_class("-plotted"):
            self.set_class(bool(uuid), "-plotted")
        if incident is None or not uuid or not panel.display or not panel.size.width:
            return
        curves, span = self._curves(incident)
        last = self.ink.say(f", last {format_duration(span)}")
        panel.entitle(f"{incident.where}{last}")
        panel.put(plot_lines(self.ink, curves, panel.inner_width))

    def _curves(self, incident: Incident) -> tuple[list[Curve], float]:
        """Return the figures of the incident's device, and over how many seconds they go."""
        history, uuid = self.session.history, incident.uuid
        series = history.device(uuid, "utilization", PLOTTED_S)
        reach = series.end - series.times[0] if series.times else 0.0
        span = min(PLOTTED_S, max(LEAST_PLOTTED_S, reach))
        host = self.picture.snapshot.host(incident.host)
        device = (
            next((device for device in host.devices if device.uuid == uuid), None) if host else None
        )
        memory, power = (device.memory_total_mib, device.power_limit_w) if device else (None, None)
        return [
            Curve("util", history.device(uuid, "utilization", span), "{:.0f} %".format, 100.0),
            Curve("memory", history.device(uuid, "memory_used_mib", span), format_mib, memory),
            Curve("temp", history.device(uuid, "temperature_c", span), "{:.0f} C".format, 100.0),
            Curve("power", history.device(uuid, "power_w", span), "{:.0f} W".format, power),
        ], span

    # -- within -----------------------------------------------------------------------------

    @property
    def _chosen(self) -> Incident | None:
        rows = self.query_one_optional(Rows)
        row = self._rows.get(rows.current) if rows is not None else None
        return row.incident if row is not None else None

    def _meant(self) -> list[Incident]:
        """Return the marked incidents, or the chosen one."""
        marked = self.query_one(Rows).marked
        marked_incidents = [row.incident for key, row in self._rows.items() if key in marked]
        chosen = self._chosen
        if not marked_incidents and chosen is None:
            self.tell("There is no incident to choose.")
        return marked_incidents or ([chosen] if chosen is not None else [])

    def _actions(self) -> tuple[Action, ...]:
        incident = self._chosen
        return self.session.triage.actions(incident) if incident is not None else ()


def _key(incident: Incident) -> str:
    """Name an occurrence: of one thing there may be several that are over."""
    return incident.id if incident.ended_at is None else f"{incident.id}@{incident.since:.3f}"
