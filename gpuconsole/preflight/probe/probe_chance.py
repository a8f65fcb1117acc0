"""What is drawn at random is drawn alike in every run: these differ by what was changed alone."""

from __future__ import annotations

import random
from typing import Any


def alike(place: Any) -> None:
    """Begin to draw from a state that a place in the run stands for, 0 and more."""
    import numpy

    random.seed(place)
    numpy.random.seed(place)
