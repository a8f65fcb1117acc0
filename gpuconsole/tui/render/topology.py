"""How the devices of a host reach each other, as a matrix with a legend."""

from __future__ import annotations

from rich.style import Style

from gpuconsole.core.fleet import Device, Host
from gpuconsole.tui.render.text_cells import Piece, fit
from gpuconsole.tui.style.styles import Ink

Lines = list[list[Piece]]
MEANINGS = (
    ("NV#", "NVLink, that many links"),
    ("PIX", "one PCIe switch"),
    ("PXB", "several PCIe switches"),
    ("PHB", "through the host bridge"),
    ("NODE", "between bridges of one NUMA node"),
    ("SYS", "between NUMA nodes"),
)
CELL = 5
MOST = 16
"""Devices in a matrix; more of them are left out, and counted."""


def topology_lines(ink: Ink, host: Host, width: int) -> Lines:
    """Return the matrix, or a sentence if no topology was reported."""
    devices = host.devices[: max(1, min(MOST, (width - 12) // CELL))]
    if not any(device.peers for device in devices):
        nodes = _numa_lines(ink, host, width)
        words = ink.say("The host does not tell how its devices are joined.")
        return nodes or [[(words, ink.muted)]]
    lines: Lines = [_heading(ink, devices)]
    for device in devices:
        links = {peer.uuid: peer.kind for peer in device.peers}
        cells = [_cell(ink, device, other, links.get(other.uuid, "")) for other in devices]
        node = "-" if device.numa_node is None else str(device.numa_node)
        name: Piece = (fit(f"gpu {device.index}", 7), ink.strong)
        lines.append([name, *cells, (fit(node, CELL, "right"), ink.muted)])
    left = len(host.devices) - len(devices)
    if left:
        lines.append([(ink.say(f"and {left} more"), ink.muted)])
    seen = {_word(peer.kind) for device in devices for peer in device.peers}
    lines.append([])
    for word, meaning in MEANINGS:
        if word in seen:
            lines.append([(fit(word, 7), _style(ink, word)), (ink.say(meaning), ink.muted)])
    return [*lines, *_numa_lines(ink, host, width)]


def _heading(ink: Ink, devices: tuple[Device, ...]) -> list[Piece]:
    numbers = "".join(fit(str(device.index), CELL, "right") for device in devices)
    return [(" " * 7 + numbers + fit("NUMA", CELL, "right"), ink.muted)]


def _cell(ink: Ink, first: Device, other: Device, kind: str) -> Piece:
    if first is other:
        return (fit("." if ink.ascii else "·", CELL, "right"), ink.rule)
    return (fit(kind or "n/a", CELL, "right"), _style(ink, _word(kind)))


def _word(kind: str) -> str:
    return "NV#" if kind.startswith("NV") else kind


def _style(ink: Ink, word: str) -> Style:
    if word == "NV#":
        return ink.good
    return ink.text if word in ("PIX", "PXB", "PHB") else ink.warn if word else ink.muted


def _numa_lines(ink: Ink, host: Host, width: int) -> Lines:
    """Name the processors of each NUMA node, which a job there should keep to."""
    return [
        [(fit(f"NUMA {node}", 8), ink.muted), (fit(f"cpus {cpus}", max(8, width - 8)), ink.text)]
        for node, cpus in enumerate(host.facts.numa_cpus)
        if cpus
    ]
