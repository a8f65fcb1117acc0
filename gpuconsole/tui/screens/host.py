"""Host: its devices, who works on them, how they are joined, and what is known of the machine."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.reactive import reactive

from gpuconsole.core.filters import only_host
from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.history import HostMetric
from gpuconsole.core.jobs import Job
from gpuconsole.core.wording import msg
from gpuconsole.errors import ConsoleError
from gpuconsole.session.images.service import HostImages
from gpuconsole.tui.keymap.key import Key
from gpuconsole.tui.render.fleet_map.layout import Density
from gpuconsole.tui.render.host import device_lines, event_lines, image_lines, state_lines
from gpuconsole.tui.render.plots.time_plot import Scale
from gpuconsole.tui.render.processes import host_process_lines
from gpuconsole.tui.render.topology import topology_lines
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.screens.device import DeviceScreen
from gpuconsole.tui.screens.dialogs.kill_process import largest_process, signal_largest
from gpuconsole.tui.snapshot import Picture
from gpuconsole.tui.widgets.fleet_map import FleetMap
from gpuconsole.tui.widgets.panel import Panel, name_box
from gpuconsole.tui.widgets.plot import Plot

PANES = ("work", "events", "facts", "topology", "history")
"""What is shown below the devices; a wide terminal shows the facts beside each of the others, a
tall one events below the processes, a large one everything."""
LARGE = 180
SPAN_S = 900.0
SPAN = "last 15 minutes"


class HostScreen(ConsoleScreen):
    """One host in full."""

    AREA = "host"
    MODE = "fleet"
    WIDGET_AREAS = ("map",)
    AUTO_FOCUS = "FleetMap"

    pane: reactive[str] = reactive("work", init=False)

    def __init__(self, host: str, uuid: str = "") -> None:
        super().__init__()
        self._host = host
        self._uuid = uuid
        self._images: HostImages | None = None

    def body(self) -> ComposeResult:
        """Devices above; below facts, processes and events, topology, history."""
        yield FleetMap(with_host=False, id="devices")
        with Horizontal(id="host-lower"):
            yield Panel(id="host-facts")
            with Vertical(id="host-work"):
                yield Panel(id="host-processes")
                yield Panel(id="host-events")
            with Vertical(id="host-right"):
                yield Panel(id="host-topology")
                with Vertical(id="host-history"):
                    yield Plot(id="host-cpu")
                    yield Plot(id="host-memory")

    def on_mount(self) -> None:
        """Show devices, one a line."""
        devices = self.query_one(FleetMap)
        devices.density = Density.DEVICE_LINE
        self._narrow()
        devices.move_to(self._host, self._uuid)
        self.watch_pane()
        self._ask_for_images()

    def draw(self, picture: Picture) -> None:
        """Draw the host as it is in this picture."""
        devices = self.query_one(FleetMap)
        devices.show(picture)
        self._draw_panels()

    def restyle(self) -> None:
        """Draw in another theme."""
        self.query_one(FleetMap).restyle()
        super().restyle()

    def on_resize(self, event: events.Resize) -> None:
        """A large terminal shows all panes."""
        super().on_resize(event)
        self.set_class(self.size.width >= LARGE, "-large")
        if self.pane == "events" and not self.has_class("-short"):
            self.pane = "work"
        self.call_after_refresh(self._draw_panels)

    def crumbs(self) -> str:
        """Fleet > host > device."""
        _, device = self.query_one(FleetMap).current
        place = f"{self.ink.say('Fleet')} > {self._host}"
        return place + (f" > gpu {device.index}" if device else "")

    def footer_keys(self) -> Sequence[Key]:
        """What acts on the device under the cursor, and on the host."""
        host, device = self.query_one(FleetMap).current
        absent = set() if device is not None else {"host.open", "host.copy"}
        if largest_process(host, device) is None:
            absent.add("host.signal")
        if device is None or device.uuid not in self.picture.owners:
            absent.add("host.job")
        return [key for key in self.keys() if key.id not in absent]

    def under_cursor(self) -> tuple[Host | None, Device | None, Job | None]:
        """Return the device under the cursor, its host, and the job that holds it."""
        return self.with_owner(*self.query_one(FleetMap).current)

    # -- actions ----------------------------------------------------------------------------

    def action_open(self) -> None:
        """Open the device under the cursor."""
        host, device = self.query_one(FleetMap).current
        if host is None or device is None:
            self.tell("There is no device under the cursor.")
        else:
            self.app.push_screen(DeviceScreen(host.name, device.uuid))

    def action_sibling(self, step: int) -> None:
        """Open the host before or after this one."""
        names = [host.name for host in self.picture.snapshot.hosts]
        if self._host in names:
            self._host = names[(names.index(self._host) + step) % len(names)]
            self._narrow()
            self.query_one(FleetMap).move_to(self._host)
            self._ask_for_images()
            self.show(self.picture)

    def action_pane(self) -> None:
        """Show the next pane."""
        absent = {"facts"} if self.has_class("-wide") else set()
        absent |= set() if self.has_class("-short") else {"events"}
        names = [name for name in PANES if name not in absent]
        at = names.index(self.pane) if self.pane in names else -1
        self.pane = names[(at + 1) % len(names)]

    def action_job(self) -> None:
        """Open the job that owns the device under the cursor."""
        _, device = self.query_one(FleetMap).current
        job = self.picture.owners.get(device.uuid) if device else None
        if job is None:
            self.tell("No job of this queue holds the device.")
        else:
            self.console.open_job(job.id)

    def action_containers(self) -> None:
        """Show the host's containers."""
        from gpuconsole.tui.screens.container.containers import ContainersScreen

        self.app.push_screen(ContainersScreen(self._host))

    def action_signal(self) -> None:
        """Ask for a signal to the largest process of the device under the cursor."""
        host, device = self.query_one(FleetMap).current
        signal_largest(self, host, device)

    def action_copy(self) -> None:
        """Copy the device's UUID."""
        _, device = self.query_one(FleetMap).current
        if device is not None:
            self.app.copy_to_clipboard(device.uuid)
            self.tell(msg("Copied {name}.", name=device.uuid))

    def watch_pane(self) -> None:
        """Show another pane below the devices."""
        self.update_classes({f"-pane-{name}": name == self.pane for name in PANES})
        self.call_after_refresh(self._draw_panels)

    # -- drawing ----------------------------------------------------------------------------

    @work(exclusive=True, group="images")
    async def _ask_for_images(self) -> None:
        """Ask the host's engine once, beside everything else."""
        self._images = None
        # A host that left the inventory has none to tell.
        with contextlib.suppress(ConsoleError):
            (self._images,) = await self.session.images.listing((self._host,))
        self._draw_panels()

    @on(FleetMap.CursorMoved)
    def _cursor_moved(self) -> None:
        self._draw_panels()
        self.draw_frame()

    def _narrow(self) -> None:
        self.query_one(FleetMap).narrow(only_host(self._host))

    def _draw_panels(self) -> None:
        if not self.ready:
            return
        devices = self.query_one(FleetMap)
        host, device = devices.current
        if host is None:
            return
        name_box(devices, _title(host), "up/down device  [ ] host")
        devices.styles.height = min(len(host.devices), 10) + 3
        ink, picture = self.ink, self.picture
        facts = self._panel("host-facts", "host")
        width = facts.inner_width
        about = [] if device is None else [[], *device_lines(ink, picture, device, width)]
        images = self._images
        image_part = (
            []
            if images is None or images.host.name != host.name
            else [[], *image_lines(ink, images, width)]
        )
        facts.put([*state_lines(ink, picture, host, width), *about, *image_part])
        load = self._panel("host-processes", "processes")
        load.put(host_process_lines(ink, host, picture.jobs, load.inner_width), pinned=1)
        news = self._panel("host-events", "events")
        news.put(event_lines(ink, picture, host, news.inner_width))
        matrix = self._panel("host-topology", "topology")
        matrix.put(topology_lines(ink, host, matrix.inner_width))
        self._draw_plot(host, "cpu_percent", "host-cpu", "cpu %")
        self._draw_plot(host, "memory_used_mib", "host-memory", "memory GiB")

    def _draw_plot(self, host: Host, metric: HostMetric, plot_id: str, name: str) -> None:
        plot = self.query_one(f"#{plot_id}", Plot)
        plot.entitle(f"{name}, {SPAN}")
        scale = Scale(100.0, lambda value: f"{value:.0f}%")
        if metric == "memory_used_mib":
            total = host.facts.memory_total_mib or 1.0
            scale = Scale(total, lambda mib: f"{mib / 1024:.0f}G")
        plot.show(self.session.history.host(host.name, metric, SPAN_S), scale)

    def _panel(self, panel_id: str, title: str) -> Panel:
        panel = self.query_one(f"#{panel_id}", Panel)
        last = "F6 next" if not self.has_class("-large") else ""
        lowest = "host-processes" if self.has_class("-short") else "host-events"
        panel.entitle(title, last if panel_id in (*_LAST, lowest) else "")
        return panel


_LAST = ("host-topology",)
"""Panels at the lower end of a pane, which name the key to the next; of the first pane it depends
on the height."""


def _title(host: Host) -> str:
    labels = " ".join(f"{key}:{value}" for key, value in host.labels.items())
    return f"{host.name}  {labels}".rstrip()
