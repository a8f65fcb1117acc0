"""Which images a host can run: by back end, by CUDA version, by what the image itself demands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuconsole.core.containers import ImageFacts
from gpuconsole.core.fleet import HostFacts
from gpuconsole.placement.rules.image_compatibility import (
    cuda_version,
    image_backend,
    image_fault,
    image_note,
    paddle_version,
    runs,
    text,
    version,
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


@pytest.mark.parametrize(
    ("word", "waived"), [("1", True), ("true", True), ("", False), ("0", False), ("false", False)]
)
def test_an_image_may_waive_its_demand(word: str, waived: bool) -> None:
    demand = facts(NVIDIA_REQUIRE_CUDA=REQUIRE_12_6, NVIDIA_DISABLE_REQUIRE=word)
    assert (image_fault("gpu", PADDLE, demand, host("550.54.14", "12.4")) == "") is waived


@pytest.mark.parametrize(
    ("demand", "driver", "cuda", "holds"),
    [
        *((f"cuda{sign}12.4", "", cuda, holds)
          for sign, below, same, above in (
            (">=", False, True, True), ("<=", True, True, False), ("=", False, True, False),
            ("!=", True, False, True), ("<", True, False, False), (">", False, False, True))
          for cuda, holds in (("12.3", below), ("12.4", same), ("12.5", above))),
        # As many parts are compared as the demand names.
        ("driver=535", "535.104.05", "", True), ("cuda=12", "", "12.6", True),
        ("driver<535.104.05", "535.104", "", True),
        # All of an alternative must hold, and one alternative is enough.
        ("cuda>=12,driver>=535", "530", "12.1", False),
        ("cuda>=13 driver>=535", "535", "12.1", True),
        # What is not known of a host is no fault.
        ("brand=tesla", "535", "12.1", True), ("cuda>=13", "535", "", True),
        ("brand=tesla,cuda>=13", "535", "12.1", False), ("cuda>=x", "535", "12.1", True),
        # So many alternatives are looked at.
        ("cuda>=13 " * 255 + "cuda>=12", "535", "12.1", True),
        ("cuda>=13 " * 256 + "cuda>=12", "535", "12.1", False),
    ],
)  # fmt: skip
def test_a_demand_is_read_as_the_toolkit_reads_it(
    demand: str, driver: str, cuda: str, holds: bool
) -> None:
    asked = facts(NVIDIA_REQUIRE_CUDA=demand)
    assert (image_fault("gpu", PADDLE, asked, host(driver, cuda)) == "") is holds


@pytest.mark.parametrize(
    ("wanted", "driver", "runtime", "able"),
    [
        ((12, 6), (), (12, 6), True), ((12, 6), (), (12, 7), True), ((12, 6), (), (12, 5), True),
        ((12, 6), (), (11, 8), False), ((12, 6), (), (13, 0), True),
        ((12, 6, 3), (), (12, 6), True),
        ((12, 6), (525, 60, 13), (12, 0), True), ((12, 6), (525, 60, 12), (12, 0), False),
        ((12, 6), (525, 60, 12), (), False), ((12, 6), (), (), True),
        ((99, 1), (1,), (), True), ((99, 1), (1,), (98, 9), False), ((99, 1), (1,), (99, 0), True),
    ],
)  # fmt: skip
def test_what_a_driver_runs(
    wanted: tuple[int, ...], driver: tuple[int, ...], runtime: tuple[int, ...], able: bool
) -> None:
    assert runs(wanted, driver, runtime) is able


@pytest.mark.parametrize(
    ("words", "numbers"),
    [("", ()), ("v1", ()), ("12", (12,)), ("12.6", (12, 6)), (" 525.60.13 ", (525, 60, 13)),
     ("1.2.3.4", (1, 2, 3, 4)), ("1.2.3.4.5", (1, 2, 3, 4)), ("12.", (12,)),
     ("3.3.1rc0", (3, 3, 1)), ("1234567", (123456,))],
)  # fmt: skip
def test_a_version_is_its_numbers(words: str, numbers: tuple[int, ...]) -> None:
    assert version(words) == numbers


@pytest.mark.parametrize(
    ("numbers", "words"),
    [((12, 6), "12.6"), ((99, 1), "99.1"), ((100, 1), "100.01"), ((450, 80, 2), "450.80.02")],
)
def test_a_driver_is_written_with_two_digits(numbers: tuple[int, ...], words: str) -> None:
    assert text(numbers) == words


@pytest.mark.parametrize(
    ("image", "words"),
    [(PADDLE, "3.3.1"), ("paddlepaddle/paddle:3.0.0-rc1", "3.0.0-rc1"),
     ("my-paddle:v2.6.2", "2.6.2"), ("paddlepaddle/paddle:latest", ""), ("paddle:3.3", ""),
     ("paddle:3.3.1.4", ""), ("lab/train:3.3.1", ""), ("paddle:3.3.1@sha256:0", "3.3.1")],
)  # fmt: skip
def test_the_version_of_paddle_in_a_tag(image: str, words: str) -> None:
    assert paddle_version(image) == words


BUILT = ImageFacts({}, paddle="3.3.1", paddle_cuda="12.6")


@pytest.mark.parametrize(
    ("image_facts", "host_facts", "fault"),
    [
        (BUILT, host("560.35.03", "12.6"), ""),
        (BUILT, host("470.82.01", "11.4"),
         "Paddle 3.3.1 in the image lab/train:7 is built for CUDA 12.6 (driver 525.60.13 or later);"
         " the host has driver 470.82.01, which offers CUDA 11.4."),
        (BUILT, host("470.82.01"),
         "Paddle 3.3.1 in the image lab/train:7 is built for CUDA 12.6 (driver 525.60.13 or later);"
         " the host has driver 470.82.01."),
        (BUILT, host("", "11.4"),
         "Paddle 3.3.1 in the image lab/train:7 is built for CUDA 12.6 (driver 525.60.13 or later);"
         " the host has driver of unknown version, which offers CUDA 11.4."),
        (replace(BUILT, paddle_cuda="none"), host("560.35.03", "12.6"),
         "Paddle 3.3.1 in the image lab/train:7 is built without CUDA."),
        (replace(BUILT, paddle_cuda="12"), host("470.82.01", "11.4"), ""),
        (replace(BUILT, paddle=""), host("470.82.01", "11.4"), ""),
    ],
)  # fmt: skip
def test_the_paddle_that_was_seen_in_an_image_must_run(
    image_facts: ImageFacts, host_facts: HostFacts, fault: str
) -> None:
    assert image_fault("gpu", "lab/train:7", image_facts, host_facts) == fault


@pytest.mark.parametrize(
    ("backend", "what"), [("gpu", "CUDA"), ("npu", "Ascend NPUs"), ("other", "it")]
)
def test_without_an_image_it_is_said_where_to_name_one(backend: str, what: str) -> None:
    assert image_fault(backend, "", None, host()) == (
        f"Neither the task nor the host names an image for {what}; set `image:`, or"
        f" `images: {{{backend}: NAME}}` in the lab's settings."
    )


@pytest.mark.parametrize(
    ("image", "image_facts", "host_facts", "note"),
    [
        (PADDLE, None, host("560.35.03", "12.6"), ""),
        (PADDLE, None, host("", "12.6"), ""),
        (PADDLE, None, host("535.104.05"), ""),
        (PADDLE, None, host(), "The host does not say which driver it has."),
        (PADDLE, None, host("535.104.05", "12.2"),
         "The image's CUDA 12.6 is newer than the 12.2 of the host's driver 535.104.05: it runs by"
         " minor version compatibility, without what only the newer driver has."),
        (PADDLE, None, host("470.82.01", "11.4"),
         "The image's CUDA 12.6 runs under driver 470.82.01 by its compatibility libraries, on"
         " data-centre cards alone."),
        ("lab/train:7", None, host("560", "12.6"),
         "The devices that lab/train:7 is made for are unknown before it is there."),
        ("lab/train:7", facts(), host("560", "12.6"),
         "The devices that lab/train:7 is made for are unknown."),
        ("lab/train:gpu", None, host("560", "12.6"),
         "The CUDA version that lab/train:gpu needs is unknown."),
        (PADDLE, replace(BUILT, paddle_cuda="11.8"), host("560.35.03", "12.6"),
         "Paddle in the image is built for CUDA 11.8, beside a toolkit of CUDA 12.6: custom"
         " operators that are compiled there may not load."),
        (PADDLE, replace(BUILT, paddle_cuda="12.9"), host("580.1", "13.0"), ""),
    ],
)  # fmt: skip
def test_what_is_uncertain_about_an_image(
    image: str, image_facts: ImageFacts | None, host_facts: HostFacts, note: str
) -> None:
    assert image_note("gpu", image, image_facts, host_facts) == note


@pytest.mark.parametrize(
    "text", ["", "nonsense", "cuda>=x", ",,,", "cuda>=" + "9" * 500, "a " * 999]
)
def test_a_hostile_demand_does_no_harm(text: str) -> None:
    known = facts(NVIDIA_REQUIRE_CUDA=text)
    assert isinstance(image_fault("gpu", PADDLE, known, host("560.35.03", "12.6")), str)
    assert isinstance(image_note("gpu", PADDLE, known, host(text, text)), str)
