"""Cards of tables in the manner of `nvidia-smi`, which several vendors' tools print. Pure."""

from __future__ import annotations

from gpuconsole.core.fleet import Device
from gpuconsole.remote.vendors import table_cells, tables
from gpuconsole.remote.vendors.model import Vendor, VendorError, device


def address(row: tables.Row, header: str) -> str:
    """Return the PCI address under a word of the header; VendorError where there is none."""
    text = row.word(header)
    if ":" not in text:
        raise VendorError("a card without a PCI address")
    return text


def card(vendor: Vendor, row: tables.Row, word: str, **more: object) -> Device:
    """Return the card of a row; `word` is what the header calls a card, as in `GPU` and `GPU-Util`.

    `more` are fields of the device that only this vendor's table tells.
    """
    used, total = table_cells.sizes(row.get("memory-usage"), row.unit("memory-usage"))
    power, limit = table_cells.pair(row.get("pwr:usage/cap"))
    bus = address(row, "bus-id")
    return device(
        vendor,
        bus,
        table_cells.count(row.word(word)),
        row.get("name") or "",
        memory_used_mib=used,
        memory_total_mib=total,
        utilization=table_cells.percent(row.word(f"{word}-util")),
        temperature_c=table_cells.celsius(row.get("temp")),
        power_w=table_cells.watts(power),
        power_limit_w=table_cells.watts(limit),
        pci_bus_id=bus,
        **more,
    )
