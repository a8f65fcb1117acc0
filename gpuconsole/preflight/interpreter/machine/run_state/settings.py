"""What one run of a script is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from gpuconsole.core.fleet import Backend
from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.memory.variant import AS_WRITTEN, Variant


@dataclass(frozen=True, slots=True)
class Setting:
    """What one run is asked: the back end, the batch size, and answers to open questions."""

    backend: Backend = "gpu"
    batch: int | None = None
    batch_key: str = ""
    """The `Sourced.key` where `batch` is put in; "" puts it in at the loader."""
    batch_was: int | None = None
    """The batch size that the script itself has."""
    variant: Variant = AS_WRITTEN
    choices: Mapping[tuple[str, int], bool] = field(default_factory=dict)
    """How conditions that are not known are taken, by file and line."""
    endless: bool = False
    """Whether loaders are taken to have batches without end, so that their queue is full."""
    side_of: int = 0
    """Steps of the run of which this one tries a side: it ends at once where its memory is unknown,
    and is abandoned if it takes much longer; 0 for a run of its own."""
