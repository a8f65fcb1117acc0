"""Kunlunxin: `xpu-smi` of the P800, and the older `xpu_smi`.

Intel has a tool of the same name for its own cards; its output names Intel and never the
XPU-RT runtime, and is left alone.
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
from gpuconsole.remote.vendors.table_cards import address, card

VENDOR = Vendor(
    "kunlunxin",
    "Kunlunxin",
    ("xpu-smi", "xpu_smi"),
    "xpu",
    "XPU",
    frozenset(
        ("memory in use", "memory in all", "utilisation", "temperature", "power", "power limit",
         "memory errors", "processes")
    ),
    "The older xpu_smi tells memory, utilisation and processes only. Intel's tool of the same"
    " name is left alone.",
)  # fmt: skip
_INTEL = r"(?s)\A(?!.*XPU-RT).*\bIntel\b"


def read(texts: Texts) -> Reading:
    """Read `xpu-smi`."""
    text = texts["table"]
    table = tables.find(text, ("xpu", "name", "bus-id"))
    if table is None or "memory-usage" not in table.labels:
        raise VendorError("a table without XPU, Name, Bus-Id and Memory-Usage")
    devices = [_card(row) for row in table.rows]
    held = tables.processes(text, "xpu", "processname", "xpumemory")
    return Reading(
        attach(devices, held), tables.after(text, "Driver Version:"), cut_rows(table.broken)
    )


def read_old(texts: Texts) -> Reading:
    """Read `xpu_smi`."""
    text = texts["table"]
    table = tables.find(text, ("devid", "pciaddr", "model", "memory"), height=1)
    if table is None:
        raise VendorError("a table without DevID, PCI Addr, Model and Memory")
    devices = [_old_card(row) for row in table.rows]
    held = tables.processes(text, "devid", "command", "memory")
    return Reading(
        attach(devices, held), tables.after(text, "Driver Version:"), cut_rows(table.broken)
    )


def _card(row: tables.Row) -> Device:
    errors = table_cells.count(row.get("volatileuncorr.ecc"))
    return card(VENDOR, row, "xpu", ecc_uncorrected=errors)


def _old_card(row: tables.Row) -> Device:
    used, total = table_cells.sizes(row.get("memory"))
    bus = address(row, "pciaddr")
    return device(
        VENDOR,
        bus,
        table_cells.count(row.word("devid")),
        row.get("model") or "",
        memory_used_mib=used,
        memory_total_mib=total,
        utilization=table_cells.percent(row.get("userate")),
        pci_bus_id=bus,
    )


FAMILY = Family(
    "kunlunxin",
    (
        Way("xpu-smi", (Command("table", ("xpu-smi",)),), read, foreign=_INTEL),
        Way("xpu_smi", (Command("table", ("xpu_smi",)),), read_old),
    ),
)
