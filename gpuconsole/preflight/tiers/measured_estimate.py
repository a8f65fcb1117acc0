"""The estimate of a measured script: its memory, with what reading the script tells beside it."""

from __future__ import annotations

from dataclasses import replace

from gpuconsole.core.estimate import (
    BatchSource,
    Estimate,
    MeasuredTier,
    Memory,
    ScriptFault,
    Unknown,
)
from gpuconsole.core.fleet import Backend
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.memory.variant import AS_WRITTEN, Variant
from gpuconsole.preflight.tiers.static import Analysis


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a measured script."""

    script: str
    given: int | None
    """The batch size that is asked about; None for the script's own."""
    own: int | None
    """The script's own batch size."""
    backend: Backend
    variant: Variant = AS_WRITTEN

    @property
    def batch(self) -> int | None:
        """The batch size that is answered for."""
        return self.own if self.given is None else self.given


def measured_estimate(
    asked: Question,
    tier: MeasuredTier,
    memory: Memory | None,
    reason: str,
    *,
    notes: tuple[str, ...],
    flags: tuple[str, ...] = (),
    analysis: Analysis | None = None,
) -> Estimate:
    """Return the estimate of a tier; with no memory it is unknown for a reason.

    Where the batch size is written, arithmetic and further flags are those that `analysis` found.
    """
    source = None if asked.given is None else BatchSource(asked.script, 0, "given")
    plain = Estimate(
        script=asked.script,
        batch_size=asked.batch,
        batch_source=source,
        backend=asked.backend,
        tier=tier if memory is not None else "unknown",
        coverage=1.0,
        memory=memory,
        unknowns=() if memory is not None else (Unknown(asked.script, 0, reason),),
        flags=flags,
        notes=notes,
    )
    if analysis is None:
        return plain
    read = analysis.estimate(asked.given, backend=asked.backend, variant=asked.variant)
    return replace(
        plain,
        batch_source=read.batch_source if read.batch_size == asked.batch else source,
        flops_per_step=read.flops_per_step,
        bytes_per_step=read.bytes_per_step,
        kernels_per_step=read.kernels_per_step,
        # A bound of what was read is none of what was measured.
        flags=tuple(sorted({*flags, *(set(read.flags) - {"bound"})})),
        notes=(*notes, *map(_not_shown, read.errors)) if memory is not None else notes,
    )


def _not_shown(fault: ScriptFault) -> str:
    """Say that reading was wrong about a fault."""
    return (
        f"Reading finds a fault at {fault.file}:{fault.line} ({fault.message}), which running the "
        "script did not show: the measurement counts."
    )
