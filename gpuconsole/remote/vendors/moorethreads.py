"""Moore Threads: the table of `mthreads-gmi`, and power and clocks from its JSON.

The JSON is known in part only, so the table leads: whatever the JSON lacks is unknown.
"""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.core.fleet import Device
from gpuconsole.remote.vendors import json_output, table_cells, tables
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
from gpuconsole.remote.vendors.table_cards import address

VENDOR = Vendor(
    "moorethreads",
    "Moore Threads",
    ("mthreads-gmi",),
    "musa",
    "MTT",
    frozenset(
        ("memory in use", "memory in all", "utilisation", "temperature", "power", "clocks",
         "processes")
    ),
    "Power and clocks come from the tool's JSON. Paddle has no build for these cards.",
)  # fmt: skip


def read(texts: Texts) -> Reading:
    """Read `mthreads-gmi`, with what `mthreads-gmi -q --json` adds."""
    text = texts["table"]
    table = tables.find(text, ("id", "name", "pcie"))
    if table is None or not {"%gpu", "mem"} <= table.labels:
        raise VendorError("a table without ID, Name, PCIe, %GPU and Mem")
    devices = tuple(_card(row) for row in table.rows)
    faults = list(cut_rows(table.broken))
    if "query" in texts:
        try:
            devices = _with_details(devices, texts["query"])
        except VendorError as error:
            faults.append(f"mthreads-gmi -q: {error}")
    held = tables.processes(text, "id", "processname", "gpumemory")
    return Reading(attach(devices, held), tables.after(text, "Driver Version:"), tuple(faults))


def _card(row: tables.Row) -> Device:
    used, _, total = (row.get("mem") or "").rstrip(")").partition("(")
    bus = address(row, "pcie")
    return device(
        VENDOR,
        bus,
        table_cells.count(row.word("id")),
        row.get("name") or "",
        memory_used_mib=table_cells.mib(used),
        memory_total_mib=table_cells.mib(total),
        utilization=table_cells.percent(row.get("%gpu")),
        temperature_c=table_cells.celsius(row.get("temp")),
        pci_bus_id=bus,
    )


def _with_details(devices: tuple[Device, ...], text: str) -> tuple[Device, ...]:
    cards = {json_output.leaf(card, "Index"): card for card in json_output.records(text, "GPU")}
    return tuple(
        replace(
            device,
            power_w=table_cells.watts(json_output.leaf(card, "Power Readings", "Power Draw")),
            sm_clock_mhz=table_cells.megahertz(json_output.leaf(card, "Clocks", "Graphics")),
            memory_clock_mhz=table_cells.megahertz(json_output.leaf(card, "Clocks", "Memory")),
        )
        if (card := cards.get(str(device.index))) is not None
        else device
        for device in devices
    )


FAMILY = Family(
    "moorethreads",
    (
        Way(
            "mthreads-gmi",
            (
                Command("table", ("mthreads-gmi",)),
                Command("query", ("mthreads-gmi", "-q", "--json")),
            ),
            read,
        ),
    ),
)
