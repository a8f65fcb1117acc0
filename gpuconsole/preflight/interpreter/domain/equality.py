"""Whether two abstract values are the same, as far as memory goes."""

from __future__ import annotations

from gpuconsole.preflight.interpreter.domain import traversal_cost
from gpuconsole.preflight.interpreter.domain.values import Value
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor


def same(left: Value, right: Value) -> bool:
    """Whether two values are one for the analysis: equal constants, or tensors of one shape."""
    return _same(left, right, set())


def _same(left: Value, right: Value, seen: set[tuple[int, int]]) -> bool:
    """Compare, each pair of containers once: `seen` are those that are being compared, or equal."""
    if left is right:
        return True
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return left.shape == right.shape and left.dtype == right.dtype
    shape = getattr(left, "shape", None)
    if shape is not None and type(left) is type(right):
        return bool(shape == right.shape and left.dtype == right.dtype)
    if isinstance(left, (list, tuple)) and type(left) is type(right):
        pair = (id(left), id(right))
        if pair in seen:
            return True
        seen.add(pair)
        return len(left) == len(right) and len(seen) <= traversal_cost.MOST and all(
            _same(first, other, seen) for first, other in zip(left, right, strict=True)
        )  # fmt: skip
    if isinstance(left, (int, float, str, bool, type(None))):
        return type(left) is type(right) and left == right
    alike = getattr(left, "alike", None)
    return alike is not None and type(left) is type(right) and bool(alike(right))
