"""What Paddle's own check prints, and where a job computes against where it was meant to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconsole.core.training.backend_check import RunCheck, fallback, parse, suits

PASSED = (
    "PaddlePaddle is installed successfully! Let's start deep learning with PaddlePaddle now.\n"
)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("PaddlePaddle works well on 1 GPU.\n", RunCheck(True, "gpu", 1)),
        ("PaddlePaddle works well on 1 GPU.\nPaddlePaddle works well on 8 GPUs.\n",
         RunCheck(True, "gpu", 8)),
        ("PaddlePaddle works well on 1 CPU.\n", RunCheck(True, "cpu", 1)),
        ("PaddlePaddle works well on 1 npu.\nPaddlePaddle works well on 2 npus.\n",
         RunCheck(True, "npu", 2)),
        ("PaddlePaddle works well on 1 XPU.\n", RunCheck(True, "xpu", 1)),
        ("PaddlePaddle works well on 1 iluvatar_gpu.\n", RunCheck(True, "iluvatar_gpu", 1)),
    ],
)  # fmt: skip
def test_the_word_of_the_device_is_read(lines: str, found: RunCheck) -> None:
    assert parse(f"Running verify PaddlePaddle program ...\n{lines}{PASSED}") == found


def test_several_devices_that_fail_are_told_from_one_that_works() -> None:
    text = (
        "PaddlePaddle works well on 1 GPU.\nPaddlePaddle meets some problem with 4 GPUs.\n"
        "PaddlePaddle is installed successfully ONLY for single GPU!\n"
    )
    assert parse(text) == RunCheck(True, "gpu", 1, single=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", RunCheck(False, "", 0)),
        (PASSED, RunCheck(True, "", 0)),
        ("PaddlePaddle works well on 2 GPUs.\n", RunCheck(False, "gpu", 2)),
        ("It works ONLY for single XPU!", RunCheck(False, "xpu", 1, single=True)),
        ("PaddlePaddle works well on 4 GPUs.\nONLY for single GPU!",
         RunCheck(False, "gpu", 1, single=True)),
    ],
)  # fmt: skip
def test_what_the_check_does_not_say_is_not_taken_for_granted(
    text: str, expected: RunCheck
) -> None:
    assert parse(text) == expected


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    found = parse(text)
    assert found.count >= 0


def test_words_of_paddle_and_of_a_task() -> None:
    assert suits("gpu", "gpu:0")
    assert suits("xpu", "XPU")
    assert suits("dcu", "gpu:3")
    assert not suits("npu", "gpu:0")


def test_why_a_job_computes_on_the_processor() -> None:
    assert fallback("gpu", "gpu:0") == fallback("cpu", "cpu") == ""
    begin = "Paddle computed on the processor though the job has a device for"
    for backend, built, visible, why in (
        ("gpu", "cpu", 0, "the image's Paddle is built for processors alone."),
        ("npu", "gpu", 0, "the image's Paddle is built for CUDA."),
        ("gpu", "npu", 2, "the image's Paddle is built for npu."),
        ("gpu", "gpu", 0, "it sees no device in its container."),
        ("gpu", "", 0, "it sees no device in its container."),
        ("dcu", "dcu", 0, "it sees no device in its container."),
        ("dcu", "gpu", 0, "it sees no device in its container."),
        ("gpu", "gpu", 1, "the script chose it."),
        ("gpu", "gpu", None, "the script chose it."),
    ):
        for device in ("cpu", "cpu:0"):
            assert fallback(backend, device, built, visible) == f"{begin} {backend}: {why}"
