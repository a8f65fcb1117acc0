"""What the readers of vendors' tools have in common: what is run, and what was read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpuconsole.core.fleet import Backend, Device, DeviceProcess
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg

FIELDS = (
    "memory in use",
    "memory in all",
    "utilisation",
    "temperature",
    "power",
    "power limit",
    "clocks",
    "memory errors",
    "health",
    "processes",
)
"""What may be reported of a device, in the order of the table in docs/vendors.md."""

MAX_DEVICES = 128
MAX_PROCESSES = 4096


class VendorError(ValueError):
    """A tool printed what cannot be read; the text says what is wrong with it, for a person."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one round of a tool.

    A device's `uuid` is what names it on its own host: its PCI address, else its number, or
    `uuid:` and what the vendor's driver itself calls it.
    """

    devices: tuple[Device, ...] = ()
    driver: str = ""
    faults: tuple[str, ...] = ()
    """What of the output could not be read while the rest could."""


@dataclass(frozen=True, slots=True)
class Command:
    """One run of a tool. `every` is in rounds: what changes seldom is asked for seldom."""

    key: str
    argv: tuple[str, ...]
    every: int = 1


Texts = Mapping[str, str]
"""What each command of a way printed, by its key; one that failed is not there."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to ask: its commands, and how to read what they print.

    The first command decides whether the way works. If the output matches `foreign` the tool is
    another vendor's of the same name.
    """

    tool: str
    commands: tuple[Command, ...]
    read: Callable[[Texts], Reading]
    foreign: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """Tools for the same cards, best first; the first that works is kept to."""

    name: str
    ways: tuple[Way, ...]


@dataclass(frozen=True, slots=True)
class Vendor:
    """A maker of cards, for the table of what its tools tell."""

    name: str
    title: str
    tools: tuple[str, ...]
    backend: Backend
    prefix: str
    """Begins the names of its devices."""
    tells: frozenset[str]
    """Those of FIELDS that are reported if the device has them."""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class VendorReader:
    """A maker's tools, as a package adds them by an entry point of `gpuconsole.vendors`.

    A family with the name of one that is built in takes its place.
    """

    vendor: Vendor
    family: Family


def device(vendor: Vendor, local: str, index: int | None, model: str, **values: object) -> Device:
    """Return a device as a reader found it; VendorError without a number that can be one."""
    if index is None or not 0 <= index < 65536:
        raise VendorError("a device without a number")
    name = clean(" ".join(model.split()), 96)
    plain = Device(
        clean(local, 96) or f"{index}",
        index,
        name or vendor.title,
        backend=vendor.backend,
        vendor=vendor.name,
    )
    return replace(plain, **values)  # type: ignore[arg-type]


def process(pid: str | int | None, memory_mib: float | None, name: str) -> DeviceProcess | None:
    """Return a process, or None when its number is none."""
    digits = str(pid).strip() if pid is not None else ""
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else 0
    if not 0 < number < 2**31:
        return None
    return DeviceProcess(number, memory_mib=memory_mib, command=clean(name.strip(), 256))


def whole(reading: Reading) -> Reading:
    """Return the reading, or say in a VendorError why it cannot be one."""
    names = [device.uuid for device in reading.devices]
    if len(set(names)) != len(names):
        raise VendorError("two devices with one address")
    if len(names) > MAX_DEVICES:
        raise VendorError(msg("more than {max_devices} devices", max_devices=MAX_DEVICES))
    if any(len(device.processes) > MAX_PROCESSES for device in reading.devices):
        raise VendorError(
            msg("more than {max_processes} processes on one device", max_processes=MAX_PROCESSES)
        )
    return reading


def cut_rows(rows: list[str]) -> tuple[str, ...]:
    """Say which rows of a table are not whole."""
    return tuple(f'a row is cut off: "{clean(row, 60)}"' for row in rows[:3])


def attach(
    devices: Iterable[Device], held: Mapping[int, list[DeviceProcess]]
) -> tuple[Device, ...]:
    """Return the devices with the processes of each index."""
    return tuple(
        replace(device, processes=tuple(held[device.index])) if held.get(device.index) else device
        for device in devices
    )
