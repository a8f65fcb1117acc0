"""What is drawn at random is drawn alike in every run: these differ by what was changed alone."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import ndarray

    State = tuple[tuple[object, ...], tuple[str | int | float | ndarray, ...]]
    """The states of Python's generator and of NumPy's."""


def alike(place: int) -> None:
    """Begin to draw from the state of a place in the run, 0 and more."""
    import numpy

    random.seed(place)
    numpy.random.seed(place)


def state() -> State:
    """Return from where is drawn next."""
    import numpy

    return random.getstate(), numpy.random.get_state()


def restore(drawn: State) -> None:
    """Draw again from where a state was taken."""
    import numpy

    random.setstate(drawn[0])
    numpy.random.set_state(drawn[1])
