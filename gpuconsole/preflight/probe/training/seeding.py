"""What is drawn at random is drawn alike in every run: these differ by what was changed alone."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import ndarray


def alike(place: int) -> None:
    """Begin to draw from a state that a place in the run stands for, 0 and more."""
    import numpy

    random.seed(place)
    numpy.random.seed(place)


def state() -> tuple[tuple[ndarray | int | str, ...], ...]:
    """Return from where is drawn next."""
    import numpy

    return random.getstate(), numpy.random.get_state()


def restore(drawn: tuple[tuple[ndarray | int | str, ...], ...]) -> None:
    """Draw again from where a state was taken."""
    import numpy

    random.setstate(drawn[0])
    numpy.random.set_state(drawn[1])
