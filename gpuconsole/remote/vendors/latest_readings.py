"""What the vendors' tools of one host said last, as devices. Pure.

A tool that fails costs its figures, not its devices: they stay, unknown, with the reason. A device
that a sound round no longer lists is lost.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from gpuconsole.core.fleet import Device, DeviceProcess
from gpuconsole.core.text import clean
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.remote.vendors import readers
from gpuconsole.remote.vendors.model import MAX_DEVICES, Reading, Texts, VendorError, Way, whole

MAX_PIDS = 1000
_MOST_TEXT = 8 * 2**20
Facts = Mapping[int, tuple[str, str, str]]
"""User, command and container of a process by its number."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a family's tool on a host."""

    family: str
    way: int
    machine: str
    """A short word for the host, the same from every console."""
    at: float
    """When it was, on the console's clock."""
    texts: Texts = field(default_factory=dict)
    status: int = 0
    """How the tool ended."""
    words: str = ""
    """The last it said, for when it failed."""
    fault: str = ""
    """Why there is no output."""


@dataclass(slots=True)
class _Kept:
    devices: dict[str, Device] = field(default_factory=dict)
    fault: str = ""
    driver: str = ""


class Shelf:
    """The devices of one host's tools."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def take(self, tool_round: Round) -> None:
        """Take a round. What cannot be read becomes a fault of its devices."""
        family = readers().families.get(tool_round.family)
        if family is None or not 0 <= tool_round.way < len(family.ways):
            return
        if not tool_round.fault and not tool_round.texts:
            # A tool of that name is here, but another vendor's.
            self._kept.pop(tool_round.family, None)
            return
        shelf = self._kept.setdefault(tool_round.family, _Kept())
        way = family.ways[tool_round.way]
        try:
            if tool_round.fault:
                raise VendorError(tool_round.fault)
            reading = _read(tool_round)
        except VendorError as error:
            shelf.fault = clean(str(error), 200)
            shelf.devices = {
                uuid: unread(device, shelf.fault, tool_round.at)
                for uuid, device in shelf.devices.items()
            }
            return
        shelf.fault = clean(
            f"{way.tool}: {'; '.join(reading.faults)}" if reading.faults else "", 200
        )
        shelf.driver = clean(reading.driver, 64)
        devices = {device.uuid: device for device in _named(reading, tool_round)}
        for uuid, device in shelf.devices.items():
            if uuid not in devices and len(devices) < MAX_DEVICES:
                gone = unread(
                    device, shelf.fault or f"{way.tool} no longer lists it", tool_round.at
                )
                devices[uuid] = gone if shelf.fault else replace(gone, lost=True)
        shelf.devices = devices

    @property
    def error(self) -> str:
        """What cannot be read, or ""."""
        return "; ".join(source.fault for source in self._kept.values() if source.fault)

    @property
    def driver(self) -> str:
        """The driver's version as a tool tells it, or ""."""
        return next((source.driver for source in self._kept.values() if source.driver), "")

    @property
    def heard(self) -> bool:
        """Whether there is any tool here."""
        return bool(self._kept)

    def pids(self) -> tuple[int, ...]:
        """Return the processes on the devices, which only the host can tell more of."""
        pids = {process.pid for device in self._devices() for process in device.processes}
        return tuple(sorted(pids)[:MAX_PIDS])

    def devices(self, facts: Facts) -> tuple[Device, ...]:
        """Return the devices, family by family, with what is known of their processes."""
        return tuple(
            replace(device, processes=tuple(_known(each, facts) for each in device.processes))
            if device.processes
            else device
            for device in self._devices()
        )

    def _devices(self) -> Iterable[Device]:
        for source in self._kept.values():
            yield from sorted(source.devices.values(), key=lambda device: device.index)


def unpacked(text: str) -> dict[str, str]:
    """Return what an agent packed; ValueError when it is nothing of the kind, or too much."""
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(base64.b64decode(text, validate=True), _MOST_TEXT)
    except (zlib.error, binascii.Error) as error:
        raise ValueError("a tool's output that cannot be unpacked") from error
    if stream.unconsumed_tail or not stream.eof:
        raise ValueError("a tool's output that is too long or not whole")
    try:
        texts = json.loads(data)
    except RecursionError as error:
        raise ValueError("a tool's output of another shape") from error
    if not isinstance(texts, dict) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in texts.items()
    ):
        raise ValueError("a tool's output of another shape")
    return texts


def is_foreign(way: Way, text: str) -> bool:
    """Tell whether a tool's output shows that it is another vendor's of the same name."""
    return bool(way.foreign) and re.search(way.foreign, text[:4096]) is not None


def unread(device: Device, why: str, at: float | None) -> Device:
    """Return a device with only its static facts."""
    return Device(
        device.uuid,
        device.index,
        device.model,
        backend=device.backend,
        vendor=device.vendor,
        pci_bus_id=device.pci_bus_id,
        numa_node=device.numa_node,
        memory_total_mib=device.memory_total_mib,
        error=why,
        sampled_at=at,
    )


def _understood(way: Way, texts: Texts) -> Reading:
    """Return what a reader understands; VendorError where it fails in any way."""
    try:
        return way.read(texts)
    except VendorError:
        raise
    except Exception as error:
        # A reader may come from another package: its faults cost its own devices only.
        raise VendorError(
            msg("its reader failed: {error}", error=f"{type(error).__name__}: {error}")
        ) from error


def _read(tool_round: Round) -> Reading:
    way = readers().families[tool_round.family].ways[tool_round.way]
    try:
        if way.commands[0].key not in tool_round.texts:
            raise VendorError("nothing")
        reading = whole(_understood(way, tool_round.texts))
    except VendorError as error:
        if tool_round.status:
            said = (
                clean(tool_round.words.strip().splitlines()[-1], 160)
                if tool_round.words.strip()
                else ""
            )
            raise VendorError(
                msg(
                    "{tool} ended with {status}: {said}",
                    tool=way.tool,
                    status=tool_round.status,
                    said=said,
                )
            ) from None
        raise VendorError(
            msg("{tool} printed what cannot be read: {why}", tool=way.tool, why=error)
        ) from None
    if tool_round.status and not reading.devices:
        raise VendorError(
            msg("{tool} ended with {status}", tool=way.tool, status=tool_round.status)
        )
    return reading


def _named(reading: Reading, tool_round: Round) -> Iterable[Device]:
    """Give the devices names of their own in the whole lab."""
    prefixes = {vendor.name: vendor.prefix for vendor in readers().vendors}
    for device in reading.devices:
        prefix = prefixes.get(device.vendor, "DEV")
        own = device.uuid.removeprefix("uuid:")
        name = own if own != device.uuid else f"{tool_round.machine}-{own}"
        uuid = f"{prefix}-{re.sub(r'[^A-Za-z0-9.]+', '-', name)}"[:96]
        yield replace(device, uuid=uuid, sampled_at=tool_round.at)


def _known(process: DeviceProcess, facts: Facts) -> DeviceProcess:
    user, command, container = facts.get(process.pid, ("", "", ""))
    return replace(process, user=user, command=command or process.command, container_id=container)
