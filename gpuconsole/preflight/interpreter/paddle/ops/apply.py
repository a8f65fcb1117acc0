"""The operators: output shapes, what backward keeps, temporaries and floating point operations.

What each operator saves is data (see `table`); shapes and special cases are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from gpuconsole.preflight.interpreter.domain.values import Bound, ShapeFault
from gpuconsole.preflight.interpreter.machine.run_state.modes import Amp
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.ops.table import count, rules
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import (
    FLOATS,
    ITEM_BYTES,
    Edge,
    Node,
    Tensor,
    broadcast,
)
from gpuconsole.preflight.memory.trace import Storage
from gpuconsole.preflight.meta.sizes import crossed

FULL_AT_O2 = frozenset({"embedding", "interpolate", "scatter"})
_HALVES = frozenset({"float16", "bfloat16"})
_ALSO = {
    "add": ("elementwise_add",), "subtract": ("elementwise_sub",),
    "multiply": ("elementwise_mul",), "divide": ("elementwise_div",),
    "matmul": ("matmul_v2", "mul", "linear_v2"), "conv": ("conv2d", "depthwise_conv2d"),
    "sum": ("reduce_sum",), "mean": ("reduce_mean",), "norm": ("p_norm",),
    "cross_entropy": ("softmax_with_cross_entropy",), "embedding": ("lookup_table_v2",),
    "interpolate": ("bilinear_interp_v2", "nearest_interp_v2"),
}  # fmt: skip
"""Names under which a script's own lists may mean an operator of the table."""


def wanted_type(amp: Amp, name: str, listed: str, dtypes: Sequence[str]) -> str | None:
    """Return the type that an operator's float inputs are cast to, None to leave them.

    `listed` is the operator's list: half, full (black at O1), always (black at O1 and O2), keep
    (as its first input is), or "".
    """
    floats = [dtype for dtype in dtypes if dtype in FLOATS]
    if not floats or "float64" in floats:
        return None
    names = {name, *_ALSO.get(name, ())}
    if names & amp.white:
        listed = "half"
    elif names & amp.black:
        return "float32"
    if amp.level == "O2":
        return "float32" if listed == "always" or name in FULL_AT_O2 else amp.dtype
    if amp.level == "OD":
        return amp.dtype if listed == "half" else "float32"
    if listed == "half":
        return amp.dtype
    if listed in ("full", "always"):
        return "float32"
    if listed == "keep":
        return None
    return "float32" if "float32" in floats and _HALVES & set(floats) else None


def only_first(name: str) -> bool:
    """Tell whether an operator's weights stay in single precision whatever its input is."""
    return name in ("batch_norm", "layer_norm")


def attach(
    run: Run,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    saved: Iterable[Storage],
    mode: str,
    work: float = 0.0,
) -> Node | None:
    """Hang a backward node behind `outputs` when a gradient would flow to any input."""
    if not run.mode.grad_enabled or not any(tensor.needs_grad for tensor in inputs):
        return None
    if all(
        output.dtype not in FLOATS and not output.dtype.startswith("complex") for output in outputs
    ):
        return None
    edges = [Edge(tensor) for tensor in inputs if tensor.needs_grad]
    if inputs and not inputs[0].needs_grad and mode in ("inplace", "view", "strided"):
        mode = "new"
    node = Node(edges, [output.nbytes for output in outputs], list(saved), mode, int(work))
    node.layer = run.tape.layer
    if run.mode.nodes is not None:
        run.mode.nodes.append(node)
    for slot, output in enumerate(outputs):
        output.node, output.slot, output.stop_gradient = node, slot, False
    return node


def contiguous(run: Run, inputs: Sequence[Tensor]) -> list[Storage]:
    """Copy strided views for a kernel; the copies live as long as the returned list."""
    return [run.storage(tensor.nbytes, "workspace") for tensor in inputs if tensor.strided]


def amp_inputs(run: Run, amp: str, inputs: Sequence[Tensor], name: str = "") -> list[Tensor]:
    """Cast float inputs as automatic mixed precision would; on the CPU Paddle ignores it."""
    if run.mode.amp.level == "O0" or run.on_cpu:
        return list(inputs)
    wanted = wanted_type(run.mode.amp, name, amp, [tensor.dtype for tensor in inputs])
    if wanted is None:
        return list(inputs)
    many = 1 if only_first(name) else len(inputs)
    return [
        cast(run, tensor, wanted) if tensor.dtype in FLOATS and place < many else tensor
        for place, tensor in enumerate(inputs)
    ]


COPIED = frozenset({"gelu", "logsumexp"})
"""Rows with a backward node that keeps the copy made of a strided view rather than the view:
measured with 3.3.1, as for bmm; matmul, linear and most others keep the view."""


def apply(
    run: Run,
    name: str,
    inputs: Sequence[Tensor],
    shape: Sequence[int],
    dtype: str = "",
    *,
    extra: int = 0,
    work: float = 0.0,
    temp: float = 0.0,
    flops: float = 0.0,
    groups: int = 0,
    mode: str = "",
    second: Tensor | None = None,
    keep: Sequence[str] | None = None,
    copied: bool = False,
) -> Tensor:
    """Run one operator with a row in the table.

    Beside what the row says `extra` bytes are saved, `temp` bytes live while the forward kernel
    runs and `work` bytes while the backward kernel runs. `groups` is the number of groups where
    the row counts by them, `second` an output beside the first, `mode` replaces the row's way to
    make the first gradient, `keep` (x, y, z, out, second) what it says is saved.
    With `copied`, and for `COPIED`, the backward node keeps the copy of a strided view.
    """
    rule = rules()[name]
    if run.mode.amp.level != "O0":
        inputs = amp_inputs(run, rule.amp, inputs, name)
    copies = contiguous(run, inputs)
    out = run.tensor(tuple(shape), dtype or (inputs[0].dtype if inputs else ""))
    extra += count(rule.extra, inputs, out, groups)
    saved = [run.storage(extra)] if extra and run.mode.grad_enabled else []
    if run.on_cpu:
        temp += count(rule.temp, inputs, out, groups)
        work += count(rule.work, inputs, out, groups)
    run.scratch(temp + (0 if run.mode.grad_enabled else extra))
    views = [id(tensor) for tensor in inputs if tensor.strided]
    kept_copies = dict(zip(views, copies, strict=True)) if copied or name in COPIED else {}
    del copies
    run.tape.flops += flops
    run.tape.bytes += out.nbytes + sum(tensor.nbytes for tensor in inputs)
    if run.mode.grad_enabled:
        places = dict(zip(("x", "y", "z"), inputs, strict=False))
        places["out"] = out
        if second is not None:
            places["second"] = second
        words = rule.save if keep is None else keep
        held = [places[word] for word in words if word in places]
        # A strided view that was saved is copied once more for the backward kernel.
        work += sum(each.nbytes for each in held if each.strided and id(each) not in kept_copies)
        blocks = [*saved, *(kept_copies.get(id(each), each.storage) for each in held)]
        node = attach(run, inputs, [out], blocks, mode or rule.grad, work)
        if node is not None:
            node.name = name
    return out


def view(
    run: Run, x: Tensor, shape: Sequence[int], *, strided: bool = False, order: bool = False
) -> Tensor:
    """Look at the same storage with another shape; `order` when the elements' order changes.

    The executor of static programs has no views: each is a tensor of its own.
    """
    if run.program.drafting is not None:
        out = run.tensor(tuple(shape), x.dtype)
        out.high = x.high
        attach(run, [x], [out], (), "new" if order else "view")
        return out
    out = Tensor(tuple(shape), x.dtype, x.storage)
    out.strided = strided
    out.high = x.high
    if x.needs_grad:
        node = attach(run, [x], [out], (), "strided" if order else "view")
        if node is not None and order:
            node.wants_contiguous = False
    return out


def cast(run: Run, x: Tensor, dtype: str) -> Tensor:
    """Cast; to the same type costs nothing."""
    if x.dtype == dtype:
        return x
    out = run.tensor(x.shape, dtype)
    out.high = x.high
    attach(run, [x], [out], (), "new")
    return out


def unary(run: Run, name: str, x: Tensor) -> Tensor:
    """Run an elementwise operator of one input."""
    return apply(run, name, (x,), x.shape, flops=x.size)


def binary(run: Run, name: str, x: Tensor, y: Tensor) -> Tensor:
    """Run an elementwise operator of two inputs with broadcasting."""
    shape = broadcast(x.shape, y.shape)
    if shape is None:
        raise ShapeFault(
            f"shapes {list(x.shape)} and {list(y.shape)} do not broadcast together",
            x.shape,
            y.shape,
        )
    dtype = promote(x, y)
    x, y = (cast(run, side, dtype) for side in (x, y))
    work, mode = 0.0, ""
    if run.on_cpu and crossed(x.shape, y.shape):
        # Both gradients are made again, each with a copy of its size.
        work = float(sum(side.nbytes for side in (x, y) if side.needs_grad))
        mode = "new"
    return apply(run, name, (x, y), shape, dtype, work=work, mode=mode, flops=prod(shape))


def promote(x: Tensor, y: Tensor) -> str:
    """Return the type of a result of two tensors: float wins over int, wide over narrow."""
    if x.dtype == y.dtype:
        return x.dtype
    for side in (x, y):
        other = y if side is x else x
        if side.dtype in FLOATS and other.dtype not in FLOATS:
            return side.dtype
    return x.dtype if ITEM_BYTES[x.dtype] >= ITEM_BYTES[y.dtype] else y.dtype


def matmul(
    run: Run, x: Tensor, y: Tensor, transpose_x: bool = False, transpose_y: bool = False,
    *, copied: bool = False,
) -> Tensor:  # fmt: skip
    """Multiply matrices, broadcasting the leading dimensions."""
    if not x.shape or not y.shape:
        raise ShapeFault("matmul needs at least one dimension on both sides", x.shape, y.shape)
    left = list(x.shape) if len(x.shape) > 1 else [1, *x.shape]
    right = list(y.shape) if len(y.shape) > 1 else [*y.shape, 1]
    if transpose_x and len(x.shape) > 1:
        left[-2:] = left[:-3:-1]
    if transpose_y and len(y.shape) > 1:
        right[-2:] = right[:-3:-1]
    lead = broadcast(left[:-2], right[:-2])
    if left[-1] != right[-2] or lead is None:
        raise ShapeFault(
            f"matmul of {list(x.shape)} and {list(y.shape)}: {left[-1]} and {right[-2]} differ"
            if left[-1] != right[-2]
            else f"matmul of {list(x.shape)} and {list(y.shape)}: leading dimensions differ",
            x.shape,
            y.shape,
        )
    tail = ([left[-2]] if len(x.shape) > 1 else []) + ([right[-1]] if len(y.shape) > 1 else [])
    flops = 2.0 * prod(lead) * left[-2] * left[-1] * right[-1]
    work = _unfolded(x, y, lead)
    return apply(run, "matmul", (x, y), [*lead, *tail], work=work, flops=flops, copied=copied)


def _unfolded(x: Tensor, y: Tensor, lead: Sequence[int]) -> int:
    """Return the bytes of gradients that are made for all leading dimensions, then summed."""
    if len(x.shape) < 3 or len(y.shape) < 3:
        return 0
    total = 0
    for side in (x, y):
        whole = prod(lead) * prod(side.shape[-2:])
        if side.needs_grad and len(side.shape) > 1 and whole != side.size:
            total += whole * ITEM_BYTES[side.dtype]
    return total


def linear(run: Run, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply by a weight and add a bias, each with its own output as Paddle does."""
    # A weight of more axes is multiplied as matrices are: its features are its last axis but one.
    features = weight.shape[-2] if len(weight.shape) > 1 else weight.shape[0]
    if not x.shape or x.shape[-1] != features:
        got = x.shape[-1] if x.shape else 0
        raise ShapeFault(
            f"Linear expects {features} input features, {got} arrive", x.shape, weight.shape
        )
    out = matmul(run, x, weight)
    return out if bias is None else binary(run, "add", out, bias)


def concat(run: Run, parts: Sequence[Tensor], axis: int) -> Tensor:
    """Join tensors along an axis."""
    first = parts[0]
    axis = check_axis(axis, len(first.shape))
    for part in parts:
        if len(part.shape) != len(first.shape) or any(
            a != b
            for place, (a, b) in enumerate(zip(part.shape, first.shape, strict=True))
            if place != axis
        ):
            raise ShapeFault(
                f"concat along axis {axis} of {list(first.shape)} and {list(part.shape)}",
                first.shape,
                part.shape,
            )
    shape = list(first.shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return apply(run, "concat", parts, shape)


def stack(run: Run, parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new axis."""
    first = parts[0]
    for part in parts:
        if part.shape != first.shape:
            raise ShapeFault(
                f"stack of {list(first.shape)} and {list(part.shape)}", first.shape, part.shape
            )
    axis = check_axis(axis, len(first.shape) + 1)
    return apply(run, "stack", parts, [*first.shape[:axis], len(parts), *first.shape[axis:]])


def split(run: Run, x: Tensor, sections: Sequence[int], axis: int) -> list[Tensor]:
    """Cut a tensor into copies of its parts."""
    copies = contiguous(run, (x,))
    outs = [
        run.tensor((*x.shape[:axis], extent, *x.shape[axis + 1 :]), x.dtype) for extent in sections
    ]
    del copies
    attach(run, (x,), outs, (), "fill")
    return outs


def reduce(
    run: Run, name: str, x: Tensor, axis: Sequence[int] | int | None, keepdim: bool
) -> Tensor:
    """Reduce over some or all axes."""
    return apply(run, name, (x,), reduced_shape(x, axis, keepdim), flops=x.size)


def reduced_shape(x: Tensor, axis: Sequence[int] | int | None, keepdim: bool) -> list[int]:
    """Return the shape that is left after reducing some or all axes."""
    rank = len(x.shape)
    if axis is None or (isinstance(axis, (list, tuple)) and not axis):
        gone = set(range(rank))
    else:
        gone = {
            check_axis(place, rank, x.shape)
            for place in ([axis] if isinstance(axis, int) else axis)
        }
    return [
        1 if place in gone else extent
        for place, extent in enumerate(x.shape)
        if keepdim or place not in gone
    ]


def check_axis(axis: int, rank: int, *shapes: tuple[int, ...]) -> int:
    """Return the axis counted from the front; ShapeFault when there is no such axis.

    A tensor without dimensions has one as far as the name of an axis goes: 0 or -1.
    """
    if not isinstance(axis, int):
        raise TypeError("an axis is a whole number")
    axes = max(rank, 1)
    if not -axes <= axis < axes:
        raise ShapeFault(f"axis {axis} of a tensor with {rank} dimensions", *shapes)
    return axis + axes if axis < 0 else axis


def _of_nothing(x: Tensor, shape: Sequence[int]) -> list[int]:
    """Return the shape that a tensor without elements is asked for: here 0 is 0, and beside it
    -1 infers from the axes that are not empty."""
    if 0 not in shape or -1 not in shape:
        return list(shape)
    rest = prod(extent for extent in x.shape if extent)
    inferred, over = divmod(rest, prod(extent for extent in shape if extent > 0))
    if over:
        raise TypeError("an empty tensor and a shape with axes that do not divide")
    return [inferred if extent == -1 else extent for extent in shape]


def reshape(run: Run, x: Tensor, shape: Sequence[int]) -> Tensor:
    """Reshape: a view of a contiguous tensor, a copy of a strided one; 0 keeps, -1 infers."""
    wanted = [
        x.shape[place] if extent == 0 and place < len(x.shape) else extent
        for place, extent in enumerate(shape)
    ]
    if not x.size:
        wanted = _of_nothing(x, shape)
    product = prod(extent for extent in wanted if extent != -1)
    if wanted.count(-1) == 1 and product and x.size % product == 0:
        wanted[wanted.index(-1)] = x.size // product
    picked = any(type(extent) is Bound for extent in x.shape)
    if -1 in wanted or (prod(wanted) > x.size if picked else prod(wanted) != x.size):
        raise ShapeFault(
            f"reshape of {list(x.shape)} ({x.size} elements) to {list(shape)}",
            x.shape,
            tuple(shape),
        )
    if not x.strided:
        return view(run, x, wanted)
    out = run.tensor(tuple(wanted), x.dtype)
    attach(run, (x,), [out], (), "view")
    return out


def transpose(run: Run, x: Tensor, order: Sequence[int]) -> Tensor:
    """Permute axes: a strided view. Axes behind those that are named stay, as in Paddle."""
    axes = [check_axis(axis, len(x.shape)) for axis in order]
    if len(axes) > len(x.shape) or len(set(axes)) < len(axes):
        raise ShapeFault(f"transpose of {list(x.shape)} by {list(order)}", x.shape, tuple(order))
    axes += range(len(axes), len(x.shape))
    if len(set(axes)) < len(axes):
        raise TypeError("a transposition that has one axis twice")
    shape = [x.shape[axis] for axis in axes]
    moved = [axis for axis in axes if x.shape[axis] > 1]
    same = moved == sorted(moved)
    return view(run, x, shape, strided=x.strided or not same, order=not same)


def flatten(run: Run, x: Tensor, start: int = 0, stop: int = -1) -> Tensor:
    """Merge the axes from `start` to `stop`."""
    if not x.shape:
        return reshape(run, x, [1])
    first, last = check_axis(start, len(x.shape)), check_axis(stop, len(x.shape))
    return reshape(
        run, x, [*x.shape[:first], prod(x.shape[first : last + 1]), *x.shape[last + 1 :]]
    )


def sliced(run: Run, x: Tensor, shape: Sequence[int], *, strided: bool) -> Tensor:
    """Take a basic slice: a view with a gradient that is a full-size tensor."""
    out = Tensor(tuple(shape), x.dtype, x.storage)
    out.strided = strided
    attach(run, (x,), [out], (), "new")
    return out
