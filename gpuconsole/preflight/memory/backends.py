"""What differs between back ends, in one table; every other rule is common to all.

`proven` says whether a row was compared with runs on that kind of device. The CPU row was, byte
by byte, with Paddle 3.3.1. The rows of the accelerators state what Paddle's sources and published
reports say, and are replaced by what a host measures of itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from gpuconsole.core.fleet import Backend
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg


@dataclass(frozen=True, slots=True)
class Terms:
    """One back end's own terms. Sizes are MiB."""

    context_mib: float
    """What a process holds outside Paddle's allocator: context, libraries, handles."""
    context_spread_mib: float
    """How far reports of the context lie around it, until the host is calibrated."""
    waiting_batches: int
    """Batches that the loader's reader keeps ready beside the current one."""
    conv_workspace_cap_mib: float
    """Largest workspace a convolution may take from the allocator."""
    mixed_precision: bool
    """Whether `paddle.amp` does anything: on the CPU it silently does not."""
    proven: bool
    alignment_bytes: int = 256
    """To what the allocator rounds each size up."""
    padding_bytes: int = 0
    """What it adds before that."""


_GPU = Terms(
    # Reports for one Paddle process range from 313 to 840 MiB by card, driver and version; the
    # workspaces of cuBLAS (1 to 4 MiB a call, up to 32 MiB a handle) are within that range.
    context_mib=600.0,
    context_spread_mib=300.0,
    # `use_buffer_reader` with its default buffer copies up to two batches ahead.
    waiting_batches=2,
    # FLAGS_conv_workspace_size_limit of Paddle 3.3.1.
    conv_workspace_cap_mib=512.0,
    mixed_precision=True,
    proven=False,
)
# No report of their context is known: CUDA's figure is used, with a range down to 0.
_OTHER = replace(_GPU, context_spread_mib=600.0)
TERMS: Mapping[Backend, Terms] = MappingProxyType({
    "cpu": Terms(
        context_mib=0.0,
        context_spread_mib=0.0,
        # Measured without workers: six batches are alive, the current one and five waiting.
        waiting_batches=5,
        # The CPU's own buffers (im2col, broadcast reductions, rnn) are written in the trace.
        conv_workspace_cap_mib=0.0,
        mixed_precision=False,
        proven=True,
    ),
    "gpu": _GPU,
    # Built from the CUDA sources, with ROCm's libraries.
    "dcu": _GPU,
    # The same allocator with each maker's own rounding: XPUMinChunkSize of Paddle, and
    # DeviceMinChunkSize and ExtraPaddingSize of the plugins (PaddleCustomDevice, backends/*).
    "npu": replace(_OTHER, alignment_bytes=512, padding_bytes=32),
    "mlu": replace(_OTHER, alignment_bytes=512, padding_bytes=32),
    "gcu": replace(_OTHER, padding_bytes=32),
    "xpu": replace(_OTHER, alignment_bytes=64),
    # These two compile Paddle's CUDA allocator against libraries of their own.
    "iluvatar_gpu": _OTHER,
    "metax_gpu": _OTHER,
    "musa": replace(_OTHER, alignment_bytes=512),
})  # fmt: skip
WORDS: Mapping[Backend, str] = MappingProxyType({
    "gpu": "CUDA", "npu": "Ascend", "xpu": "Kunlunxin", "dcu": "ROCm", "mlu": "Cambricon",
    "gcu": "Enflame", "iluvatar_gpu": "Iluvatar", "metax_gpu": "MetaX", "musa": "Moore Threads",
    "cpu": "CPU",
})  # fmt: skip
"""What people call a back end."""


MEASURED = ("gpu", "dcu")
"""Where the script that calibrates a host can ask Paddle what it took."""


def terms(backend: Backend) -> Terms:
    """Return the terms of a back end; one that has no row of its own takes the GPU's."""
    return TERMS.get(backend, _GPU)


def unproven(backend: Backend) -> str:
    """Return which terms of a back end were never held against a run, as a sentence; "" if none.

    CUDA's are named where they are used: the context until a host is calibrated.
    """
    if backend in ("cpu", "gpu"):
        return ""
    own = terms(backend)
    rounding = msg("{n} bytes", n=own.alignment_bytes)
    if own.padding_bytes:
        rounding = msg("{n} bytes after {low} more", n=own.alignment_bytes, low=own.padding_bytes)
    return msg(
        "Unproven on {device} ({backend}): the context is CUDA's, the allocator rounds to"
        " {bytes_text} as its sources say, and no run on such a device was compared yet.",
        device=WORDS[backend], backend=backend, bytes_text=rounding,
    )  # fmt: skip
