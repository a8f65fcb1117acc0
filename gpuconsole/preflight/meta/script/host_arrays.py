"""Arrays of NumPy that a script lengthens bit by bit.

`features = numpy.vstack((features, out.numpy()))` needs no memory of a device. What is made of the
whole array after the last batch does: an epoch that lengthens one keeps.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy import ndarray

JOINING = ("append", "concatenate", "hstack", "vstack", "row_stack", "column_stack", "dstack",
           "insert")  # fmt: skip
"""Functions of NumPy that may return an argument of theirs made longer."""
RECENT = 16
"""Results that are looked for among later arguments."""


class Lengthened:
    """How many bytes arrays have grown by that were put together with more."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.recent: deque[weakref.ref[ndarray]] = deque(maxlen=RECENT)

    def install(self) -> None:
        """Watch NumPy's functions that join arrays."""
        import numpy

        for name in JOINING:
            function = getattr(numpy, name, None)
            if function is not None:
                setattr(numpy, name, self.watched(function))

    def watched(self, function: Callable[..., object]) -> Callable[..., object]:
        """Return a function of NumPy that notes what its results have grown by."""
        from functools import wraps

        @wraps(function)
        def join(*arguments: object, **named: object) -> object:
            result = function(*arguments, **named)
            self.joined(result, [*_arrays([*arguments, *named.values()])])
            return result

        return join

    def joined(self, result: object, parts: list[ndarray]) -> None:
        """Note the result of a call, and what of its arguments were results before."""
        from numpy import ndarray

        if not isinstance(result, ndarray):
            return
        recent = {id(array) for ref in self.recent if (array := ref()) is not None}
        longest = max((part.nbytes for part in parts if id(part) in recent), default=None)
        if longest is not None:
            self.nbytes += max(0, result.nbytes - longest)
        self.recent.append(weakref.ref(result))


def _arrays(values: list[object]) -> Iterator[ndarray]:
    """Give the arrays among arguments, and in lists and tuples among them."""
    from numpy import ndarray

    for value in values:
        if isinstance(value, ndarray):
            yield value
        elif isinstance(value, (list, tuple)) and len(value) <= RECENT:
            yield from (part for part in value if isinstance(part, ndarray))
