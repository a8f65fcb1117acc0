"""AMD through `amd-smi`: figures and processes as JSON; names and addresses, which stand, seldom.

The tool is a Python program and slow to start. Its documents have a bare list or `gpu_data` at
the root, and any leaf may be `N/A`: on an APU all of them are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuconsole.core.fleet import Device, DeviceProcess
from gpuconsole.remote.vendors import table_cells
from gpuconsole.remote.vendors.json_output import leaf, records
from gpuconsole.remote.vendors.model import (
    Command,
    Reading,
    Texts,
    Vendor,
    VendorError,
    Way,
    attach,
    device,
    process,
)

VENDOR = Vendor(
    "amd",
    "AMD",
    ("amd-smi", "rocm-smi"),
    "dcu",
    "AMD",
    frozenset(
        ("memory in use", "memory in all", "utilisation", "temperature", "power", "power limit",
         "clocks", "memory errors", "processes")
    ),
    "Memory errors and processes come from amd-smi, the power limit from rocm-smi, which is asked"
    " where there is no amd-smi. Paddle runs here only as a build of its own from source.",
)  # fmt: skip
SELDOM = 60
"""Rounds between two questions for names and addresses."""
_Record = Mapping[str, object]


def read(texts: Texts) -> Reading:
    """Read `amd-smi metric`, with what its other commands add."""
    faults: list[str] = []
    places = _side(texts, "list", faults)
    names = _side(texts, "static", faults)
    devices = []
    for record in records(texts["metric"], "gpu_data"):
        number = table_cells.count(leaf(record, "gpu"))
        if number is None:
            raise VendorError("a card without a number")
        devices.append(_card(number, record, places.get(number, {}), names.get(number, {})))
    held = {
        number: _processes(record) for number, record in _side(texts, "process", faults).items()
    }
    return Reading(attach(devices, held), "", tuple(faults))


def _side(texts: Texts, key: str, faults: list[str]) -> dict[int, _Record]:
    """Return what a further command says of each card; what it cannot say is a fault, no end."""
    if key not in texts:
        return {}
    try:
        listed = records(texts[key], "gpu_data")
    except VendorError as error:
        faults.append(f"amd-smi {key}: {error}")
        return {}
    numbered = ((table_cells.count(leaf(record, "gpu")), record) for record in listed)
    return {number: record for number, record in numbered if number is not None}


def _card(number: int, record: _Record, place: _Record, name: _Record) -> Device:
    uuid, bus = leaf(place, "uuid") or "", leaf(place, "bdf") or ""
    clock = leaf(record, "clock", "gfx_0", "clk")
    memory_clock = leaf(record, "clock", "mem_0", "clk")
    return device(
        VENDOR,
        f"uuid:{uuid}" if "-" in uuid else bus or f"{number}",
        number,
        leaf(name, "asic", "market_name") or "AMD GPU",
        memory_used_mib=table_cells.mib(leaf(record, "mem_usage", "used_vram")),
        memory_total_mib=table_cells.mib(leaf(record, "mem_usage", "total_vram")),
        utilization=table_cells.percent(leaf(record, "usage", "gfx_activity")),
        temperature_c=_first(
            table_cells.celsius(leaf(record, "temperature", sensor))
            for sensor in ("edge", "hotspot")
        ),
        power_w=_first(
            table_cells.watts(leaf(record, "power", word))
            for word in ("socket_power", "current_socket_power", "average_socket_power")
        ),
        sm_clock_mhz=table_cells.megahertz(clock),
        memory_clock_mhz=table_cells.megahertz(memory_clock),
        ecc_uncorrected=table_cells.count(leaf(record, "ecc", "total_uncorrectable_count")),
        ecc_corrected=table_cells.count(leaf(record, "ecc", "total_correctable_count")),
        pci_bus_id=bus if ":" in bus else "",
    )


def _first(values: Iterable[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)


def _processes(record: _Record) -> list[DeviceProcess]:
    listed = record.get("process_list")
    processes = []
    for entry in listed if isinstance(listed, list) else ():
        facts = entry.get("process_info") if isinstance(entry, Mapping) else None
        if not isinstance(facts, Mapping):
            continue
        size = leaf(facts, "memory_usage", "vram_mem") or leaf(facts, "mem_usage")
        found_process = process(
            leaf(facts, "pid"), table_cells.mib(size), leaf(facts, "name") or ""
        )
        if found_process is not None:
            processes.append(found_process)
    return processes


_METRIC = ("--usage", "--power", "--clock", "--temperature", "--ecc", "--mem-usage", "--json")
WAY = Way(
    "amd-smi",
    (
        Command("metric", ("amd-smi", "metric", *_METRIC)),
        Command("process", ("amd-smi", "process", "--json"), every=2),
        Command("list", ("amd-smi", "list", "--json"), every=SELDOM),
        Command("static", ("amd-smi", "static", "--asic", "--json"), every=SELDOM),
    ),
    read,
)
