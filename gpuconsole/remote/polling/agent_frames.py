"""An agent's lines to `Host` records. Pure, and strict: a host's output is hostile.

A line carries what has changed (the agent's `main.py` describes it). Sizes arrive in KiB, power
in tenths of a watt. Anything wrong in a line raises FrameError and costs that line only: the
picture then waits for a whole one, which the caller asks for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpuconsole.core.fleet import Device, DeviceProcess, Host, HostFacts, HostState, PeerLink
from gpuconsole.core.text import clean
from gpuconsole.core.util.fast_replace import Evolving
from gpuconsole.core.wording import msg
from gpuconsole.remote.vendors.latest_readings import Round, Shelf, unpacked

MAX_DEVICES = 128
MAX_PROCESSES = 4096
MAX_KIB = 2**47
"""128 PiB: more than any memory or disk."""

_THROTTLES = (
    (0x08, "hw-slowdown"),
    (0x40, "hw-thermal"),
    (0x80, "power-brake"),
    (0x20, "sw-thermal"),
    (0x04, "power-cap"),
)
_NOTES = ((0x02, "application-clocks"), (0x10, "sync-boost"), (0x100, "display-clocks"))
_IDLE = 0x01
_with_readings, _with_facts = Evolving(Device), Evolving(HostFacts)
_NO_LIBRARY = "NVML Shared Library Not Found"


class FrameError(ValueError):
    """A line that no sound agent writes; the text says what is wrong with it."""


class Picture:
    """A host as its agent's lines have drawn it so far."""

    def __init__(self, base: Host) -> None:
        self._base = base
        self._whole = False
        self._tools = Shelf()
        self.taken = 0.0
        """The host's own time of the last line."""
        self.asked_of: tuple[int, ...] = ()
        """Processes that a vendor's tool named, of which the agent is to tell more."""
        self._forget()

    def _forget(self) -> None:
        self._driver_error = ""
        self._static: list[dict[str, object]] = []
        self._readings: list[dict[str, Any]] = []
        self._devices: list[Device] = []
        self._tool_devices: tuple[Device, ...] = ()
        self._own_facts = self._facts = HostFacts(source="agent")
        self._error = ""
        self._known: dict[int, tuple[str, str, str]] = {}
        self._skew: float | None = None

    def apply(self, line: bytes, now: float) -> Host | None:
        """Take one line received at `now`; None while a whole line is awaited.

        `line` is what follows the mark. FrameError when it is wrong.
        """
        try:
            frame = json.loads(line.decode())
        except (ValueError, RecursionError):
            self._whole = False
            raise FrameError("a line that is not JSON") from None
        try:
            return self._apply(frame, now)
        except FrameError:
            self._whole = False
            raise
        except (TypeError, ValueError, AttributeError, KeyError, IndexError, OverflowError):
            self._whole = False
            raise FrameError("a line of another shape") from None

    @property
    def whole(self) -> bool:
        """Whether the picture is complete; when not, ask for a whole line."""
        return self._whole

    def _apply(self, frame: dict[str, Any], now: float) -> Host | None:
        if frame.get("f"):
            self._forget()
            self._whole = True
        elif not self._whole:
            return None
        self.taken = taken = _number(frame["t"], 0, 1e11)
        if "k" in frame:
            self._skew = _number(frame["k"][0], -1e11, 1e11)
        if "h" in frame:
            self._take_host(frame["h"])
        if "s" in frame:
            self._take_static(frame["s"])
        if "p" in frame:
            for pid, (user, command, container) in frame["p"].items():
                self._known[int(pid)] = clean(user, 64), clean(command, 256), _hex(container)
        for position, values in frame.get("d", {}).items():
            self._take_device(int(position), values)
        for family, record in frame.get("v", {}).items():
            self._tools.take(_round(family, record, taken, now))
        if "v" in frame:
            self.asked_of = self._tools.pids()
        if "h" in frame or "v" in frame:
            self._join()
        if "v" in frame or "p" in frame:
            self._tool_devices = self._tools.devices(self._known)
        if "p" in frame:
            self._drop_ended()
        return self._host(taken, now)

    def _host(self, taken: float, now: float) -> Host:
        base = self._base
        return Host(
            base.name,
            HostState.UP,
            base.address,
            base.labels,
            base.price_per_hour,
            (*self._devices, *self._tool_devices),
            self._facts,
            # A frame cannot be younger than its arrival, whatever the host's clock says.
            now if self._skew is None else min(now, taken - self._skew),
            self._error,
            self._skew,
            drained=base.drained,
            interruptible=base.interruptible,
        )

    def _take_host(self, values: dict[str, object]) -> None:
        facts: dict[str, Any] = {}
        for key, value in values.items():
            if key == "x":
                self._driver_error = clean(_text(value), 300)
            elif key in _HOST_FIELDS:
                name, convert = _HOST_FIELDS[key]
                facts[name] = convert(value)
        self._own_facts = _with_facts(self._own_facts, facts)

    def _join(self) -> None:
        """Join what the driver says of itself with what the vendors' tools say of theirs."""
        self._facts, own = self._own_facts, self._driver_error
        if self._tools.heard:
            if not self._facts.driver_version:
                self._facts = replace(self._facts, driver_version=self._tools.driver)
            # A host of another vendor's cards has no NVIDIA driver; nothing is wrong with that.
            own = "" if own.endswith(_NO_LIBRARY) else own
        self._error = "; ".join(filter(None, (own, self._tools.error)))

    def _take_static(self, entries: list[dict[str, Any]]) -> None:
        if not isinstance(entries, list) or len(entries) > MAX_DEVICES:
            raise FrameError("too many devices")
        static = [_static(entry) for entry in entries]
        if len({entry["uuid"] for entry in static}) != len(static):
            raise FrameError("two devices with one UUID")
        if len(static) != len(self._static):
            self._readings = [{} for _ in static]
        self._static = static
        self._devices = [
            Device(**fixed) if fixed.get("error") else Device(**fixed, **readings)
            for fixed, readings in zip(static, self._readings, strict=True)
        ]

    def _take_device(self, position: int, values: dict[str, object]) -> None:
        if not 0 <= position < len(self._static):
            raise FrameError(
                msg("readings of a device {position} that was not announced", position=position)
            )
        readings: dict[str, Any] = {}
        for key, value in values.items():
            if key in _DEVICE_FIELDS:
                name, convert = _DEVICE_FIELDS[key]
                readings[name] = convert(value)
            elif key == "r":
                mask = _count(value) or 0
                readings["throttle"], readings["clock_notes"] = _throttle(mask), _words(mask)
            elif key == "p":
                readings["processes"] = self._processes(value)
        self._readings[position].update(readings)
        if not self._static[position].get("error"):
            self._devices[position] = _with_readings(self._devices[position], readings)

    def _processes(self, listed: Any) -> tuple[DeviceProcess, ...]:
        if listed is None:
            return ()
        if len(listed) > MAX_PROCESSES:
            raise FrameError("too many processes")
        processes = []
        for pid, size in listed:
            if type(pid) is not int or not 0 <= pid < 2**31:
                raise FrameError("a process number that is none")
            user, command, container = self._known.get(pid, ("", "", ""))
            processes.append(DeviceProcess(pid, user, _mib(size), command, container))
        return tuple(processes)

    def _drop_ended(self) -> None:
        alive = {process.pid for device in self._devices for process in device.processes}
        alive.update(self._tools.pids())
        self._known = {pid: facts for pid, facts in self._known.items() if pid in alive}


def _round(family: str, record: dict[str, object], taken: float, now: float) -> Round:
    """Return a tool's round; its age is measured by the host's own clock alone."""
    age = max(0.0, taken - _number(record["t"], 0, 1e11))
    return Round(
        _text(family),
        int(_number(record["w"], 0, 64)),
        clean(_text(record["m"]), 16),
        now - age,
        unpacked(_text(record["o"])) if "o" in record else {},
        int(_number(record.get("s", 0), -1024, 1024)),
        clean(_text(record.get("e", "")), 300),
        clean(_text(record.get("x", "")), 300),
    )


def _static(entry: dict[str, Any]) -> dict[str, Any]:
    index = int(_number(entry["i"], 0, 65535))
    fault = clean(_text(entry.get("x", "")), 300)
    numa = entry.get("N")
    peers = entry.get("p", [])
    if len(peers) > MAX_DEVICES:
        raise FrameError("too many peers")
    static: dict[str, Any] = {
        "uuid": clean(_text(entry["u"]), 96) or f"unreadable-{index}",
        "index": index,
        "model": clean(_text(entry["n"]), 96) or "unreadable GPU",
        "pci_bus_id": clean(_text(entry.get("b", "")), 32),
        "vendor": "nvidia",
        "parent_uuid": clean(_text(entry.get("P", "")), 96),
        "mig_profile": clean(_text(entry.get("g", "")), 32),
        "numa_node": None if numa is None else int(_number(numa, 0, 65535)),
        "peers": tuple(
            PeerLink(clean(_text(uuid), 96), clean(_text(kind), 8)) for uuid, kind in peers
        ),
    }
    if fault:
        static |= {"error": fault, "lost": True}
    return static


def _number(value: Any, low: float, high: float) -> float:
    # bool is an int to Python; NaN fails every comparison.
    if type(value) not in (int, float) or not low <= value <= high:
        raise FrameError("a figure out of all bounds")
    return float(value)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise FrameError("a figure where text belongs")
    return value


def _hex(value: object) -> str:
    text = _text(value)
    if text and (len(text) != 64 or text.strip("0123456789abcdef")):
        raise FrameError("a container id that is none")
    return text


def _bounded(low: float, high: float, scale: float = 1.0) -> Callable[[Any], float | None]:
    def convert(value: Any) -> float | None:
        kind = type(value)
        # Tens of thousands a second come this way; `_number` tells what is wrong with the others.
        if (kind is int or kind is float) and low <= value <= high:
            return float(value) / scale
        return None if value is None else _number(value, low, high) / scale

    return convert


_mib = _bounded(0, MAX_KIB, 1024)


def _count(value: object) -> int | None:
    return None if value is None else int(_number(value, 0, 2**53))


def _flag(value: object) -> bool | None:
    return None if value is None else bool(_number(value, 0, 1))


def _label(value: object) -> str:
    return "" if value is None else clean(_text(value), 64)


def _words(mask: int) -> tuple[str, ...]:
    return tuple(word for bit, word in _NOTES if mask & bit)


def _throttle(mask: int) -> tuple[str, ...]:
    words = [word for bit, word in _THROTTLES if mask & bit]
    if mask & _IDLE and "power-cap" in words:
        # Idle cards report the power cap too; it means nothing then.
        words.remove("power-cap")
    if len(words) > 1 and words[0] == "hw-slowdown":
        # That bit only sums up the two precise ones.
        del words[0]
    return tuple(words)


def _cpu_lists(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > 1024:
        raise FrameError("too many NUMA nodes")
    for listed in value:
        if _text(listed).strip("0123456789,-"):
            raise FrameError("a list of processors that is none")
    return tuple(clean(listed, 1024) for listed in value)


_HOST_FIELDS: dict[str, tuple[str, Callable[[object], object]]] = {
    "c": ("cpu_percent", _bounded(0, 100)),
    "n": ("cpu_count", _count),
    "M": ("memory_total_mib", _mib),
    "m": ("memory_used_mib", _mib),
    "D": ("disk_total_mib", _mib),
    "f": ("disk_free_mib", _mib),
    "l": ("load_1m", _bounded(0, 1e6)),
    "v": ("driver_version", _label),
    "r": ("runtime_version", _label),
    "k": ("kernel", _label),
    "N": ("numa_cpus", _cpu_lists),
}
_DEVICE_FIELDS: dict[str, tuple[str, Callable[[object], object]]] = {
    "M": ("memory_total_mib", _mib),
    "m": ("memory_used_mib", _mib),
    "u": ("utilization", _bounded(0, 100)),
    "t": ("temperature_c", _bounded(-100, 500)),
    "w": ("power_w", _bounded(0, 1e6, 10)),
    "W": ("power_limit_w", _bounded(0, 1e6, 10)),
    "s": ("sm_clock_mhz", _bounded(0, 1e6)),
    "k": ("memory_clock_mhz", _bounded(0, 1e6)),
    "e": ("ecc_uncorrected", _count),
    "E": ("ecc_corrected", _count),
    "g": ("retired_pages", _count),
    "q": ("remap_pending", _flag),
    "f": ("remap_failed", _flag),
    "j": ("energy_j", _bounded(0, 2**53)),
    "a": ("nvlinks_up", _count),
    "b": ("nvlinks_down", _count),
    "n": ("nvlink_errors", _count),
    "X": ("xid", _count),
    "i": ("mig", bool),
    "L": ("lost", bool),
    "x": ("error", lambda value: clean(_text(value), 300)),
}
