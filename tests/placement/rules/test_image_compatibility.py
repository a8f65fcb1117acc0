"""Which images a host can run: by back end, by CUDA version, by what the image itself demands."""

from __future__ import annotations

import pytest

from gpuconsole.core.containers import ImageFacts
from gpuconsole.core.fleet import HostFacts
from gpuconsole.placement.rules.image_compatibility import (
    cuda_version,
    image_backend,
    image_fault,
    image_note,
)

PADDLE = "paddlepaddle/paddle:3.3.1-gpu-cuda12.6-cudnn9.5"
REQUIRE_12_6 = (
    "cuda>=12.6 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=535,driver<536"
    " brand=geforce,driver>=535,driver<536"
)


def host(driver: str = "", cuda: str = "") -> HostFacts:
    return HostFacts(driver_version=driver, runtime_version=cuda)


def facts(**env: str) -> ImageFacts:
    return ImageFacts(env)


@pytest.mark.parametrize(
    ("image", "backend"),
    [
        (PADDLE, "gpu"),
        ("ccr.example.com:5000/paddlepaddle/paddle:3.0.0-gpu-cuda11.8-cudnn8.9-trt8.6", "gpu"),
        ("paddlepaddle/paddle:3.3.1", "cpu"),
        ("paddlepaddle/paddle:3.0.0-rc1", "cpu"),
        ("paddlepaddle/paddle:latest", ""),
        ("ccr.example.com/device/paddle-npu:cann800-ubuntu20-npu-910b-base-x86_64-gcc84", "npu"),
        ("ccr.example.com/device/paddle-xpu:ubuntu20-x86_64-gcc84-py310", "xpu"),
        ("paddlepaddle/paddleqa:xpu-ubuntu2204-x86_64-gcc123-py310", "xpu"),
        ("ccr.example.com/device/paddle-dcu:dtk24.04.1-kylinv10-gcc82-py310", "dcu"),
        ("cuda.example.com/gpu-team/tools:1", ""),
        ("nvidia/cuda:12.6.0-devel-ubuntu22.04", "gpu"),
    ],
)
def test_the_name_tells_the_kind_of_device(image: str, backend: str) -> None:
    assert image_backend(image, None) == backend


def test_an_image_with_a_plain_name_is_known_by_its_variables() -> None:
    assert image_backend("lab/train:7", facts(CUDA_VERSION="12.6.3")) == "gpu"
    assert image_backend("lab/train:7", facts(ASCEND_TOOLKIT_HOME="/usr/local/Ascend")) == "npu"
    assert cuda_version("lab/train:7", facts(CUDA_VERSION="12.6.3")) == (12, 6, 3)
    assert cuda_version(PADDLE, None) == (12, 6)
    assert cuda_version("nvidia/cuda:11.8.0-base", None) == (11, 8)


def test_a_kunlun_image_on_a_cuda_base_stays_one() -> None:
    image = "paddlepaddle/paddleqa:xpu-ubuntu2204-x86_64-gcc123-py310"
    assert image_backend(image, facts(CUDA_VERSION="11.8.0")) == "xpu"


def test_the_wrong_kind_of_image_is_refused() -> None:
    npu = "ccr.example.com/device/paddle-npu:cann800-910b"
    assert image_fault("gpu", npu, None, host("550.54.14", "12.4")) == (
        f"The image {npu} is made for Ascend NPUs, the task wants CUDA."
    )
    assert "processors alone" in image_fault("gpu", "paddlepaddle/paddle:3.3.1", None, host())
    assert image_fault("npu", npu, None, host("25.2.0")) == ""
    assert "not checked" in image_note("npu", npu, None, host("25.2.0"))


def test_on_the_processor_every_image_will_do() -> None:
    assert image_fault("cpu", PADDLE, None, host()) == ""
    assert image_note("cpu", PADDLE, None, host()) == ""


@pytest.mark.parametrize(
    ("driver", "cuda", "runs"),
    [
        ("560.35.03", "12.6", True),
        ("580.95.05", "13.0", True),
        ("525.60.13", "12.0", True),
        ("525.60.11", "12.0", False),
        ("470.82.01", "11.4", False),
        ("470.82.01", "", False),
        ("535.104.05", "", True),
        ("", "11.4", False),
        ("", "12.2", True),
        ("", "", True),
    ],
)
def test_cuda_12_6_needs_a_driver_of_its_major_version(driver: str, cuda: str, runs: bool) -> None:
    fault = image_fault("gpu", PADDLE, None, host(driver, cuda))
    assert (fault == "") is runs


def test_the_fault_names_both_sides() -> None:
    assert image_fault("gpu", PADDLE, None, host("470.82.01", "11.4")) == (
        f"The image {PADDLE} needs CUDA 12.6 (driver 525.60.13 or later);"
        " the host has driver 470.82.01, which offers CUDA 11.4."
    )


def test_before_cuda_11_each_toolkit_has_its_own_driver() -> None:
    old = "paddlepaddle/paddle:2.2.0-gpu-cuda10.2-cudnn7"
    assert image_fault("gpu", old, None, host("440.33.01")) == ""
    assert "440.33" in image_fault("gpu", old, None, host("418.40.04"))
    assert image_fault("gpu", old, None, host("580.95.05", "13.0")) == ""


def test_an_unknown_major_version_is_judged_by_the_driver_alone() -> None:
    new = "lab/train:cuda14.1"
    assert image_fault("gpu", new, None, host("999.1")) == ""
    assert image_fault("gpu", new, None, host("580.95.05", "13.0")) != ""


def test_a_minor_version_ahead_runs_with_a_note() -> None:
    assert "minor version compatibility" in image_note("gpu", PADDLE, None, host("535.104", "12.2"))
    assert image_note("gpu", PADDLE, None, host("560.35.03", "12.6")) == ""
    assert image_note("gpu", PADDLE, None, host()) == "The host does not say which driver it has."
    assert "are unknown" in image_note("gpu", "lab/train:7", None, host("560", "12.6"))


def test_what_the_image_demands_decides_where_it_is_known() -> None:
    known = facts(CUDA_VERSION="12.6.0", NVIDIA_REQUIRE_CUDA=REQUIRE_12_6)
    # Minor version compatibility would do, but the toolkit refuses: 550 is in no alternative.
    assert image_fault("gpu", PADDLE, known, host("550.54.14", "12.4")) == (
        f"The image {PADDLE} asks for CUDA 12.6;"
        " the host has driver 550.54.14, which offers CUDA 12.4."
    )
    assert image_fault("gpu", PADDLE, known, host("535.104.05", "12.2")) == ""
    assert image_fault("gpu", PADDLE, known, host("560.35.03", "12.6")) == ""
    # A data-centre card of that branch has the image's own compatibility libraries.
    assert image_fault("gpu", PADDLE, known, host("470.82.01", "11.4")) == ""
    assert "data-centre cards" in image_note("gpu", PADDLE, known, host("470.82.01", "11.4"))


def test_an_image_may_waive_its_demand() -> None:
    waived = facts(NVIDIA_REQUIRE_CUDA=REQUIRE_12_6, NVIDIA_DISABLE_REQUIRE="1")
    assert image_fault("gpu", PADDLE, waived, host("550.54.14", "12.4")) == ""


@pytest.mark.parametrize(
    "text", ["", "nonsense", "cuda>=x", ",,,", "cuda>=" + "9" * 500, "a " * 999]
)
def test_a_hostile_demand_does_no_harm(text: str) -> None:
    known = facts(NVIDIA_REQUIRE_CUDA=text)
    assert isinstance(image_fault("gpu", PADDLE, known, host("560.35.03", "12.6")), str)
    assert isinstance(image_note("gpu", PADDLE, known, host(text, text)), str)
