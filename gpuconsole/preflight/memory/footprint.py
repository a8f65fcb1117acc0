"""What one batch size takes, as the memory of a device: with context, workspace and range."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
LOADED_PROGRAM = "loaded-program"
"""Flag of scripts that run a network which was saved as a program by `paddle.jit.save`."""
FREED_LATE: Mapping[str, float] = MappingProxyType({"static-graph": 0.06, LOADED_PROGRAM: 0.30})
"""By flag: what a program on the CPU may need beyond its estimate, as a share, for its executor's
threads free late by chance. Of 51 runs of nine programs 44 stayed within 6 %; those of small
batches with large weights did not always. A network that was saved is one program from its inputs
to its outputs, all of which the threads share: 9 to 30 % more were seen."""
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


def freed_late(flags: Collection[str], backend: Backend) -> float:
    """Return the share by which a script may need more than its estimate because threads of a
    program free late; 0 where it has none, and on a device, where operators run in order."""
    if backend != "cpu":
        return 0.0
    return max((share for flag, share in FREED_LATE.items() if flag in flags), default=0.0)


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
