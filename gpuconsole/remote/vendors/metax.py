"""MetaX: the table of `mx-smi`, of which three layouts are known (2.1, 2.2, 2.3)."""

from __future__ import annotations

from gpuconsole.core.fleet import Device
from gpuconsole.remote.vendors import tables
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
)
from gpuconsole.remote.vendors.table_cards import card

VENDOR = Vendor(
    "metax",
    "MetaX",
    ("mx-smi",),
    "metax_gpu",
    "MX",
    frozenset(
        ("memory in use", "memory in all", "utilisation", "temperature", "power", "power limit",
         "health", "processes")
    ),
    "Tools older than 2.2 tell no state, which counts as health.",
)  # fmt: skip
_WELL = frozenset(("available", "n/a", "-", ""))


def read(texts: Texts) -> Reading:
    """Read `mx-smi`."""
    text = texts["table"]
    table = tables.find(text, ("gpu", "name", "bus-id")) or tables.find(
        text, ("board", "gpu", "bus-id")
    )
    if table is None or "memory-usage" not in table.labels:
        raise VendorError("a table without GPU, Name, Bus-id and Memory-Usage")
    held = tables.processes(text, "gpu", "processname", "gpumemory")
    devices = [_card(row) for row in table.rows]
    driver = tables.after(text, "Kernel Mode Driver Version:")
    return Reading(attach(devices, held), driver, cut_rows(table.broken))


def _card(row: tables.Row) -> Device:
    state = row.word("gpu-state")
    return card(VENDOR, row, "gpu", health="" if state.lower() in _WELL else state)


FAMILY = Family("metax", (Way("mx-smi", (Command("table", ("mx-smi",)),), read),))
