"""What state a device and its host are in: faults, who works there, memory that is left."""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.core.devices.health_levels import is_alarming
from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.text import clean
from gpuconsole.core.vendors import VENDORS
from gpuconsole.core.wording import msg

RESERVE_SHARE = 0.02
"""Share of a device's memory that stays free beside what others hold."""
EMPTY_SHARE = 0.10
"""A device below this share without processes is empty: drivers hold some memory on their own
(an idle Ascend 910 shows 8 %)."""
FATAL_XIDS = frozenset({48, 62, 64, 74, 79, 95, 119, 120, 140, 143})
"""XIDs after which a device needs a reset, a repair, or a reboot of its host (NVIDIA's list)."""
BAD_THROTTLE = frozenset({"hw-thermal", "power-brake"})


def host_fault(host: Host) -> str:
    """Return the filter that rules out all devices of a host now, or ""."""
    if host.state is not HostState.UP:
        return "host"
    if host.drained:
        return "drained" if host.aside is None else "aside"
    return "engine" if host.engine_error else ""


def health_fault(device: Device, host: Host | None = None) -> str:
    """Return what is wrong with a device, as a sentence, or ""; a MIG instance suffers what its
    device does."""
    whole = _whole(device, host)
    template, values = _fault(device if whole is None else whole)
    if whole is not None and template:
        part = "Device {index} is a part of device {all}, which "
        return msg(f"{part}{template}.", index=device.index, all=whole.index, **values)
    if not template and whole is not None:
        template, values = _fault(device)
    return msg(f"Device {{index}} {template}.", index=device.index, **values) if template else ""


def _fault(device: Device) -> tuple[str, dict[str, object]]:
    """Return what is wrong with a device: the words after its number, and the values in them."""
    if device.lost:
        return "has dropped off the bus; its host needs a look", {}
    if device.vendor and device.vendor not in VENDORS:
        return "is of a maker that containers are not supported for here", {}
    if is_alarming(device.health):
        return "is called {word} by its own tool; its host needs a look", {"word": device.health}
    if device.ecc_uncorrected:
        errors = {"n": device.ecc_uncorrected}
        return "has {n} uncorrected memory errors; reset or replace it", {**errors}
    if device.remap_failed:
        return "has a bad row of memory that no spare one can replace; it needs repair", {}
    if device.xid in FATAL_XIDS:
        return "reported XID {n}; reset it before use", {"n": device.xid}
    if device.throttle and (bad := BAD_THROTTLE.intersection(device.throttle)):
        heat = "" if device.temperature_c is None else f" at {device.temperature_c:.0f} °C"
        reasons = " and ".join(sorted(bad)) + heat
        return "is slowed down by {what}; check cooling and supply", {"what": reasons}
    return "", {}


def _whole(device: Device, host: Host | None) -> Device | None:
    """Return the device of which this is a MIG instance."""
    if not device.parent_uuid or host is None:
        return None
    return next((whole for whole in host.devices if whole.uuid == device.parent_uuid), None)


def engine_fault(host: str, cause: str) -> str:
    """Return the message for a host with an engine that cannot be queried because of `cause`."""
    why = clean(cause, 300).removeprefix(f"{host}, ").rstrip(".")
    return msg(
        "{host}: its Docker engine does not answer: {why}; `gpuconsole check {name}` "
        "says what to do.",
        host=host,
        why=why,
        name=host,
    )


def is_empty(device: Device) -> bool:
    """Return True if a device is not in use, as far as can be seen."""
    total, used = device.memory_total_mib, device.memory_used_mib
    if total is None or used is None:
        return False
    return not device.processes and used <= EMPTY_SHARE * total


def holds_memory(device: Device) -> bool:
    """Tell whether a device shows more memory in use than an empty one has; False where its memory
    is not known."""
    total, used = device.memory_total_mib, device.memory_used_mib
    return total is not None and used is not None and used > EMPTY_SHARE * total


def idleness(device: Device) -> float:
    """Return how free a device is of others' work, 0-1; memory that is held without load counts
    half.

    Work that is already there would slow the job down, and be slowed down by it.
    """
    work = (device.utilization or 0.0) / 100.0
    return 1.0 - work if not device.processes else 0.5 * (1.0 - work)


def spare_mib(device: Device) -> float | None:
    """Return the memory beside what others hold and what stays free; None when unknown."""
    total, used = device.memory_total_mib, device.memory_used_mib
    return None if total is None or used is None else total - used - RESERVE_SHARE * total


def condition_of(device: Device) -> str:
    """Return "" for a device that is empty and idle, else its UUID: it is like no other."""
    return "" if is_empty(device) and not device.utilization else device.uuid


def once_free(device: Device) -> tuple[str, float | None]:
    """Return condition and spare memory of a leased device, in MiB, once its job has left."""
    total, used = device.memory_total_mib, device.memory_used_mib
    if total is not None and used is not None and all(p.container_id for p in device.processes):
        return "", total - RESERVE_SHARE * total
    free = once_released(device)
    return condition_of(free), spare_mib(free)


def once_released(device: Device) -> Device:
    """Return a leased device as it should be once its job has left: what runs in containers goes
    with the job, what others hold outside of them stays."""
    stays = tuple(process for process in device.processes if not process.container_id)
    if len(stays) == len(device.processes) and device.processes:
        return device
    held = [process.memory_mib for process in stays]
    used = None if None in held else sum(size for size in held if size is not None)
    return replace(
        device,
        processes=stays,
        memory_used_mib=used if device.memory_used_mib is not None else None,
        utilization=device.utilization if stays else 0.0,
    )
