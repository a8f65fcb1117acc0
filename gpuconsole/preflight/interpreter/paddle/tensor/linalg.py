"""Products and decompositions: `paddle.linalg`, einsum, Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from gpuconsole.preflight.interpreter.domain.values import ShapeFault, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor, broadcast


def matmul(run: Run, x: Tensor, y: Tensor, transpose_x: Value = False, transpose_y: Value = False,
           *_: Value, **__: Value) -> Value:  # fmt: skip
    """`paddle.matmul`."""
    return ops.matmul(run, x, y, transpose_x is True, transpose_y is True)


def bmm(run: Run, x: Tensor, y: Tensor, *_: Value) -> Value:
    """`paddle.bmm`: three dimensions on both sides."""
    if len(x.shape) != 3 or len(y.shape) != 3:
        raise ShapeFault(
            f"bmm needs three dimensions, {list(x.shape)} and {list(y.shape)} arrive",
            x.shape, y.shape,
        )  # fmt: skip
    return ops.matmul(run, x, y, copied=True)


def mv(run: Run, x: Tensor, vec: Tensor, *_: Value) -> Value:
    """`paddle.mv`."""
    if len(x.shape) != 2 or vec.shape != x.shape[1:]:
        raise ShapeFault(f"mv of {list(x.shape)} and {list(vec.shape)}", x.shape, vec.shape)
    return ops.apply(run, "mv", (x, vec), x.shape[:1], flops=2.0 * x.size)


def dot(run: Run, x: Tensor, y: Tensor, *_: Value) -> Value:
    """`paddle.dot`, row by row."""
    if x.shape != y.shape:
        raise ShapeFault(f"dot of {list(x.shape)} and {list(y.shape)}", x.shape, y.shape)
    return ops.apply(run, "dot", (x, y), x.shape[:-1], flops=2.0 * x.size)


def addmm(run: Run, input: Tensor, x: Tensor, y: Tensor, *_: Value, **__: Value) -> Value:
    """`paddle.addmm`."""
    if x.shape[-1] != y.shape[0]:
        raise ShapeFault(f"addmm of {list(x.shape)} and {list(y.shape)}", x.shape, y.shape)
    flops = 2.0 * x.size * y.shape[1]
    return ops.apply(run, "addmm", (input, x, y), (x.shape[0], y.shape[1]), flops=flops)


def baddbmm(run: Run, input: Tensor, x: Tensor, y: Tensor, *_: Value, **__: Value) -> Value:
    """`paddle.baddbmm`."""
    if len(x.shape) != 3 or len(y.shape) != 3 or x.shape[-1] != y.shape[1]:
        raise ShapeFault(f"baddbmm of {list(x.shape)} and {list(y.shape)}", x.shape, y.shape)
    shape = (*x.shape[:2], y.shape[2])
    return ops.apply(run, "baddbmm", (x, y, input), shape, flops=2.0 * x.size * y.shape[2])


def kron(run: Run, x: Tensor, y: Tensor, *_: Value) -> Value:
    """`paddle.kron`."""
    rank = max(len(x.shape), len(y.shape))
    left = (*[1] * (rank - len(x.shape)), *x.shape)
    right = (*[1] * (rank - len(y.shape)), *y.shape)
    shape = [a * b for a, b in zip(left, right, strict=True)]
    work = 8.0 * prod(shape) if run.on_cpu else 0.0
    return ops.apply(run, "kron", (x, y), shape, work=work)


def cross(run: Run, x: Tensor, y: Tensor, *_: Value, **__: Value) -> Value:
    """`paddle.cross`."""
    if x.shape != y.shape:
        raise ShapeFault(f"cross of {list(x.shape)} and {list(y.shape)}", x.shape, y.shape)
    return ops.apply(run, "cross", (x, y), x.shape)


def square(name: str, rank: int) -> Callable[..., Value]:
    """Return a function of square matrices that returns matrices (rank 2) or numbers (rank 0)."""

    def call(run: Run, x: Tensor, *_: Value, **__: Value) -> Value:
        if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
            raise ShapeFault(f"{name} needs square matrices, {list(x.shape)} arrives", x.shape)
        return ops.apply(run, name, (x,), x.shape if rank else x.shape[:-2])

    return call


def singular(run: Run, x: Tensor) -> Tensor:
    """Singular values of matrices `[..., m, n]`, by the reduced `svd`; its vectors stay saved.

    Measured: forward holds a copy of the matrices and one more turned, backward a gradient's worth
    of the matrices and of both kinds of vectors, and two of the values.
    """
    *batch, rows, columns = x.shape
    least = min(rows, columns)
    item = x.nbytes // max(1, x.size)
    vectors = prod(batch) * least * (rows + columns) * item
    values = prod(batch) * least * item
    # The table was measured on square matrices, which have twice as many vectors as numbers.
    unlike_square = vectors - 8 * x.size
    return ops.apply(
        run, "svd", (x,), (*batch, least), extra=unlike_square, temp=2.0 * x.nbytes,
        work=x.nbytes + vectors + 2.0 * values, flops=4.0 * x.size * least, copied=True,
    )  # fmt: skip


def bilinear(run: Run, x1: Tensor, x2: Tensor, weight: Tensor, bias: Value = None,
             name: Value = None) -> Value:  # fmt: skip
    """`F.bilinear`."""
    if (x1.shape[-1], x2.shape[-1]) != weight.shape[1:]:
        raise ShapeFault(
            f"bilinear of {list(x1.shape)} and {list(x2.shape)} with {list(weight.shape)}",
            x1.shape, x2.shape, weight.shape,
        )  # fmt: skip
    row = 4.0 * x1.shape[0] * weight.shape[1]
    out = ops.apply(
        run, "bilinear", (x1, x2, weight), (x1.shape[0], weight.shape[0]),
        temp=row if run.on_cpu else 0.0, flops=2.0 * x1.shape[0] * weight.size,
    )  # fmt: skip
    return ops.binary(run, "add", out, bias) if isinstance(bias, Tensor) else out


def add_n(run: Run, inputs: Value, name: Value = None) -> Value:
    """`paddle.add_n`."""
    parts = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    for part in parts:
        if part.shape != parts[0].shape:
            raise ShapeFault(
                f"add_n of {list(parts[0].shape)} and {list(part.shape)}",
                parts[0].shape,
                part.shape,
            )
    return ops.apply(run, "add_n", parts, parts[0].shape)


def _letters(equation: str, operands: Sequence[Tensor]) -> tuple[list[str], str, dict[str, int]]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ShapeFault(f"einsum {equation} with {len(operands)} operands")
    spare = "ABCDEFGH"
    extents: dict[str, int] = {}
    letters_found: list[str] = []
    widest = ""
    for term, operand in zip(terms, operands, strict=True):
        if "..." in term:
            letters = spare[: len(operand.shape) - len(term) + 3]
            widest = max(widest, letters, key=len)
            term = term.replace("...", letters)
        if len(term) != len(operand.shape):
            raise ShapeFault(
                f"einsum {equation}: {term} for a tensor of {len(operand.shape)} dimensions",
                *(x.shape for x in operands),
            )
        for letter, extent in zip(term, operand.shape, strict=True):
            if extents.get(letter, 1) not in (1, extent) and extent != 1:
                raise ShapeFault(
                    f"einsum {equation}: {letter} is {extents[letter]} and {extent}",
                    *(x.shape for x in operands),
                )
            extents[letter] = max(extent, extents.get(letter, 1))
        letters_found.append(term)
    if arrow:
        right = right.replace("...", widest)
    else:
        whole = "".join(letters_found)
        right = "".join(sorted(letter for letter in set(whole) if whole.count(letter) == 1))
    return letters_found, right, extents


def einsum(run: Run, equation: str, *operands: Tensor) -> Value:
    """`paddle.einsum`: two operands at a time; products that are summed are matrix products."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    terms, right, extents = _letters(equation, operands)
    while len(operands) > 2:
        a, b, *rest = terms
        keep = set("".join(rest) + right)
        joined = "".join(dict.fromkeys(letter for letter in a + b if letter in keep))
        first = _einsum_pair(run, operands[:2], (a, b), joined, extents)
        operands, terms = (first, *operands[2:]), [joined, *rest]
    return _einsum_pair(run, operands, tuple(terms), right, extents)


def _einsum_pair(
    run: Run, operands: Sequence[Tensor], terms: Sequence[str], right: str,
    extents: dict[str, int],
) -> Tensor:  # fmt: skip
    shape = [extents[letter] for letter in right]
    if len(operands) == 1:
        return _einsum_one(run, operands[0], terms[0], right, shape)
    flops = 2.0 * prod(extents[letter] for letter in set("".join(terms)))
    if not run.on_cpu:
        return ops.apply(run, "einsum", list(operands), shape, flops=flops)
    keep, extra, temp, work = _turning(operands, terms, right, shape)
    return ops.apply(
        run, "einsum", list(operands), shape, extra=extra, temp=temp, work=work, flops=flops,
        keep=keep,
    )  # fmt: skip


def _turning(
    operands: Sequence[Tensor], terms: Sequence[str], right: str, shape: Sequence[int]
) -> tuple[list[str], int, int, int]:
    """Return the operands that are saved as they are, and the bytes of turned copies.

    The bytes are those kept for backward, forward for a moment, and backward. Backward needs the
    operands only as they were multiplied: measured, one that was turned or made contiguous is
    saved as that copy, and itself goes when the script drops it.

    The kernel brings operands to [shared, own, summed] and [shared, summed, own], multiplies
    matrices, and turns the product where its axes are asked for in another order; so it does for
    both gradients, of which the first is held twice while the second is made.
    """
    x, y = operands
    a, b = terms
    shared = "".join(letter for letter in a if letter in b and letter in right)
    summed = "".join(letter for letter in a if letter in b and letter not in right)
    mine = "".join(letter for letter in a if letter not in b)
    theirs = "".join(letter for letter in b if letter not in a)
    out = prod(shape) * (x.nbytes // max(1, x.size))
    straight = (a == shared + mine + summed, b == shared + summed + theirs)
    keep, copied = list[str](), 0
    for word, operand, as_is in zip("xy", operands, straight, strict=True):
        if as_is and not operand.strided:
            keep.append(word)
        else:
            copied += operand.nbytes
    temp = out if right != shared + mine + theirs else 0
    first = x.nbytes * (2 if a != shared + summed + mine else 1)
    second = x.nbytes + y.nbytes * (2 if b != shared + theirs + summed else 1)
    turned = out if right != shared + theirs + mine else 0
    return keep, copied, temp, turned + max(first, second)


def _einsum_one(run: Run, x: Tensor, term: str, right: str, shape: Sequence[int]) -> Tensor:
    out = run.tensor(tuple(shape), x.dtype)
    ops.attach(run, (x,), [out], (x.storage,), "new", x.nbytes)
    return out


def complex_of(x: Tensor) -> str:
    """Return the complex type of a tensor's width."""
    return "complex128" if x.dtype in ("float64", "complex128") else "complex64"


def real_of(x: Tensor) -> str:
    """Return the real type of a tensor's width."""
    return "float64" if x.dtype in ("float64", "complex128") else "float32"


def fourier(kind: str) -> Callable[..., Value]:
    """Return a transform, over any number of axes; `kind`: c2c, r2c, c2r."""

    def call(run: Run, x: Tensor, n: Value = None, axis: Value = None, *_: Value,
             **__: Value) -> Value:  # fmt: skip
        if n is not None:
            raise TypeError("a transform to another length")
        if kind == "c2r" and not x.dtype.startswith("complex"):
            x = ops.cast(run, x, complex_of(x))
        last = ops.check_axis(-1 if not isinstance(axis, int) else axis, len(x.shape))
        shape = list(x.shape)
        if kind == "r2c":
            shape[last] = shape[last] // 2 + 1
        elif kind == "c2r":
            shape[last] = 2 * (shape[last] - 1)
        dtype = real_of(x) if kind == "c2r" else complex_of(x)
        temp = work = 0.0
        if run.on_cpu and kind == "c2c" and not x.dtype.startswith("complex"):
            # Half of the spectrum is computed, the other half filled in behind it.
            temp = 8.0 * x.size // x.shape[last] * (x.shape[last] // 2 + 1)
            work = 2.0 * x.nbytes
        return ops.apply(
            run, f"fft_{kind}", (x,), shape, dtype, temp=temp, work=work, flops=5.0 * x.size
        )

    return call


def complex_(run: Run, real: Tensor, imag: Tensor, *_: Value) -> Value:
    """`paddle.complex`."""
    shape = broadcast(real.shape, imag.shape)
    if shape is None:
        raise ShapeFault(
            f"complex of {list(real.shape)} and {list(imag.shape)}", real.shape, imag.shape
        )
    return ops.apply(run, "complex", (real, imag), shape, complex_of(real))


def part(run: Run, x: Tensor, *_: Value) -> Value:
    """`paddle.real` and `imag`: every other number, looked at in place."""
    if not x.dtype.startswith("complex"):
        return x
    out = Tensor(x.shape, real_of(x), x.storage)
    out.strided = True
    ops.attach(run, (x,), [out], (), "new")
    return out


def modulus(run: Run, x: Tensor, *_: Value) -> Value:
    """`paddle.abs`, of complex numbers too."""
    return ops.apply(run, "abs", (x,), x.shape, real_of(x) if "complex" in x.dtype else "")


FOURIER: dict[str, Callable[..., Value]] = {
    "fft": fourier("c2c"), "ifft": fourier("c2c"), "fft2": fourier("c2c"),
    "ifft2": fourier("c2c"), "rfft": fourier("r2c"), "rfft2": fourier("r2c"),
    "irfft": fourier("c2r"), "irfft2": fourier("c2r"), "fftn": fourier("c2c"),
    "ifftn": fourier("c2c"),
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Value]] = {
    "matmul": matmul, "mm": matmul, "bmm": bmm, "mv": mv, "dot": dot, "addmm": addmm,
    "baddbmm": baddbmm,
    "kron": kron, "cross": cross, "inverse": square("inverse", 2), "add_n": add_n,
    "einsum": einsum, "complex": complex_, "real": part, "imag": part, "abs": modulus,
}  # fmt: skip
LINALG: dict[str, Callable[..., Value]] = {
    "matmul": matmul, "inv": square("inverse", 2), "det": square("det", 0), "cross": cross,
    "cholesky": square("cholesky", 2),
}  # fmt: skip
