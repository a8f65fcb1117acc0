"""Batch sizes that can be asked about."""

from __future__ import annotations

from gpuconsole.core.wording import msg
from gpuconsole.errors import UsageError

MAX_BATCH = 65_536
"""Beyond this no larger batch is searched for."""
MOST_BATCH = 2**31
"""No loader makes larger batches, and sums of sizes at one are still exact."""


def require_batch_size(size: int | None) -> None:
    """Raise UsageError for a batch size that no script can have; None is the script's own."""
    if size is not None and not 1 <= size <= MOST_BATCH:
        # So many digits as to have no text are no number that someone typed.
        said = size if abs(size) < 10**20 else "A number of more than 20 digits"
        raise UsageError(
            "Batch size must be positive",
            msg("{said} is not a batch size.", said=said),
            msg("Give a number from 1 to {most_batch}.", most_batch=MOST_BATCH),
        )
