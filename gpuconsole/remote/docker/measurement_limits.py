"""Measurements that no console waits for any more, by the label of their containers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping

from gpuconsole.core.containers import TIME_LIMIT_LABEL

LONGEST_S = 3600.0
"""A label may say more, and counts as so much."""


def is_past(labels: Mapping[str, str], created_at: float | None, now: float) -> bool:
    """Return True if a container is a measurement past its time, by the engine's own clock. Its
    labels are untrusted."""
    if TIME_LIMIT_LABEL not in labels or created_at is None:
        return False
    limit = LONGEST_S
    with contextlib.suppress(ValueError):
        said = float(labels[TIME_LIMIT_LABEL])
        if math.isfinite(said):
            limit = min(LONGEST_S, max(0.0, said))
    return now - created_at >= limit
