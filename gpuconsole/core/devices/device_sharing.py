"""Two jobs on one device: what each takes of it, and whether both may stand there.

A claim carries what its job takes as a label, so that consoles which know nothing of each other
judge by the same figures.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from gpuconsole.core.util.lazy_dataclass import dataclass

MOST_MIB = 2.0**24
"""No device has 16 TiB; a larger figure is none."""
_LABEL = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)/(\d{1,9}(?:\.\d{1,9})?)(/beside)?")


@dataclass(frozen=True, slots=True)
class Share:
    """What a job takes of a device that it shares."""

    memory_mib: float
    """Upper bound of its memory there."""
    limit_mib: float
    """Most that both jobs together may take."""
    beside: bool = False
    """Whether it comes to a device that another job holds already."""


def fit_together(mine: Share | None, theirs: Sequence[Share | None]) -> bool:
    """Return True if a claim fits on a device beside the existing claims.

    `None` is the claim of a job that does not share. At most two jobs share a device, one of which
    was admitted beside the other, and both must be within the lower of their limits.
    """
    if not theirs:
        return True
    if mine is None or len(theirs) > 1 or (other := theirs[0]) is None:
        return False
    both = mine.memory_mib + other.memory_mib
    return (mine.beside or other.beside) and both <= min(mine.limit_mib, other.limit_mib)


def share_label(share: Share) -> str:
    """Return a share as a label's text."""
    # Rounded up and down, so that what is read back never allows more.
    memory, limit = math.ceil(share.memory_mib * 1e3) / 1e3, math.floor(share.limit_mib * 1e3) / 1e3
    return f"{memory:.3f}/{limit:.3f}{'/beside' if share.beside else ''}"


def read_share(text: str | None) -> Share | None:
    """Return the share that a label tells; None where it tells none, as anyone may write labels."""
    match = _LABEL.fullmatch(text or "")
    if match is None:
        return None
    memory, limit = float(match[1]), float(match[2])
    within = 0.0 < memory <= MOST_MIB and 0.0 < limit <= MOST_MIB
    return Share(memory, limit, bool(match[3])) if within else None
