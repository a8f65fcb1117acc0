"""`paddle.signal`'s own operators, measured with Paddle 3.3.1: each keeps its input alone."""

from __future__ import annotations

from gpuconsole.preflight.interpreter.domain.values import NativeFunction, ShapeFault, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.source_modules import Written
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor


def _last(axis: Value) -> None:
    if axis != -1:
        raise TypeError("frames along the first axis")


def frame(run: Run, x: Tensor, frame_length: int, hop_length: int, axis: Value = -1,
          *_: Value, **__: Value) -> Value:  # fmt: skip
    """`paddle.signal.frame`: [..., length] to [..., frame length, frames]."""
    _last(axis)
    length = x.shape[-1]
    if frame_length > length:
        raise ShapeFault(f"frames of {frame_length} out of {length}", x.shape)
    count = 1 + (length - frame_length) // hop_length
    out = run.tensor((*x.shape[:-1], frame_length, count), x.dtype)
    ops.attach(run, (x,), [out], (x.storage,), "new")
    return out


def overlap_add(run: Run, x: Tensor, hop_length: int, axis: Value = -1, *_: Value,
                **__: Value) -> Value:  # fmt: skip
    """`paddle.signal.overlap_add`: [..., frame length, frames] to [..., length]."""
    _last(axis)
    copies = ops.contiguous(run, (x,))
    length = x.shape[-2] + (x.shape[-1] - 1) * hop_length
    out = run.tensor((*x.shape[:-2], length), x.dtype)
    del copies
    ops.attach(run, (x,), [out], (x.storage,), "new")
    return out


def names(run: Run) -> dict[str, Value]:
    """Return `paddle.signal` and `paddle.audio`."""
    own = {"frame": NativeFunction(frame, "frame"),
           "overlap_add": NativeFunction(overlap_add, "overlap_add")}  # fmt: skip
    return {
        "signal": Written(run, "paddle.signal", "signal", dict(own)),
        "audio": Written(run, "paddle.audio", "audio"),
    }
