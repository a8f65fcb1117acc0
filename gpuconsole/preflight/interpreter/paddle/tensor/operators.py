"""What Python's operators and subscripts do to tensors."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import int_bounds
from gpuconsole.preflight.interpreter.domain.dimensions import sliced
from gpuconsole.preflight.interpreter.domain.values import Bound, ShapeFault, Unknown, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor import indexing
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import (
    FLOATS,
    ITEM_BYTES,
    Tensor,
    broadcast,
)

ROWS: Mapping[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide",
    ast.Pow: "elementwise_pow", ast.Mod: "remainder",
}  # fmt: skip
_LOGIC = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.FloorDiv, ast.LShift, ast.RShift)


def binary(run: Run, kind: type[ast.operator], left: Value, right: Value) -> Tensor:
    """Compute `left op right` with a tensor on one side at least."""
    left, right = (
        run.tensor(side.shape, side.dtype) if isinstance(side, Array) else side
        for side in (left, right)
    )
    if kind is ast.MatMult:
        return ops.matmul(run, left, right)
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return _of_two(run, kind, left, right)
    tensor, scalar = (left, right) if isinstance(left, Tensor) else (right, left)
    if not isinstance(scalar, (int, float, bool, Unknown)):
        raise TypeError("a tensor and something else")
    return _with_scalar(run, kind, tensor, scalar, isinstance(left, Tensor))


def _of_two(run: Run, kind: type[ast.operator], left: Tensor, right: Tensor) -> Tensor:
    if kind is ast.Div and left.dtype not in FLOATS and right.dtype not in FLOATS:
        left, right = (ops.cast(run, side, run.mode.dtype) for side in (left, right))
    if kind in ROWS:
        return ops.binary(run, ROWS[kind], left, right)
    if kind not in _LOGIC:
        raise TypeError("an operator that tensors do not have")
    return plain(run, left, right, ops.promote(left, right))


def plain(run: Run, left: Tensor, right: Tensor, dtype: str) -> Tensor:
    """Run an elementwise operator of two without a gradient."""
    shape = broadcast(left.shape, right.shape)
    if shape is None:
        raise ShapeFault(
            f"shapes {list(left.shape)} and {list(right.shape)} do not broadcast together",
            left.shape, right.shape,
        )  # fmt: skip
    return run.tensor(shape, dtype)


def _with_scalar(
    run: Run, kind: type[ast.operator], x: Tensor, scalar: Value, tensor_first: bool
) -> Tensor:
    dtype = x.dtype
    if dtype not in FLOATS and (isinstance(scalar, float) or kind is ast.Div):
        dtype = run.mode.dtype
    x = ops.cast(run, x, dtype)
    if kind is ast.Pow and tensor_first:
        return ops.unary(run, "pow", x)
    if kind is ast.FloorDiv:
        run.scratch(ITEM_BYTES[dtype])
        return run.tensor(x.shape, dtype)
    if kind in (ast.Pow, ast.Mod) or (kind is ast.Div and not tensor_first):
        # These have no form with a number: Paddle fills a tensor with it.
        full = run.tensor(x.shape, dtype)
        pair = (x, full) if tensor_first else (full, x)
        return _of_two(run, kind, *pair)
    if kind in (ast.Add, ast.Sub, ast.Mult, ast.Div):
        return ops.apply(run, "scale", (x,), x.shape, dtype, flops=x.size)
    run.scratch(x.nbytes)
    return run.tensor(x.shape, dtype)


def compare(run: Run, left: Value, right: Value) -> Tensor:
    """Compare elementwise; a number is filled into a tensor of the same shape first."""
    sides = [side for side in (left, right) if isinstance(side, (Tensor, Array))]
    if len(sides) == 1:
        array = sides[0]
        full = run.storage(array.size * ITEM_BYTES[array.dtype], "workspace")
        out = run.tensor(array.shape, "bool")
        del full
        return out
    shape = broadcast(sides[0].shape, sides[1].shape)
    if shape is None:
        raise ShapeFault(
            f"shapes {list(sides[0].shape)} and {list(sides[1].shape)} do not broadcast together",
            sides[0].shape, sides[1].shape,
        )  # fmt: skip
    return run.tensor(shape, "bool")


class Pick(NamedTuple):
    """The result of `x[key]`: a view of `shape`, or by `picks` a copy."""

    shape: tuple[int, ...]
    strided: bool
    picks: tuple[Value, ...]
    masked: bool


def item(run: Run, target: Tensor, key: Value) -> Tensor:
    """Return `target[key]`: a view for slices and numbers, a copy for index tensors."""
    pick = picked(target.shape, key)
    if pick.masked:
        raise TypeError("how many elements a mask picks depends on data")
    if not pick.picks:
        part = ops.sliced(run, target, pick.shape, strided=pick.strided or target.strided)
        part.high = int_bounds.at_most(target.high)
        if target.numbers is not None and isinstance(key, int) and type(key) is not bool:
            part.numbers = target.numbers[key : key + 1 or None]
        return part
    first = pick.picks[0]
    if not isinstance(first, Tensor):
        first = run.tensor(indexing.extents_of(first), "int64")
    return ops.apply(run, "gather", (target, first), pick.shape)


def store(run: Run, target: Tensor, key: Value, value: Value) -> None:
    """Run `target[key] = value`: in place; gradients flow to what was there and to the value."""
    target.numbers = None
    pick = picked(target.shape, key)
    if isinstance(value, (Tensor, Array)) and not pick.masked:
        joined = broadcast(pick.shape, value.shape)
        spare = [extent for extent in (joined or ()) if extent != 1]
        if joined is None or prod(joined) != prod(pick.shape) or len(spare) > len(pick.shape):
            raise ShapeFault(
                f"{list(value.shape)} is put into {list(pick.shape)}", value.shape, pick.shape
            )
    piece = prod(pick.shape) * ITEM_BYTES[target.dtype]
    run.scratch(piece)
    inputs = [tensor for tensor in (target, value) if isinstance(tensor, Tensor)]
    if not run.mode.grad_enabled or not any(tensor.needs_grad for tensor in inputs):
        return
    before = Tensor(target.shape, target.dtype, target.storage)
    before.node, before.slot, before.stop_gradient = target.node, target.slot, False
    saved = [picked_by.storage for picked_by in pick.picks if isinstance(picked_by, Tensor)]
    if inputs[1:]:
        # The kernel keeps what it wrote, a strided view as a copy in order.
        saved += ops.contiguous(run, inputs[1:]) or [inputs[1].storage]
    ops.attach(run, [before, *inputs[1:]], [target], saved, "new", piece if not inputs[1:] else 0)


def picked(shape: tuple[int, ...], key: Value) -> Pick:
    """Return what `x[key]` picks of a tensor of `shape`."""
    keys = list(key) if isinstance(key, tuple) else [key]
    wide = sum(_width(key) for key in keys)
    at = next((place for place, key_part in enumerate(keys) if key_part is Ellipsis), None)
    if at is not None:
        keys[at : at + 1] = [slice(None)] * (len(shape) - wide)
    out: list[int] = []
    picks: list[Value] = []
    places: list[int] = []
    axis, lead, strided, masked = 0, 1, False, False
    for key_part in keys:
        if key_part is None:
            out.append(1)
            continue
        if _is_mask(key_part) and not isinstance(key_part, list) and not _width(key_part):
            raise TypeError("a condition that picks all or nothing")
        if axis >= len(shape):
            raise ShapeFault(msg("too many indices for {shape}", shape=list(shape)), shape)
        extent = shape[axis]
        if isinstance(key_part, slice):
            length = _length(key_part, extent)
            strided = strided or (length != extent and lead != 1) or key_part.step not in (None, 1)
            lead *= length
            out.append(length)
        elif _is_pick(key_part):
            masked = masked or _is_mask(key_part)
            if isinstance(key_part, Tensor) and not masked:
                indexing.as_index(key_part)
            picks.append(key_part)
            places.append(len(out))
        elif isinstance(key_part, (int, Unknown, Tensor, Array)):
            if isinstance(key_part, int) and not -extent <= key_part < extent:
                raise ShapeFault(f"index {key_part} on an axis of {extent}", shape)
            strided = strided or (lead != 1 and extent != 1)
        else:
            raise TypeError("an index of another kind")
        axis += _width(key_part)
    out.extend(shape[axis:])
    if picks and not masked:
        together = len(set(places)) == 1
        cell, _ = indexing.cell((), picks)
        out[places[0] if together else 0 : places[0] if together else 0] = cell
    return Pick(tuple(out), strided, tuple(picks), masked)


def _is_pick(value: Value) -> bool:
    return isinstance(value, list) or (isinstance(value, (Tensor, Array)) and value.shape != ())


def _is_mask(value: Value) -> bool:
    """Whether a key says of each place, or of all, whether it is picked."""
    if isinstance(value, list):
        return any(map(_is_mask, value))
    return isinstance(value, bool) or getattr(value, "dtype", "") == "bool"


def _width(value: Value) -> int:
    """Return how many axes a key takes up."""
    if value is None or value is Ellipsis or isinstance(value, bool):
        return 0
    if isinstance(value, (Tensor, Array)) and value.dtype == "bool":
        return len(value.shape)
    return 1


def _length(index: slice, extent: int) -> int:
    """Return the extent of a slice; of `x[i : i + 8]` it is known though `i` is not."""
    parts = (index.start, index.stop, index.step)
    if all(part is None or isinstance(part, int) for part in parts):
        return len(range(*index.indices(extent)))
    width = sliced(index, extent)
    if type(width) is Bound and width == extent:
        raise TypeError("a slice of unknown ends")
    return width
