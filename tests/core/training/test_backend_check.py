"""Where a job computes against where it was meant to."""

from __future__ import annotations

from gpuconsole.core.training.backend_check import fallback, suits


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
