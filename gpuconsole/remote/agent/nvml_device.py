"""Readings of one NVIDIA device, or of a MIG instance of one, through NVML.

Sizes are KiB, power tenths of a watt, energy joules. What a driver or a card does not have is left
out field by field.
"""

from typing import Any, Dict, List, Optional, Tuple

import pynvml

from gpuconsole.remote.agent.processes import Facts, Processes
from gpuconsole.remote.agent.watchdog import LostError, Step, UnsupportedError, Values

_UNSUPPORTED = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_NO_DATA,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
)
# Of the data link layer: replay, recovery, checksum of flow control, checksum of data.
_LINK_ERRORS = (0, 1, 2, 3)
# Names are written whole: what no text of the agent names is not sent along with it.
_RUNNING = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
)


def call(name: str, *arguments: object) -> Any:
    """Call an NVML function by name; one that a driver or pynvml lacks is Unsupported."""
    function = getattr(pynvml, name, None)
    if function is None:
        raise UnsupportedError(name)
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise LostError("GPU is lost: the driver can no longer reach it") from error
        if error.value in _UNSUPPORTED:
            raise UnsupportedError(name) from error
        raise


def first_of(handle: object, *calls: Tuple[str, Tuple[object, ...]]) -> Any:
    """Return the answer of the first call that this driver supports."""
    for name, arguments in calls[:-1]:
        try:
            return call(name, handle, *arguments)
        except UnsupportedError:
            continue
    name, arguments = calls[-1]
    return call(name, handle, *arguments)


class DeviceReader(object):
    """The readings of one device."""

    def __init__(self, handle: object, processes: Processes) -> None:
        self._handle = handle
        self._processes = processes
        self.process_facts: Dict[int, Facts] = {}

    def steps(self) -> List[Step]:
        """Return the readings, by the keys that the console knows."""
        return [
            Step("memory", ("M", "m"), self._memory),
            Step("utilization", ("u",), self._utilization),
            Step("temperature", ("t",), self._temperature),
            Step("power", ("w",), self._power),
            Step("clocks", ("s", "k"), self._clocks),
            Step("throttle reasons", ("r",), self._throttle),
            Step("processes", ("p",), self._running),
            Step("power limit", ("W",), self._power_limit, every=10),
            Step("ECC errors", ("e",), self._ecc, every=10),
            Step("corrected ECC errors", ("E",), self._corrected, every=10),
            Step("retired pages", ("g", "q", "f"), self._retired, every=10),
            Step("MIG mode", ("i",), self._mig, every=10),
            Step("energy", ("j",), self._energy, every=10),
            # Some hundred calls where there are 18 links.
            Step("NVLink", ("a", "b", "n"), self._nvlinks, every=30),
        ]

    def instance_steps(self) -> List[Step]:
        """Return the readings that NVML has of a MIG instance: all else is the whole device's."""
        return [
            Step("memory", ("M", "m"), self._memory),
            Step("processes", ("p",), self._running),
        ]

    def _memory(self) -> Values:
        # Version 1 counts what the driver reserves as used; version 2 tells them apart.
        version = getattr(pynvml, "nvmlMemory_v2", None)
        info = first_of(
            self._handle,
            ("nvmlDeviceGetMemoryInfo", (version,)),
            ("nvmlDeviceGetMemoryInfo", ()),
        )
        return {"M": info.total >> 10, "m": info.used >> 10}

    def _utilization(self) -> Values:
        return {"u": call("nvmlDeviceGetUtilizationRates", self._handle).gpu}

    def _temperature(self) -> Values:
        sensor = pynvml.NVML_TEMPERATURE_GPU
        return {"t": call("nvmlDeviceGetTemperature", self._handle, sensor)}

    def _power(self) -> Values:
        return {"w": call("nvmlDeviceGetPowerUsage", self._handle) // 100}

    def _power_limit(self) -> Values:
        limit = first_of(
            self._handle,
            ("nvmlDeviceGetEnforcedPowerLimit", ()),
            ("nvmlDeviceGetPowerManagementLimit", ()),
        )
        return {"W": limit // 100}

    def _clocks(self) -> Values:
        shader = call("nvmlDeviceGetClockInfo", self._handle, pynvml.NVML_CLOCK_SM)
        memory = call("nvmlDeviceGetClockInfo", self._handle, pynvml.NVML_CLOCK_MEM)
        return {"s": shader, "k": memory}

    def _throttle(self) -> Values:
        mask = first_of(
            self._handle,
            ("nvmlDeviceGetCurrentClocksEventReasons", ()),
            ("nvmlDeviceGetCurrentClocksThrottleReasons", ()),
        )
        return {"r": int(mask)}

    def _ecc(self) -> Values:
        return {"e": self._errors(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)}

    def _corrected(self) -> Values:
        return {"E": self._errors(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED)}

    def _errors(self, kind: int) -> int:
        # Since the driver was loaded: what a person who has just reset a card wants to know.
        counter = pynvml.NVML_VOLATILE_ECC
        return int(call("nvmlDeviceGetTotalEccErrors", self._handle, kind, counter))

    def _retired(self) -> Values:
        # Ampere and later remap rows; earlier cards retire pages, for one of two causes.
        try:
            corrected, uncorrected, pending, failed = call(
                "nvmlDeviceGetRemappedRows", self._handle
            )[:4]
            counts = {"g": int(corrected) + int(uncorrected)}
            return dict(counts, q=int(bool(pending)), f=int(bool(failed)))
        except UnsupportedError:
            pages = [call("nvmlDeviceGetRetiredPages", self._handle, cause) for cause in (0, 1)]
        values = {"g": sum(len(page) for page in pages)}
        try:
            pending = call("nvmlDeviceGetRetiredPagesPendingStatus", self._handle)
            values["q"] = int(bool(pending))
        except UnsupportedError:
            pass
        return values

    def _mig(self) -> Values:
        return {"i": int(call("nvmlDeviceGetMigMode", self._handle)[0] == 1)}

    def _energy(self) -> Values:
        return {"j": int(call("nvmlDeviceGetTotalEnergyConsumption", self._handle)) // 1000}

    def _nvlinks(self) -> Values:
        up = down = 0
        errors: Optional[int] = 0
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
            try:
                active = call("nvmlDeviceGetNvLinkState", self._handle, link)
            except (UnsupportedError, pynvml.NVMLError):
                # A link that the card does not have: an invalid argument, or not supported.
                break
            up, down = up + bool(active), down + (not active)
            if active and errors is not None:
                errors = self._link_errors(link, errors)
        if not up + down:
            raise UnsupportedError("NVLink")
        return {"a": up, "b": down, "n": errors}

    def _link_errors(self, link: int, before: int) -> Optional[int]:
        """Add a link's errors to those before; None where the driver does not count them."""
        try:
            return before + sum(
                int(call("nvmlDeviceGetNvLinkErrorCounter", self._handle, link, counter))
                for counter in _LINK_ERRORS
            )
        except (UnsupportedError, pynvml.NVMLError):
            return None

    def _running(self) -> Values:
        held: Dict[int, Optional[int]] = {}
        supported = False
        for newer, older in _RUNNING:
            try:
                processes = first_of(self._handle, (newer, ()), (older, ()))
            except UnsupportedError:
                continue
            supported = True
            for process in processes:
                used = process.usedGpuMemory
                size = None if used is None else int(used) >> 10
                held[int(process.pid)] = size if size is not None else held.get(int(process.pid))
        if not supported:
            raise UnsupportedError("processes")
        facts = {pid: self._processes.facts(pid) for pid in held}
        self._processes.keep(held)
        # Replaced whole: the main thread reads it while the next round goes on.
        self.process_facts = facts
        return {"p": [[pid, held[pid]] for pid in sorted(held)]}
