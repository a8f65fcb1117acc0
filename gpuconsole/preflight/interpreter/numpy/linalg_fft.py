"""`numpy.linalg`, `numpy.fft`, products and filters: shapes and types of what they make."""

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
    DType,
    binary,
    dtype_name,
    make,
    promote,
    spread,
)
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import FLOATS, as_shape

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


def _outer_axes(run: Run, x: Array, *_: Value, **__: Value) -> Value:
    return Array(x.shape[:-2], methods.real(x.dtype))


def _eig(run: Run, x: Array, *_: Value, **__: Value) -> Value:
    kind = methods.real(x.dtype)
    return Array(x.shape[:-1], kind), Array(x.shape, kind)


def _svd(run: Run, x: Array, full_matrices: Value = True, compute_uv: Value = True,
         **_: Value) -> Value:  # fmt: skip
    *outer, m, n = x.shape
    k, kind = min(m, n), methods.real(x.dtype)
    middle = Array((*outer, k), kind)
    if compute_uv is False:
        return middle
    left, right = (k, k) if full_matrices is False else (m, n)
    return Array((*outer, m, left), kind), middle, Array((*outer, right, n), kind)


def _qr(run: Run, x: Array, *_: Value, **__: Value) -> Value:
    *outer, m, n = x.shape
    kind = methods.real(x.dtype)
    return Array((*outer, m, min(m, n)), kind), Array((*outer, min(m, n), n), kind)


def _pinv(run: Run, x: Array, *_: Value, **__: Value) -> Value:
    return Array((*x.shape[:-2], x.shape[-1], x.shape[-2]), methods.real(x.dtype))


def _solve(run: Run, a: Array, b: Array) -> Value:
    return Array(b.shape, methods.real(promote(a.dtype, b.dtype)))


def _lstsq(run: Run, a: Array, b: Array, *_: Value, **__: Value) -> Value:
    kind = methods.real(promote(a.dtype, b.dtype))
    rank = run.number("the rank of a matrix")
    return (Array((a.shape[1], *b.shape[1:]), kind), Array(b.shape[1:], kind), rank,
            Array((min(a.shape),), kind))  # fmt: skip


def _norm(run: Run, x: Array, order: Value = None, axis: Value = None, keepdims: Value = False,
          **_: Value) -> Value:  # fmt: skip
    return methods.reduction("mean")(run, x, axis=axis, keepdims=keepdims)


def _rank(run: Run, x: Array, *_: Value, **__: Value) -> Value:
    return run.number("the rank of a matrix")


def linalg() -> Namespace:
    """Return `numpy.linalg`."""
    plain: dict[str, Call] = {
        "norm": _norm, "inv": _square, "cholesky": _square, "matrix_power": _square,
        "det": _outer_axes, "eig": _eig, "eigh": _eig, "svd": _svd, "qr": _qr, "pinv": _pinv,
        "matrix_rank": _rank, "eigvals": lambda run, x: Array(x.shape[:-1], methods.real(x.dtype)),
        "cond": _outer_axes, "slogdet": lambda run, x: (_outer_axes(run, x), _outer_axes(run, x)),
    }  # fmt: skip
    table = {name: of_array(call) for name, call in plain.items()}
    table.update(eigvalsh=table["eigvals"], solve=_of_two(_solve), lstsq=_of_two(_lstsq))
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


def _fft2(run: Run, x: Array, *_: Value, **__: Value) -> Value:
    return Array(x.shape, _complex(x.dtype))


def _rfft2(run: Run, x: Array, *_: Value, **__: Value) -> Value:
    return _rfft(run, x)


def _irfft2(run: Run, x: Array, s: Value = None, *_: Value, **__: Value) -> Value:
    result = _irfft(run, x)
    return result if s is None else Array((*x.shape[:-2], *as_shape(s)), result.dtype)


def fft() -> Namespace:
    """Return `numpy.fft`."""
    plain: dict[str, Call] = {
        "fft": _fft, "ifft": _fft, "rfft": _rfft, "irfft": _irfft, "fft2": _fft2, "ifft2": _fft2,
        "fftn": _fft2, "ifftn": _fft2, "rfft2": _rfft2, "irfft2": _irfft2, "fftshift": methods.keep,
        "ifftshift": methods.keep,
    }  # fmt: skip
    table = {name: of_array(call) for name, call in plain.items()}
    table["fftfreq"] = lambda run, n, *_, **__: Array((n,), "float64")
    table["rfftfreq"] = lambda run, n, *_, **__: Array((n // 2 + 1,), "float64")
    names = {name: NativeFunction(call, f"np.fft.{name}") for name, call in table.items()}
    return Namespace("numpy.fft", {**names})


# -- products and filters


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


def _tensordot(run: Run, a: Array, b: Array, axes: Value = 2) -> Value:
    if isinstance(axes, int):
        first = list(range(len(a.shape) - axes, len(a.shape)))
        second = list(range(axes))
    else:
        first, second = ([axis % len(x.shape) for axis in as_shape(each)]
                         for x, each in zip((a, b), axes, strict=True))  # fmt: skip
    left = [extent for place, extent in enumerate(a.shape) if place not in first]
    right = [extent for place, extent in enumerate(b.shape) if place not in second]
    return Array((*left, *right), promote(a.dtype, b.dtype))


def _inner(run: Run, a: Array, b: Array) -> Value:
    if not a.shape or not b.shape:
        return binary(run, a, b)
    return Array((*a.shape[:-1], *b.shape[:-1]), promote(a.dtype, b.dtype))


def _kron(run: Run, a: Array, b: Array) -> Value:
    rank = max(len(a.shape), len(b.shape))
    wide = [(1,) * (rank - len(array.shape)) + array.shape for array in (a, b)]
    return Array(tuple(x * y for x, y in zip(*wide, strict=True)), promote(a.dtype, b.dtype))


def _filtered(default: str) -> Callable[..., Value]:
    def call(run: Run, a: Array, v: Array, mode: Value = default) -> Value:
        n, m = max(a.size, v.size), min(a.size, v.size)
        extent = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
        return Array((extent,), promote(a.dtype, v.dtype))

    return call


def _cross(run: Run, a: Array, b: Array, **_: Value) -> Value:
    return Array(spread(a.shape, b.shape), promote(a.dtype, b.dtype))


def _cov(run: Run, x: Array, *_: Value, rowvar: Value = True, **__: Value) -> Value:
    if len(x.shape) < 2:
        return Array((), "float64")
    return Array((x.shape[0 if rowvar is not False else 1],) * 2, "float64")


def _gradient(run: Run, x: Array, *_: Value, axis: Value = None, **__: Value) -> Value:
    result = Array(x.shape, methods.real(x.dtype))
    return [result for _ in x.shape] if axis is None and len(x.shape) > 1 else result


def _window(run: Run, n: Value, *_: Value) -> Value:
    return Array((n,), "float64")


def _interp(run: Run, x: Value, *_: Value, **__: Value) -> Value:
    array = make(run, x)
    return array if isinstance(array, Unknown) else Array(array.shape, "float64")


def _polyval(run: Run, p: Value, x: Value) -> Value:
    return _interp(run, x)


def _polyfit(run: Run, x: Value, y: Value, deg: int, *_: Value, **__: Value) -> Value:
    return Array((deg + 1,), "float64")


def _integral(run: Run, x: Array, *_: Value, axis: Value = -1, **__: Value) -> Value:
    return methods.reduction("mean")(run, x, axis=axis)


def _dtype_kept(run: Run, x: Array, *args: Value, **kwargs: Value) -> Value:
    result = methods.diagonal(run, x, *args, **kwargs)
    return Array(result.shape[:-1], x.dtype if x.dtype in FLOATS else "int64")


def _result_type(run: Run, *parts: Value) -> Value:
    kinds = [getattr(part, "dtype", None) or dtype_name(part, "float64") for part in parts]
    kind = kinds[0]
    for other in kinds[1:]:
        kind = promote(kind, other)
    return DType(kind)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "einsum": _einsum, "tensordot": _of_two(_tensordot), "inner": _of_two(_inner),
    "vdot": lambda run, *_: run.number("a product of data"), "kron": _of_two(_kron),
    "convolve": _of_two(_filtered("full")), "correlate": _of_two(_filtered("valid")),
    "cross": _of_two(_cross), "cov": of_array(_cov), "corrcoef": of_array(_cov),
    "gradient": of_array(_gradient), "interp": _interp, "polyval": _polyval, "polyfit": _polyfit,
    "trapezoid": of_array(_integral), "trapz": of_array(_integral), "trace": of_array(_dtype_kept),
    "result_type": _result_type,
    **dict.fromkeys(("hanning", "hamming", "blackman", "bartlett", "kaiser"), _window),
}  # fmt: skip
"""Functions of `numpy` by name."""
