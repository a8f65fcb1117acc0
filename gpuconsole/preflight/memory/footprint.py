"""What one batch size takes, as the memory of a device: with context, workspace and range."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gpuconsole.core.estimate import Memory, Tier
from gpuconsole.core.fleet import Backend
from gpuconsole.core.units import MIB
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.memory.backends import terms

MARGINS: Mapping[Tier, float] = MappingProxyType(
    {
        "static": 0.25,
        "formula": 0.50,
        "device": 0.10,
        "meta": 0.10,
        "traced": 0.10,
    }
)
"""Half-width of the range of each tier, as a share of what the allocator reserves."""
WORKSPACE_CAP_MIB = terms("gpu").conv_workspace_cap_mib


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of one batch size on one back end, without margins, bytes and context aside."""

    parts_mib: Mapping[str, float]
    tensors_mib: float
    reserved_mib: float


def workspace_mib(widest_conv: float) -> float:
    """Return the allowance for convolution workspaces, MiB.

    cuDNN chooses by card and version; until a host is calibrated we allow the largest
    convolution's input once more, within Paddle's cap.
    """
    return min(widest_conv / MIB, WORKSPACE_CAP_MIB)


def as_memory(
    footprint: Footprint, backend: Backend, tier: Tier, context_mib: float | None
) -> Memory:
    """Return a footprint with context and range."""
    calibrated = context_mib is not None
    own = terms(backend)
    context = context_mib if context_mib is not None else own.context_mib
    spread = 0.0 if calibrated else own.context_spread_mib
    margin = MARGINS[tier] * footprint.reserved_mib
    total = context + footprint.reserved_mib
    parts = footprint.parts_mib
    return Memory(
        parameters_mib=parts["parameters"],
        gradients_mib=parts["gradients"],
        optimizer_mib=parts["optimizer"],
        activations_mib=parts["activations"],
        inputs_mib=parts["inputs"],
        workspace_mib=parts["workspace"],
        tensors_peak_mib=footprint.tensors_mib,
        reserved_mib=footprint.reserved_mib,
        context_mib=context,
        total_mib=total,
        low_mib=max(0.0, total - margin - spread),
        high_mib=total + margin + spread,
        context_spread_mib=spread,
    )
