"""nvidia-smi's tables, from real captures where they are at hand."""

from pathlib import Path

import pytest

from gpuconsole.core.fleet import DeviceProcess
from gpuconsole.remote.polling import nvidia_smi

SAMPLES = Path(__file__).parents[3] / "shared" / "vendor-cli" / "nvidia"
real_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no captures at hand")


def table(name: str) -> list[str]:
    return (SAMPLES / name).read_text().splitlines()


@real_samples
def test_a_real_table_with_units_is_read() -> None:
    header, *rows = table("query-gpu.h200x8.csv")
    devices = [nvidia_smi.device(nvidia_smi.split_header(header), row, {}) for row in rows if row]
    assert len(devices) == 8
    assert devices[0].uuid == "GPU-a44622e3-2296-6285-0a86-84d0f6c67900"
    assert (devices[0].memory_used_mib, devices[0].memory_total_mib) == (130013, 143771)
    assert devices[0].utilization == 100
    assert devices[0].temperature_c is None


@real_samples
def test_power_ecc_and_idle_throttle_are_read() -> None:
    header, row, *_ = table("query-gpu.rtx-pro-6000-ecc-power.csv")
    device = nvidia_smi.device(nvidia_smi.split_header(header), row, {})
    assert (device.power_w, device.power_limit_w, device.ecc_uncorrected) == (30.39, 600, 0)
    header, row, *_ = table("query-gpu.rtx-pro-6000-throttle.csv")
    assert nvidia_smi.device(nvidia_smi.split_header(header), row, {}).throttle == ("power-cap",)


@real_samples
def test_real_processes_are_read_by_device() -> None:
    found = nvidia_smi.processes((SAMPLES / "query-compute-apps.h200x8.csv").read_text())
    assert found["GPU-4e9e74b7-4977-f04d-3af3-ccfe5f570e90"] == (
        DeviceProcess(1425258, memory_mib=105842, command="python3"),
    )


def test_a_process_name_may_hold_commas_and_escapes() -> None:
    text = (
        "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
        "GPU-a, 12, python, -c \x1b[31mx, y, 77 MiB\n"
        "GPU-a, nonsense, x, 1\nshort\nGPU-a, 13, [Not Found], [N/A]\n"
    )
    assert nvidia_smi.processes(text)["GPU-a"] == (
        DeviceProcess(12, memory_mib=77, command="python, -c x, y"),
        DeviceProcess(13, memory_mib=None, command="[Not Found]"),
    )
    assert nvidia_smi.processes("") == {}


def test_what_the_driver_does_not_say_is_unknown_never_zero() -> None:
    columns = nvidia_smi.split_header(
        "index, uuid, memory.used [MiB], power.draw [W], fan.speed [%]"
    )
    device = nvidia_smi.device(columns, "3, GPU-a, [N/A], [Unknown Error], 30 %", {})
    assert (device.index, device.memory_used_mib, device.power_w) == (3, None, None)


def test_a_lost_gpu_is_told() -> None:
    device = nvidia_smi.device(("index", "uuid", "temperature.gpu"), "0, GPU-a, [GPU is lost]", {})
    assert device.lost
    assert "lost" in device.error


@pytest.mark.parametrize("row", ["", "x, GPU-a", "1, 2, 3", "-1, GPU-a"])
def test_a_row_of_another_shape_is_refused(row: str) -> None:
    with pytest.raises(ValueError, match=r"column|index"):
        nvidia_smi.device(("index", "uuid"), row, {})


def test_the_tool_ends_with_its_input() -> None:
    command = nvidia_smi.stream("clocks_event_reasons.active", 1.0)
    assert command[:2] == ["sh", "-c"]
    assert command[-2:] == ["-lms", "1000"]
    assert "clocks_event_reasons.active" in command[-4]
