"""Enflame: the table of `efsmi`, framed by bars or by stars.

Its memory column is the device's total memory; how much of it is in use is not reported.
"""

from __future__ import annotations

from gpuconsole.core.fleet import Device
from gpuconsole.remote.vendors import cells, tables
from gpuconsole.remote.vendors.cards import address
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
    power, limit = cells.pair(row.get("pwr"))
    bus = address(row, "bus-id")
    return device(
        VENDOR,
        bus,
        cells.count(row.word("dev")),
        row.get("name") or "",
        memory_total_mib=cells.mib(row.get("mem")),
        utilization=cells.percent(row.get("dused", "dev-util")),
        temperature_c=cells.celsius(row.get("temp")),
        power_w=cells.watts(power),
        power_limit_w=cells.watts(limit),
        pci_bus_id=bus,
    )


FAMILY = Family("enflame", (Way("efsmi", (Command("table", ("efsmi",)),), read),))
