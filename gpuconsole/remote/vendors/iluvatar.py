"""Iluvatar CoreX: the table of `ixsmi`, or its query where the table cannot be had.

A card of two chips is two devices; its power is printed with one of them only.
"""

from __future__ import annotations

from gpuconsole.core.fleet import Device
from gpuconsole.core.wording import msg
from gpuconsole.remote.vendors import table_cells as figures
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
    device,
)
from gpuconsole.remote.vendors.table_cards import card

VENDOR = Vendor(
    "iluvatar",
    "Iluvatar CoreX",
    ("ixsmi",),
    "iluvatar_gpu",
    "IX",
    frozenset(
        ("memory in use", "memory in all", "utilisation", "temperature", "power", "power limit",
         "clocks", "processes")
    ),
    "Of a card of two chips (BI-V150) power is reported with one of them.",
)  # fmt: skip
_QUERY = ("index", "name", "memory.total", "memory.used", "utilization.gpu", "temperature.gpu")


def read(texts: Texts) -> Reading:
    """Read `ixsmi`."""
    text = texts["table"]
    table = tables.find(text, ("gpu", "name", "bus-id"))
    if table is None or "memory-usage" not in table.labels:
        raise VendorError("a table without GPU, Name, Bus-Id and Memory-Usage")
    held = tables.processes(text, "gpu", "processname", "usage")
    devices = [_card(row) for row in table.rows]
    driver = tables.after(text, "Driver Version:")
    return Reading(attach(devices, held), driver, cut_rows(table.broken))


def read_query(texts: Texts) -> Reading:
    """Read `ixsmi --query-gpu` without a header: its columns are those asked for."""
    devices = []
    for line in filter(str.strip, tables.lines_of(texts["query"])):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(_QUERY):
            raise VendorError(
                msg("{cells} columns instead of {query}", cells=len(cells), query=len(_QUERY))
            )
        number, name, total, used, busy, heat = cells
        devices.append(
            device(
                VENDOR,
                number,
                figures.count(number),
                name,
                memory_used_mib=figures.mib(used),
                memory_total_mib=figures.mib(total),
                utilization=figures.percent(busy),
                temperature_c=figures.celsius(heat),
            )
        )
    if not devices:
        raise VendorError("no row")
    return Reading(tuple(devices))


def _card(row: tables.Row) -> Device:
    return card(
        VENDOR,
        row,
        "gpu",
        sm_clock_mhz=figures.megahertz(row.get("clock-sm")),
        memory_clock_mhz=figures.megahertz(row.get("clock-mem")),
    )


FAMILY = Family(
    "iluvatar",
    (
        Way("ixsmi", (Command("table", ("ixsmi",)),), read),
        Way(
            "ixsmi",
            (
                Command(
                    "query", ("ixsmi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader")
                ),
            ),
            read_query,
        ),
    ),
)
