"""`x[…]` and `x[…] = value`: views, lookups and writes, with true shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..allocation import new
from ..autograd import nodes
from ..sizes import count, nbytes, word
from ..state import STATE, rightly
from ..tensor.tensor import Tensor
from ..values import known, ranges

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import EllipsisType
    from typing import TypeAlias, TypeGuard

    from numpy import ndarray
    from typing_extensions import TypeIs

    from ..paddle_types import OwnTensor
    from ..types import Part, Shape, Subscript, Written

    Advanced: TypeAlias = Tensor | ndarray
    """What is looked up by."""
    Plain: TypeAlias = Advanced | slice | int | None
    """A part of a subscript with its numbers as numbers."""


def get(x: Tensor, index: Subscript) -> Tensor:
    """Return what a subscript selects."""
    parts = _parts(x, index)
    first = parts[0] if len(parts) == 1 else None
    if _is_mask(first) and len(_shape(first)) == len(x.m_shape):
        mask = _tensor(first)
        STATE.choice("a mask that only data could fill is taken to pick everything")
        return STATE.call("masked_select", (x, mask), {})
    view = _basic(x, parts)
    if not any(_advanced(part) for part in parts):
        return _alias(x) if view is x else view
    return _looked_up(view, [part for part in parts if not isinstance(part, int)])


def put(x: Tensor, index: Subscript, value: Written) -> Tensor:
    """Write where a subscript points."""
    parts = _parts(x, index)
    old = x.m_known
    before = _before(x)
    x.m_known, x.m_version = None, x.m_version + 1
    ranges.forget(x)
    given = [item for item in (before, value) if isinstance(item, Tensor)]
    saved = [_tensor(part) for part in parts if _advanced(part)]
    if STATE.backend == "cpu":
        _work(x, parts, value)
    if isinstance(value, Tensor):
        saved.append(_written(value))
        if before.stop_gradient and before.m_node is None and nodes.needed([value]):
            # Paddle takes what is written into for a leaf then, and keeps its gradient.
            before.stop_gradient = False
            before.m_keeper = x.keeper()
    if nodes.needed(given):
        nodes.PlainNode("set_value", given, [x], saved=saved)
    del saved
    _put_known(x, old, index, value)
    return x


def _written(value: Tensor) -> Tensor:
    """Return a value as the kernel that writes it has it: in order."""
    if value.m_strides is None:
        return value
    return new(value.m_shape, value.m_dtype, "contiguous")


def _work(x: Tensor, parts: Sequence[Plain], value: Written) -> None:
    """Count what a CPU takes to write: the value at the size of what is written (measured)."""
    given = isinstance(value, Tensor)
    item = nbytes((), x.m_dtype)
    scratch = [] if given else [item * max(1, getattr(value, "size", 1))]
    indices = [part for part in parts if _advanced(part)]
    if not indices:
        region = _region(x, parts)
        if given or hasattr(value, "shape") or region < count(x.m_shape):
            scratch.append(item * region)
    elif not any(map(_is_mask, indices)):
        return
    elif not given and count(_shape(indices[0])) < count(x.m_shape):
        scratch.append(count(x.m_shape))
    STATE.ledger.scratch(scratch, "set_value")


def _region(x: Tensor, parts: Sequence[Plain]) -> int:
    """Return how many elements numbers, slices and new axes point at."""
    extents, axis = [], 0
    for part in parts:
        if isinstance(part, slice):
            extents.append(len(range(*part.indices(x.m_shape[axis]))))
        axis += _axes(part)
    return count((*extents, *x.m_shape[axis:]))


def _before(x: Tensor) -> Tensor:
    earlier = x.detach()
    earlier.m_node, earlier.m_slot = x.m_node, x.m_slot
    earlier.stop_gradient, earlier.persistable = x.stop_gradient, x.persistable
    return earlier


def _put_known(x: Tensor, old: OwnTensor | None, index: Subscript, value: Written) -> None:
    """Write into data that is known where what is written and where are known too."""
    parts = index if isinstance(index, tuple) else (index,)
    unknown = [item for item in (*parts, value)
               if isinstance(item, Tensor) and item.m_known is None]  # fmt: skip
    if old is None or unknown or not x.stop_gradient:
        return
    with STATE.scratch():
        try:
            array = old.numpy().copy()
            array[tuple(_array(part) for part in parts)] = _array(value)
        except Exception:
            return
    x.m_known = known.of_array(array)


def _array(value: Part | Written) -> Part | Written:
    """Return a part of a subscript, or a value, with the data of a tensor as an array."""
    if not isinstance(value, Tensor):
        return value
    return None if value.m_known is None else value.m_known.numpy()


def _parts(x: Tensor, index: Subscript) -> list[Plain]:
    """Return a subscript's parts with an ellipsis written out and numbers as numbers."""
    parts = [_plain(part) for part in (index if isinstance(index, tuple) else (index,))]
    used = sum(_axes(part) for part in parts if part is not Ellipsis)
    places = [place for place, part in enumerate(parts) if part is Ellipsis]
    if places:
        rest = len(x.m_shape) - used
        parts[places[0] : places[0] + 1] = [slice(None)] * rest
    return [part for part in parts if part is not Ellipsis]


def _axes(part: Plain) -> int:
    if part is None or isinstance(part, bool):
        return 0
    return len(_shape(part)) if _is_mask(part) else 1


def _plain(part: Part) -> Plain | EllipsisType:
    import numpy

    if isinstance(part, Tensor) and not part.m_shape and word(part.m_dtype) != "bool":
        return int(known.number(part, "a subscript"))
    if isinstance(part, (numpy.integer,)):
        return int(part)
    if isinstance(part, numpy.ndarray) and not part.shape and part.dtype.kind in "iu":
        return int(part)
    if isinstance(part, slice):
        return slice(*(None if item is None else int(item)
                       for item in (part.start, part.stop, part.step)))  # fmt: skip
    if isinstance(part, (list, tuple, range)):
        if any(isinstance(item, Tensor) for item in part):
            stacked: Tensor = STATE.paddle.stack(list(part))
            return stacked
        return numpy.asarray(part) if len(part) else numpy.zeros((0,), "int64")
    return part


def _advanced(part: Plain) -> TypeIs[Advanced]:
    return hasattr(part, "dtype") and hasattr(part, "shape")


def _is_mask(part: Plain) -> TypeGuard[Advanced]:
    return _advanced(part) and str(part.dtype).rsplit(".", 1)[-1].lower() == "bool"


def _shape(part: Advanced) -> Shape:
    return part.m_shape if isinstance(part, Tensor) else tuple(part.shape)


def _tensor(part: Advanced) -> Tensor:
    return part if isinstance(part, Tensor) else STATE.paddle.to_tensor(part)


def _basic(x: Tensor, parts: Sequence[Plain]) -> Tensor:
    """Apply numbers, slices and new axes: a view, or the tensor itself where they leave it."""
    axes, starts, ends, steps, gone, fresh = [], [], [], [], [], []
    axis = place = 0
    for part in parts:
        if part is None or isinstance(part, bool):
            fresh.append(place)
            place += 1
            continue
        wide = _axes(part)
        if isinstance(part, (int, slice)):
            if axis >= len(x.m_shape):
                words = f"too many indices for a tensor of {len(x.m_shape)} dimensions"
                raise rightly(IndexError(words))
            extent = x.m_shape[axis]
            if isinstance(part, int):
                if not -extent <= part < extent:
                    words = f"index {part} is out of bounds for axis {axis} with size {extent}"
                    raise rightly(IndexError(words))
                at = part % extent
                begin, end, step = at, at + 1, 1
                gone.append(axis)
            else:
                begin, end, step = part.indices(extent)
            if (begin, end, step) != (0, extent, 1) or isinstance(part, int):
                axes.append(axis)
                starts.append(begin)
                ends.append(end if end >= 0 or step > 0 else -extent - 1)
                steps.append(step)
        axis += wide
        place += 0 if isinstance(part, int) else wide
    view = x
    if axes and all(step == 1 for step in steps):
        view = STATE.call("slice", (x, axes, starts, ends, [], gone), {})
    elif axes:
        view = STATE.call("strided_slice", (x, axes, starts, ends, steps), {})
        if gone:
            view = STATE.call("squeeze", (view, gone), {})
    if fresh:
        view = STATE.call("unsqueeze", (view, fresh), {})
    return view


def _alias(x: Tensor) -> Tensor:
    view = x.detach()
    if nodes.needed([x]):
        nodes.PlainNode("slice", [x], [view])
    return view


def _looked_up(x: Tensor, parts: Sequence[Plain]) -> Tensor:
    """Look up by tensors: a copy with a gradient as large as what was looked into."""
    shape: list[int] = []
    joined: Shape = ()
    spots: list[int] = []
    axis = 0
    for place, part in enumerate(parts):
        if _advanced(part):
            extents = (_picked(part),) if _is_mask(part) else _shape(part)
            joined = _broadcast(joined, extents)
            spots.append(place)
            axis += _axes(part)
        else:
            shape.append(x.m_shape[axis])
            axis += 1
    shape += x.m_shape[axis:]
    together = spots[-1] - spots[0] == len(spots) - 1
    at = spots[0] if together else 0
    out = new((*shape[:at], *joined, *shape[at:]), x.m_dtype, "index_elementwise_get")
    saved = [_tensor(part) for part in parts if _advanced(part)]
    STATE.ledger.scratch(_spots(parts), "index_elementwise_get")
    if nodes.needed([x]) and nodes.differentiable(x):
        nodes.PlainNode("index_elementwise_get", [x], [out], saved=saved)
    _known(x, parts, out)
    return out


def _spots(parts: Sequence[Plain]) -> list[int]:
    """Return the places that masks are turned into, a column for each of their axes."""
    sizes: list[int] = []
    for part in parts:
        if _is_mask(part):
            axes, spots = len(_shape(part)), 8 * _picked(part)
            sizes += [spots * axes] * (1 if axes == 1 else 2)
    return sizes


def _known(x: Tensor, parts: Sequence[Plain], out: Tensor) -> None:
    """Look up in data that is known."""
    if x.m_known is None or any(
        isinstance(part, Tensor) and part.m_known is None for part in parts
    ):
        return
    with STATE.scratch():
        array = x.m_known.numpy()[tuple(_array(part) if _advanced(part) else slice(None)
                                        for part in parts)]  # fmt: skip
    if tuple(array.shape) == out.m_shape:
        out.m_known = known.of_array(array)


def _picked(mask: Advanced) -> int:
    if isinstance(mask, Tensor):
        if mask.m_known is not None:
            with STATE.scratch():
                return int(mask.m_known.numpy().sum())
        STATE.choice("a mask that only data could fill is taken to pick everything")
        return count(mask.m_shape)
    return int(mask.sum())


def _broadcast(left: Shape, right: Shape) -> Shape:
    import numpy

    return tuple(numpy.broadcast_shapes(left, right))
