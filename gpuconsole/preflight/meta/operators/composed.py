"""Operators that Paddle composes in C++ of others, or that shapes alone do not tell; those on
sparse tensors of coordinates, which are values and indices until they are made dense."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..allocation import allocate, new, twin
from ..autograd import nodes
from ..inference.views import contiguous, plain
from ..sizes import FLOATS, count, word
from ..state import STATE, Unsupported
from ..tensor.construct import as_dtype
from ..tensor.tensor import Tensor
from ..values import known
from .inferred import inferred

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from paddle.base.core import DataType
    from paddle.base.core import Place as PaddlePlace

    from ..types import OneTensor, Result


def op(name: OneTensor, *args: object, **kwargs: object) -> Tensor:
    """Run an operator by its name."""
    return STATE.call(name, args, kwargs)


def linear(x: Tensor, weight: object, bias: object = None, *_: object, **__: object) -> Tensor:
    """Multiply and add, each with an output of its own."""
    out = op("matmul", x, weight, False, False)
    return out if bias is None else op("add", out, bias)


def filled(value: int) -> Callable[..., Tensor]:
    """Return `zeros` or `ones`."""

    def call(
        shape: object,
        dtype: DataType | None = None,
        place: object = None,
        *_: object,
        **kwargs: object,
    ) -> Tensor:
        dtype = dtype or STATE.paddle.float32
        place = place or STATE.core.Place()
        return op("full", shape, float(value), dtype, place, **kwargs)

    return call


def filled_like(value: int) -> Callable[..., Tensor]:
    """Return `zeros_like` or `ones_like`."""

    def call(
        x: Tensor, dtype: DataType | None = None, place: object = None, *_: object, **__: object
    ) -> Tensor:
        return op("full_like", x, float(value), dtype or x.m_dtype, place or STATE.core.Place())

    return call


def cast(x: Tensor, dtype: DataType, *_: object, **__: object) -> Tensor:
    """Cast into new memory, also to the type that a tensor has."""
    dtype = as_dtype(dtype)
    copies = nodes.in_order([x])
    out = new(x.m_shape, dtype, "cast")
    out.m_rows = x.m_rows
    del copies
    if x.m_known is not None:
        out.m_known = known.computed("cast", (x, dtype), {})
    if nodes.needed([x]) and nodes.differentiable(out) and nodes.differentiable(x):
        nodes.PlainNode("cast", [x], [out])
    return out


def cast_(x: Tensor, dtype: DataType, *_: object, **__: object) -> Tensor:
    """Cast in place: new memory where the type changes."""
    if as_dtype(dtype) == x.m_dtype:
        return x
    out = cast(x, dtype)
    x.m_block, x.m_dtype, x.m_strides = out.m_block, out.m_dtype, None
    x.m_known = out.m_known
    x.m_node, x.m_slot, x.stop_gradient = out.m_node, out.m_slot, out.stop_gradient
    return x


def embedding(x: Tensor, weight: Tensor, padding_idx: int = -1, sparse: bool = False,
              *_: object, **__: object) -> Result:  # fmt: skip
    """Look rows up; the gradient of a sparse one holds a row for each."""
    if not sparse:
        return inferred("embedding", (x, weight, padding_idx, False), {})
    out = new((*x.m_shape, *weight.m_shape[1:]), weight.m_dtype, "embedding")
    if nodes.needed([weight]):
        nodes.RowsNode("embedding", [weight], [out], saved=[x])
    return out


def add_n(inputs: Sequence[Tensor], *rest: object) -> Result:
    """Add tensors up: rows are put behind rows, and a dense tensor takes them in."""
    rows = [tensor for tensor in inputs if tensor.m_rows]
    if not rows:
        return inferred("add_n", (inputs, *rest), {})
    dense = next((tensor for tensor in inputs if not tensor.m_rows), None)
    if dense is not None:
        return new(dense.m_shape, dense.m_dtype, "add_n")
    many = sum(count(row.m_shape[:-1]) for row in rows)
    out = new((many, rows[0].m_shape[-1]), rows[0].m_dtype, "add_n")
    out.m_rows = True
    return out


def rows_of(merged: bool) -> Callable[..., Tensor]:
    """Return what copies the rows of a gradient: merged, at most as many, or as a dense tensor."""

    def call(x: Tensor, *_: object) -> Tensor:
        out = new(x.m_shape, x.m_dtype, "rows")
        out.m_rows = merged
        return out

    return call


def clip_by_norm(x: Tensor, most: object) -> Result:
    """Scale a gradient down; rows are merged first."""
    if not x.m_rows:
        return inferred("clip_by_norm", (x, most), {})
    merged = rows_of(True)(x)
    scaled = rows_of(True)(merged)
    del merged
    return scaled


def assign_value_(
    out: Tensor, shape: Sequence[int], dtype: DataType, values: Sequence[float | int], *_: object
) -> Tensor:
    """Write given numbers into a tensor."""
    out.m_shape, out.m_dtype = tuple(shape), as_dtype(dtype)
    allocate(out, "assign_value")
    import numpy

    out.m_known = None
    if known.small(out.m_shape) and word(out.m_dtype) not in ("bfloat16", "float16"):
        out.m_known = known.of_array(
            numpy.array(values).astype(word(out.m_dtype)).reshape(out.m_shape)
        )
    return out


def assign_out_(x: Tensor, out: Tensor, *_: object) -> Tensor:
    """Copy a tensor into another's block."""
    if out.m_block is None or out.m_shape != x.m_shape or out.m_dtype != x.m_dtype:
        out.m_shape, out.m_dtype, out.m_strides = x.m_shape, x.m_dtype, None
        allocate(out, "assign_out")
    out.m_known = known.copy(x)
    if nodes.needed([x]):
        nodes.PlainNode("assign_out", [x], [out])
    return out


def uninitialised(x: Tensor, *_: object, **__: object) -> Tensor:
    """Fill a tensor with random numbers where it lies."""
    if x.m_block is None:
        allocate(x, "random")
    x.m_known = None
    return x


def share_data(x: Tensor, *_: object) -> Tensor:
    """Return the same memory."""
    return x.detach()


def coalesce_tensor(
    inputs: Sequence[Tensor],
    dtype: DataType,
    copy_data: bool = False,
    set_constant: bool = False,
    persist_output: bool = False,
    constant: object = 0.0,
    use_align: bool = True,
    align_size: object = -1,
    *_: object,
    **__: object,
) -> tuple[list[Tensor], Tensor]:
    """Lay tensors into one block."""
    dtype = as_dtype(dtype)
    fused = new((sum(count(tensor.m_shape) for tensor in inputs),), dtype, "coalesce_tensor")
    outputs = []
    for tensor in inputs:
        part = tensor.detach()
        part.m_block = fused.m_block
        outputs.append(part)
    return outputs, fused


def full_(
    x: Tensor,
    extents: Tensor | Sequence[Tensor | int],
    value: float | str,
    dtype: DataType,
    place: PaddlePlace | None = None,
    *_: object,
) -> Tensor:
    """Fill a tensor where it lies; it gets its block where it has none."""
    if isinstance(extents, Tensor):
        shape = tuple(map(int, known.array(extents, "an attribute").tolist()))
    else:
        shape = tuple(int(_number(extent)) for extent in extents)
    dtype = as_dtype(dtype)
    if x.m_block is None or x.m_shape != shape or x.m_dtype != dtype:
        x.m_shape, x.m_dtype, x.m_strides = shape, dtype, None
        allocate(x, "full_")
    x.m_known = None
    if known.small(shape) and word(dtype) in (FLOATS | {"int64", "int32", "bool"}):
        x.m_known = known.computed("full", (list(shape), value, dtype, STATE.core.CPUPlace()), {})
    return x


def _number(value: Tensor | float) -> float:
    return known.number(value, "an attribute") if isinstance(value, Tensor) else value


def spaced(name: str) -> Callable[..., Tensor]:
    """Return `linspace` or `logspace`: as many numbers as the third argument says."""

    def call(
        start: object, stop: object, number: Tensor | int, *rest: object, **__: object
    ) -> Tensor:
        many = int(_number(number))
        dtype = as_dtype(rest[-2] if len(rest) > 1 else rest[-1])
        out = new((many,), dtype, name)
        given = [start, stop, number, *rest]
        if all(
            argument.m_known is not None for argument in given if isinstance(argument, STATE.tensor)
        ):
            out.m_known = known.computed(name, tuple(given), {}) if many <= known.MOST else None
        return out

    return call


def tensor_unfold(x: Tensor, axis: int, size: int, step: int, *_: object) -> Tensor:
    """Return sliding windows: a view."""
    axis %= max(1, len(x.m_shape))
    strides = list(x.m_strides or contiguous(x.m_shape))
    shape = [*x.m_shape, size]
    shape[axis] = (x.m_shape[axis] - size) // step + 1
    strides.append(strides[axis])
    strides[axis] *= step
    windows = x.detach()
    windows.m_shape, windows.m_known = tuple(shape), None
    windows.m_strides = plain(windows.m_shape, tuple(strides))
    if nodes.needed([x]):
        nodes.PlainNode("tensor_unfold", [x], [windows])
    return windows


def unique(
    x: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Sequence[int] = (),
    *rest: object,
) -> list[Tensor]:
    """Find what differs: as many as there are, or at most as many as there could be."""
    given = (x, return_index, return_inverse, return_counts, axis, *rest)
    many = count(x.m_shape) if not axis else x.m_shape[axis[0]]
    shape = list(x.m_shape) if axis else [many]
    values_found = known.all_computed("unique", given, {}) if x.m_known is not None else []
    if not values_found:
        STATE.choice("unique: all elements are taken to differ")
    else:
        shape = list(values_found[0].shape)
    length = shape[axis[0]] if axis else shape[0]
    dtype = STATE.paddle.int64
    results = [new(tuple(shape), x.m_dtype, "unique")]
    results += [new((extent,), dtype, "unique") for extent in (length, many, length)]
    for tensor, value in zip(results, values_found):
        if tuple(value.shape) == tensor.m_shape:
            tensor.m_known = value
    return results


def div_scale(x: Tensor, value: float, *_: object) -> Tensor:
    """Divide by a number."""
    return op("scale", x, 1.0 / value if value else 1.0, 0.0, True)


def sync_batch_norm_(*args: object) -> Result:
    """Normalise a batch over all ranks: on one rank that holds what the plain operator does, for
    which Paddle infers shapes also where it is not built for cards."""
    return STATE.call("batch_norm", args, {})


def sparse_coordinates(
    values: Tensor, indices: Tensor, shape: Iterable[int], *_: object, **__: object
) -> Tensor:
    """Return a sparse tensor, which holds the memory of its parts and none of its own."""
    sparse = twin(values)
    sparse.m_shape = tuple(int(extent) for extent in shape)
    sparse.m_block, sparse.stop_gradient = values.m_block, values.stop_gradient
    sparse.m_parts = (values, indices)
    return sparse


def sparse_dense(x: Tensor, *_: object, **__: object) -> Tensor:
    """Return all elements; a dense tensor is given as it is."""
    if x.m_parts is None:
        return x
    if nodes.needed([x]):
        raise Unsupported("a gradient of a sparse tensor")
    return new(x.m_shape, x.m_dtype, "sparse_to_dense")


def sparse_part(which: int) -> Callable[..., Tensor]:
    """Return a function that returns the values or the indices."""

    def given(x: Tensor, *_: object) -> Tensor:
        if x.m_parts is None:
            raise Unsupported("a part of a tensor that is not sparse")
        return x.m_parts[which]

    return given


FUNCTIONS: dict[str, Callable[..., Result]] = {
    "linear": linear, "zeros": filled(0), "ones": filled(1), "zeros_like": filled_like(0),
    "ones_like": filled_like(1), "cast": cast, "cast_": cast_, "embedding": embedding,
    "assign_value_": assign_value_, "assign_out_": assign_out_, "share_data": share_data,
    "share_data_": share_data, "coalesce_tensor": coalesce_tensor, "full_": full_,
    "add_n": add_n, "clip_by_norm": clip_by_norm, "merge_selected_rows": rows_of(True),
    "get_tensor_from_selected_rows": rows_of(False), "div_scale": div_scale,
    "unique": unique, "tensor_unfold": tensor_unfold,
    "sync_batch_norm_": sync_batch_norm_,
    "linspace": spaced("linspace"), "logspace": spaced("logspace"),
    "sparse_sparse_coo_tensor": sparse_coordinates, "sparse_to_dense": sparse_dense,
    "sparse_values": sparse_part(0), "sparse_indices": sparse_part(1),
    **dict.fromkeys(("uniform_inplace_", "gaussian_inplace_", "exponential_", "random_"),
                    uninitialised),
}  # fmt: skip
