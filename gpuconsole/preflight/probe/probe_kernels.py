"""What CPU kernels take while they run, by the shapes of their operands."""

from __future__ import annotations

from typing import Any

ITEM = {"float32": 4, "float64": 8, "int64": 8, "int32": 4, "bool": 1, "uint8": 1, "int8": 1,
        "float16": 2, "bfloat16": 2, "int16": 2, "complex64": 8, "complex128": 16}  # fmt: skip


def nbytes(value: Any) -> Any:
    """Return a value's bytes; an extent nobody knows is nothing on the CPU."""
    count = 1
    for extent in value.shape:
        count *= max(0, extent)
    return count * ITEM.get(str(value.dtype).rsplit(".", 1)[-1].lower(), 4)


def convolved(name: Any, operands: Any) -> Any:
    if "conv" in name and operands and not name.endswith("_grad"):
        return nbytes(operands[0])
    return 0


def kernel_needs(op: Any, name: Any, operands: Any, rule: Any) -> Any:
    """Return what a CPU kernel takes while it runs: the buffer that a convolution unfolds into."""
    plain = name[:-5] if name.endswith("_grad") else name
    if plain not in ("conv2d", "depthwise_conv2d", "conv3d") or len(operands) < 2:
        what = rule.get("work" if name.endswith("_grad") else "temp", "")
        return [_amount(one, op, operands) for one in what.split(",") if one]
    weight = operands[1]
    out = operands[-1] if name.endswith("_grad") else op.results()[0]
    unfold = 4
    for extent in list(weight.shape)[1:] + list(out.shape)[2:]:
        unfold *= max(1, extent)
    one_by_one = all(extent == 1 for extent in list(weight.shape)[2:])
    same = list(operands[0].shape)[2:] == list(out.shape)[2:]
    return [] if one_by_one and same else [unfold]


def _amount(text: Any, op: Any, operands: Any) -> Any:
    """Return bytes written as `8 per out`."""
    rate, _, what = text.split()
    grad = op.name().endswith("_grad")
    whole = operands[-1] if grad else op.results()[0]
    shape = list((operands[0] if what in "xy" else whole).shape)
    if what == "call":
        return int(rate)
    size = nbytes(operands[1] if what == "y" and len(operands) > 1 else whole) // 4
    if what in ("group", "row"):
        size //= max(1, shape[-1] if shape else 1)
    elif what == "channel":
        size = shape[1] if len(shape) > 1 else 1
    return int(rate) * size
