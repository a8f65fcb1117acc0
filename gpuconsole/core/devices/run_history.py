"""Past runs and device observations: the history from which estimates are corrected.

Sizes are MiB, times seconds since the epoch; `None` means unknown.
"""

from __future__ import annotations

from typing import Literal

from gpuconsole.core.fleet import Backend
from gpuconsole.core.util.lazy_dataclass import dataclass

Ending = Literal["ok", "oom"]


@dataclass(frozen=True, slots=True)
class Observation:
    """One attempt that got as far as its peak, or ran out of device memory on the way."""

    job: str
    attempt: int
    at: float
    """When it ended."""
    outcome: Ending
    digest: str
    """Of the script and the files it is made of; see `preflight.accuracy.script_digest`."""
    script: str
    args: tuple[str, ...] = ()
    batch: int | None = None
    devices: int = 1
    """How many devices the attempt had; sizes are those of the device that held the most."""
    backend: Backend = "gpu"
    """On which Paddle computed, as it says itself; else what the task asked for."""
    device: str = ""
    """Model of the device."""
    host: str = ""
    tier: str = ""
    """Of the estimate made before the run."""
    predicted_tensors_mib: float | None = None
    predicted_reserved_mib: float | None = None
    predicted_total_mib: float | None = None
    oom_probability: float | None = None
    """As predicted before the run, for the memory that was free there."""
    allocated_mib: float | None = None
    """Peak of what Paddle's tensors held."""
    reserved_mib: float | None = None
    """Peak of what Paddle's allocator took from the device."""
    nvml_mib: float | None = None
    """Peak of what the driver says the processes held, context included."""
    requested_mib: float | None = None
    """After `oom`: the allocation that failed."""
    free_mib: float | None = None
    """What others left of the device's memory."""
    step_s: float | None = None
    """Median time of one training step."""
    steps: int = 0
    paddle: str = ""
    image: str = ""
    utilization: float | None = None
    """Mean percent of time in which its devices had a kernel of it running; None where others
    worked there too."""
    user: str = ""
    """The user who ran it; "" in a history from before users were recorded."""

    @property
    def peak_mib(self) -> float | None:
        """What Paddle's allocator took, the figure that estimates call reserved."""
        if self.backend == "cpu":
            # The CPU allocator keeps nothing back: taken is what tensors hold.
            return self.allocated_mib
        return self.reserved_mib if self.reserved_mib is not None else self.allocated_mib

    @property
    def more_than_mib(self) -> float | None:
        """After `oom`: the whole need is above this."""
        seen = (self.allocated_mib or 0.0) + (self.requested_mib or 0.0)
        return max(self.free_mib or 0.0, self.nvml_mib or 0.0, seen) or None


@dataclass(frozen=True, slots=True)
class HostCalibration:
    """What one process costs on one card before it holds a tensor, as measured there."""

    host: str
    device: str
    """Model of the card."""
    at: float
    method: str
    """How the context was measured, as a sentence for a person."""
    uuid: str = ""
    driver: str = ""
    image: str = ""
    paddle: str = ""
    context_mib: float | None = None
    """After a convolution with its backward pass: what a training process holds at least."""
    first_mib: float | None = None
    """After one tiny tensor."""
    matmul_mib: float | None = None
    """After one matrix product."""
    granularity_mib: float | None = None
    """By how much the process grows for each small chunk that the allocator takes."""
    workspace_mib: float | None = None
    """What one convolution with its backward pass took beside its tensors."""
