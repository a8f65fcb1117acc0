"""The methods and properties of a tensor, made of the functions of `paddle`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuconsole.preflight.scan import autograd, functional, ops
from gpuconsole.preflight.scan.arrays import Array, DType
from gpuconsole.preflight.scan.engine import backward_all
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.shaping import reshape, turned
from gpuconsole.preflight.scan.tensor_api import FUNCTIONS, cast
from gpuconsole.preflight.scan.tensors import Tensor
from gpuconsole.preflight.scan.values import (
    ShapeFault,
    Value,
)


def _number(run: Run, x: Tensor, *_: Value) -> Value:
    return run.number("a number out of a tensor")


def _numpy(run: Run, x: Tensor, *_: Value) -> Value:
    return Array(x.shape, x.dtype)


def _tolist(run: Run, x: Tensor) -> Value:
    return Array(x.shape, x.dtype).do_tolist(run)


def _backward(run: Run, x: Tensor, grad_tensor: Value = None, retain_graph: Value = False) -> None:
    if x.node is None and run.faults:
        return
    run.backwards += 1
    given = grad_tensor if isinstance(grad_tensor, Tensor) else None
    backward_all(run, [x], [given], retain=retain_graph is True)


def _detach(run: Run, x: Tensor) -> Value:
    out = Tensor(x.shape, x.dtype, x.storage)
    out.strided = x.strided
    return out


def _same(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
    return x


def _clear_gradient(run: Run, x: Tensor, set_to_zero: Value = True) -> None:
    if x.grad is not None and (set_to_zero is False or x.grad.rows):
        x.grad = None


def _set_value(run: Run, x: Tensor, value: Value) -> None:
    shape = getattr(value, "shape", x.shape)
    if shape != x.shape:
        raise ShapeFault(f"set_value of {list(shape)} into {list(x.shape)}", shape, x.shape)


def _inplace(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
    return x


def _item(run: Run, x: Tensor, *_: Value) -> Value:
    return run.number("a number out of a tensor")


METHODS: dict[str, Callable[..., Any]] = {
    **{name: call for name, call in FUNCTIONS.items() if name not in (
        "to_tensor", "zeros", "ones", "full", "rand", "randn", "arange", "shape", "empty")},
    "softmax": functional.activation("softmax"), "backward": _backward, "item": _item,
    "numpy": _numpy, "tolist": _tolist, "detach": _detach, "clear_gradient": _clear_gradient,
    "clear_grad": _clear_gradient, "astype": cast, "set_value": _set_value, "cuda": _same,
    "cpu": _same, "contiguous": _same, "to": _same, "pin_memory": _same,
    "register_hook": autograd.register_hook,
    "float": lambda run, x: ops.cast(run, x, "float32"), "view": reshape,
    "int": lambda run, x: ops.cast(run, x, "int32"), "dim": lambda run, x: len(x.shape),
    "long": lambda run, x: ops.cast(run, x, "int64"), "numel": lambda run, x: x.size,
    "bool": lambda run, x: ops.cast(run, x, "bool"),
    **{f"{name}_": _inplace for name in (
        "add", "subtract", "multiply", "scale", "clip", "zero", "fill", "normal", "uniform",
        "exponential",
    )},
    "copy_": _inplace, "is_leaf": lambda run, x: x.node is None,
    "norm": FUNCTIONS["norm"], "__len__": lambda run, x: x.shape[0],
}  # fmt: skip
PROPERTIES: dict[str, Callable[[Run, Tensor], Value]] = {
    "shape": lambda run, x: list(x.shape), "ndim": lambda run, x: len(x.shape),
    "size": lambda run, x: x.size, "dtype": lambda run, x: DType(x.dtype),
    "grad": lambda run, x: x.grad, "T": turned, "name": lambda run, x: x.name or "tensor",
    "stop_gradient": lambda run, x: x.stop_gradient, "place": lambda run, x: "place",
    "trainable": lambda run, x: not x.stop_gradient, "data": lambda run, x: x,
    "is_leaf": lambda run, x: x.node is None,
}  # fmt: skip


def install() -> None:
    """Give tensors their methods: the look-up asks for `do_` and `get_` names."""

    def method(call: Callable[..., Value]) -> Callable[..., Value]:
        return lambda self, run, *args, **kwargs: call(run, self, *args, **kwargs)

    def prop(call: Callable[[Run, Tensor], Value]) -> Callable[..., Value]:
        return lambda self, run: call(run, self)

    for name, call in METHODS.items():
        setattr(Tensor, "do_" + name, method(call))
    for name, read in PROPERTIES.items():
        setattr(Tensor, "get_" + name, prop(read))
