"""The methods and properties of a tensor, made of the functions of `paddle`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    ShapeFault,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy.array import Array, DType
from gpuconsole.preflight.interpreter.paddle.autograd import api as autograd_api
from gpuconsole.preflight.interpreter.paddle.autograd.backward import backward_all
from gpuconsole.preflight.interpreter.paddle.nn import functional
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor import inplace, manipulation
from gpuconsole.preflight.interpreter.paddle.tensor.api import FUNCTIONS, astype
from gpuconsole.preflight.interpreter.paddle.tensor.creation import dtype_of
from gpuconsole.preflight.interpreter.paddle.tensor.manipulation import reshape, turned
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import (
    FLOATS,
    ITEM_BYTES,
    Tensor,
    as_shape,
)


def _number(run: Run, x: Tensor, *_: Value) -> Value:
    return run.number("a number out of a tensor")


def _numpy(run: Run, x: Tensor, *_: Value) -> Array:
    # On the CPU the copy, of all that a view looks at, is Paddle's own memory and lives as long as
    # the array (measured).
    keeps = run.storage(x.storage.nbytes) if run.on_cpu else None
    if x.numbers is None:
        return Array(x.shape, x.dtype, keeps=keeps)
    return Array(x.shape, x.dtype, list(x.numbers) if x.shape else x.numbers[0], keeps)


def _tolist(run: Run, x: Tensor) -> Value:
    return run.interp.call(run.interp.get_attr(_numpy(run, x), "tolist"), [], {})


def _backward(run: Run, x: Tensor, grad_tensor: Value = None, retain_graph: Value = False) -> None:
    if x.node is None and run.findings.faults:
        return
    run.progress.backwards += 1
    given = grad_tensor if isinstance(grad_tensor, Tensor) else None
    backward_all(run, [x], [given], retain=retain_graph is True)


def _detach(run: Run, x: Tensor) -> Value:
    out = Tensor(x.shape, x.dtype, x.storage)
    out.strided = x.strided
    return out


def _same(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
    return x


def _clear_gradient(run: Run, x: Tensor, set_to_zero: Value = True) -> None:
    x.clear_gradient(zero=set_to_zero is not False)


def _set_value(run: Run, x: Tensor, value: Value) -> None:
    x.numbers = None
    shape = getattr(value, "shape", x.shape)
    if shape != x.shape:
        raise ShapeFault(f"set_value of {list(shape)} into {list(x.shape)}", shape, x.shape)


def _to(run: Run, x: Tensor, *args: Value, dtype: Value = None, **_: Value) -> Value:
    """`x.to("float16")`, `x.to(y)`, `x.to(device)`: there is one device, types are cast."""
    given = next((argument for argument in (dtype, *args) if _names_type(argument)), None)
    other = next((argument for argument in args if isinstance(argument, Tensor)), None)
    if given is None:
        return x if other is None else ops.cast(run, x, other.dtype)
    return astype(run, x, given)


def _names_type(value: Value) -> bool:
    if isinstance(value, str):
        return value.removeprefix("paddle.") in ITEM_BYTES
    return isinstance(value, DType)


def _type_as(run: Run, x: Tensor, other: Tensor) -> Value:
    return ops.cast(run, x, other.dtype)


def _new(run: Run, x: Tensor, *shape: Value, dtype: Value = None, **_: Value) -> Value:
    wanted = shape[0] if shape and isinstance(shape[0], (list, tuple)) else shape
    return run.tensor(as_shape(list(wanted)), dtype_of(run, dtype, x.dtype))


def _view(run: Run, x: Tensor, *shape: Value, **options: Value) -> Value:
    """`x.view`: another shape, or the bytes as another type."""
    if shape and _names_type(shape[0]):
        raise TypeError("the bytes of a tensor seen as another type")
    return reshape(run, x, *shape, **options)


def _require(x: Tensor, on: Value) -> Tensor:
    x.stop_gradient = on is False
    return x


def _itemsize(run: Run, x: Tensor) -> Value:
    return ITEM_BYTES[x.dtype]


def _as_type(name: str) -> Callable[..., Value]:
    return lambda run, x, *_: ops.cast(run, x, name)


def _item(run: Run, x: Tensor, *_: Value) -> Value:
    if x.numbers is not None and not x.shape:
        return x.numbers[0]
    return _number(run, x)


def _nothing(run: Run, x: Tensor, *_: Value) -> None:
    return None


def _strides(x: Tensor) -> list[int]:
    return [prod(x.shape[place + 1 :]) for place in range(len(x.shape))]


def _mapped(run: Run, x: Tensor, function: Value) -> Value:
    """`x.apply(f)`: what the function makes of a tensor without a gradient."""
    return run.interp.call(function, [x], {})


_NOT_METHODS = ("to_tensor", "zeros", "ones", "full", "rand", "randn", "arange", "shape", "empty",
                "eye", "range", "linspace")  # fmt: skip
METHODS: dict[str, Callable[..., Value]] = {
    **{name: call for name, call in FUNCTIONS.items() if name not in _NOT_METHODS},
    "softmax": functional.FUNCTIONS["softmax"], "backward": _backward, "item": _item,
    "numpy": _numpy, "tolist": _tolist, "detach": _detach, "detach_": _same,
    "clear_gradient": _clear_gradient, "clear_grad": _clear_gradient, "astype": astype,
    "type": astype, "set_value": _set_value, "cuda": _same, "cpu": _same, "to": _to,
    "pin_memory": _same, "register_hook": autograd_api.register_hook, "view": _view,
    "contiguous": manipulation.contiguous, "float": _as_type("float32"),
    "half": _as_type("float16"), "double": _as_type("float64"),
    "int": _as_type("int32"), "long": _as_type("int64"),
    "bool": _as_type("bool"), "bfloat16": _as_type("bfloat16"), "type_as": _type_as,
    "dim": lambda run, x: len(x.shape), "ndimension": lambda run, x: len(x.shape),
    "is_leaf": lambda run, x: x.node is None, "is_contiguous": lambda run, x: not x.strided,
    "element_size": lambda run, x: ITEM_BYTES[x.dtype], "get_shape": lambda run, x: list(x.shape),
    "is_floating_point": lambda run, x: x.dtype in FLOATS, "__len__": lambda run, x: x.shape[0],
    "new_zeros": _new, "new_ones": _new, "new_full": _new, "new_empty": _new,
    "view_as": lambda run, x, y: ops.reshape(run, x, y.shape),
    "reshape_as": lambda run, x, y: ops.reshape(run, x, y.shape),
    "requires_grad_": lambda run, x, on=True: _require(x, on),
    **{f"{name}_": inplace.reshaped(getattr(manipulation, name))
       for name in ("reshape", "squeeze", "unsqueeze", "flatten")},
    "t_": inplace.reshaped(manipulation.turned),
    "transpose_": inplace.reshaped(manipulation.transpose),
    "unfold": manipulation.windows, "apply_": _mapped, "apply": _mapped, "value": _same,
    "is_sparse": lambda run, x: False, "is_dense": lambda run, x: True, "retain_grads": _nothing,
    "get_device": lambda run, x: -1 if run.on_cpu else 0, "is_tensor": lambda run, x: True,
    "data_ptr": lambda run, x: id(x.storage),
    "stride": lambda run, x: _strides(x), "short": _as_type("int16"),
    "char": _as_type("int8"), "byte": _as_type("uint8"),
}  # fmt: skip


def _name(run: Run, x: Tensor) -> Value:
    """Give a name that no other tensor has; Paddle's number for one without its own is unknown."""
    x.name = x.name or run.unique("generated_tensor")
    return x.name


def _grad(run: Run, x: Tensor) -> Value:
    """Give the gradient: to Paddle what a script computes with it can be derived again."""
    if x.grad is not None:
        x.grad.stop_gradient = False
    return x.grad


PROPERTIES: dict[str, Callable[[Run, Tensor], Value]] = {
    "shape": lambda run, x: list(x.shape), "ndim": lambda run, x: len(x.shape),
    "size": lambda run, x: x.size, "dtype": lambda run, x: DType(x.dtype),
    "grad": _grad, "T": turned, "name": _name,
    "stop_gradient": lambda run, x: x.stop_gradient, "place": lambda run, x: "place",
    "trainable": lambda run, x: not x.stop_gradient, "data": lambda run, x: x,
    "is_leaf": lambda run, x: x.node is None, "mT": manipulation.matrix_turned,
    "requires_grad": lambda run, x: not x.stop_gradient, "itemsize": _itemsize,
    "strides": lambda run, x: _strides(x), "device": lambda run, x: "place",
    "grad_fn": lambda run, x: None if x.node is None else "node", "inplace_version": _number,
    "is_cuda": lambda run, x: not run.on_cpu, "persistable": lambda run, x: x.trainable,
}  # fmt: skip


def install() -> None:
    """Give tensors their methods and properties."""

    def method(call: Callable[..., Value]) -> Callable[..., Value]:
        return lambda self, run, *args, **kwargs: call(run, self, *args, **kwargs)

    def prop(call: Callable[[Run, Tensor], Value]) -> Callable[..., Value]:
        return lambda self, run: call(run, self)

    for name, call in METHODS.items():
        exposed.add(Tensor, "methods", name, method(call))
    for name, read in PROPERTIES.items():
        exposed.add(Tensor, "properties", name, prop(read))
