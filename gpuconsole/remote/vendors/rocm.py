"""Hygon and AMD through tools of one line: `hy-smi`, and `rocm-smi` of the DTK or of ROCm.

The JSON is asked for; where a version does not know what is asked for, the plain table is read,
which has memory as a percentage only. The words DCU and HCU are Hygon's. Which of the devices a
process holds is not reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from gpuconsole.core.fleet import Device
from gpuconsole.remote.vendors import amd, tables
from gpuconsole.remote.vendors import table_cells as figures
from gpuconsole.remote.vendors.json_output import leaf, parsed
from gpuconsole.remote.vendors.model import (
    MAX_DEVICES,
    Command,
    Family,
    Reading,
    Texts,
    Vendor,
    VendorError,
    Way,
    cut_rows,
    device,
)

VENDOR = Vendor(
    "hygon",
    "Hygon",
    ("hy-smi", "rocm-smi"),
    "dcu",
    "DCU",
    frozenset(
        ("memory in use", "memory in all", "utilisation", "temperature", "power", "power limit")
    ),
    "The power limit comes from the plain table, which a version that prints no JSON is asked for:"
    " there memory is a percentage only, and unknown here.",
)
_HYGON = ("dcu", "hcu", "hygon", "haiguang", "海光")
_CARD = re.compile(r"card([0-9]{1,4})", re.IGNORECASE)
_KEY = re.compile(r"(.*?)\s*(?:\(([^()]*)\))?:?", re.DOTALL)
_LONGEST_KEY = 200
"""Characters; a longer key is no word of these tools, and must not cost time."""
_UNIQUE = re.compile(r"(?:0x)?[0-9a-f]{8,32}", re.IGNORECASE)
Value = TypeVar("Value", float, int)


def read(texts: Texts) -> Reading:
    """Read the JSON of `hy-smi` or `rocm-smi`."""
    document = parsed(texts["json"])
    if not isinstance(document, Mapping):
        raise VendorError("a JSON document without cards")
    devices = []
    for name, card in document.items():
        match = _CARD.fullmatch(name)
        if match is not None and isinstance(card, Mapping):
            devices.append(_card(int(match.group(1)), _Cells(card)))
        if len(devices) > MAX_DEVICES:
            # `whole` refuses it; nothing is gained by reading on.
            break
    if not devices and document:
        raise VendorError("a JSON document without cards")
    return Reading(tuple(devices), (leaf(document, "system", "Driver version") or "")[:64])


def read_table(texts: Texts) -> Reading:
    """Read the plain table of `hy-smi` or `rocm-smi`."""
    table = tables.find(texts["table"], ("avgpwr", "vram%"), height=1)
    if table is None:
        raise VendorError("a table without AvgPwr and VRAM%")
    return Reading(tuple(_row(row) for row in table.rows), "", cut_rows(table.broken))


class _Cells:
    """A card's words by key: in lower case, without the unit, which is kept beside."""

    def __init__(self, card: Mapping[str, object]) -> None:
        self._cells: dict[str, tuple[str, str]] = {}
        for key, entry in card.items():
            match = _KEY.fullmatch(key.strip().lower()) if len(key) <= _LONGEST_KEY else None
            value = leaf(entry)
            if match is not None and value is not None:
                self._cells.setdefault(match.group(1), (value, match.group(2) or ""))
        self.text = " ".join(str(part).lower() for pair in card.items() for part in pair)[:20_000]

    def get(self, *names: str) -> str:
        return next((self._cells[name][0] for name in names if name in self._cells), "")

    def size(self, name: str) -> float | None:
        value, unit = self._cells.get(name, ("", ""))
        return figures.mib(value, unit)

    def first(self, read: Callable[[str], Value | None], *names: str) -> Value | None:
        values = (read(self._cells[name][0]) for name in names if name in self._cells)
        return next((value for value in values if value is not None), None)


def _card(number: int, cells: _Cells) -> Device:
    unique, bus = cells.get("unique id"), cells.get("pci bus")
    hygon = any(word in cells.text for word in _HYGON)
    local = f"uuid:{unique}" if _UNIQUE.fullmatch(unique) else bus if ":" in bus else f"{number}"
    names = ("card series", "device name", "card model")
    # Old versions print the chip's number where the name belongs.
    model = next((cells.get(name) for name in names if not cells.get(name).startswith("0x")), "")
    return device(
        VENDOR if hygon else amd.VENDOR,
        local,
        number,
        model,
        memory_used_mib=cells.size("vram total used memory"),
        memory_total_mib=cells.size("vram total memory"),
        utilization=cells.first(figures.percent, "gpu use", "dcu use", "hcu use"),
        temperature_c=cells.first(
            figures.celsius, "temperature (sensor edge)", "temperature (sensor junction)"
        ),
        power_w=cells.first(
            figures.watts,
            "average graphics package power",
            "current socket graphics package power",
        ),
        power_limit_w=cells.first(figures.watts, "max graphics package power"),
        sm_clock_mhz=figures.megahertz(cells.get("sclk clock speed").strip("()")),
        memory_clock_mhz=figures.megahertz(cells.get("mclk clock speed").strip("()")),
        numa_node=cells.first(figures.count, "(topology) numa node"),
        pci_bus_id=bus if ":" in bus else "",
    )


def _row(row: tables.Row) -> Device:
    number = row.word("hcu", "dcu", "gpu")
    own = row.get("hcu") is not None or row.get("dcu") is not None
    return device(
        VENDOR if own else amd.VENDOR,
        number,
        figures.count(number),
        "",
        utilization=figures.percent(row.get("hcu%", "dcu%", "gpu%")),
        temperature_c=figures.celsius(row.get("temp")),
        power_w=figures.watts(row.get("avgpwr")),
        power_limit_w=figures.watts(row.get("pwrcap")),
    )


_ASKED = (
    "-i", "--showproductname", "--showuniqueid", "--showbus", "--showmeminfo", "vram", "--showuse",
    "--showtemp", "--showpower", "--showmaxpower", "--showclocks", "--json",
)  # fmt: skip


def _ways(tool: str) -> tuple[Way, Way]:
    return (
        Way(tool, (Command("json", (tool, *_ASKED)),), read),
        Way(tool, (Command("table", (tool,)),), read_table),
    )


FAMILY = Family("rocm", (*_ways("hy-smi"), amd.WAY, *_ways("rocm-smi")))
