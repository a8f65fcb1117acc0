"""The answer for a script that was both read and run on tensors without data.

Where the two differ, one of them is wrong, and nothing says which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpuconsole.core.estimate import TIERS_DIFFER, Estimate
from gpuconsole.core.fleet import Backend
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.preflight.memory.variant import AS_WRITTEN, Variant
from gpuconsole.preflight.verdicts import Estimator

AGREE = 0.05
"""Share of the memory by which two tiers may differ and still say the same. What the larger of both
is worth where they differ by more, `python -m benchmarks.wild --goals` prints."""
FLOOR_MIB = 1.0
"""A difference that no device notices."""


@dataclass(frozen=True, slots=True)
class TwoTiers:
    """An estimator that answers by what was run; where reading says something else, by the larger
    of both, with a range that holds both."""

    ran: Estimator
    read: Estimator
    batch: int | None = None
    """The requested one: where the two agree at it, the script is not followed at others."""

    def estimate(
        self,
        batch_size: int | None = None,
        *,
        backend: Backend = "gpu",
        context_mib: float | None = None,
        variant: Variant = AS_WRITTEN,
    ) -> Estimate:
        """Estimate at a batch size."""
        ran, read = (
            tier.estimate(batch_size, backend=backend, context_mib=context_mib, variant=variant)
            for tier in (self.ran, self.read)
        )
        if not _can_be_compared(ran, read):
            return ran
        assert ran.memory is not None
        assert read.memory is not None
        if are_close(ran.memory.reserved_mib, read.memory.reserved_mib):
            return ran
        larger = max(ran.memory, read.memory, key=lambda memory: memory.reserved_mib)
        memory = replace(
            larger,
            low_mib=min(ran.memory.low_mib, read.memory.low_mib),
            high_mib=max(ran.memory.high_mib, read.memory.high_mib),
        )
        note = msg(
            "Reading the script gives {read} MiB, running it {ran} MiB: one of the two is wrong, "
            "so the larger counts and the range holds both.",
            read=f"{read.memory.reserved_mib:,.1f}",
            ran=f"{ran.memory.reserved_mib:,.1f}",
        )
        flags = tuple(sorted({*ran.flags, TIERS_DIFFER}))
        return replace(ran, memory=memory, flags=flags, notes=(note, *ran.notes))

    def reserved_at(self, backend: Backend) -> Callable[[int], float | None]:
        """Return reserved MiB as a non-decreasing function of the batch size."""
        by_run = self.ran.reserved_at(backend)
        if TIERS_DIFFER not in self.estimate(self.batch, backend=backend).flags:
            return by_run
        by_reading = self.read.reserved_at(backend)

        def reserved(batch: int) -> float | None:
            ran, read = by_run(batch), by_reading(batch)
            return ran if ran is None or read is None else max(ran, read)

        return reserved


def are_close(first: float, second: float) -> bool:
    """Tell whether two tiers say the same of a script's memory, in MiB."""
    least, most = sorted((first, second))
    return most - least <= max(FLOOR_MIB, AGREE * least)


def _can_be_compared(ran: Estimate, read: Estimate) -> bool:
    """Tell whether both answer the same question, and none by a bound."""
    if ran.memory is None or read.memory is None or read.errors:
        return False
    if "bound" in ran.flags or "bound" in read.flags:
        return False
    return read.tier == "static" and ran.batch_size == read.batch_size
