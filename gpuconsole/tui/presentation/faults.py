"""What is wrong with a device, in words: why it is slow, what its errors mean, what to do."""

from __future__ import annotations

from gpuconsole.core.fleet import Device
from gpuconsole.core.text import clean
from gpuconsole.triage.xids import xid_of

THROTTLE = {
    "power-cap": "at its power limit, as a healthy card is at full load",
    "hw-thermal": "so hot that the card itself halves its clock; look at fans and airflow",
    "sw-thermal": "near its temperature limit, so the driver lowers the clock; look at the cooling",
    "power-brake": "told by the chassis to draw less; look at the power supply",
}

CLOCKS = {
    "application-clocks": "clocks that somebody has set for applications hold",
    "sync-boost": "it keeps in step with a group of devices (sync boost)",
    "display-clocks": "a display decides its clocks",
}


def clock_notes(device: Device) -> list[str]:
    """Return what else decides a device's clocks and is no trouble, a sentence each."""
    return [f"{note}: {CLOCKS[note]}." for note in device.clock_notes if note in CLOCKS]


def slowed(device: Device) -> list[str]:
    """Return why a device is slowed now, a sentence each."""
    return [
        f"{reason}: {THROTTLE.get(reason, 'a reason that the driver gives')}."
        for reason in device.throttle
    ]


def faults(device: Device) -> list[str]:
    """Return what is wrong with a device, a sentence each, with what to do."""
    found = [device.error] if device.error else []
    if device.lost:
        found.append("The driver no longer sees it: it fell off the bus. Its host needs a restart.")
    if device.health:
        found.append(f"Its own tool calls it {clean(device.health, 60)}; the tool says more of it.")
    if device.xid:
        known = xid_of(device.xid)
        found.append(f"XID {known.number}: {known.words}. {known.advice}")
    if device.ecc_uncorrected:
        found.append(
            f"{device.ecc_uncorrected} memory errors that could not be corrected: results may be"
            " wrong. Reset the device; replace it if they come back."
        )
    if device.remap_failed:
        found.append("A bad row of memory found no spare one. The device needs repair.")
    elif device.remap_pending:
        found.append(
            "A bad row or page of memory is still in use. Reset the device when it is free."
        )
    if device.retired_pages:
        found.append(
            f"{device.retired_pages} memory pages were retired after errors; a few are usual on an"
            " old card, a growing number is not."
        )
    return found
