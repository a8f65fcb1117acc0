"""`numpy.linalg`, `numpy.fft`, products and windows: shapes and types of what they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    NativeFunction,
    ShapeFault,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.numpy import array_methods as methods
from gpuconsole.preflight.interpreter.numpy.array import (
    Array,
    make,
    promote,
)

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

Call = Callable[..., Value]


def of_array(call: Callable[..., Value]) -> Call:
    """Return a function of an array as one of anything that an array is made of."""

    def function(run: Run, value: Value, *args: Value, **kwargs: Value) -> Value:
        array = value if isinstance(value, Unknown) else make(run, value)
        return array if isinstance(array, Unknown) else call(run, array, *args, **kwargs)

    return function


def _of_two(call: Callable[..., Value]) -> Call:
    def function(run: Run, left: Value, right: Value, *args: Value, **kwargs: Value) -> Value:
        unknown = first_unknown(left, right)
        if unknown is not None:
            return unknown
        operands = (make(run, left), make(run, right))
        return first_unknown(*operands) or call(run, *operands, *args, **kwargs)

    return function


# -- linear algebra


def _square(run: Run, x: Array, *_: Value, **__: Value) -> Value:
    return Array(x.shape, methods.real(x.dtype))


def _norm(run: Run, x: Array, order: Value = None, axis: Value = None, keepdims: Value = False,
          **_: Value) -> Value:  # fmt: skip
    return methods.reduction("mean")(run, x, axis=axis, keepdims=keepdims)


def linalg() -> Namespace:
    """Return `numpy.linalg`."""
    plain: dict[str, Call] = {
        "norm": _norm, "inv": _square, "cholesky": _square, "matrix_power": _square,
    }  # fmt: skip
    table = {name: of_array(call) for name, call in plain.items()}
    names = {name: NativeFunction(call, f"np.linalg.{name}") for name, call in table.items()}
    return Namespace("numpy.linalg", {**names})


# -- transforms


def _complex(dtype: str) -> str:
    return "complex64" if dtype in ("float32", "float16", "complex64") else "complex128"


def _along(x: Array, axis: Value, extent: int, dtype: str) -> Array:
    shape = list(x.shape)
    shape[axis] = extent
    return Array(tuple(shape), dtype)


def _fft(run: Run, x: Array, n: Value = None, axis: Value = -1, *_: Value, **__: Value) -> Value:
    return _along(x, axis, x.shape[axis] if n is None else n, _complex(x.dtype))


def _rfft(run: Run, x: Array, n: Value = None, axis: Value = -1, *_: Value, **__: Value) -> Value:
    return _along(x, axis, (x.shape[axis] if n is None else n) // 2 + 1, _complex(x.dtype))


def _irfft(run: Run, x: Array, n: Value = None, axis: Value = -1, *_: Value, **__: Value) -> Value:
    kind = "float32" if x.dtype == "complex64" else "float64"
    return _along(x, axis, 2 * (x.shape[axis] - 1) if n is None else n, kind)


def fft() -> Namespace:
    """Return `numpy.fft`."""
    plain: dict[str, Call] = {
        "fft": _fft, "ifft": _fft, "rfft": _rfft, "irfft": _irfft,
        "fftshift": methods.keep,
        "ifftshift": methods.keep,
    }  # fmt: skip
    table = {name: of_array(call) for name, call in plain.items()}
    table["fftfreq"] = lambda run, n, *_, **__: Array((n,), "float64")
    table["rfftfreq"] = lambda run, n, *_, **__: Array((n // 2 + 1,), "float64")
    names = {name: NativeFunction(call, f"np.fft.{name}") for name, call in table.items()}
    return Namespace("numpy.fft", {**names})


# -- products and windows


def _einsum(run: Run, rule: Value, *parts: Value, **_: Value) -> Value:
    operands = [make(run, part) for part in parts]
    unknown = first_unknown(rule, *operands)
    if unknown is not None:
        return unknown
    inputs, arrow, output = rule.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "..." in rule or len(terms) != len(operands):
        return run.unknown("an einsum that the analysis does not read")
    sizes: dict[str, int] = {}
    for term, operand in zip(terms, operands, strict=True):
        if len(term) != len(operand.shape):
            raise ShapeFault(f"einsum {rule!r} of an array of {list(operand.shape)}", operand.shape)
        for letter, extent in zip(term, operand.shape, strict=True):
            if sizes.setdefault(letter, extent) != extent:
                raise ShapeFault(f"einsum {rule!r}: {letter} is {sizes[letter]} and {extent}",
                                 *(each.shape for each in operands))  # fmt: skip
    if not arrow:
        letters = inputs.replace(",", "")
        output = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    kind = operands[0].dtype
    for operand in operands[1:]:
        kind = promote(kind, operand.dtype)
    return Array(tuple(sizes[letter] for letter in output), kind)


def _kron(run: Run, a: Array, b: Array) -> Value:
    rank = max(len(a.shape), len(b.shape))
    wide = [(1,) * (rank - len(array.shape)) + array.shape for array in (a, b)]
    return Array(tuple(x * y for x, y in zip(*wide, strict=True)), promote(a.dtype, b.dtype))


def _window(run: Run, n: Value, *_: Value) -> Value:
    return Array((n,), "float64")


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "einsum": _einsum, "kron": _of_two(_kron),
    "vdot": lambda run, *_: run.number("a product of data"),
    **dict.fromkeys(("hanning", "hamming", "blackman", "bartlett", "kaiser"), _window),
}  # fmt: skip
"""Functions of `numpy` by name."""
