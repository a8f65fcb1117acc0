"""Hosts without Python: `nvidia-smi` as one long-lived stream, read by its header. Pure parsing.

Columns are found by name, unknown ones are skipped, and what cannot be read is unknown, never 0:
header words and the ways to say "n/a" change with the driver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gpuconsole.core.fleet import Device, DeviceProcess
from gpuconsole.core.text import clean

FIELDS = (
    "index",
    "uuid",
    "name",
    "pci.bus_id",
    "driver_version",
    "memory.total",
    "memory.used",
    "utilization.gpu",
    "temperature.gpu",
    "power.draw",
    "power.limit",
    "clocks.sm",
    "clocks.mem",
    "ecc.errors.uncorrected.volatile.total",
    "mig.mode.current",
)
# The mask was renamed; a driver refuses the whole query for one name it does not know.
MASK_FIELDS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active", "")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_MASKS = (
    (0x40, "hw-thermal"),
    (0x80, "power-brake"),
    (0x20, "sw-thermal"),
    (0x04, "power-cap"),
)
# Keeps the tool's life tied to the link's: it ends when our side of its input closes.
_WHILE_LINKED = '"$@" & p=$!; exec >/dev/null; cat >/dev/null; kill "$p"'


def query(mask: str) -> list[str]:
    """Return the command that prints all devices once."""
    fields = ",".join((*FIELDS, mask) if mask else FIELDS)
    return ["env", "LC_ALL=C", "nvidia-smi", f"--query-gpu={fields}", "--format=csv,nounits"]


def stream(mask: str, interval: float) -> list[str]:
    """Return the command that prints all devices every `interval` seconds until its input ends."""
    tool = [*query(mask), "-lms", str(max(200, round(interval * 1000)))]
    return ["sh", "-c", _WHILE_LINKED, "gpuconsole", *tool]


def process_query() -> list[str]:
    """Return the command that lists the processes of all devices."""
    fields = "gpu_uuid,pid,used_gpu_memory,process_name"
    tool = ["nvidia-smi", f"--query-compute-apps={fields}", "--format=csv,nounits"]
    return ["env", "LC_ALL=C", *tool]


def split_header(line: str) -> tuple[str, ...]:
    """Return the column names of a header line, without units."""
    return tuple(re.sub(r"\s*\[[^]]*\]$", "", word.strip()) for word in line.split(","))


def device(
    columns: Sequence[str], line: str, processes: Mapping[str, tuple[DeviceProcess, ...]]
) -> Device:
    """Return the device of one row; ValueError when it is no row of this table."""
    # The name is the one column that may hold a comma; no card has been seen that does.
    words = [word.strip() for word in line.split(",")]
    if len(words) != len(columns):
        raise ValueError(f"{len(words)} columns instead of {len(columns)}")
    row = dict(zip(columns, words, strict=True))
    index = _number(row.get("index"))
    uuid = clean(row.get("uuid", ""), 96)
    if index is None or not 0 <= index < 65536:
        raise ValueError("no index")
    lost = "lost" in line.lower()
    errors = _number(row.get("ecc.errors.uncorrected.volatile.total"))
    mask = row.get("clocks_event_reasons.active") or row.get("clocks_throttle_reasons.active")
    return Device(
        uuid=uuid or f"unreadable-{index:.0f}",
        index=int(index),
        model=clean(row.get("name", ""), 96),
        memory_total_mib=_number(row.get("memory.total")),
        memory_used_mib=_number(row.get("memory.used")),
        utilization=_number(row.get("utilization.gpu")),
        temperature_c=_number(row.get("temperature.gpu")),
        power_w=_number(row.get("power.draw")),
        power_limit_w=_number(row.get("power.limit")),
        sm_clock_mhz=_number(row.get("clocks.sm")),
        memory_clock_mhz=_number(row.get("clocks.mem")),
        throttle=_throttle(mask),
        ecc_uncorrected=None if errors is None else int(errors),
        mig=row.get("mig.mode.current") == "Enabled",
        pci_bus_id=clean(row.get("pci.bus_id", ""), 32),
        processes=processes.get(uuid, ()),
        lost=lost,
        error="GPU is lost: the driver can no longer reach it" if lost else "",
    )


def driver_version(columns: Sequence[str], line: str) -> str:
    """Return the driver's version from a row, or ''."""
    row = dict(zip(columns, (word.strip() for word in line.split(",")), strict=False))
    return clean(row.get("driver_version", ""), 32)


def processes(text: str) -> dict[str, tuple[DeviceProcess, ...]]:
    """Return the processes of each device by UUID; rows that are none are skipped."""
    lines = text.splitlines()
    if not lines:
        return {}
    columns = split_header(lines[0])
    by_device: dict[str, list[DeviceProcess]] = {}
    for line in lines[1:4097]:
        row = _process_row(columns, line)
        pid = row.get("pid", "")
        if pid.isdecimal() and int(pid) < 2**31:
            process = DeviceProcess(
                int(pid),
                memory_mib=_number(row.get("used_gpu_memory")),
                command=clean(row.get("process_name", ""), 256),
            )
            by_device.setdefault(clean(row.get("gpu_uuid", ""), 96), []).append(process)
    return {uuid: tuple(listed) for uuid, listed in by_device.items()}


def _process_row(columns: Sequence[str], line: str) -> dict[str, str]:
    # A process name may hold commas: cut the columns before it from the left, after it from right.
    if "process_name" not in columns:
        return {}
    before = list(columns).index("process_name")
    after = len(columns) - before - 1
    words = line.split(",")
    if len(words) < len(columns):
        return {}
    name = ",".join(words[before : len(words) - after])
    words_kept = [*words[:before], name, *words[len(words) - after :]]
    return dict(zip(columns, (word.strip() for word in words_kept), strict=True))


def _number(word: str | None) -> float | None:
    """Return the figure at the start of a cell; its unit may follow."""
    match = _NUMBER.match(word or "")
    value = float(match.group()) if match else None
    return value if value is not None and abs(value) < 1e12 else None


def _throttle(mask: str | None) -> tuple[str, ...]:
    try:
        bits = int(mask or "0", 16)
    except ValueError:
        return ()
    # Idle cards report the power cap too; it means nothing then.
    return tuple(word for bit, word in _MASKS if bits & bit and not (bit == 0x04 and bits & 1))
