"""Values: small tensors with data that does not depend on unknown data carry Paddle's own tensor.

Everything else has no value. What a script asks of such a tensor (`numpy`, `item`, `float`, `bool`,
`tolist`) is answered by `STATE.value_of`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ..autograd import to_static
from ..inference import bounds
from ..ledger import Block
from ..sizes import FLOATS, count, word
from ..state import STATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy import ndarray

    from ..paddle_types import OwnTensor
    from ..tensor.tensor import Tensor
    from ..types import Shape

MOST = 65536
"""Elements of the largest tensor that is computed with."""
MOST_CONSTANT = 2**22
"""The same for what is made of constants alone by operators that cost little: masks and tables."""
MOST_ONES = 2**24
"""Elements of unknown numbers that stand in while a size is computed."""
LARGEST_COPY = 2**28
"""Bytes."""
OF_CALLS = ("an attribute", "a subscript")
"""Data that a program computes itself for its operators."""


class Copy:
    """What Paddle's memory is to an array that it made: held as long as the array and its views."""

    def __init__(self, array: ndarray, block: Block) -> None:
        self.array = array
        self.block = block
        self.__array_interface__ = array.__array_interface__


CHEAP = frozenset({
    "abs", "add", "arange", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "concat",
    "diag", "equal", "expand", "eye", "flatten", "flip", "greater_equal", "greater_than",
    "less_equal", "less_than", "logical_and", "logical_not", "logical_or", "logical_xor",
    "masked_select", "maximum", "minimum", "multiply", "nonzero", "not_equal", "reshape", "roll",
    "scale", "sign", "slice", "squeeze", "stack", "subtract", "tile", "transpose", "tril", "triu",
    "unsqueeze", "where",
})  # fmt: skip
"""Operators of which masks and tables of positions are made."""
FILLED = {"full": 1, "full_like": 1}
"""Operators with results that hold one number throughout, which is this argument."""


def small(shape: Sequence[int], name: str = "") -> bool:
    """Tell whether a tensor of this shape may carry its data; `name` is the operator's that makes
    it of constants alone."""
    return count(shape) <= (MOST_CONSTANT if name in CHEAP else MOST)


def filled(name: str, args: Sequence[object], result: Tensor) -> OwnTensor | None:
    """Return data of which one number takes the memory of one element: of the result `made` of an
    operator that fills it, None where that is too large or the number is not known."""
    number = args[FILLED[name]]
    if isinstance(number, STATE.tensor) or not 0 < count(result.m_shape) <= MOST_CONSTANT:
        return None
    shape = list(result.m_shape)
    with STATE.scratch():
        try:
            number_alone = STATE.operators["full"](
                [1], number, result.m_dtype, STATE.core.CPUPlace()
            )
            return STATE.operators["as_strided"](number_alone, shape, [0] * len(shape), 0)
        except Exception:
            return None


def array(tensor: Tensor, what: str) -> ndarray:
    """Return the data as an array, plausible where it is not known."""
    if tensor.m_known is not None:
        with STATE.scratch():
            return tensor.m_known.numpy()
    if what not in OF_CALLS:
        to_static.needs_data()
    if STATE.value_of is not None:
        return STATE.value_of(tensor, what)
    return plausible(tensor)


def copied(tensor: Tensor, what: str) -> ndarray:
    """Return an array of the script's own, to write to unless it is large. On a CPU Paddle copies
    all that a view looks at, in its own memory (measured)."""
    data = array(tensor, what)
    return held(data.copy() if data.nbytes <= LARGEST_COPY else data, tensor)


def held(data: ndarray, tensor: Tensor) -> ndarray:
    """Return an array with the memory that Paddle takes on a CPU for its copy of a tensor."""
    import numpy

    size = _copied(tensor)
    if not size:
        return data
    block = Block(STATE.ledger, size, "numpy")
    return numpy.asarray(Copy(data, block))


def looked_at(tensor: Tensor) -> None:
    """Count the copy that Paddle makes on a CPU to look at a tensor's data, for a moment."""
    STATE.ledger.scratch([_copied(tensor)], "numpy")


def _copied(tensor: Tensor) -> int:
    """Return the bytes of the copy that Paddle makes to hand a tensor's data over."""
    return tensor.m_block.nbytes if STATE.backend == "cpu" and tensor.m_block is not None else 0


def plausible(tensor: Tensor) -> ndarray:
    """Return an array of ones that takes no memory of its size."""
    import numpy

    name = word(tensor.m_dtype)
    ones = numpy.ones((), {"bfloat16": "uint16"}.get(name, name))
    return numpy.broadcast_to(ones, tensor.m_shape)


def number(tensor: Tensor, what: str) -> float:
    """Return the only element."""
    element: float = array(tensor, what).reshape(-1)[0].item() if count(tensor.m_shape) else 0
    return element


def copy(tensor: Tensor) -> OwnTensor | None:
    """Return the data of a tensor to be put into another."""
    if tensor.m_known is None or not small(tensor.m_shape):
        return None
    with STATE.scratch():
        return tensor.m_known.clone()


def of_array(values: ndarray) -> OwnTensor | None:
    """Return Paddle's own tensor of a small array, None of a large one."""
    if values.size > MOST:
        return None
    with STATE.scratch():
        try:
            core = STATE.core
            tensor = STATE.real_new(STATE.real)
            STATE.real_init(tensor, value=values, place=core.CPUPlace(), persistable=False,
                            zero_copy=False, name=None, stop_gradient=True)  # fmt: skip
        except Exception:
            return None
        return tensor


def shapes(
    name: str, args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[Shape, ...] | None:
    """Return the shapes of what an operator makes where the data that decides them is known.

    Other unknown numbers are taken to be ones, places to be the first; None where what decides
    is unknown.
    """
    if name == "one_hot" and isinstance(args[0], STATE.tensor) and type(args[1]) is int:
        return ((*args[0].m_shape, args[1]),)
    deciding = [args[place] for place in bounds.DECIDING[name] if place < len(args)]
    if kwargs or any(tensor.m_known is None for tensor in tensors(deciding)):
        return None
    values = [tensor for tensor in tensors(args) if tensor.m_known is None]
    if sum(count(value.m_shape) for value in values) > MOST_ONES:
        return None
    values_before = [(value, value.m_known) for value in values]
    try:
        for item in values:
            item.m_known = _filler(item)
        tensors_made = all_computed(name, args, kwargs)
    finally:
        for changed, value in values_before:
            changed.m_known = value
    return tuple(tuple(tensor.shape) for tensor in tensors_made) if tensors_made else None


def _filler(tensor: Tensor) -> OwnTensor:
    place = STATE.core.CPUPlace()
    with STATE.scratch():
        number = 1.0 if word(tensor.m_dtype) in FLOATS else 0.0
        return STATE.operators["full"](list(tensor.m_shape), number, tensor.m_dtype, place)


def tensors(value: object) -> list[Tensor]:
    """Return the tensors within nested arguments."""
    return [leaf for leaf in _leaves(value) if isinstance(leaf, STATE.tensor)]


def own_tensors(value: object) -> list[OwnTensor]:
    """Return Paddle's own tensors within nested arguments."""
    return [leaf for leaf in _leaves(value) if isinstance(leaf, STATE.real)]


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        yield value
        return
    for item in value:
        yield from _leaves(item)


def computed(name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> OwnTensor | None:
    """Run Paddle's own operator on real data; return its first result, None where that fails."""
    results = all_computed(name, args, kwargs)
    return results[0] if results else None


def all_computed(
    name: str, args: Sequence[object], kwargs: Mapping[str, object]
) -> list[OwnTensor]:
    """Run Paddle's own operator on real data; return all results, none where that fails."""
    with STATE.scratch():
        try:
            given = [_real(item) for item in args]
            if name in BY_TENSORS:
                given = [_single(argument, args[-2]) if i < BY_TENSORS[name] else argument
                         for i, argument in enumerate(given)]  # fmt: skip
            named = {key: _real(item) for key, item in kwargs.items()}
            return own_tensors(STATE.operators[name](*given, **named))
        except Exception:
            return []


BY_TENSORS = {"arange": 3}
"""Operators with so many first arguments that are numbers here and tensors there; their type is the
last but one."""


def _single(number: object, dtype: object) -> OwnTensor:
    """Return a number as Paddle's own tensor, or what is one already."""
    if isinstance(number, STATE.real):
        return number
    return STATE.operators["full"]([1], number, dtype, STATE.core.CPUPlace())


def _real(value: object) -> object:
    if isinstance(value, STATE.tensor):
        return value.m_known
    if isinstance(value, dict):
        return {key: _real(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_real(item) for item in value]
    if type(value) is tuple:
        return tuple(_real(item) for item in value)
    return value


def install_saving() -> None:
    """Give Paddle's own saving arrays that are written as one number; once Paddle is imported.

    What `paddle.save` writes of a tensor with unknown data is the number that all of it is: a
    network of a GiB takes seconds to write, each epoch again, and holds nothing that anyone reads.
    What is loaded of such a file is as large as what was saved.
    """
    import numpy

    class Same(numpy.ndarray):  # type: ignore[misc]
        """An array of one number."""

        def __reduce__(self) -> tuple[object, tuple[object, object, object]]:
            return numpy.full, (self.shape, self.reshape(-1)[0].item(), self.dtype)

    class Numpy:
        """NumPy, as the module that saves sees it."""

        def __getattr__(self, name: str) -> object:
            return getattr(numpy, name)

        def array(self, value: object, *args: object, **kwargs: object) -> ndarray:
            """Make an array of a tensor, or of anything else."""
            if args or kwargs or not isinstance(value, STATE.tensor) or value.m_known is not None:
                return numpy.array(value, *args, **kwargs)
            return held(plausible(value), value).view(Same)

    vars(importlib.import_module("paddle.framework.io"))["np"] = Numpy()
