"""Where Paddle computes, held against where a job was meant to: a build for devices that sees none
only warns, and works on the processor for hours."""

from __future__ import annotations

BUILDS = {
    "gpu": "CUDA",
    "dcu": "ROCm",
    "xpu": "Kunlunxin's XPU",
    "cpu": "processors alone",
}
"""How the builds of Paddle are called, by the word that the reporter has for them."""


def suits(backend: str, word: str) -> bool:
    """Tell whether Paddle's word for a device means a job's kind of device: `gpu:0`, `XPU`.

    Paddle on ROCm calls its devices GPUs.
    """
    kind = word.partition(":")[0].strip().lower()
    return kind == backend or (backend == "dcu" and kind == "gpu")


def fallback(backend: str, device: str, built: str = "", visible: int | None = None) -> str:
    """Return why a job for a kind of device computes on the processor, as a sentence; "" where it
    does not.

    `device` is Paddle's own word for where it computes, `built` the kind of device that its build
    is for, `visible` how many of those it sees; each "" or None where that is not known.
    """
    if backend == "cpu" or device.partition(":")[0] != "cpu":
        return ""
    begin = f"Paddle computed on the processor though the job has a device for {backend}: "
    if built and built != backend and not suits(backend, built):
        return f"{begin}the image's Paddle is built for {BUILDS.get(built, built)}."
    if visible == 0:
        return f"{begin}it sees no device in its container."
    return f"{begin}the script chose it."
