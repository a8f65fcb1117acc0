"""Estimates from peaks that a device's own allocator counted, at a few small batch sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpuconsole.core.estimate import Estimate, MeasuredTier, Memory
from gpuconsole.core.fleet import Backend
from gpuconsole.core.text import clean
from gpuconsole.core.units import MIB
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError
from gpuconsole.preflight.batch_sizes import require_batch_size
from gpuconsole.preflight.memory.footprint import Footprint, as_memory
from gpuconsole.preflight.memory.variant import AS_WRITTEN, Variant
from gpuconsole.preflight.tiers.measured_estimate import Question, measured_estimate
from gpuconsole.preflight.tiers.probe_request import BATCHES
from gpuconsole.preflight.tiers.probe_trace import MOST_BYTES
from gpuconsole.preflight.tiers.static import Analysis

BEND = 1.25
"""A slope that grows by more from one pair of batches to the next is no line's."""
UNCONFIRMED = (
    "No real card has confirmed this tier yet: its road was tested with a stand-in for the driver "
    "and Paddle on the processor."
)


@dataclass(frozen=True, slots=True)
class Peak:
    """What was counted at one batch size, MiB."""

    batch: int
    allocated_mib: float
    reserved_mib: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line that no peak lies above, MiB over the batch size."""

    start: float
    slope: float

    def at(self, batch: int) -> float:
        """Return its value."""
        return self.start + self.slope * batch


@dataclass(frozen=True, slots=True)
class OnDevice:
    """A script measured on a device. An `Estimator` of advice."""

    script: str
    backend: Backend
    peaks: tuple[Peak, ...]
    card: str = ""
    driver: str = ""
    paddle: str = ""
    own_batch: int | None = None
    analysis: Analysis | None = None
    """What the static tier found: where the batch size is written, arithmetic."""

    @property
    def tier(self) -> MeasuredTier:
        """Return the tier."""
        return "device"

    @property
    def refusal(self) -> str:
        """Why the peaks do not tell the memory; "" when they do."""
        if self._bends([peak.allocated_mib for peak in self.peaks]):
            return "its peak grows faster than the batch size: other sizes cannot be predicted"
        return ""

    def follows(self, backend: str) -> bool:
        """Tell whether it was measured on a device of this kind."""
        return self.backend == backend

    def estimate(
        self,
        batch_size: int | None = None,
        *,
        backend: Backend = "gpu",
        context_mib: float | None = None,
        variant: Variant = AS_WRITTEN,
    ) -> Estimate:
        """Estimate at a batch size (the script's own when None); UsageError below one."""
        require_batch_size(batch_size)
        asked = Question(self.script, batch_size, self.own_batch, backend)
        memory, reason = self._memory(asked.batch, backend, context_mib, variant)
        return measured_estimate(
            asked, self.tier, memory, reason, notes=self._notes(), analysis=self.analysis
        )

    def reserved_at(self, backend: Backend) -> Callable[[int], float | None]:
        """Return reserved MiB as a non-decreasing function of the batch size."""
        if self.refusal or backend != self.backend:
            return lambda batch: None
        return self._line([peak.reserved_mib for peak in self.peaks]).at

    def _memory(
        self, batch: int | None, backend: Backend, context_mib: float | None, variant: Variant
    ) -> tuple[Memory | None, str]:
        if self.refusal:
            return None, self.refusal
        if backend != self.backend:
            return None, f"it was measured on a device of the kind {self.backend}"
        if batch is None:
            return None, "the script's own batch size is not known: name one"
        if variant != AS_WRITTEN:
            return None, "a measurement alone does not show what this change would save"
        line = self._line([peak.allocated_mib for peak in self.peaks])
        tensors = line.at(batch)
        reserved = self._line([peak.reserved_mib for peak in self.peaks]).at(batch)
        constant = max(0.0, line.start)
        parts = dict.fromkeys(("gradients", "optimizer", "inputs", "workspace"), 0.0)
        parts |= {"parameters": constant, "activations": tensors - constant}
        footprint = Footprint(parts, tensors, max(reserved, tensors))
        return as_memory(footprint, backend, "device", context_mib), ""

    def _line(self, sizes: Sequence[float]) -> Line:
        """Return the line of the steepest pair that no size lies above."""
        slope = max(0.0, *self._slopes(sizes))
        pairs = zip(self.peaks, sizes, strict=True)
        return Line(max(size - slope * peak.batch for peak, size in pairs), slope)

    def _slopes(self, sizes: Sequence[float]) -> list[float]:
        batches = [peak.batch for peak in self.peaks]
        return [
            (sizes[at + 1] - sizes[at]) / (batches[at + 1] - batches[at])
            for at in range(len(sizes) - 1)
        ]

    def _bends(self, sizes: Sequence[float]) -> bool:
        """Tell whether sizes grow ever faster; below a MiB it is the allocator's grain."""
        slopes = self._slopes(sizes)
        step = self.peaks[-1].batch - self.peaks[-2].batch
        extra = (slopes[-1] - BEND * max(0.0, slopes[0])) * step
        return extra > 1.0

    def _notes(self) -> tuple[str, ...]:
        peaks = ", ".join(
            f"{peak.allocated_mib:.1f} of {peak.reserved_mib:.1f} MiB at batch {peak.batch}"
            for peak in self.peaks
        )
        return (
            f"Method: measured on {self.card or 'a device'} (driver {self.driver or 'unknown'}, "
            f"Paddle {self.paddle}); tensors took {peaks}, of what the allocator had reserved.",
            "What does not grow with the batch size (parameters, gradients, optimizer states) is "
            "shown as parameters: a device tells sums alone.",
            UNCONFIRMED,
        )


def load(
    document: Mapping[str, Any], *, script: str = "", analysis: Analysis | None = None
) -> OnDevice:
    """Read the probe's document; UsageError when it is not one."""
    try:
        peaks = tuple(
            sorted((_peak(run) for run in document["runs"]), key=lambda entry: entry.batch)
        )
        if len({peak.batch for peak in peaks}) < len(BATCHES["device"]):
            raise ValueError("too few batch sizes")
        backend = document["backend"]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UsageError(
            "Cannot read the measurement",
            msg(
                "What the probe wrote is not a measurement: {value}.", value=clean(str(error), 200)
            ),
            "Measure again.",
        ) from None
    own = None if analysis is None else analysis.outcome(None, analysis.backend).batch
    return OnDevice(
        script=script or str(document.get("script", "")),
        backend=backend,
        peaks=peaks,
        card=clean(str(document.get("card", "")), 80),
        driver=clean(str(document.get("driver", "")), 40),
        paddle=clean(str(document.get("paddle", "")), 40),
        own_batch=own if isinstance(own, int) and own > 0 else None,
        analysis=analysis,
    )


def _peak(run: Mapping[str, object]) -> Peak:
    batch = run["batch"]
    if not isinstance(batch, int) or isinstance(batch, bool) or not 0 < batch <= 65_536:
        raise ValueError("a batch size that is none")
    return Peak(batch, _mib(run["allocated"]), _mib(run["reserved"]))


def _mib(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("a size that is none")
    # NaN fails every comparison, and so does a number too large to be a float.
    if not 0 < value <= MOST_BYTES:
        raise ValueError("a size out of bounds")
    return value / MIB
