"""`paddle.linalg`: what takes matrices apart, and what solves by them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from gpuconsole.preflight.interpreter.domain.values import ShapeFault, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor.linalg import singular, square
from gpuconsole.preflight.interpreter.paddle.tensor.manipulation import swapped
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor, broadcast


def _square(name: str, x: Tensor) -> tuple[int, ...]:
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeFault(f"{name} needs square matrices, {list(x.shape)} arrives", x.shape)
    return x.shape


def _complex(x: Tensor) -> str:
    return "complex128" if x.dtype == "float64" else "complex64"


_TEMPORARY = {
    "solve": (2, 4), "triangular_solve": (1, 2), "cholesky_solve": (2, 4), "eigh": (1, 7),
    "matrix_power": (2, 6), "slogdet": (0, 3), "qr": (0, 7), "svdvals": (1, 3),
}  # fmt: skip
"""Copies of the inputs that the CPU kernels hold for a moment, forward and backward: measured,
to the nearest whole number."""


def _apart(run: Run, name: str, x: Tensor, shape: tuple[int, ...], *others: Tensor,
           second: Tensor | None = None, flops: float = 0.0) -> Tensor:  # fmt: skip
    """Run a kernel of whole matrices."""
    inputs = (x, *others)
    bytes_in = float(sum(tensor.nbytes for tensor in inputs)) if run.on_cpu else 0.0
    before, after = _TEMPORARY[name]
    return ops.apply(run, name, inputs, shape, temp=before * bytes_in, work=after * bytes_in,
                     second=second, flops=flops)  # fmt: skip


def solved(name: str) -> Callable[..., Value]:
    """Return a function of square matrices and right-hand sides; `cholesky_solve` turns them."""

    def call(run: Run, x: Tensor, y: Tensor, *_: Value, **__: Value) -> Value:
        matrix, side = (y, x) if name == "cholesky_solve" else (x, y)
        shape = _square(name, matrix)
        vector = len(side.shape) == 1
        rows = side.shape[0] if vector else side.shape[-2]
        lead = broadcast(shape[:-2], () if vector else side.shape[:-2])
        if rows != shape[-1] or lead is None:
            raise ShapeFault(f"{name} of {list(x.shape)} and {list(y.shape)}", x.shape, y.shape)
        out = (*lead, rows) if vector else (*lead, *side.shape[-2:])
        flops = 2.0 * prod(out) * rows
        return _apart(run, name, x, out, y, flops=flops)

    return call


def symmetric(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
    """`eigh`: values and vectors, both saved."""
    vectors = run.tensor(_square("eigh", x), x.dtype)
    values = _apart(run, "eigh", x, x.shape[:-1], second=vectors, flops=9.0 * x.size * x.shape[-1])
    return (values, _behind(values, vectors))


def symmetric_values(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
    """`eigvalsh`: the vectors are kept beside."""
    vectors = run.tensor(_square("eigvalsh", x), x.dtype)
    temp = (x.nbytes, 2.0 * x.nbytes) if run.on_cpu else (0.0, 0.0)
    return ops.apply(run, "eigh", (x,), x.shape[:-1], second=vectors, temp=temp[0], work=temp[1])


def _behind(first: Tensor, other: Tensor) -> Tensor:
    """Hang a further output behind the node of the first."""
    node = first.node
    if node is not None:
        node.outputs.append(other.nbytes)
        other.node, other.slot, other.stop_gradient = node, len(node.outputs) - 1, False
    return other


def general(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
    """`eig`: complex values and vectors."""
    shape = _square("eig", x)
    return (run.tensor(shape[:-1], _complex(x)), run.tensor(shape, _complex(x)))


def general_values(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
    """`eigvals`: complex, without a gradient."""
    return run.tensor(_square("eigvals", x)[:-1], _complex(x))


def svd(run: Run, x: Tensor, full_matrices: Value = False, *_: Value, **__: Value) -> Value:
    """`svd`: both kinds of vectors are outputs of the node that keeps them."""
    if full_matrices is True:
        raise TypeError("an svd with full matrices")
    *batch, rows, columns = x.shape
    least = min(rows, columns)
    values = singular(run, x)
    left = run.tensor((*batch, rows, least), x.dtype)
    right = run.tensor((*batch, least, columns), x.dtype)
    node = values.node
    if node is not None and node.saved:
        # What `singular` keeps as one block are these two.
        node.saved[0:1] = [left.storage, right.storage]
    return (_behind(values, left), values, _behind(values, right))


def singular_values(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
    """`svdvals`: backward takes the matrices apart again."""
    shape = (*x.shape[:-2], min(x.shape[-2:]))
    return _apart(run, "svdvals", x, shape)


def qr(run: Run, x: Tensor, mode: Value = "reduced", *_: Value) -> Value:
    """`qr`: both parts stay saved."""
    *batch, rows, columns = x.shape
    least = rows if mode == "complete" else min(rows, columns)
    upper = run.tensor((*batch, least, columns), x.dtype)
    q = _apart(run, "qr", x, (*batch, rows, least), second=upper)
    upper = _behind(q, upper)
    return upper if mode == "r" else (q, upper)


def power(run: Run, x: Tensor, n: Value, *_: Value) -> Value:
    """`matrix_power`."""
    return _apart(run, "matrix_power", x, _square("matrix_power", x))


def log_det(run: Run, x: Tensor, *_: Value) -> Value:
    """`slogdet`: sign and logarithm in one tensor."""
    return _apart(run, "slogdet", x, (2, *_square("slogdet", x)[:-2]))


def pinv(run: Run, x: Tensor, rcond: Value = 1e-15, hermitian: Value = False, *_: Value) -> Value:
    """`pinv`: by singular values."""
    if hermitian is True:
        raise TypeError("the pseudo-inverse of hermitian matrices")
    left, values, right = svd(run, x)
    inverse = ops.unary(run, "reciprocal", values)
    chosen = run.tensor(values.shape, values.dtype)
    flags = run.storage(values.size)
    ops.attach(run, (inverse,), [chosen], (flags,), "new")
    row = ops.view(run, chosen, (*chosen.shape[:-1], 1, chosen.shape[-1]))
    scaled = ops.binary(run, "multiply", swapped(run, right, -1, -2), row)
    return ops.matmul(run, scaled, left, False, True)


def rank_of(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
    """`matrix_rank`: a whole number for each matrix."""
    return run.tensor(x.shape[:-2], "int32")


def lstsq(run: Run, x: Tensor, y: Tensor, *_: Value, **__: Value) -> Value:
    """`lstsq`: solution, residuals, rank, singular values; none with a gradient."""
    solution = run.tensor((*x.shape[:-2], x.shape[-1], y.shape[-1]), x.dtype)
    least = min(x.shape[-2:])
    rest = run.tensor((*x.shape[:-2], y.shape[-1]), x.dtype)
    rank, values = run.tensor(x.shape[:-2], "int32"), run.tensor((*x.shape[:-2], least), x.dtype)
    return (solution, rest, rank, values)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "solve": solved("solve"), "triangular_solve": solved("triangular_solve"),
    "cholesky_solve": solved("cholesky_solve"), "eigh": symmetric, "eigvalsh": symmetric_values,
    "eig": general, "eigvals": general_values, "svd": svd, "svdvals": singular_values, "qr": qr,
    "matrix_power": power, "slogdet": log_det, "pinv": pinv, "matrix_rank": rank_of,
    "lstsq": lstsq, "cholesky": square("cholesky", 2),
}  # fmt: skip
