"""Sparse tensors of coordinates: values and indices, until they are made dense."""

from __future__ import annotations

from typing import Any

from ..allocation import new, twin
from ..autograd import nodes
from ..state import Unsupported


def coordinates(values: Any, indices: Any, shape: Any, *_: Any, **__: Any) -> Any:
    """Return a sparse tensor, which holds the memory of its parts and none of its own."""
    made = twin(values)
    made.m_shape = tuple(int(one) for one in shape)
    made.m_block, made.stop_gradient = values.m_block, values.stop_gradient
    made.m_parts = (values, indices)
    return made


def dense(x: Any, *_: Any, **__: Any) -> Any:
    """Return all elements; a dense tensor is given as it is."""
    if x.m_parts is None:
        return x
    if nodes.needed([x]):
        raise Unsupported("a gradient of a sparse tensor")
    return new(x.m_shape, x.m_dtype, "sparse_to_dense")


def part(which: Any) -> Any:
    """Return a function that gives the values or the indices."""

    def given(x: Any, *_: Any) -> Any:
        if x.m_parts is None:
            raise Unsupported("a part of a tensor that is not sparse")
        return x.m_parts[which]

    return given


FUNCTIONS: dict[str, Any] = {
    "sparse_sparse_coo_tensor": coordinates,
    "sparse_to_dense": dense,
    "sparse_values": part(0),
    "sparse_indices": part(1),
}
