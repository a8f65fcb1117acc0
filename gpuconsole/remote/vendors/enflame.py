"""Enflame: the table of `efsmi`, framed by bars or by stars.

Its memory column is the device's total memory; how much of it is in use is not reported.
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
    cut_rows,
    device,
)
from gpuconsole.remote.vendors.table_cards import address

VENDOR = Vendor(
    "enflame",
    "Enflame",
    ("efsmi",),
    "gcu",
    "GCU",
    frozenset(("memory in all", "utilisation", "temperature", "power", "power limit")),
    "It tells neither processes nor how much memory is held.",
)


def read(texts: Texts) -> Reading:
    """Read `efsmi`."""
    text = texts["table"]
    table = tables.find(text, ("dev", "name", "bus-id"))
    if table is None or "mem" not in table.labels:
        raise VendorError("a table without DEV, NAME, BUS-ID and Mem")
    devices = tuple(_card(row) for row in table.rows)
    return Reading(devices, tables.after(text, "Driver Ver:"), cut_rows(table.broken))


def _card(row: tables.Row) -> Device:
    power, limit = table_cells.pair(row.get("pwr"))
    bus = address(row, "bus-id")
    return device(
        VENDOR,
        bus,
        table_cells.count(row.word("dev")),
        row.get("name") or "",
        memory_total_mib=table_cells.mib(row.get("mem")),
        utilization=table_cells.percent(row.get("dused", "dev-util")),
        temperature_c=table_cells.celsius(row.get("temp")),
        power_w=table_cells.watts(power),
        power_limit_w=table_cells.watts(limit),
        pci_bus_id=bus,
    )


FAMILY = Family("enflame", (Way("efsmi", (Command("table", ("efsmi",)),), read),))
