"""Types and sizes of tensors, and how two sizes lie against each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddle.base.core import DataType

ITEM = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8, "complex64": 8,
    "complex128": 16, "float8_e4m3fn": 1, "float8_e5m2": 1,
}  # fmt: skip
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
HALVES = frozenset({"float16", "bfloat16"})
DIFFERENTIABLE = FLOATS | {"complex64", "complex128"}

_WORDS: dict[int, tuple[DataType, str]] = {}
"""By the identity of a type, which this holds: Paddle takes long to hash one."""
MOST_WORDS = 1000


def word(dtype: DataType) -> str:
    """Return the name of a Paddle type: `float32`."""
    noted = _WORDS.get(id(dtype))
    if noted is None:
        if len(_WORDS) >= MOST_WORDS:
            _WORDS.clear()
        noted = _WORDS[id(dtype)] = (dtype, str(dtype).rsplit(".", 1)[-1].lower())
    return noted[1]


def count(shape: Iterable[int]) -> int:
    """Return the number of elements of a shape."""
    number = 1
    for extent in shape:
        number *= extent
    return number


def nbytes(shape: tuple[int, ...], dtype: DataType) -> int:
    """Return the bytes of a tensor."""
    return count(shape) * ITEM.get(word(dtype), 4)


def crossed(x: Sequence[int], y: Sequence[int]) -> bool:
    """Tell whether broadcasting is beyond a run of axes of the larger that the smaller fills.

    Paddle's CPU kernels trim trailing ones of the smaller (of `y` at equal rank) and lay it
    against the larger; an axis that differs then takes the general way.
    """
    larger, smaller = (x, y) if len(x) >= len(y) else (y, x)
    if tuple(larger) == tuple(smaller):
        return False
    gap = len(larger) - len(smaller)
    small = list(smaller)
    while small and small[-1] == 1:
        small.pop()
    return any(larger[gap + place] != extent for place, extent in enumerate(small))
