"""Rules about a device's health: lost, errors, heat, power."""

from __future__ import annotations

from gpuconsole.core.devices.health_levels import is_alarming
from gpuconsole.core.fleet import Device
from gpuconsole.core.incidents import Severity
from gpuconsole.core.text import clean
from gpuconsole.core.wording import msg
from gpuconsole.triage.model import Finding, Scene, Signal
from gpuconsole.triage.xids import xid_of

THERMAL = frozenset({"hw-thermal", "sw-thermal"})
MOSTLY = 0.5
"""Share of the last half minute that makes a device slowed: single readings come and go."""


def lost(scene: Scene, device: Device) -> Finding | None:
    """The driver no longer sees the device, or cannot read it."""
    if not device.lost:
        return None
    signals: list[Signal] = [("device", "the driver no longer lists it")]
    if device.error:
        signals.append(("driver", clean(device.error, 300)))
    if device.xid:
        signals.append(
            (
                "driver",
                msg("XID {n}: {words_text}", n=device.xid, words_text=xid_of(device.xid).words),
            )
        )
    sure = len(signals) > 1
    return Finding(
        "GPU lost",
        tuple(signals),
        "high" if sure else "medium",
        f"{len(signals)} independent signals" if sure else "one signal alone",
        jobs=scene.jobs_on(device),
    )


def unwell(scene: Scene, device: Device) -> Finding | None:
    """The vendor's own tool complains of the device."""
    if not device.health:
        return None
    word = clean(device.health, 60)
    signals: list[Signal] = [("driver", f"its own tool calls it {word}")]
    if device.ecc_uncorrected:
        signals.append(("device", f"{device.ecc_uncorrected} uncorrected memory errors"))
    return Finding(
        msg("device health: {word}", word=word),
        tuple(signals),
        "high" if len(signals) > 1 else "medium",
        "the tool does not say why; ask it for the health of this one device",
        jobs=scene.jobs_on(device),
        severity=Severity.CRITICAL if is_alarming(device.health) else Severity.WARNING,
    )


def xid(scene: Scene, device: Device) -> Finding | None:
    """The driver reported an error; its number says on which side to look."""
    if not device.xid:
        return None
    entry = xid_of(device.xid)
    signals: list[Signal] = [
        ("driver", msg("XID {n}: {words_text}", n=entry.number, words_text=entry.words))
    ]
    if device.ecc_uncorrected:
        signals.append(("device", f"{device.ecc_uncorrected} uncorrected memory errors"))
    if device.lost:
        signals.append(("device", "the driver no longer lists it"))
    signals.append(("advice", entry.advice))
    hardware = entry.side == "hardware"
    return Finding(
        msg("XID {n}: {words_text}", n=entry.number, words_text=entry.words),
        tuple(signals),
        "high" if hardware and len(signals) > 2 else "medium",
        {
            "hardware": "this number speaks of the hardware",
            "program": "this number most often speaks of the program that ran",
            "driver": "this number can be the driver's or the program's",
        }[entry.side],
        jobs=scene.jobs_on(device),
        severity=Severity.CRITICAL if hardware else Severity.WARNING,
        part=str(entry.number),
    )


def memory_errors(scene: Scene, device: Device) -> Finding | None:
    """Memory errors that could not be corrected."""
    count = device.ecc_uncorrected
    if not count:
        return None
    first = scene.past[device.uuid].errors if device.uuid in scene.past else None
    rising = first is not None and count > first
    words = f"{count} uncorrected memory errors"
    return Finding(
        "memory errors rising" if rising else "memory errors",
        (("device", words + (f", {first} when first seen" if rising else "")),),
        "high",
        "they grew while it was watched" if rising else "counted by the device itself",
        jobs=scene.jobs_on(device),
        severity=Severity.CRITICAL if rising else Severity.WARNING,
    )


def retired_pages(scene: Scene, device: Device) -> Finding | None:
    """Pages of memory taken out of use: a card that wears out."""
    count = device.retired_pages
    if not count:
        return None
    first = scene.past[device.uuid].pages if device.uuid in scene.past else None
    grew = first is not None and count > first
    if not grew and count < scene.limits.retired_pages:
        return None
    words = f"{count} pages of memory are out of use"
    return Finding(
        "memory wears out",
        (("device", words + (f", {first} when first seen" if grew else "")),),
        "high" if grew else "medium",
        "they grew while it was watched" if grew else "more than a healthy card has",
        jobs=scene.jobs_on(device),
    )


def remap_failed(scene: Scene, device: Device) -> Finding | None:
    """A bad row of memory that no spare one could replace."""
    if not device.remap_failed:
        return None
    signals: list[Signal] = [("device", "a bad row of memory found no spare one")]
    if device.retired_pages:
        signals.append(("device", f"{device.retired_pages} rows were replaced before"))
    signals.append(("advice", "Take the device out of use; it needs repair."))
    return Finding(
        "memory beyond repair",
        tuple(signals),
        "high",
        "the device says so itself",
        jobs=scene.jobs_on(device),
    )


def remap_pending(scene: Scene, device: Device) -> Finding | None:
    """A bad row or page that is still in use."""
    if not device.remap_pending:
        return None
    advice = "Reset the device when nothing runs there, so that its spare memory is used."
    return Finding(
        "memory waits for a reset",
        (("device", "a bad row or page goes out of use with the next reset"), ("advice", advice)),
        "high",
        "the device says so itself",
        jobs=scene.jobs_on(device),
    )


def nvlink_down(scene: Scene, device: Device) -> Finding | None:
    """Links that were up when the device was first seen. One without a neighbour never was."""
    first = scene.past[device.uuid].links if device.uuid in scene.past else None
    up = device.nvlinks_up
    if up is None or first is None or up >= first:
        return None
    signals: list[Signal] = [("device", f"{up} NVLinks are up, {first} when first seen")]
    if device.nvlink_errors:
        signals.append(("device", f"{device.nvlink_errors} errors on its links"))
    return Finding(
        "NVLink down",
        tuple(signals),
        "high",
        "links went down while it was watched",
        jobs=scene.jobs_on(device),
    )


def slowed_by_heat(scene: Scene, device: Device) -> Finding | None:
    """The device lowers its clocks because it is too hot."""
    past = scene.past.get(device.uuid)
    if past is None or past.slowed < MOSTLY:
        return None
    reasons = sorted(THERMAL.intersection(device.throttle)) or sorted(THERMAL)
    signals: list[Signal] = [("device", msg("slows itself: {reasons}", reasons=", ".join(reasons)))]
    hot = device.temperature_c
    if hot is not None:
        signals.append(("device", f"{hot:.0f} C, {_clock(device)}"))
    neighbours = [
        other.temperature_c
        for other in scene.host.devices
        if other.uuid != device.uuid and other.temperature_c is not None
    ]
    alone = hot is not None and bool(neighbours) and hot > max(neighbours) + 8.0
    if alone:
        signals.append(("host", f"its neighbours are at {max(neighbours):.0f} C or below"))
    return Finding(
        "slowed by heat",
        tuple(signals),
        "high" if len(signals) > 1 else "medium",
        "the device alone is hot: its fan or its place" if alone else "the device says so itself",
        jobs=scene.jobs_on(device),
    )


def _clock(device: Device) -> str:
    clock = device.sm_clock_mhz
    return "its clock is not known" if clock is None else f"clock {clock:.0f} MHz"


def slowed_by_power(scene: Scene, device: Device) -> Finding | None:
    """The power supply tells the device to slow down. A power cap alone is ordinary."""
    if "power-brake" not in device.throttle:
        return None
    watts = "" if device.power_w is None else f" at {device.power_w:.0f} W"
    return Finding(
        "slowed by its power supply",
        (("device", f"power brake{watts}"),),
        "high",
        "the device says so itself",
        jobs=scene.jobs_on(device),
    )
