"""Whether this machine has the driver of any card, without reading any document."""

from __future__ import annotations

import ctypes
import shutil


def has_driver() -> bool:
    """Return True if this machine has NVIDIA's library, or a tool of any vendor."""
    if shutil.which("nvidia-smi"):
        return True
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        from gpuconsole.remote.vendors import readers

        return any(shutil.which(tool) for vendor in readers().vendors for tool in vendor.tools)
    return True
