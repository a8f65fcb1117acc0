"""Cambricon: the table of `cnmon`.

`cnmon info -j` would tell more but writes a file into its working directory; nothing is written on
a host. A card of two chips is two devices. The columns of the lower line differ by version.
"""

from __future__ import annotations

from gpuconsole.core.fleet import Device
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
)

VENDOR = Vendor(
    "cambricon",
    "Cambricon",
    ("cnmon",),
    "mlu",
    "MLU",
    frozenset(
        ("memory in use", "memory in all", "utilisation", "temperature", "power", "power limit",
         "memory errors", "processes")
    ),
    "Of a card of two chips (MLU370-X8) the power is the card's, reported with each chip.",
)  # fmt: skip


def read(texts: Texts) -> Reading:
    """Read `cnmon`."""
    text = texts["table"]
    table = tables.find(text, ("card", "name", "util"))
    if table is None or "memory-usage" not in table.labels:
        raise VendorError("a table without Card, Name, Util and Memory-Usage")
    held = tables.processes(text, "card", "commandline", "mlumemoryusage")
    devices = [_card(row) for row in table.rows]
    return Reading(attach(devices, held), tables.after(text, "Driver"), cut_rows(table.broken))


def _card(row: tables.Row) -> Device:
    used, total = table_cells.sizes(row.get("memory-usage"))
    power, limit = table_cells.pair(row.get("pwr:usage/cap"))
    number = row.word("card")
    bus = row.word("bus-id")
    return device(
        VENDOR,
        bus or number,
        table_cells.count(number),
        row.get("name") or "",
        memory_used_mib=used,
        memory_total_mib=total,
        utilization=table_cells.percent(row.get("util")),
        temperature_c=table_cells.celsius(row.get("temp")),
        power_w=table_cells.watts(power),
        power_limit_w=table_cells.watts(limit),
        ecc_uncorrected=table_cells.count(row.get("ecc-error")),
        pci_bus_id=bus,
    )


FAMILY = Family("cambricon", (Way("cnmon", (Command("table", ("cnmon",)),), read),))
