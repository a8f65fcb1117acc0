"""The readers on real captures, where these are at hand: every device of each is read whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconsole.core.device_catalogue import Catalogue
from gpuconsole.remote.vendors import (
    amd,
    ascend,
    cambricon,
    enflame,
    iluvatar,
    kunlunxin,
    metax,
    moorethreads,
    rocm,
)
from gpuconsole.remote.vendors.model import Reading, whole
from tests.remote.vendors.test_vendors import figures_of

SAMPLES = Path(__file__).parents[4] / "shared" / "vendor-cli"
pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no captures at hand")

# The figures: memory used and in all, load, temperature, power, limit; of the first device.
WHOLE = [
    ("ascend/info.310-npu-smi-20.2.0.txt", 4, (2703, 8192, 0, 56, 12.8, None)),
    ("ascend/info.310-npu-smi-21.0.4.txt", 4, (2703, 8192, 0, 73, 12.8, None)),
    ("ascend/info.910A-npu-smi-22.0.3.1.txt", 8, (0, 32768, 0, 43, 67.2, None)),
    ("ascend/info.910A-npu-smi-24.1.RC2.txt", 8, (0, 32768, 0, 42, 70.5, None)),
    ("ascend/info.910B2C-npu-smi-23.0.3.txt", 2, (3317, 65536, 0, 53, 89.9, None)),
    ("ascend/info-rows.910C-A3-npu-smi-24.1.rc3.7.excerpt.txt", 2,
     (3397, 65536, 0, 36, 178.8, None)),
    ("kunlunxin/xpu-smi-table.p800-oam-5.0.21.26.txt", 2, (0, 98304, 0, 38, 85, 400)),
    ("kunlunxin/xpu_smi-table.r300-rt4.31.txt", 2, (0, 32768, 0, None, None, None)),
    ("hygon/hy-smi-table.bw1000-dtk26.04.txt", 2, (None, None, 0, 50, 80, 1000)),
    ("hygon/hy-smi-table.hcu-400w.txt", 2, (None, None, 0, 59, 114, 400)),
    ("hygon/rocm-smi-table.z100.txt", 4, (None, None, 0, 30, 38, 280)),
    ("hygon/rocm-smi-json.dtk24.04.3.json", 1, (2, 65520, 0, 41, 80, None)),
    ("amd/rocm-smi-json.mi100_rocm602.json", 4, (6.4375, 32752, 0, 53, 36, 290)),
    ("amd/rocm-smi-json.navi32_rocm624.json", 1, (11077, 16368, 100, 45, 53, None)),
    ("amd/rocm-smi-json.rx6700xt_rocm612.json", 1, (1499.88671875, 12272, 0, 45, 6, 211)),
    ("amd/rocm-smi-json.vega-10-XT.json", 1, (16.953125, 16368, 0, 39, 15, 170)),
    ("amd/amd-smi-metric-json.mi300x-26.2.2-trimmed.json", 2,
     (17153, 196592, 94, None, 612, None)),
    ("amd/amd-smi-metric-json.radeon-trimmed.json", 1, (20450, 30576, 91, 54, None, None)),
    ("cambricon/cnmon-table.mlu370x8-v5.10.13.txt", 2, (0, 23374, 0, 32, 106, 250)),
    ("cambricon/cnmon-rows.mlu370x4-v4.20.11.excerpt.txt", 1, (0, 23308, 0, 32, 30, 150)),
    ("metax/mx-smi-table.c500-2.3.1.txt", 1, (826, 65536, 0, 32, 37, 350)),
    ("metax/mx-smi-table.c500-2.2.4.excerpt.txt", 1, (858, 65536, 0, 45, 48, 350)),
    ("moorethreads/mthreads-gmi-table.s5000-2.4.1.txt", 1, (0, 81920, 0, 48, None, None)),
    ("moorethreads/mthreads-gmi-table.s80-1.14.0.txt", 1, (2, 16384, 0, 49, None, None)),
    ("iluvatar/ixsmi-table.bi-v150-4.3.0.txt", 2, (64, 32768, 0, 40, None, None)),
    ("iluvatar/ixsmi-query-gpu.mr-v50-v100.csv", 2, (116, 16384, 0, 30, None, None)),
    ("enflame/efsmi-table.s60-v1.2.0.301.txt", 2, (None, 49120, 0, 39, 105, 300)),
    ("enflame/efsmi-table.t20-v1.20.0.excerpt.txt", 2, (None, 32768, 0, 30, 48, 300)),
]  # fmt: skip
# Rows without their header are read under that of a whole capture of the same tool.
EXCERPTS = [
    ("kunlunxin/xpu-smi-rows.p800-vf-5.0.21.40.excerpt.txt",
     "kunlunxin/xpu-smi-table.p800-oam-5.0.21.26.txt", "|   0  P800",
     2, (0, 98304, 0, 37, 85, 400)),
    ("cambricon/cnmon-rows.mlu370x8-v5.10.22.excerpt.txt",
     "cambricon/cnmon-table.mlu370x8-v5.10.13.txt", "| 0     /",
     1, (0, 20638, 0, 28, 107, 250)),
    ("metax/mx-smi-table.c500-2.1.12.excerpt.txt",
     "metax/mx-smi-table.c500-2.2.4.excerpt.txt", "| 0           MetaX",
     1, (826, 65536, 0, 35, 54, 350)),
    ("iluvatar/ixsmi-rows.bi-v100-3.1.1.excerpt.txt",
     "iluvatar/ixsmi-table.bi-v150-4.3.0.txt", "| 0    Iluvatar",
     1, (257, 32768, 0, 30, 40, 250)),
]  # fmt: skip
# What a further command of a way prints, and process rows: read with the table that leads.
FURTHER = {
    "amd/amd-smi-process-json.r9700-26.2.1.json",
    "moorethreads/mthreads-gmi-q-json.s4000-fixture-trimmed.json",
    "moorethreads/mthreads-gmi-process-row.2.0.0.excerpt.txt",
    "metax/mx-smi-process-row.excerpt.txt",
    "ascend/info-process-rows.npu-smi-26.0.rc2.excerpt.txt",
}
# Commands that are not run: what they tell, the table tells in one call for all devices.
NOT_RUN = {
    "amd": ("amd-smi-monitor", "amd-smi-table"),
    "ascend": (
        "board.",
        "common.",
        "info-m.",
        "list-l.",
        "power.",
        "proc-mem.",
        "temp.",
        "usages.",
    ),
    "kunlunxin": ("xpu-smi-q.",),
    "metax": ("mx-smi-dmon.",),
}
# Other vendors: NVIDIA has readers of its own, the last two have none.
OTHERS = ("nvidia", "intel", "thead")


def text_of(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8")


def read(name: str, text: str) -> Reading:
    """Read a capture as the way of its tool and command reads it."""
    maker, _, file = name.partition("/")
    if file.startswith("rocm-smi-json"):
        return rocm.read({"json": text})
    if maker == "hygon":
        return rocm.read_table({"table": text})
    if file.startswith("ixsmi-query"):
        return iluvatar.read_query({"query": text})
    if file.startswith("xpu_smi"):
        return kunlunxin.read_old({"table": text})
    modules = {
        "kunlunxin": kunlunxin,
        "cambricon": cambricon,
        "metax": metax,
        "iluvatar": iluvatar,
        "moorethreads": moorethreads,
        "enflame": enflame,
    }
    if maker == "ascend":
        return ascend.read({"info": text})
    if maker == "amd":
        return amd.read({"metric": text})
    return modules[maker].read({"table": text})


@pytest.mark.parametrize(("name", "count", "first"), WHOLE)
def test_a_capture_is_read_whole(name: str, count: int, first: tuple[float | None, ...]) -> None:
    reading = whole(read(name, text_of(name)))
    assert len(reading.devices) == count
    assert reading.faults == ()
    assert figures_of(reading.devices[0]) == first
    assert len({one.index for one in reading.devices}) == count


@pytest.mark.parametrize(("name", "header", "cut", "count", "first"), EXCERPTS)
def test_an_excerpt_is_read_under_the_header_of_its_tool(
    name: str, header: str, cut: str, count: int, first: tuple[float | None, ...]
) -> None:
    above = text_of(header)
    begins = ("| N/A", "|      ")
    rows = [
        line
        for line in text_of(name).splitlines()
        if line[1:].strip()[:1].isdigit() or line.startswith(begins)
    ]
    text = "\n".join((above[: above.index(cut)] + rows[0], *rows[1:], ""))
    reading = whole(read(header, text))
    assert len(reading.devices) == count
    assert figures_of(reading.devices[0]) == first


def test_what_further_commands_print_is_joined() -> None:
    text = text_of("amd/amd-smi-metric-json.mi300x-26.2.2-trimmed.json")
    process = text_of("amd/amd-smi-process-json.r9700-26.2.1.json")
    first = amd.read({"metric": text, "process": process}).devices[0]
    assert [(one.pid, round(one.memory_mib or 0)) for one in first.processes] == [(213952, 20036)]
    table = text_of("moorethreads/mthreads-gmi-table.s80-1.14.0.txt")
    query = text_of("moorethreads/mthreads-gmi-q-json.s4000-fixture-trimmed.json")
    row = text_of("moorethreads/mthreads-gmi-process-row.2.0.0.excerpt.txt")
    table = table.replace("   No running processes found\n", row.rstrip("\n") + "\n")
    (card,) = moorethreads.read({"table": table, "query": query}).devices
    assert card.sm_clock_mhz == 1665
    assert [(one.pid, one.memory_mib) for one in card.processes] == [(1123, 134)]
    table = text_of("metax/mx-smi-table.c500-2.3.1.txt")
    row = text_of("metax/mx-smi-process-row.excerpt.txt").rstrip("\n")
    lines = [row if "no process found" in line else line for line in table.splitlines()]
    (card,) = metax.read({"table": "\n".join(lines) + "\n"}).devices
    assert [(one.pid, one.memory_mib) for one in card.processes] == [(967305, 53978)]
    info = text_of("ascend/info.910B2C-npu-smi-23.0.3.txt")
    rows = text_of("ascend/info-process-rows.npu-smi-26.0.rc2.excerpt.txt")
    upper = info[: info.index("| NPU     Chip")]
    first = ascend.read({"info": upper + rows.rstrip("\n") + "\n"}).devices[0]
    assert [(one.pid, one.memory_mib, one.command) for one in first.processes] == [
        (632268, 197, "python3.1")
    ]


def test_processes_and_health_of_an_ascend_host() -> None:
    devices = read(
        "ascend/info.910A-npu-smi-24.1.RC2.txt", text_of("ascend/info.910A-npu-smi-24.1.RC2.txt")
    ).devices
    assert [one.index for one in devices if one.health == "Warning"] == [3, 7]
    assert all(len(one.processes) == 4 for one in devices)


def test_every_capture_has_its_place_here() -> None:
    known = {name for name, *_ in WHOLE} | {name for name, *_ in EXCERPTS} | FURTHER
    for path in SAMPLES.glob("*/*"):
        maker, name = path.parent.name, f"{path.parent.name}/{path.name}"
        if maker in OTHERS or path.name.startswith(NOT_RUN.get(maker, ("-",))):
            continue
        assert name in known, name


def test_models_of_the_captures_are_in_the_catalogue() -> None:
    unknown = set()
    for name, *_ in WHOLE:
        for one in read(name, text_of(name)).devices:
            if Catalogue.load().lookup(one.model, one.memory_total_mib) is None:
                unknown.add(one.model)
    # Masked by who took the capture, from a table without names, or two cards in one name.
    assert unknown <= {
        *("Ascend xxx", "DCU xxxx", "Hygon", "AMD", "AMD GPU"),
        "Navi 32 [Radeon RX 7700 XT / 7800 XT]",
        "Navi 22 [Radeon RX 6700/6700 XT / 6800M]",
    }, unknown
