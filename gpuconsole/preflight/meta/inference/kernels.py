"""What kernels take while they run, and which gradients are made in memory that exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..sizes import FLOATS, count, crossed, nbytes, word
from ..state import STATE
from . import einsum, infer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .infer import Spec, Step

BROADCAST = frozenset({
    "add_grad", "subtract_grad", "multiply_grad", "divide_grad", "maximum_grad", "minimum_grad",
    "elementwise_pow_grad", "fmax_grad", "fmin_grad", "remainder_grad", "heaviside_grad",
})  # fmt: skip
ALONG = {"argsort": True, "topk": True, "kthvalue": False, "mode": False}
"""Kernels that work along the last axis on copies turned to it where another is asked for; whether
their gradients turn what arrives and the places too."""
TRANSPOSED = ("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose")
CONVOLUTIONS = ("conv2d", "depthwise_conv2d", "conv3d")


SAMPLED = {"temp": "20 per y, 16 per out", "work": "24 per y, 16 per out"}
"""What a CPU takes to sample a grid: corners and their weights."""


CONVERTED = frozenset({"sum", "mean", "all", "any", "equal_all"})
"""Kernels that turn what they are given into the type of their result, or into one that they can
add up."""


def rule(name: str) -> dict[str, str]:
    """Return what the table of operators says of a kernel."""
    plain = name[:-5] if name.endswith("_grad") else name
    row = STATE.rules.get(plain.rstrip("_"), {})
    return {**row, **SAMPLED} if plain == "grid_sample" else row


def placed(step: Step, specs: Sequence[Spec], results: Sequence[Spec]) -> str:
    """Return how the first input's gradient is made: new, inplace or saved. `results` are those
    gradients that are made."""
    if _general(step, specs):
        return "inplace" if _handed_on(step, specs, results) else "new"
    how = rule(step.name).get("grad")
    if how in ("inplace", "saved"):
        return str(how)
    if how is None and step.name in STATE.inplace:
        return "saved" if "cross_entropy" in step.name else "inplace"
    return "new"


def _general(step: Step, specs: Sequence[Spec]) -> bool:
    """Tell whether a CPU kernel reduces gradients of broadcast inputs the general way: both are
    made new, each with a copy of its size."""
    if STATE.backend != "cpu" or step.name not in BROADCAST or len(specs) < 2:
        return False
    return crossed(specs[0].shape, specs[1].shape)


def _handed_on(step: Step, specs: Sequence[Spec], results: Sequence[Spec]) -> bool:
    """Tell whether the gradient of a sum's larger term alone is made: it is what arrived."""
    alone = len(results) == 1 and results[0] is step.specs[0][0]
    return alone and step.name == "add_grad" and results[0].shape == specs[-1].shape


def needs(
    step: Step,
    specs: Sequence[Spec],
    *,
    backward: bool = False,
    nbytes_made: int = 0,
    results: Sequence[Spec] = (),
) -> list[int]:
    """Return the bytes that a CPU kernel takes for itself; notes the widest convolution.

    `nbytes_made` are the bytes of the results that are counted already, `results` those of a
    gradient that are made.
    """
    name = step.name
    plain = name[:-5] if backward and name.endswith("_grad") else name
    if "conv" in plain and not backward and specs:
        STATE.widest_conv = max(STATE.widest_conv, nbytes(specs[0].shape, specs[0].dtype))
    if plain.removesuffix("_grad") in CONVOLUTIONS and len(specs) > 1:
        return _unfolded(step, specs, backward)
    if plain in TRANSPOSED and len(specs) > 1:
        return _spread(step, specs, 1 if backward else 2)
    if name in ("einsum", "einsum_grad"):
        return _summed(step, specs, backward, nbytes_made)
    if backward and _general(step, specs):
        if _handed_on(step, specs, results):
            return []
        return [nbytes(result.shape, result.dtype) for result in results]
    out = _out(step)
    if name == "masked_fill" and out is not None and specs[1].shape != out.shape:
        return [count(out.shape)]
    if name in CONVERTED:
        return _converted(step, specs)
    text = rule(name).get("work" if backward else "temp", "")
    turned = _turned(step, specs, backward) if plain in ALONG else []
    return turned + [_amount(item, step, specs, backward) for item in text.split(",") if item]


def normed_twice(step: Step, x: Spec, there: Sequence[bool]) -> list[int]:
    """Return the bytes that a CPU kernel takes for itself for the second derivative of a norm of
    `x`, by which of its operands there are: means, deviations, scales and what is normed, each as
    large as `x`; three operands and two results with channels last where they come first; and what
    a scale's derivative is made of (measured with 3.3.1)."""
    size, (scale, *_, by_scale, by_shift) = nbytes(x.shape, x.dtype), there[1:]
    if step.name == "instance_norm_double_grad":
        # A scale's derivative is made before the last result, in as much memory.
        return [size] * (6 if by_scale and by_shift else 4)
    turned = infer.text(step, "data_format", "NCHW") == "NCHW" and len(x.shape) > 2
    first = scale and not infer.flag(step, "use_global_stats")
    return [size] * ((9 if turned else 4) + first)


def _out(step: Step) -> Spec | None:
    """Return the first result of an operator, None where it has none."""
    return step.specs[0][0] if step.specs and step.specs[0] else None


def _converted(step: Step, specs: Sequence[Spec]) -> list[int]:
    """Return the copies, in another type, of what is reduced (measured with 3.3.1)."""
    x, out = specs[0], _out(step)
    if out is None:
        return []
    if step.name == "mean":
        # Whole numbers have their mean in single precision, which is turned back.
        return [] if word(x.dtype) in FLOATS else [4 * count(x.shape), 4 * count(out.shape)]
    if step.name == "equal_all" or x.dtype != out.dtype:
        return [nbytes(x.shape, out.dtype)]
    return []


def _summed(step: Step, specs: Sequence[Spec], backward: bool, nbytes_made: int) -> list[int]:
    equation, out = infer.text(step, "equation"), _out(step)
    if backward:
        return [max(0, einsum.work(equation, specs) - nbytes_made)]
    return [] if out is None else einsum.temporary(equation, nbytes(out.shape, out.dtype))


def _turned(step: Step, specs: Sequence[Spec], backward: bool) -> list[int]:
    """Return the copies of a kernel that works along another axis than the last."""
    axis, rank = infer.integer(step, "axis", -1), len(specs[0].shape)
    results = [spec for row in step.specs for spec in row if spec is not None]
    if axis % max(1, rank) == rank - 1 or rank < 2:
        return []
    if not backward:
        turned = [specs[0], *results]
    else:
        places = [spec for spec in specs[:-1] if word(spec.dtype) == "int64"]
        turned = [*results, *([*places, specs[-1]] if ALONG[step.name[:-5]] else ())]
    return [nbytes(spec.shape, spec.dtype) for spec in turned]


def _unfolded(step: Step, specs: Sequence[Spec], backward: bool) -> list[int]:
    x, weight = specs[0], specs[1]
    out = specs[2] if backward else _out(step)
    if out is None:
        return []
    last = _channels_last(step)
    inner = list(out.shape)[1:-1] if last else list(out.shape)[2:]
    same = list(x.shape)[1:-1] == inner if last else list(x.shape)[2:] == inner
    turned = _channels_first(step, x, out, backward) if last else []
    if same and all(extent == 1 for extent in list(weight.shape)[2:]):
        return turned
    return [*turned, 4 * count(list(weight.shape)[1:]) * count(inner)]


def _channels_last(step: Step) -> bool:
    return infer.text(step, "data_format") in ("NHWC", "NDHWC")


def _channels_first(step: Step, x: Spec, out: Spec, backward: bool) -> list[int]:
    """Return the copies of pictures that a CPU kernel turns to channels-first and back."""
    copies = [nbytes(item.shape, item.dtype) for item in (x, out)]
    if not backward:
        return copies
    grads = [spec for row in step.specs for spec in row if spec is not None]
    # The gradient of pictures is turned back before that of the weight is made.
    later = sum(nbytes(grad.shape, grad.dtype) for grad in grads[1:])
    return [*copies, max(0, copies[0] - later)] if grads[0].shape == x.shape else copies


def _spread(step: Step, specs: Sequence[Spec], turned: int) -> list[int]:
    """Return what a transposed convolution multiplies into on a CPU, a sample at a time; pictures
    with their channels last are copied so many times on the way."""
    x, weight = specs[0], specs[1]
    last = _channels_last(step)
    inner = list(x.shape)[1:-1] if last else list(x.shape)[2:]
    columns = 4 * count(list(weight.shape)[1:]) * count(inner)
    return [columns, turned * nbytes(x.shape, x.dtype)] if last else [columns]


def _amount(text: str, step: Step, specs: Sequence[Spec], backward: bool) -> int:
    """Return bytes written as `8 per out`."""
    rate, _, what = text.split()
    if what == "call":
        return int(rate)
    whole = specs[-1] if backward else _out(step)
    first = specs[0] if specs else whole
    if whole is None or first is None:
        return 0
    shape = list((first if what in "xy" else whole).shape)
    size = count(whole.shape)
    if what == "x":
        size = count(first.shape)
    elif what == "y":
        size = count(specs[1].shape) if len(specs) > 1 else size
    elif what in ("group", "row"):
        size //= max(1, shape[-1] if shape else 1)
    elif what == "channel":
        size = shape[1] if len(shape) > 1 else 1
    elif what == "instance":
        size = count(shape[:2])
    return int(rate) * size
