"""How long one training step takes on a device, before it has ever run there: a roofline.

A step is bound by arithmetic or by memory traffic, at the share of the nominal rates that training
kernels reach, or by launching its kernels, whichever takes longest. A cold figure is right within a
factor of two at best, so it is given as a range; an observed step time replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuconsole.core.device_catalogue import Catalogue, Spec
from gpuconsole.core.estimate import Estimate
from gpuconsole.core.util.lazy_dataclass import dataclass

FP32_SHARE = 0.35
HALF_SHARE = 0.45
BANDWIDTH_SHARE = 0.70
"""Shares of the nominal rates that are assumed until a step was observed (not measured here)."""
LAUNCH_S = 6e-6
"""Time between two kernels of a step: the usual cost of a CUDA launch (assumed, not measured)."""
COLD_FACTOR = 2.0
"""Half-width of the cold range, as a factor."""
MIXED_PRECISION = "mixed-precision"
"""Flag of an estimate with matrix products in half precision."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one training step does: floating point operations, bytes moved, whether matrix products
    run in half precision, and kernels launched."""

    flops: float
    bytes: float = 0.0
    half: bool = False
    kernels: int = 0


def work_of(estimate: Estimate) -> Work:
    """Return the work of an estimate's step."""
    half = MIXED_PRECISION in estimate.flags
    return Work(estimate.flops_per_step, estimate.bytes_per_step, half, estimate.kernels_per_step)


def recorded_work(document: Mapping[str, object] | None) -> Work | None:
    """Return the work of a step from an estimate's JSON document; None where it says nothing."""
    if not document:
        return None
    flops, size = document.get("flops_per_step"), document.get("bytes_per_step")
    if not isinstance(flops, (int, float)) or not isinstance(size, (int, float)):
        return None
    kernels = document.get("kernels_per_step")
    flags = document.get("flags")
    half = isinstance(flags, (list, tuple)) and MIXED_PRECISION in flags
    return Work(flops, size, half, kernels if isinstance(kernels, int) else 0)


def step_range(
    estimate: Estimate, device: str, memory_mib: float | None = None
) -> tuple[float, float] | None:
    """Return the range of one step's time on a device in seconds; None where nothing is known."""
    spec = Catalogue.load().lookup(device, memory_mib, estimate.backend)
    seconds = None if spec is None else roofline(work_of(estimate), spec)
    return None if seconds is None else (seconds / COLD_FACTOR, seconds * COLD_FACTOR)


def roofline(work: Work, spec: Spec) -> float | None:
    """Return the time of one step in seconds at the assumed shares of a device's nominal rates;
    None where it has none that say anything."""
    half = work.half and spec.fp16_tflops is not None
    tflops = spec.fp16_tflops if half else spec.fp32_tflops
    bounds = []
    if work.flops and tflops:
        share = HALF_SHARE if half else FP32_SHARE
        bounds.append(work.flops / (tflops * 1e12 * share))
    if work.bytes and spec.bandwidth_gb_s:
        bounds.append(work.bytes / (spec.bandwidth_gb_s * 1e9 * BANDWIDTH_SHARE))
    return max(*bounds, work.kernels * LAUNCH_S) if bounds else None
