"""The metrics of the map: a device's level, glyph and figure under each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.style import Style

from gpuconsole.core.fleet import Device, Host
from gpuconsole.core.levels import (
    Condition,
    condition,
    heat_level,
    is_busy,
    level,
    memory_percent,
    power_percent,
)
from gpuconsole.tui.ink import Ink
from gpuconsole.tui.picture import Picture


@dataclass(frozen=True, slots=True)
class Metric:
    """How a device is judged. `level` gives 0-8, None when it cannot be told."""

    name: str
    title: str
    low: str
    high: str
    level: Callable[[Device], int | None]


def _free(device: Device) -> int:
    return 0 if is_busy(device) else 8


METRICS: tuple[Metric, ...] = (
    Metric("utilisation", "utilisation", "0", "100 %", lambda device: level(device.utilization)),
    Metric("memory", "memory held", "0", "100 %", lambda device: level(memory_percent(device))),
    Metric("temperature", "temperature", "30", "90 C", lambda d: heat_level(d.temperature_c)),
    Metric("power", "power of limit", "0", "100 %", lambda device: level(power_percent(device))),
    Metric("owner", "owner", "nobody", "first letter", lambda device: 0),
    Metric("free", "free devices", "in use", "free", _free),
)
BY_NAME: Mapping[str, Metric] = {metric.name: metric for metric in METRICS}


def following(name: str) -> str:
    """Return the metric after this one, around."""
    names = [metric.name for metric in METRICS]
    return names[(names.index(name) + 1) % len(names)]


def cell(
    ink: Ink, picture: Picture, host: Host, device: Device, metric: Metric
) -> tuple[str, Style]:
    """Return the glyph and style of one device."""
    state = condition(host, device)
    if state is not Condition.OK:
        return ink.glyphs.conditions[state], ink.conditions[state]
    if metric.name == "owner":
        name = picture.owner_name(device)
        if not name:
            return ink.glyphs.heat[0], ink.heat[0]
        letter = name[0] if name[0].isascii() and name[0].isalnum() else "#"
        return letter, ink.parts[sum(map(ord, name)) % 4]
    step = metric.level(device)
    if step is None:
        return ".", ink.muted
    return ink.glyphs.heat[step], ink.heat[step]
