"""How long one training step takes on a device, before it has ever run there: a roofline.

A step is bound by arithmetic or by memory traffic, whichever takes longer at the share of the
nominal rates that training kernels reach. A cold figure is right within a factor of two at best,
so it is given as a range; an observed step time replaces it.
"""

from __future__ import annotations

from gpuconsole.core.catalogue import Catalogue, Spec
from gpuconsole.core.estimate import Estimate

FP32_SHARE = 0.35
HALF_SHARE = 0.45
BANDWIDTH_SHARE = 0.70
"""Shares of the nominal rates that are assumed until a step was observed (not measured here)."""
COLD_FACTOR = 2.0
"""Half-width of the cold range, as a factor."""
MIXED_PRECISION = "mixed-precision"
"""Flag of an estimate whose matrix products run in half precision."""


def step_range(
    estimate: Estimate, device: str, memory_mib: float | None = None
) -> tuple[float, float] | None:
    """Return the range of one step's time on a device in seconds; None where nothing is known."""
    spec = Catalogue.load().lookup(device, memory_mib, estimate.backend)
    seconds = None if spec is None else roofline(estimate, spec)
    return None if seconds is None else (seconds / COLD_FACTOR, seconds * COLD_FACTOR)


def roofline(estimate: Estimate, spec: Spec) -> float | None:
    """Return the time of one step in seconds at the assumed shares of a device's nominal rates."""
    half = MIXED_PRECISION in estimate.flags and spec.fp16_tflops is not None
    tflops = spec.fp16_tflops if half else spec.fp32_tflops
    bounds = []
    if estimate.flops_per_step and tflops:
        share = HALF_SHARE if half else FP32_SHARE
        bounds.append(estimate.flops_per_step / (tflops * 1e12 * share))
    if estimate.bytes_per_step and spec.bandwidth_gb_s:
        bounds.append(estimate.bytes_per_step / (spec.bandwidth_gb_s * 1e9 * BANDWIDTH_SHARE))
    return max(bounds, default=None)
