"""The readers of vendors' tools: what each tells, and what it makes of half a table."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.fleet import Device, DeviceProcess
from gpuconsole.core.text import clean
from gpuconsole.remote.vendors import (
    FAMILIES,
    VENDORS,
    amd,
    ascend,
    cambricon,
    enflame,
    iluvatar,
    kunlunxin,
    metax,
    moorethreads,
    rocm,
    table_cells,
)
from gpuconsole.remote.vendors.latest_readings import is_foreign
from gpuconsole.remote.vendors.model import (
    FIELDS,
    MAX_DEVICES,
    Reading,
    Texts,
    VendorError,
    Way,
    process,
    whole,
)
from tests.remote.vendors import vendortexts as texts
from tests.scripts import script
from tests.waiting import BOUNDED_S

Reader = Callable[[Texts], Reading]
AMD = {
    "metric": texts.AMD_METRIC,
    "process": texts.AMD_PROCESS,
    "list": texts.AMD_LIST,
    "static": texts.AMD_STATIC,
}
MTHREADS = {"table": texts.MTHREADS, "query": texts.MTHREADS_JSON}
EXAMPLES: list[tuple[Reader, Texts]] = [
    (ascend.read, {"info": texts.ASCEND}),
    (ascend.read, {"info": texts.ASCEND_A3}),
    (kunlunxin.read, {"table": texts.XPU}),
    (kunlunxin.read_old, {"table": texts.XPU_OLD}),
    (rocm.read_table, {"table": texts.HY_SMI_TABLE}),
    (rocm.read, {"json": texts.HY_SMI_JSON}),
    (rocm.read, {"json": texts.ROCM_JSON}),
    (amd.read, AMD),
    (cambricon.read, {"table": texts.CNMON}),
    (metax.read, {"table": texts.MX_SMI}),
    (metax.read, {"table": texts.MX_SMI_2_2}),
    (iluvatar.read, {"table": texts.IXSMI}),
    (iluvatar.read_query, {"query": texts.IXSMI_QUERY}),
    (moorethreads.read, MTHREADS),
    (enflame.read, {"table": texts.EFSMI}),
    (enflame.read, {"table": texts.EFSMI_STARS}),
]


def figures_of(one: Device) -> tuple[float | None, ...]:
    return (
        one.memory_used_mib,
        one.memory_total_mib,
        one.utilization,
        one.temperature_c,
        one.power_w,
        one.power_limit_w,
    )


def test_ascend_tells_memory_load_health_and_processes() -> None:
    reading = ascend.read({"info": texts.ASCEND})
    first, second, third = reading.devices
    assert reading.driver == "23.0.9"
    assert reading.faults == ()
    assert figures_of(first) == (48211, 65536, 97, 61, 301.4, None)
    assert (first.model, first.index, first.pci_bus_id) == ("Ascend 910B3", 0, "0000:C1:00.0")
    assert (first.backend, first.vendor, first.health) == ("npu", "ascend", "")
    assert first.processes == (
        DeviceProcess(4711, memory_mib=44012, command="python"),
        DeviceProcess(4712, memory_mib=810, command="python"),
    )
    assert second.health == "Warning"
    # What is not reported is unknown, never 0.
    assert figures_of(third) == (None, 65536, None, None, None, None)
    assert (third.index, third.health) == (10, "Alarm")


def test_two_chips_of_one_npu_are_two_devices_with_their_physical_numbers() -> None:
    first, second = ascend.read({"info": texts.ASCEND_A3}).devices
    assert (first.index, second.index) == (8, 9)
    assert (first.power_w, second.power_w) == (190.2, None)
    assert first.model == "Ascend910"
    assert [one.pid for one in second.processes] == [632]


def test_kunlunxin_new_and_old() -> None:
    reading = kunlunxin.read({"table": texts.XPU})
    card, slice_ = reading.devices
    assert reading.driver == "5.0.99.1"
    assert figures_of(card) == (90112, 98304, 99, 58, 312, 400)
    assert (card.ecc_uncorrected, slice_.ecc_uncorrected) == (3, None)
    assert card.processes == (DeviceProcess(5150, memory_mib=90000, command="python train.py"),)
    assert (slice_.model, slice_.memory_total_mib) == ("P800 VF", 49152)
    (old,) = kunlunxin.read_old({"table": texts.XPU_OLD}).devices
    assert figures_of(old) == (811, 32768, 41, None, None, None)
    assert [one.pid for one in old.processes] == [612]


def test_a_tool_of_intel_with_the_same_name_is_left_alone() -> None:
    way = kunlunxin.FAMILY.ways[0]
    assert is_foreign(way, texts.XPU_OF_INTEL)
    assert not is_foreign(way, texts.XPU)
    # Half a table of the right tool is a fault to report, not another tool.
    assert not is_foreign(way, texts.XPU[:300])
    assert not is_foreign(way, "")
    # Nor is a process of the right one, whatever it is called.
    assert not is_foreign(way, texts.XPU.replace("python train.py", "Intel mpirun"))


def test_hygon_table_and_json() -> None:
    first, second = rocm.read_table({"table": texts.HY_SMI_TABLE}).devices
    # A share of memory without the whole is no size.
    assert figures_of(first) == (None, None, 88.5, 59, 114, 400)
    assert second.power_w is None
    (card,) = rocm.read({"json": texts.HY_SMI_JSON}).devices
    assert figures_of(card) == (1200, 65520, 12, 44, 81, None)
    assert (card.vendor, card.backend, card.model) == ("hygon", "dcu", "K100_AI")
    assert card.uuid == "uuid:7100fa8866900001"


def test_amd_by_either_tool() -> None:
    first, second = amd.read(AMD).devices
    assert figures_of(first) == (17153, 196592, 94, 77, 612, None)
    assert (first.model, first.pci_bus_id) == ("AMD Instinct MI300X", "0000:05:00.0")
    assert first.uuid == "uuid:00ff74a1-0000-1000-80aa-000000000001"
    assert (first.ecc_uncorrected, first.ecc_corrected) == (2, 40)
    assert (first.sm_clock_mhz, first.memory_clock_mhz) == (2100, None)
    assert first.processes == (DeviceProcess(2139, memory_mib=2048, command="python3"),)
    assert figures_of(second) == (None,) * 6
    assert second.uuid == "0000:26:00.0"
    (card,) = rocm.read({"json": texts.ROCM_JSON}).devices
    assert figures_of(card) == (1, 32752, 7, 53, 36, 290)
    assert (card.vendor, card.numa_node, card.sm_clock_mhz) == ("amd", 1, 300)


def test_a_further_command_that_fails_costs_only_what_it_tells() -> None:
    reading = amd.read({**AMD, "process": "amdgpu: nothing", "list": '[{"gpu": 0, '})
    assert reading.devices[0].memory_used_mib == 17153
    assert reading.devices[0].processes == ()
    assert len(reading.faults) == 2
    reading = moorethreads.read({**MTHREADS, "query": "[]garbage"})
    assert reading.devices[0].memory_used_mib == 9002
    assert reading.devices[0].power_w is None


def test_the_other_makers() -> None:
    (mlu,) = cambricon.read({"table": texts.CNMON}).devices
    assert figures_of(mlu) == (9120, 23374, 65, 52, 166, 250)
    assert mlu.ecc_uncorrected == 1
    assert mlu.processes == (DeviceProcess(909, memory_mib=9000, command="python train.py"),)
    (mx,) = metax.read({"table": texts.MX_SMI}).devices
    assert figures_of(mx) == (8826, 65536, 33, 42, 137, 350)
    assert (mx.index, mx.model, mx.health) == (2, "MetaX C500", "Unavailable")
    assert [one.pid for one in mx.processes] == [967305]
    (older,) = metax.read({"table": texts.MX_SMI_2_2}).devices
    assert (older.utilization, older.health) == (5, "")
    first, second = iluvatar.read({"table": texts.IXSMI}).devices
    assert figures_of(first) == (64, 32768, 0, 40, None, None)
    assert figures_of(second) == (30064, 32768, 97, 69, 204, 350)
    assert [one.pid for one in second.processes] == [8118]
    (mtt,) = moorethreads.read(MTHREADS).devices
    assert figures_of(mtt) == (9002, 49152, 71, 59, 210.5, None)
    assert mtt.processes == (DeviceProcess(1123, memory_mib=134, command="/usr/lib/xorg/Xorg"),)
    (gcu,) = enflame.read({"table": texts.EFSMI}).devices
    assert figures_of(gcu) == (None, 49120, 12, 39, 105, 300)
    (stars,) = enflame.read({"table": texts.EFSMI_STARS}).devices
    assert figures_of(stars) == (None, 32768, 9, 30, 48, 300)


def reported(one: Device) -> set[str]:
    """Return which of the table's fields a device fills."""
    found = {
        "memory in use": one.memory_used_mib,
        "memory in all": one.memory_total_mib,
        "utilisation": one.utilization,
        "temperature": one.temperature_c,
        "power": one.power_w,
        "power limit": one.power_limit_w,
        "clocks": one.sm_clock_mhz,
        "memory errors": one.ecc_uncorrected,
        "health": one.health or None,
        "processes": one.processes or None,
    }
    assert tuple(found) == FIELDS
    return {name for name, value in found.items() if value is not None}


def test_the_table_of_what_is_told_is_what_the_readers_fill() -> None:
    filled: dict[str, set[str]] = {}
    for read, given_texts in EXAMPLES:
        for one in read(given_texts).devices:
            filled.setdefault(one.vendor, set()).update(reported(one))
    assert filled == {vendor.name: set(vendor.tells) for vendor in VENDORS}


def test_every_family_has_ways_whose_tools_a_vendor_names() -> None:
    tools = {tool for vendor in VENDORS for tool in vendor.tools}
    assert {way.tool for family in FAMILIES for way in family.ways} == tools


# --- what cannot be read --------------------------------------------------------------------------


@pytest.mark.parametrize(("read", "printed"), EXAMPLES)
def test_a_new_layout_is_a_named_error(read: Reader, printed: Texts) -> None:
    key = next(iter(printed))
    for text in ("", "usage: tool", "设备驱动未加载", "+---+\n| A | B |\n+---+\n"):
        with pytest.raises(VendorError) as refused:
            read({key: text})
        assert str(refused.value)


@pytest.mark.parametrize(("read", "printed"), EXAMPLES)
def test_half_a_table_never_shows_half_a_device(read: Reader, printed: Texts) -> None:
    key, text = next(iter(printed.items()))
    sound = {one.uuid: figures_of(one) for one in read(printed).devices}
    for length in range(0, len(text), 3):
        try:
            reading = whole(read({**printed, key: text[:length]}))
        except VendorError:
            continue
        for one in reading.devices:
            for now, then in zip(figures_of(one), sound[one.uuid], strict=True):
                assert now in (None, then)


def test_a_row_that_is_cut_off_is_told_and_the_others_stay() -> None:
    cut = texts.ASCEND[: texts.ASCEND.index("| 0                         | 0000:C2")]
    reading = ascend.read({"info": cut})
    assert [one.index for one in reading.devices] == [0]
    assert reading.faults == ('a row is cut off: "| 1 910B3 | Warning | 92.0 48 0 / 0 |"',)


def test_a_warning_between_the_rows_is_passed_by() -> None:
    lines = texts.ASCEND.splitlines()
    lines.insert(9, "警告：设备 1 的温度过高")
    assert len(ascend.read({"info": "\n".join(lines)}).devices) == 3


def test_a_column_that_is_new_or_elsewhere_moves_nothing() -> None:
    text = texts.ASCEND.replace("Power(W)    Temp(C)  ", "Temp(C)     Power(W) ")
    first = ascend.read({"info": text}).devices[0]
    # Found by their words: what is under Temp(C) is no temperature, and is not taken for one.
    assert (first.temperature_c, first.power_w) == (301.4, 61)
    text = texts.ASCEND.replace("Power(W)    Temp(C)  ", "Power(W)    Fan(%)   ")
    first = ascend.read({"info": text}).devices[0]
    assert (first.temperature_c, first.power_w) == (None, 301.4)
    # One figure more than the header has words: whose is it?
    text = texts.ASCEND.replace("301.4       61   ", "301.4   7   61   ")
    first = ascend.read({"info": text}).devices[0]
    assert (first.temperature_c, first.power_w, first.memory_used_mib) == (None, None, 48211)


def test_two_devices_with_one_address_are_refused() -> None:
    with pytest.raises(VendorError, match="one address"):
        whole(ascend.read({"info": texts.ASCEND.replace("0000:C2", "0000:C1")}))


# --- figures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cell", ["", "N/A", "-", "nan", "NaN", "inf", "-inf", "1e400", "未知", "12 apples", "0x1F", "٣"]
)
def test_what_is_no_figure_is_unknown(cell: str) -> None:
    for read in (
        table_cells.percent,
        table_cells.celsius,
        table_cells.watts,
        table_cells.megahertz,
        table_cells.mib,
    ):
        assert read(cell) is None
    assert table_cells.count(cell) is None


def test_figures_have_their_units_and_bounds() -> None:
    assert table_cells.percent("100.5") is None
    assert table_cells.celsius("-12C") == -12
    assert table_cells.celsius("9999") is None
    assert table_cells.watts("12C") is None
    assert table_cells.mib("-1") is None
    assert table_cells.mib("32G") == 32768
    assert table_cells.mib("12", "GB") == 12288
    assert table_cells.mib("12 bananas") is None
    assert table_cells.sizes("858/65536 MiB") == (858, 65536)
    assert table_cells.sizes("1/2 GB") == (1024, 2048)
    assert table_cells.sizes("2MiB(5MiB)") == (None, None)
    assert table_cells.pair("N/A/N/A") == ("N/A", "N/A")


# --- hostile --------------------------------------------------------------------------------------


def mangled() -> st.SearchStrategy[tuple[Reader, Texts, str]]:
    """A reader, its texts, and its first text cut, doubled, shuffled or with anything in it."""

    def spoil(example: tuple[Reader, Texts]) -> st.SearchStrategy[tuple[Reader, Texts, str]]:
        read, printed = example
        text = next(iter(printed.values()))
        place = st.integers(0, len(text))
        garbage = st.one_of(
            st.text(max_size=40),
            st.sampled_from(
                ["nan", "N/A", "|", "\n", "||||", "-1", "9" * 400, "\x1b[2J", "\0", "/"]
            ),
        )
        spoiled = st.one_of(
            st.tuples(place, place, garbage).map(
                lambda at: text[: min(at[:2])] + at[2] + text[max(at[:2]) :]
            ),
            st.permutations(text.splitlines()).map("\n".join),
            st.text(max_size=200),
        )
        return spoiled.map(lambda spoilt: (read, printed, spoilt))

    return st.sampled_from(EXAMPLES).flatmap(spoil)


@given(mangled())
def test_whatever_a_tool_prints_is_devices_or_a_named_error(
    case: tuple[Reader, Texts, str],
) -> None:
    read, printed, text = case
    try:
        reading = whole(read({**printed, next(iter(printed)): text}))
    except VendorError:
        return
    for one in reading.devices:
        assert 0 <= one.index < 65536
        assert one.uuid
        for value in (*figures_of(one), one.sm_clock_mhz, one.memory_clock_mhz):
            assert value is None or (math.isfinite(value) and value > -101)
        assert one.utilization is None or 0 <= one.utilization <= 100
        assert one.memory_used_mib is None or one.memory_used_mib >= 0
        for each in (one.model, one.health, *(held.command for held in one.processes)):
            assert each == clean(each)


def test_a_wild_output_costs_little() -> None:
    wild = ["0 " + "x " * 100_000, "|" * 300_000, (texts.ASCEND + "\n") * 60, " " * 500_000]
    for read, printed in EXAMPLES:
        for text in wild:
            try:
                read({**printed, next(iter(printed)): text})
            except VendorError:
                continue


def test_ways_are_plain_argument_lists() -> None:
    for family in FAMILIES:
        for way in family.ways:
            assert isinstance(way, Way)
            for command in way.commands:
                assert command.argv[0] == way.tool
                assert command.every >= 1
            assert way.commands[0].every == 1


# --- the page -------------------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[3] / "docs" / "vendors.md"
page = script(PAGE.with_name("tables.py")).vendors_page


def test_the_page_has_the_tables_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text), "run: python docs/generate.py"
    assert all(f"| {vendor.title} | `{vendor.backend}` |" in text for vendor in VENDORS)
    stale = text.replace("| Huawei Ascend | `npu` | yes", "| Huawei Ascend | `npu` | -")
    assert stale != text
    assert page(stale) == text


@pytest.mark.parametrize(
    "pid", ["0", "-1", "", "x", "2147483648", "000000000001" + "9" * 5000, None]
)
def test_a_process_number_that_is_none_is_no_process(pid: str | None) -> None:
    assert process(pid, 1.0, "python") is None


def test_a_document_of_a_hundred_thousand_keys_costs_no_more_than_reading_them() -> None:
    card = {f"key {number}": "1" for number in range(50_000)}
    card[f"a{' ' * 200_000}b"] = "1"
    card["GPU use (%)"] = "7"
    began = time.process_time()
    (device,) = rocm.read({"json": json.dumps({"card0": card})}).devices
    assert device.utilization == 7
    # Looking each key up among all would take minutes, and so would a pattern on the long one.
    assert time.process_time() - began < BOUNDED_S


def test_more_devices_than_a_host_has_are_refused() -> None:
    cards = [{"gpu": number} for number in range(MAX_DEVICES + 1)]
    with pytest.raises(VendorError, match="more than 128 devices"):
        amd.read({"metric": json.dumps(cards)})
    many = {f"card{number}": {"Device Name": "K100"} for number in range(5000)}
    with pytest.raises(VendorError, match="more than 128 devices"):
        whole(rocm.read({"json": json.dumps(many)}))
