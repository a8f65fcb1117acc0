"""Numbers that remember how NumPy treats them."""

from __future__ import annotations


class Double(float):
    """A number that a NumPy function gave: against arrays it keeps its type, float64."""
