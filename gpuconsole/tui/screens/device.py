"""Device: what it does now and did lately, who is on it, and ending that."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Grid
from textual.reactive import reactive

from gpuconsole.core.fleet import Device, DeviceProcess, Host
from gpuconsole.core.history import DeviceMetric
from gpuconsole.core.jobs import Job
from gpuconsole.core.wording import msg
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.render.device import marks_of, sample_lines, scale_of, title
from gpuconsole.tui.render.processes import (
    jobs_by_container,
    process_heading,
    process_line,
)
from gpuconsole.tui.render.text_cells import Piece
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.dialogs.kill_process import signal_process, stop_container
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.widgets.panel import Panel, name_box
from gpuconsole.tui.widgets.plot import Plot
from gpuconsole.tui.widgets.row_list import BOX, Rows

PLOTS: dict[DeviceMetric, str] = {
    "utilization": "utilisation %",
    "memory_used_mib": "memory GiB",
    "temperature_c": "temperature C",
    "power_w": "power W",
}
WIDE = 100
"""From so many columns on all plots are shown at once."""
_OF_A_PROCESS = frozenset({"device.signal", "device.stop"})
SPANS = {"5 minutes": 300.0, "1 hour": 3600.0, "4 hours": 4 * 3600.0}


class DeviceScreen(ConsoleScreen):
    """One device in full."""

    AREA = "device"
    MODE = "fleet"
    WIDGET_AREAS = ("table",)
    AUTO_FOCUS = "Rows"

    span: reactive[str] = reactive("5 minutes", init=False)
    """Over what time the plots go."""
    metric: reactive[str] = reactive("", init=False)
    """The figure that has all the room; "" shows all where there is room for them."""

    def __init__(self, host: str, uuid: str) -> None:
        super().__init__()
        self._host = host
        self._uuid = uuid
        self._processes: tuple[str, ...] = ()

    def body(self) -> ComposeResult:
        """The sample above, plots in the middle, processes below."""
        yield Panel(id="device-head")
        with Grid(id="device-plots"):
            for metric in PLOTS:
                yield Plot(id=f"plot-{metric}")
        yield Rows(id="device-processes")

    def draw(self, picture: Picture) -> None:
        """Draw the device as it is in this picture."""
        host, device = self._current()
        if host is None or device is None:
            self.query_one("#device-head", Panel).put(
                [[(self.ink.say("This device is not in the picture any more."), self.ink.muted)]]
            )
            return
        head = self.query_one("#device-head", Panel)
        head.entitle(title(host, device), device.uuid)
        head.put(sample_lines(self.ink, picture, host, device, head.inner_width))
        self._draw_plots(device)
        self._draw_processes(host, device)

    def restyle(self) -> None:
        """Draw in another theme."""
        self.query_one(Rows).restyle()
        super().restyle()

    def on_resize(self, event: events.Resize) -> None:
        """Another size has room for other plots, and other widths for the rest."""
        super().on_resize(event)
        self.call_after_refresh(self._draw_again)

    def crumbs(self) -> str:
        """Fleet > host > device."""
        _, device = self._current()
        place = f"{self.ink.say('Fleet')} > {self._host}"
        return place + (f" > gpu {device.index}" if device else "")

    def footer_keys(self) -> Sequence[Key]:
        """What acts on the process under the cursor, and on the device."""
        _, device = self._current()
        absent = set() if device is not None and device.processes else _OF_A_PROCESS
        if self._uuid not in self.picture.owners:
            absent = absent | {"device.job"}
        return [key for key in self.keys() if key.id not in absent]

    # -- actions ----------------------------------------------------------------------------

    def action_sibling(self, step: int) -> None:
        """Go to the device before or after this one, on this host."""
        host, device = self._current()
        if host is None or device is None:
            return
        at = (host.devices.index(device) + step) % len(host.devices)
        self._uuid = host.devices[at].uuid
        self.show(self.picture)

    def action_span(self) -> None:
        """Show the next span of time."""
        names = list(SPANS)
        self.span = names[(names.index(self.span) + 1) % len(names)]

    def action_metric(self) -> None:
        """Zoom the next plot, or all of them theirs."""
        names: list[str] = ["", *PLOTS] if self._roomy else [*PLOTS]
        at = names.index(self.metric) if self.metric in names else 0
        self.metric = names[(at + 1) % len(names)]

    def action_job(self) -> None:
        """Open the job that owns the device."""
        job = self.picture.owners.get(self._uuid)
        if job is None:
            self.tell("No job of this queue holds the device.")
        else:
            self.console.open_job(job.id)

    def action_signal(self) -> None:
        """Ask for a signal to the process under the cursor."""
        process, job = self._chosen()
        if process is not None:
            signal_process(self, self._host, process, job)

    def action_stop(self) -> None:
        """Ask to stop the container of the process under the cursor."""
        process, job = self._chosen()
        if process is not None:
            stop_container(self, self._host, process, job)

    def action_copy(self) -> None:
        """Copy the device's UUID."""
        self.app.copy_to_clipboard(self._uuid)
        self.tell(msg("Copied {name}.", name=self._uuid))

    def watch_span(self) -> None:
        """All plots show another time."""
        self.draw(self.picture)

    def watch_metric(self) -> None:
        """Other plots are shown."""
        self.draw(self.picture)

    # -- drawing ----------------------------------------------------------------------------

    @property
    def _roomy(self) -> bool:
        """Whether four plots have room side by side."""
        return self.size.width >= WIDE

    def _draw_again(self) -> None:
        if self.ready:
            self.draw(self.picture)

    def _draw_plots(self, device: Device) -> None:
        only = self.metric or ("" if self._roomy else "utilization")
        self.set_class(bool(only), "-one-plot")
        job = self.picture.owners.get(device.uuid)
        for metric, name in PLOTS.items():
            plot = self.query_one(f"#plot-{metric}", Plot)
            plot.display = only in ("", metric)
            if plot.display:
                series = self.session.history.device(device.uuid, metric, SPANS[self.span])
                title = msg(
                    "{metric_word}, last {span_word}", metric_word=name, span_word=self.span
                )
                plot.entitle(title, "t span  m metric" if only else "")
                marks = marks_of(device, metric, job, self.session.settings.memory_threshold)
                plot.show(series, scale_of(device, metric), marks)

    def _draw_processes(self, host: Host, device: Device) -> None:
        rows = self.query_one(Rows)
        ink, by_container = self.ink, jobs_by_container(self.picture.jobs)
        processes = {str(process.pid): process for process in device.processes}
        keys = tuple(processes)
        if keys != self._processes:
            self._processes = keys
        width = rows.inner_width

        def line(key: str, number: int) -> list[Piece]:
            process = processes[key]
            return process_line(ink, process, by_container.get(process.container_id), width)

        rows.put(self._processes, line, process_heading(ink, width))
        count = len(processes)
        rows.styles.height = count + BOX
        words = f"{count} process" if count == 1 else f"{count} processes"
        words = words if count else "no process holds memory"
        keys_shown = "" if self.console.read_only or not count else "K signal  c stop container"
        name_box(rows, f"{words} on gpu {device.index}", keys_shown)

    def under_cursor(self) -> tuple[Host | None, Device | None, Job | None]:
        """Return the device, its host, and the job that holds it."""
        return self.with_owner(*self._current())

    def _current(self) -> tuple[Host | None, Device | None]:
        host = self.picture.snapshot.host(self._host)
        devices = host.devices if host is not None else ()
        return host, next((each for each in devices if each.uuid == self._uuid), None)

    def _chosen(self) -> tuple[DeviceProcess | None, Job | None]:
        """Return the process under the cursor, and the job of this queue that it works for."""
        _, device = self._current()
        key = self.query_one(Rows).current
        for process in device.processes if device is not None else ():
            if str(process.pid) == key:
                jobs = jobs_by_container(self.picture.jobs)
                return process, jobs.get(process.container_id)
        self.tell("No process is under the cursor.")
        return None, None
