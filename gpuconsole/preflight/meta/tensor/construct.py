"""How tensors are constructed: `Tensor(value=array)`, `Tensor(dtype, shape, name, type, …)`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..allocation import allocate
from ..sizes import nbytes
from ..state import STATE, Unsupported
from ..values import known

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddle.base.core import DataType

    from .tensor import Tensor

_POSITIONS = ("value", "place", "persistable", "zero_copy", "name", "stop_gradient")


def initialise(tensor: Tensor, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
    """Fill in a new tensor as Paddle's own constructor would."""
    named = dict(kwargs)
    if args and _is_type(args[0]):
        _by_type(tensor, args, named)
        return
    given = dict(zip(_POSITIONS, args)) | named
    tensor.m_name = str(given.get("name") or "")
    tensor.persistable = bool(given.get("persistable") or False)
    stop = given.get("stop_gradient")
    tensor.stop_gradient = True if stop is None or stop == -1 else bool(stop)
    value = given.get("value", given.get("tensor"))
    if value is None and "dims" in given:
        _by_type(tensor, (), named)
    elif value is None:
        tensor.m_shape, tensor.m_dtype = (0,), STATE.paddle.float32
    elif isinstance(value, STATE.tensor):
        value._share_buffer_to(tensor)
        tensor.m_rows = value.m_rows
    else:
        _by_array(tensor, value)


def _is_type(value: object) -> bool:
    return isinstance(value, (STATE.core.VarDesc.VarType, STATE.core.DataType))


def _by_type(tensor: Tensor, args: tuple[object, ...], named: dict[str, object]) -> None:
    """A tensor of a shape and type that holds no memory yet."""
    given = dict(zip(("dtype", "dims", "name", "type", "persistable"), args)) | named
    tensor.m_dtype = as_dtype(given["dtype"])
    dims = given.get("dims")
    tensor.m_shape = tuple(map(int, dims)) if isinstance(dims, Iterable) else ()
    tensor.m_name = str(given.get("name") or "")
    tensor.persistable = bool(given.get("persistable") or False)


def as_dtype(dtype: object) -> DataType:
    """Return a type as tensors have it."""
    if isinstance(dtype, STATE.core.DataType):
        return dtype
    from paddle.pir.core import vartype_to_datatype

    return vartype_to_datatype[dtype]


def _by_array(tensor: Tensor, value: object) -> None:
    import numpy

    if hasattr(value, "m_block"):
        raise Unsupported("a tensor of a kind that is not followed")
    array = value if isinstance(value, numpy.ndarray) else numpy.asarray(value)
    from paddle.pir.core import convert_np_dtype_to_dtype_

    tensor.m_dtype = convert_np_dtype_to_dtype_(array.dtype)
    tensor.m_shape = tuple(array.shape)
    if nbytes(tensor.m_shape, tensor.m_dtype):
        allocate(tensor, "to_tensor")
    tensor.m_known = known.of_array(array)
