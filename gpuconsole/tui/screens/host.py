"""Host: its devices, their processes and what is known of the machine."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal

from gpuconsole.core.filters import only_host
from gpuconsole.core.fleet import Host
from gpuconsole.tui.picture import Picture
from gpuconsole.tui.presentation.devices import process_lines
from gpuconsole.tui.presentation.inspector import device_lines, state_lines
from gpuconsole.tui.presentation.maplayout import Density
from gpuconsole.tui.screens.base import ConsoleScreen
from gpuconsole.tui.widgets.fleetmap import FleetMap
from gpuconsole.tui.widgets.panel import Panel, name_box


class HostScreen(ConsoleScreen):
    """One host in full."""

    AREA = "host"
    MODE = "fleet"
    WIDGET_AREAS = ("map",)
    AUTO_FOCUS = "FleetMap"

    def __init__(self, host: str, uuid: str = "") -> None:
        super().__init__()
        self._host = host
        self._uuid = uuid

    def body(self) -> ComposeResult:
        """Devices above; facts and processes below."""
        yield FleetMap(with_host=False, id="devices")
        with Horizontal(id="host-lower"):
            yield Panel(id="host-facts")
            yield Panel(id="host-processes")

    def on_mount(self) -> None:
        """Show devices, one a line."""
        devices = self.query_one(FleetMap)
        devices.density = Density.DEVICE_LINE
        self._narrow()
        devices.move_to(self._host, self._uuid)

    def draw(self, picture: Picture) -> None:
        """Draw the host as it is in this picture."""
        devices = self.query_one(FleetMap)
        devices.show(picture)
        self._draw_panels()

    def restyle(self) -> None:
        """Draw in another theme."""
        self.query_one(FleetMap).restyle()
        super().restyle()

    def crumbs(self) -> str:
        """Fleet > host > device."""
        _, device = self.query_one(FleetMap).current
        return f"Fleet > {self._host}" + (f" > gpu {device.index}" if device else "")

    # -- actions ----------------------------------------------------------------------------

    def action_sibling(self, step: int) -> None:
        """Open the host before or after this one."""
        names = [host.name for host in self.picture.snapshot.hosts]
        if self._host in names:
            self._host = names[(names.index(self._host) + step) % len(names)]
            self._narrow()
            self.query_one(FleetMap).move_to(self._host)
            self.show(self.picture)

    def action_job(self) -> None:
        """Open the job that owns the device under the cursor."""
        _, device = self.query_one(FleetMap).current
        job = self.picture.owners.get(device.uuid) if device else None
        if job is None:
            self.tell("No job of this queue holds the device.")
        else:
            self.console.open_job(job.id)

    def action_copy(self) -> None:
        """Copy the device's UUID."""
        _, device = self.query_one(FleetMap).current
        if device is not None:
            self.app.copy_to_clipboard(device.uuid)
            self.tell(f"Copied {device.uuid}.")

    # -- drawing ----------------------------------------------------------------------------

    @on(FleetMap.CursorMoved)
    def _cursor_moved(self) -> None:
        self._draw_panels()
        self.draw_frame()

    def _narrow(self) -> None:
        self.query_one(FleetMap).narrow(only_host(self._host))

    def _draw_panels(self) -> None:
        devices = self.query_one(FleetMap)
        host, device = devices.current
        if host is None:
            return
        name_box(devices, _title(host), "up/down device  [ ] host")
        ink, picture = self.ink, self.picture
        facts = self.query_one("#host-facts", Panel)
        facts.entitle("host")
        facts.put(state_lines(ink, picture, host, facts.inner_width))
        processes = self.query_one("#host-processes", Panel)
        if device is None:
            processes.entitle("processes")
            processes.put([[("No device could be read.", ink.muted)]])
            return
        processes.entitle(f"gpu {device.index}  {device.uuid}")
        width = processes.inner_width
        about = device_lines(ink, picture, device, width)[1:]
        processes.put([*about, [], *process_lines(ink, device, width)])


def _title(host: Host) -> str:
    labels = " ".join(f"{key}:{value}" for key, value in host.labels.items())
    return f"{host.name}  {labels}".rstrip()
