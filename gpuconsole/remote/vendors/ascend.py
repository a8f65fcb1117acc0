"""Huawei Ascend: `npu-smi info`, one call for all chips and their processes.

Five layouts are known, from 20.2 to 26.0. A chip takes two lines. `Memory-Usage` is the memory of
the chip's own processors if there is `HBM-Usage` beside it, else the device's. Of a package of two
chips power is printed once, so the second has none. The number of a chip is the physical one where
it is printed, which is also that of its node `/dev/davinciN`.
"""

from __future__ import annotations

from gpuconsole.core.fleet import Device, DeviceProcess
from gpuconsole.remote.vendors import table_cells, tables
from gpuconsole.remote.vendors.model import (
    Command,
    Family,
    Reading,
    Texts,
    Vendor,
    VendorError,
    Way,
    attach,
    cut_rows,
    device,
    process,
)
from gpuconsole.remote.vendors.table_cards import address

VENDOR = Vendor(
    "ascend",
    "Huawei Ascend",
    ("npu-smi",),
    "npu",
    "NPU",
    frozenset(
        ("memory in use", "memory in all", "utilisation", "temperature", "power", "health",
         "processes")
    ),
    "Utilisation is that of the AI cores. Of a package of two chips (910C) power is reported with"
    " the first. The user must be root or of the driver's group (HwHiAiUser).",
)  # fmt: skip

_UNTOLD = frozenset(("ok", "n/a", "na", "-", "unknown", ""))
"""Words for health that complain of nothing."""


def read(texts: Texts) -> Reading:
    """Read `npu-smi info`."""
    text = texts["info"]
    table = tables.find(text, ("npu", "name", "health"))
    if table is None or not {"bus-id", "aicore"} <= table.labels:
        raise VendorError("a table without NPU, Name, Health, Bus-Id and AICore")
    several = len({row.word("npu") for row in table.rows}) < len(table.rows)
    chips = {}
    for number, row in enumerate(table.rows):
        device = _chip(row, number if several else None)
        chips[row.word("npu"), row.word("chip")] = device
    held: dict[int, list[DeviceProcess]] = {}
    listed = tables.find(text, ("npu", "chip", "processid"), height=1)
    for row in listed.rows if listed is not None else ():
        chip = chips.get((row.word("npu"), row.word("chip")))
        unit = row.unit("processmemory")
        chip_process = process(
            row.get("processid"),
            table_cells.mib(row.get("processmemory"), unit),
            row.get("processname") or "",
        )
        if chip is not None and chip_process is not None:
            held.setdefault(chip.index, []).append(chip_process)
    return Reading(
        attach(chips.values(), held), tables.after(text, "Version:"), cut_rows(table.broken)
    )


def _chip(row: tables.Row, number: int | None) -> Device:
    """Return one chip; `number` is used if a package has several and none is printed."""
    bus = address(row, "bus-id")
    own = "hbm-usage" if row.get("hbm-usage") is not None else "memory-usage"
    used, total = table_cells.sizes(row.get(own), row.unit(own))
    if own == "hbm-usage" and not total:
        # A card with no HBM prints 0 / 0 there and has its memory in the column before.
        used, total = table_cells.sizes(row.get("memory-usage"), row.unit("memory-usage"))
    named = row.word("phy-id", "device")
    # Without a physical number that of the NPU is the one of its node.
    index = table_cells.count(named) if named else number
    if index is None:
        index = table_cells.count(row.word("npu"))
    name = row.get("name") or ""
    health = row.word("health")
    return device(
        VENDOR,
        bus,
        index,
        name if name.lower().startswith("ascend") else f"Ascend {name}",
        memory_used_mib=used if total else None,
        memory_total_mib=total or None,
        utilization=table_cells.percent(row.get("aicore")),
        temperature_c=table_cells.celsius(row.get("temp")),
        power_w=table_cells.watts(row.get("power")),
        pci_bus_id=bus,
        health="" if health.lower() in _UNTOLD else health,
    )


FAMILY = Family("ascend", (Way("npu-smi", (Command("info", ("npu-smi", "info")),), read),))
