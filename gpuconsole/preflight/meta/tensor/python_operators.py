"""Python's operators on tensors, as Paddle's C++ class has them, from one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..sizes import FLOATS, word
from ..state import STATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import ndarray
    from paddle.base.core import DataType

    from ..types import Result
    from .tensor import Tensor

BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "div": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "elementwise_pow",
    "matmul": "matmul", "lt": "less_than", "le": "less_equal", "gt": "greater_than",
    "ge": "greater_equal", "eq": "equal", "ne": "not_equal", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
REFLECTED = ("add", "sub", "mul", "truediv", "div", "floordiv", "mod", "pow", "matmul")
BY_SCALE = frozenset({"add", "sub", "mul", "truediv", "div"})
"""Operators that with a number are one multiplication and addition."""

ALONE = frozenset({"floordiv"})
"""Operators for which a number becomes a tensor of one element."""


def _operand(x: Tensor, other: object, kind: str) -> Tensor:
    """Return the other operand as a tensor: a number fills one of the shape of the first."""
    import numpy

    if isinstance(other, STATE.tensor):
        return other
    if isinstance(other, (numpy.ndarray, list, tuple)):
        tensor: Tensor = STATE.paddle.to_tensor(other, dtype=_type_for(x, numpy.asarray(other)))
        return tensor
    dtype = x.m_dtype
    if isinstance(other, complex) and word(dtype) in FLOATS:
        dtype = STATE.paddle.complex64
    shape = [] if kind in ALONE else list(x.m_shape)
    return STATE.call("full", (shape, _python(other), dtype, STATE.core.CPUPlace()), {})


def _type_for(x: Tensor, array: ndarray) -> DataType | None:
    return x.m_dtype if array.dtype.kind == "f" and word(x.m_dtype) in FLOATS else None


def _python(value: object) -> object:
    return value.item() if hasattr(value, "item") else value


def _promoted(kind: str, x: Tensor, other: object) -> Tensor:
    """Return the tensor with the type that Paddle casts it to before it meets a number."""
    name = word(x.m_dtype)
    whole = name not in FLOATS and not name.startswith("complex")
    if whole and kind in ("truediv", "div"):
        return STATE.call("cast", (x, STATE.paddle.float32), {})
    if whole and isinstance(other, float) and kind != "matmul":
        return STATE.call("cast", (x, getattr(STATE.paddle, STATE.paddle.get_default_dtype())), {})
    number = isinstance(other, (int, float)) and not isinstance(other, bool)
    if name == "bool" and number:
        return STATE.call("cast", (x, STATE.paddle.int64), {})
    return x


def _by_scale(kind: str, x: Tensor, number: float, reflected: bool) -> Tensor | None:
    """Compute with a number as Paddle does; None where it does otherwise."""
    if isinstance(number, bool) or word(x.m_dtype) == "bool":
        return None
    scale = STATE.call
    if kind == "add":
        return scale("scale", (x, 1.0, number, True), {})
    if kind == "mul":
        return scale("scale", (x, number, 0.0, True), {})
    if kind == "sub":
        factor, bias = (-1.0, number) if reflected else (1.0, -number)
        return scale("scale", (x, factor, bias, True), {})
    if not reflected and word(x.m_dtype) in FLOATS:
        return scale("scale", (x, 1.0 / number if number else 1.0, 0.0, True), {})
    return None


def binary(kind: str, reflected: bool) -> Callable[[Tensor, object], object]:
    """Return the method for an operator."""
    operator = BINARY[kind]

    def method(self: Tensor, other: object) -> object:
        if other is None or isinstance(other, (str, dict)):
            if kind in ("eq", "ne"):
                return kind == "ne"
            return NotImplemented
        if not isinstance(other, STATE.tensor):
            x = _promoted(kind, self, _python(other) if _scalar(other) else other)
            if _scalar(other):
                number = _python(other)
                # NumPy's numbers, but for those that are Python's too, fill a tensor.
                plain = kind in BY_SCALE and isinstance(other, (int, float))
                if plain and isinstance(number, (int, float)):
                    scaled = _by_scale(kind, x, number, reflected)
                    if scaled is not None:
                        return scaled
                if kind == "pow" and not reflected:
                    return STATE.call("pow", (x, number), {})
            return _run(operator, kind, x, _operand(x, other, kind), reflected)
        return _run(operator, kind, self, other, reflected)

    return method


def _scalar(value: object) -> bool:
    import numpy

    return isinstance(value, (int, float, numpy.number, numpy.bool_))


def _run(operator: str, kind: str, x: Tensor, y: Tensor, reflected: bool) -> Result:
    if reflected:
        x, y = y, x
    if kind in ("truediv", "div") and word(x.m_dtype) == word(y.m_dtype):
        name = word(x.m_dtype)
        if name not in FLOATS and not name.startswith("complex"):
            x, y = (STATE.call("cast", (item, STATE.paddle.float32), {}) for item in (x, y))
    x, y = _alike(x, y)
    if kind == "matmul":
        return STATE.call("matmul", (x, y, False, False), {})
    return STATE.call(operator, (x, y), {})


def _alike(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Give two tensors of different types, one of them a single number, the type that counts."""
    if x.m_dtype == y.m_dtype:
        return x, y
    left, right = word(x.m_dtype), word(y.m_dtype)
    if (left in FLOATS) != (right in FLOATS):
        other = y if left in FLOATS else x
        if not other.m_shape:
            wanted = x.m_dtype if left in FLOATS else y.m_dtype
            return tuple(
                STATE.call("cast", (item, wanted), {}) if item is other else item for item in (x, y)
            )
        if not (y if other is x else x).m_shape:
            wanted = STATE.paddle.float32
            return tuple(STATE.call("cast", (item, wanted), {}) for item in (x, y))
    return x, y


def install(cls: type[Tensor]) -> None:
    """Put the operators onto the tensor class."""
    for kind in BINARY:
        setattr(cls, f"__{kind}__", binary(kind, False))
    for kind in REFLECTED:
        setattr(cls, f"__r{kind}__", binary(kind, True))
