"""Where Paddle computes, held against where a job was meant to: a build for devices that sees none
only warns, and works on the processor for hours.

`parse` reads what `paddle.utils.run_check()` prints. It too passes on the processor; only the word
for the device in its sentence tells.
"""

from __future__ import annotations

import re

from gpuconsole.core.util.lazy_dataclass import dataclass

_WORKS = re.compile(r"PaddlePaddle works well on (\d{1,5}) ([A-Za-z][\w ]{0,30}?)s?\.\s*$", re.M)
_SINGLE = re.compile(r"ONLY for single ([A-Za-z]\w{0,30})", re.I)
_PASSED = re.compile(r"installed successfully", re.I)

BUILDS = {
    "gpu": "CUDA",
    "dcu": "ROCm",
    "xpu": "Kunlunxin's XPU",
    "cpu": "processors alone",
}
"""How the builds of Paddle are called, by the word that the reporter has for them."""


@dataclass(frozen=True, slots=True)
class RunCheck:
    """What `run_check` found."""

    works: bool
    """Whether it came to its end."""
    word: str
    """The device it worked on, in small letters: `gpu`, `xpu`, `npu`, `cpu`, …; "" if none."""
    count: int
    """On how many at once."""
    single: bool = False
    """Whether only one device works, and several do not."""


def parse(text: str) -> RunCheck:
    """Return what the output of `paddle.utils.run_check()` says; nothing found is nothing works."""
    seen = [(int(match[1]), match[2].strip().lower()) for match in _WORKS.finditer(text)]
    count, word = max(seen, default=(0, ""))
    single = _SINGLE.search(text)
    if single is not None:
        count, word = min(count, 1) or 1, word or single[1].lower()
    return RunCheck(bool(_PASSED.search(text)), word, count, single is not None)


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
