"""Functions of `numpy` that put arrays together, take them apart, or widen them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import lengths
from gpuconsole.preflight.interpreter.domain.values import (
    Bound,
    Length,
    ShapeFault,
    Unknown,
    Value,
    first_unknown,
    plain,
)
from gpuconsole.preflight.interpreter.numpy.array import Array, extents, make, promote, shape_of
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import as_shape

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run


def _parts(run: Run, parts: Value) -> list[tuple[tuple[int, ...], str]] | Unknown:
    if isinstance(parts, Unknown):
        return plain(parts)
    if isinstance(parts, Array):
        return [(parts.shape[1:], parts.dtype)] * parts.shape[0]
    items = list(run.interp.iterate(parts))
    more = lengths.more_in(items)
    if more is not None:
        count = lengths.length_of(items)
        if not isinstance(count, Length) or count.high is None:
            return Unknown(more.file, more.line, "how many arrays are joined", more.root)
        run.findings.flags.add("variable-shape")
        items_known = lengths.items_of(items)
        items = items_known[:1] * count.high
    unknown = first_unknown(*items)
    if unknown is not None and any(isinstance(item, Unknown) for item in items):
        return plain(unknown)
    return [shape_of(item) for item in items]


def _joined_type(parts: Sequence[tuple[tuple[int, ...], str]]) -> str:
    dtype = parts[0][1]
    for _, other in parts[1:]:
        dtype = promote(dtype, other)
    return dtype


def concatenate(run: Run, parts: Value, axis: Value = 0, **_: Value) -> Value:
    """Join along an axis."""
    arrays = _parts(run, parts)
    if isinstance(arrays, Unknown):
        return arrays
    if not arrays:
        return run.unknown("nothing is joined")
    if axis is None:
        return Array((sum(prod(shape) for shape, _dtype in arrays),), _joined_type(arrays))
    first = arrays[0][0]
    for shape, _dtype in arrays[1:]:
        rests: list[list[int]] = [list(shape), list(first)]
        for rest in rests:
            if rest:
                del rest[axis]
        if rests[0] != rests[1]:
            raise ShapeFault(f"arrays are joined along axis {axis}", first, shape)
    total = sum(shape[axis] for shape, _dtype in arrays)
    bounded = any(type(shape[axis]) is Bound for shape, _dtype in arrays)
    out = list(first)
    out[axis] = Bound(total) if bounded else total
    return Array(tuple(out), _joined_type(arrays))


def stack(run: Run, parts: Value, axis: Value = 0, **_: Value) -> Value:
    """Join along a new axis."""
    arrays = _parts(run, parts)
    if isinstance(arrays, Unknown):
        return arrays
    if not arrays:
        return run.unknown("nothing is joined")
    inner = arrays[0][0]
    for shape, _dtype in arrays[1:]:
        if shape != inner:
            raise ShapeFault("arrays of different shapes are stacked", inner, shape)
    place = axis % (len(inner) + 1)
    return Array((*inner[:place], len(arrays), *inner[place:]), _joined_type(arrays))


def _with_axes(run: Run, parts: Value, least: int) -> Value:
    arrays = _parts(run, parts)
    if isinstance(arrays, Unknown):
        return arrays
    return [Array((1,) * (least - len(shape)) + shape, dtype) for shape, dtype in arrays]


def vstack(run: Run, parts: Value, **_: Value) -> Value:
    """Join as rows."""
    arrays = _with_axes(run, parts, 2)
    return arrays if isinstance(arrays, Unknown) else concatenate(run, arrays, 0)


def hstack(run: Run, parts: Value, **_: Value) -> Value:
    """Join as columns; arrays of one axis along it."""
    arrays = _with_axes(run, parts, 1)
    if isinstance(arrays, Unknown):
        return arrays
    return concatenate(run, arrays, 0 if len(arrays[0].shape) == 1 else 1)


def dstack(run: Run, parts: Value, **_: Value) -> Value:
    """Join in depth."""
    arrays = _parts(run, parts)
    if isinstance(arrays, Unknown):
        return arrays
    deep = []
    for shape, dtype in arrays:
        wide = (1, *shape) if len(shape) == 1 else shape
        deep.append(Array((*wide, 1) if len(wide) == 2 else wide, dtype))
    return concatenate(run, deep, 2)


def column_stack(run: Run, parts: Value, **_: Value) -> Value:
    """Join columns."""
    arrays = _parts(run, parts)
    if isinstance(arrays, Unknown):
        return arrays
    columns = [Array((*shape, 1) if len(shape) == 1 else shape, dtype) for shape, dtype in arrays]
    return concatenate(run, columns, 1)


def append(run: Run, array: Value, values: Value, axis: Value = None) -> Value:
    """Append to an array."""
    return concatenate(run, [array, values], axis)


def split(run: Run, value: Value, sections: Value, axis: Value = 0) -> Value:
    """Split into equal parts, or at places."""
    array = make(run, value)
    if isinstance(array, Unknown):
        return array
    extent = array.shape[axis]
    if isinstance(sections, int):
        if extent % sections:
            raise ShapeFault(f"{list(array.shape)} is split into {sections}", array.shape)
        sizes = [extent // sections] * sections
    else:
        places = [0, *sections, extent]
        sizes = [max(0, b - a) for a, b in pairwise(places)]
    place = axis % len(array.shape)
    return [Array((*array.shape[:place], size, *array.shape[place + 1 :]), array.dtype)
            for size in sizes]  # fmt: skip


def array_split(run: Run, value: Value, sections: Value, axis: Value = 0) -> Value:
    """Split into nearly equal parts."""
    array = make(run, value)
    if isinstance(array, Unknown) or not isinstance(sections, int):
        return split(run, value, sections, axis)
    small, rest = divmod(array.shape[axis], sections)
    places, at = [], 0
    for number in range(sections - 1):
        at += small + (number < rest)
        places.append(at)
    return split(run, array, places, axis)


def expand_dims(run: Run, value: Value, axis: Value) -> Value:
    """Insert axes of one."""
    array = make(run, value)
    if isinstance(array, Unknown):
        return array
    shape = list(array.shape)
    axes = as_shape(axis)
    for at in sorted(place % (len(array.shape) + len(axes)) for place in axes):
        shape.insert(at, 1)
    return Array(tuple(shape), array.dtype)


def tile(run: Run, value: Value, reps: Value) -> Value:
    """Repeat the whole along axes."""
    array, times = make(run, value), extents(run, reps)
    if isinstance(array, Unknown) or isinstance(times, Unknown):
        return array if isinstance(array, Unknown) else times
    width = max(len(array.shape), len(times))
    shape = (1,) * (width - len(array.shape)) + array.shape
    factors = (1,) * (width - len(times)) + times
    return Array(tuple(a * b for a, b in zip(shape, factors, strict=True)), array.dtype)


def pad(run: Run, value: Value, widths: Value, *_: Value, **__: Value) -> Value:
    """Widen each axis; what pads up to a length makes that length."""
    array = make(run, value)
    if isinstance(array, Unknown):
        return array
    count = len(array.shape)
    if isinstance(widths, (int, Length)):
        pairs: list[Value] = [(widths, widths)] * count
    elif all(isinstance(width, (int, Length)) for width in widths):
        pair = tuple(widths) if len(widths) == 2 else (widths[0], widths[0])
        pairs = [pair] * count
    else:
        pairs = list(widths) * (count if len(widths) == 1 else 1)
    out: list[Value] = []
    for extent, (before, after) in zip(array.shape, pairs, strict=True):
        total: Value = getattr(extent, "length", None) or extent
        for side in (before, after):
            if isinstance(side, (int, Length)):
                total = lengths.plus(total, side, 1)
            else:
                return run.unknown("how far an array is padded", side)
        out.append(total)
    shape = extents(run, out)
    return shape if isinstance(shape, Unknown) else Array(shape, array.dtype)


def broadcast_to(run: Run, value: Value, shape: Value, **_: Value) -> Value:
    """Widen to a shape."""
    wanted = extents(run, shape)
    return wanted if isinstance(wanted, Unknown) else Array(wanted, make(run, value).dtype)


def meshgrid(run: Run, *parts: Value, indexing: Value = "xy", **_: Value) -> Value:
    """Make a grid for each axis."""
    forms = [shape_of(part) for part in parts]
    sizes = [shape[0] for shape, _ in forms]
    if indexing == "xy" and len(sizes) > 1:
        sizes[:2] = sizes[1::-1]
    return [Array(tuple(sizes), dtype) for _, dtype in forms]


def sliding_window_view(run: Run, x: Value, window_shape: Value, axis: Value = None, *_: Value,
                        **__: Value) -> Value:  # fmt: skip
    """View all windows over some axes, with their lengths as the last axes."""
    array = make(run, x)
    if isinstance(array, Unknown):
        return array
    sizes, shape = as_shape(window_shape), list(array.shape)
    axes = tuple(range(len(shape))) if axis is None else as_shape(axis)
    for place, size in zip(axes, sizes, strict=True):
        if size > shape[place]:
            raise ShapeFault(f"windows of {size} over an axis of {shape[place]}", array.shape)
        shape[place] -= size - 1
    return Array((*shape, *sizes), array.dtype)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "concatenate": concatenate, "stack": stack, "vstack": vstack, "row_stack": vstack,
    "hstack": hstack, "dstack": dstack, "column_stack": column_stack, "append": append,
    "split": split, "array_split": array_split, "expand_dims": expand_dims, "tile": tile,
    "pad": pad, "broadcast_to": broadcast_to, "meshgrid": meshgrid,
    "hsplit": lambda run, x, n: split(run, x, n, 1), "vsplit": split,
}  # fmt: skip
