"""The metrics of the map: what code a device or a host has under each, and how a code is drawn.

A code is a small number: 0-8 a step of the ramp, then what no step can say, then owners. Drawing
looks codes up in a table that is made once for a theme.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from rich.style import Style

from gpuconsole.core.devices.health_levels import (
    SLOWING,
    STEPS,
    Condition,
    heat_level,
    is_busy,
    is_faulty,
    level,
    memory_percent,
    power_percent,
)
from gpuconsole.core.fleet import Device, Host, HostState
from gpuconsole.core.history import DeviceMetric
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.tui.render.fleet_map.owners import NO_USER, Owners
from gpuconsole.tui.render.text_cells import Piece
from gpuconsole.tui.snapshot import HostSums, Picture, hottest_c
from gpuconsole.tui.style.styles import FREE, Ink

Code = TypeVar("Code")
UNTOLD, DOWN, FAULT, STALE, THROTTLED, LIT, ASLEEP, OWNER = 9, 10, 11, 12, 13, 14, 15, FREE + 1
"""Codes above the ramp; from OWNER on each user has one."""
_TROUBLE = {
    Condition.DOWN: DOWN,
    Condition.ASLEEP: ASLEEP,
    Condition.FAULT: FAULT,
    Condition.STALE: STALE,
    Condition.THROTTLED: THROTTLED,
}
FREE_STEPS_GIB = (0.5, 4.0, 8.0, 12.0, 16.0, 24.0, 40.0, 80.0)
"""Free memory from which each step of the ramp above idle is reached: the sizes of cards, less the
little that a driver holds (`_NOMINAL`)."""
_NOMINAL = 0.97


@dataclass(frozen=True, slots=True)
class Metric:
    """How a device is judged. `level` returns 0-8, None if unknown."""

    name: str
    title: str
    low: str
    high: str
    level: Callable[[Device], int | None]
    share: Callable[[Device], float | None]
    """How long the bar of a device is, 0-100."""
    figure: Callable[[Device], float | None]
    unit: str
    """What is written beside the bar."""
    past: DeviceMetric
    """What its sparkline is drawn of."""
    full: Callable[[Device], float | None]
    """The figure at which the sparkline is full."""
    frees: bool = False
    """Whether an unused device is shown as free, not as a step of the ramp."""


def _free(device: Device) -> int | None:
    if is_busy(device):
        return 0
    free = device.memory_free_mib
    return None if free is None else bisect_right(_FREE_MIB, free)


_FREE_MIB = tuple(step * 1024.0 * _NOMINAL for step in FREE_STEPS_GIB)


def _work(device: Device) -> int | None:
    load = device.utilization
    return None if load is None else bisect_right(STEPS, load)


def _free_gib(device: Device) -> float | None:
    free = device.memory_free_mib
    return None if free is None else 0.0 if is_busy(device) else free / 1024


def _free_share(device: Device) -> float | None:
    free, total = _free_gib(device), device.memory_total_mib
    return None if free is None or not total else 100.0 * 1024 * free / total


def _heat_share(device: Device) -> float | None:
    heat = device.temperature_c
    return None if heat is None else max(0.0, (heat - 30.0) / 60.0 * 100.0)


METRICS: tuple[Metric, ...] = (
    Metric(
        "utilisation", "utilisation", "0", "100 %", _work,
        lambda device: device.utilization, lambda device: device.utilization, "%",
        "utilization", lambda device: 100.0, frees=True,
    ),
    Metric(
        "memory", "memory held", "0", "100 %", lambda device: level(memory_percent(device)),
        memory_percent, memory_percent, "%",
        "memory_used_mib", lambda device: device.memory_total_mib, frees=True,
    ),
    Metric(
        "temperature", "temperature", "30", "90 C", lambda d: heat_level(d.temperature_c),
        _heat_share, lambda device: device.temperature_c, "C",
        "temperature_c", lambda device: 100.0,
    ),
    Metric(
        "power", "power of limit", "0", "100 %", lambda device: level(power_percent(device)),
        power_percent, power_percent, "%",
        "power_w", lambda device: device.power_limit_w,
    ),
    Metric(
        "owner", "owner", "none", "a letter a user", lambda device: 0,
        lambda device: device.utilization, lambda device: device.utilization, "%",
        "utilization", lambda device: 100.0, frees=True,
    ),
    Metric(
        "free", "free memory", "in use", "80 GiB free", _free,
        _free_share, _free_gib, "G",
        "memory_used_mib", lambda device: device.memory_total_mib,
    ),
)  # fmt: skip
BY_NAME: Mapping[str, Metric] = {metric.name: metric for metric in METRICS}


def following(name: str) -> str:
    """Return the metric after this one, around."""
    names = [metric.name for metric in METRICS]
    return names[(names.index(name) + 1) % len(names)]


def device_codes(
    picture: Picture, host: Host, metric: Metric, owners: Owners, lit: frozenset[str]
) -> list[int]:
    """Return the code of each device of a host; `lit` names devices that are to stand out."""
    if host.state is HostState.DOWN:
        return [ASLEEP if host.power else DOWN] * len(host.devices)
    stale = host.state is not HostState.UP
    by_owner = metric.name == "owner"
    sums, step_of = picture.of_host(host), metric.level
    frees = metric.frees and sums.free > 0
    if not (lit or by_owner) and sums.worst is Condition.OK:
        # Nothing is wrong with any of them, which is so of most hosts at most times.
        return [
            FREE if frees and is_free(device) and device.uuid not in picture.owners
            else UNTOLD if (step := step_of(device)) is None else step
            for device in host.devices
        ]  # fmt: skip
    codes: list[int] = []
    for device in host.devices:
        if lit and device.uuid in lit:
            codes.append(LIT)
        elif is_faulty(device):
            codes.append(FAULT)
        elif stale:
            codes.append(STALE)
        elif device.throttle and not SLOWING.isdisjoint(device.throttle):
            codes.append(THROTTLED)
        elif frees and is_free(device) and device.uuid not in picture.owners:
            codes.append(FREE)
        elif by_owner:
            slot = owners.slot(picture.user_name(device))
            codes.append(0 if slot == NO_USER else OWNER + slot)
        else:
            step = step_of(device)
            codes.append(UNTOLD if step is None else step)
    return codes


def host_codes(
    picture: Picture, hosts: Sequence[Host], places: Sequence[int], metric: Metric, owners: Owners,
    lit: frozenset[str],
) -> list[int]:  # fmt: skip
    """Return one code for each of the hosts at these places: the worst trouble, else the mean (or
    most) of its devices.

    Under `owner` the user who has most of its devices.
    """
    frees, step_of, well = metric.frees, _OF_SUMS.get(metric.name), Condition.OK
    codes: list[int] = []
    for at, sums in zip(places, picture.at_places(hosts, places), strict=True):
        # A thousand a paint: to ask a tuple for each of its fields takes longer.
        _, _, devices, _, free, _, _, _, _, _, _, worst, _ = sums
        if lit and any(device.uuid in lit for device in hosts[at].devices):
            codes.append(LIT)
        elif worst is not well:
            codes.append(_TROUBLE[worst])
        elif frees and free == devices > 0:
            codes.append(FREE)
        elif step_of is None:
            codes.append(_code_of_devices(picture, hosts[at], metric, owners))
        else:
            step = step_of(sums)
            codes.append(UNTOLD if step is None else step)
    return codes


def _work_of_host(sums: HostSums) -> int | None:
    _, _, _, _, _, _, _, work, count, _, _, _, _ = sums
    return bisect_right(STEPS, work / count) if count else None


_OF_SUMS: Mapping[str, Callable[[HostSums], int | None]] = {
    "utilisation": _work_of_host,
    "memory": lambda sums: level(sums.memory),
}
"""The step of a host under those metrics that its sums tell."""


def _code_of_devices(picture: Picture, host: Host, metric: Metric, owners: Owners) -> int:
    if metric.name == "owner":
        slot = owners.most(picture.user_name(device) for device in host.devices)
        return 0 if slot == NO_USER else OWNER + slot
    if metric.name == "temperature":
        hottest = heat_level(hottest_c(host))
        return UNTOLD if hottest is None else hottest
    steps = [step for device in host.devices if (step := metric.level(device)) is not None]
    if metric.name == "free":
        return max(steps, default=UNTOLD)
    return round(sum(steps) / len(steps)) if steps else UNTOLD


def is_free(device: Device) -> bool:
    """Return True for an unused device without a fault."""
    return not (is_busy(device) or (device.mig and device.divided) or is_faulty(device))


class Cells:
    """The pieces of all codes in one ink."""

    def __init__(self, ink: Ink, owners: Owners) -> None:
        self._ink, self._owners = ink, owners
        pieces: dict[int, Piece] = dict(enumerate(zip(ink.glyphs.heat, ink.heat, strict=True)))
        pieces[UNTOLD] = (".", ink.muted)
        pieces[FREE] = (ink.glyphs.free, ink.free)
        pieces[LIT] = (ink.glyphs.lit, ink.match)
        for state, code in _TROUBLE.items():
            pieces[code] = (ink.glyphs.conditions[state], ink.conditions[state])
        self.one: Mapping[int, Piece] = _Made(pieces, self._owned)
        """Glyph and style of a code."""
        self.two: Mapping[tuple[int, int], Piece] = _Made({}, self._pair)
        """One glyph for the codes of two devices: trouble of either, else both halves."""

    def _owned(self, code: int) -> Piece:
        slot = code - OWNER
        return self._owners.letter(slot), owner_style(self._ink, slot)

    def _pair(self, codes: tuple[int, int]) -> Piece:
        left, right = codes
        if all(code < UNTOLD or code == FREE for code in codes):
            # A free device is seen beside one in use too.
            if self._ink.ascii or self._ink.few_colors or left == right in (0, FREE):
                return self.one[max(codes)]
            return self._ink.glyphs.half, self._ink.heat_pairs[codes]
        for code in (LIT, DOWN, FAULT, STALE, THROTTLED, ASLEEP):
            if code in codes:
                return self.one[code]
        return self.one[left if left >= UNTOLD else right]


class _Made(dict[Code, Piece]):
    """Pieces by their codes, each made when it is first asked for."""

    def __init__(self, pieces: Mapping[Code, Piece], make: Callable[[Code], Piece]) -> None:
        super().__init__(pieces)
        self._make = make

    def __missing__(self, code: Code) -> Piece:
        piece = self[code] = self._make(code)
        return piece


def owner_style(ink: Ink, slot: int) -> Style:
    """Return the colour of a user."""
    return ink.parts[slot % OWNER_COLOURS]


OWNER_COLOURS = 7
"""As many as `Ink.parts` has before the muted one; beyond it colours repeat, letters do not."""
