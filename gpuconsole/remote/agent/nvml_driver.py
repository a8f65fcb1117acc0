"""The driver as a whole: which devices there are, how they are linked, and its XID events.

Everything here runs in threads that the agent can do without: a driver that hangs while it is
opened costs the devices, never the heartbeat.
"""

import os
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import pynvml

from gpuconsole.remote.agent import mig
from gpuconsole.remote.agent.mig import text
from gpuconsole.remote.agent.nvml_device import DeviceReader, call
from gpuconsole.remote.agent.processes import Processes
from gpuconsole.remote.agent.watchdog import LostError, UnsupportedError, Worker

OPEN_AGAIN_S = 10.0
"""Pause before a driver that would not open is tried again."""
LOOK_AGAIN_S = 10.0
"""Pause between two looks at which devices there are."""
EVENT_WAIT_MS = 1000
# nvidia-smi topo -m names of NVML's common-ancestor levels; 0 is two GPUs on one board.
_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


class Device(object):
    """A device or MIG instance: what does not change, and the worker that reads the rest."""

    def __init__(
        self, static: Dict[str, Any], handle: object = None, instance: Optional[int] = None
    ) -> None:
        self.static = static
        self.handle = handle
        self.instance = instance
        self.reader = None if handle is None else DeviceReader(handle, Processes())
        self.worker: Optional[Worker] = None
        if self.reader is not None:
            steps = self.reader.instance_steps() if self.divides else self.reader.steps()
            self.worker = Worker("gpu%d" % static["i"], steps)

    @property
    def divides(self) -> str:
        """The UUID of the device of which this is a MIG instance, or ""."""
        return str(self.static.get("P", ""))


class Driver(object):
    """Opens NVML in the background and keeps its devices."""

    def __init__(self, on_opened: Callable[[], None], on_changed: Callable[[], None]) -> None:
        self.devices: List[Device] = []
        self.error = "the driver has not answered yet"
        self.versions: Dict[str, str] = {}
        self.xids: Dict[str, int] = {}
        self._on_opened = on_opened
        self._on_changed = on_changed
        _thread(self._open, "open")

    def _open(self) -> None:
        while True:
            try:
                pynvml.nvmlInit()
                self.versions = _versions()
                self.devices = self._find()
                self.error = ""
                break
            except pynvml.NVMLError as error:
                self.error = "no NVIDIA driver: %s" % error
            except Exception as error:
                self.error = "the NVIDIA driver cannot be read: %s" % error
            self._on_opened()
            time.sleep(OPEN_AGAIN_S)
        self._on_opened()
        _thread(self._listen, "events")
        _thread(self._link, "links")
        while True:
            time.sleep(LOOK_AGAIN_S)
            if self._is_another():
                self._on_changed()

    def _is_another(self) -> bool:
        """Tell whether devices came, went or came back, or the driver was reloaded."""
        whole = [device for device in self.devices if not device.divides]
        try:
            if pynvml.nvmlDeviceGetCount() != len(whole):
                return True
        except pynvml.NVMLError as error:
            return error.value in (pynvml.NVML_ERROR_UNINITIALIZED, _NOT_LOADED)
        for index, device in enumerate(whole):
            if device.handle is not None:
                uuids = [part.static["u"] for part in self._parts_of(device)]
                if mig.uuids(device.handle) != uuids:
                    return True
            else:
                try:
                    _static(index, pynvml.nvmlDeviceGetHandleByIndex(index))
                    return True
                except (pynvml.NVMLError, LostError, UnsupportedError):
                    continue
        return False

    def _find(self) -> List[Device]:
        devices = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                static = _static(index, handle)
            except (pynvml.NVMLError, LostError, UnsupportedError) as error:
                # Still a card in this host: shown as lost instead of left out.
                devices.append(Device({"i": index, "u": "", "n": "", "x": str(error)}))
                continue
            devices.append(Device(static, handle))
        for device in list(devices):
            if device.handle is None:
                continue
            for handle, number, static in mig.instances(device.handle, device.static):
                # Numbered after all whole devices: a number means one device on its host.
                devices.append(Device(dict(static, i=len(devices)), handle, number))
        return devices

    def _parts_of(self, device: Device) -> List[Device]:
        return [
            part for part in self.devices if part.divides and part.divides == device.static["u"]
        ]

    def _link(self) -> None:
        """Find the links between devices once; hundreds of calls, so not before the first frame."""
        # Between MIG instances there is no direct way, on one device or another.
        whole = [each for each in self.devices if each.worker is not None and not each.divides]
        for device in whole:
            try:
                links, switched = _nvlinks(device.handle)
            except (pynvml.NVMLError, LostError, UnsupportedError):
                links, switched = {}, 0
            peers = []
            for other in whole:
                if other is device:
                    continue
                count = links.get(other.static["b"], 0) or switched
                kind = "NV%d" % count if count else _ancestor(device.handle, other.handle)
                if kind:
                    peers.append([other.static["u"], kind])
            # A new dict, so that the main thread sees a whole one.
            device.static = dict(device.static, p=peers)

    def _listen(self) -> None:
        """Note the XID of each device as the driver reports it."""
        try:
            events = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError:
            return
        registered = 0
        for device in self.devices:
            if device.handle is None or device.divides:
                continue
            try:
                kind = pynvml.nvmlEventTypeXidCriticalError
                pynvml.nvmlDeviceRegisterEvents(device.handle, kind, events)
                registered += 1
            except pynvml.NVMLError:
                continue
        while registered:
            try:
                event = pynvml.nvmlEventSetWait_v2(events, EVENT_WAIT_MS)
                index = pynvml.nvmlDeviceGetIndex(event.device)
            except pynvml.NVMLError as error:
                if error.value not in (pynvml.NVML_ERROR_TIMEOUT, pynvml.NVML_ERROR_GPU_IS_LOST):
                    return
                if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
                    time.sleep(EVENT_WAIT_MS / 1000.0)
                continue
            self.xids = dict(self.xids, **self._with_event(index, event))

    def _with_event(self, index: int, event: Any) -> Dict[str, int]:
        """Return the XID by the numbers of the devices it is about: one that does not name a MIG
        instance is about them all."""
        number = int(event.eventData)
        hit = {str(index): number}
        for part in self._parts_of(self.devices[index]) if index < len(self.devices) else ():
            if event.gpuInstanceId in (part.instance, _NO_INSTANCE):
                hit[str(part.static["i"])] = number
        return hit


_NO_INSTANCE = 0xFFFFFFFF
_NOT_LOADED = pynvml.NVML_ERROR_DRIVER_NOT_LOADED


def _static(index: int, handle: object) -> Dict[str, Any]:
    bus = text(call("nvmlDeviceGetPciInfo", handle).busId)
    return {
        "i": index,
        "u": text(call("nvmlDeviceGetUUID", handle)),
        "n": text(call("nvmlDeviceGetName", handle)),
        "b": bus,
        "N": _numa_node(bus, handle),
    }


def _numa_node(bus: str, handle: object) -> Optional[int]:
    # NVML writes eight digits of PCI domain where the kernel's file system has four.
    domain, _, rest = bus.lower().partition(":")
    path = "/sys/bus/pci/devices/%s:%s/numa_node" % (domain[-4:], rest)
    try:
        with open(path) as file:
            node = int(file.read())
        return node if node >= 0 else None
    except (OSError, ValueError):
        pass
    try:
        return int(call("nvmlDeviceGetNumaNodeId", handle))
    except (pynvml.NVMLError, LostError, UnsupportedError):
        return None


def _nvlinks(handle: object) -> Tuple[Dict[str, int], int]:
    """Return the number of active links by bus id of the far GPU, and how many reach a switch."""
    direct: Dict[str, int] = {}
    switched = 0
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            if not call("nvmlDeviceGetNvLinkState", handle, link):
                continue
            kind = call("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
        except UnsupportedError:
            break
        except pynvml.NVMLError:
            # Asking for a link that the card does not have is an invalid argument.
            break
        if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            switched += 1
        else:
            bus = text(call("nvmlDeviceGetNvLinkRemotePciInfo", handle, link).busId)
            direct[bus] = direct.get(bus, 0) + 1
    return direct, switched


def _ancestor(first: object, other: object) -> str:
    try:
        return _LEVELS.get(call("nvmlDeviceGetTopologyCommonAncestor", first, other), "")
    except (pynvml.NVMLError, LostError, UnsupportedError):
        return ""


def _versions() -> Dict[str, str]:
    versions = {"v": text(pynvml.nvmlSystemGetDriverVersion())}
    try:
        number = pynvml.nvmlSystemGetCudaDriverVersion_v2()
        versions["r"] = "%d.%d" % (number // 1000, number % 1000 // 10)
    except (pynvml.NVMLError, AttributeError):
        pass
    versions["k"] = os.uname()[2]
    return versions


def _thread(target: Callable[[], None], name: str) -> None:
    thread = threading.Thread(target=target, name=name)
    thread.daemon = True
    thread.start()
