"""Recompute: blocks that keep their inputs alone and run forward again in backward."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconsole.preflight.interpreter.domain.values import NativeFunction, Unknown, Value
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.autograd.backward import backward_all
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Gradient, Node, Tensor
from gpuconsole.preflight.memory.trace import Storage


def _tensors(value: Value) -> list[Tensor]:
    given = value if isinstance(value, (list, tuple)) else [value]
    return [tensor for tensor in given if isinstance(tensor, Tensor)]


def recompute(run: Run, function: Value, *args: Value, **kwargs: Value) -> Value:
    """`recompute`: forward without a graph, and once more with one when backward comes by.

    If no input needs a gradient Paddle's own version computes none for the output either: then
    nothing in the block is trained.
    """
    hybrid = kwargs.pop("use_reentrant", True) is False
    kwargs.pop("preserve_rng_state", None)
    kwargs.pop("offload_indices", None)
    if hybrid:
        return _hooked(run, function, list(args), kwargs)
    interp = run.interp
    before, run.mode.grad_enabled = run.mode.grad_enabled, False
    try:
        out = interp.call(function, list(args), kwargs)
    finally:
        run.mode.grad_enabled = before
    if isinstance(out, Unknown) or not before:
        return out
    inputs = _tensors([*args, *kwargs.values()])
    node = ops.attach(run, inputs, _tensors(out), [tensor.storage for tensor in inputs], "new")
    if node is not None:
        amp = run.mode.amp

        def replay(grads: list[Gradient | None]) -> Sequence[Storage | None] | None:
            around, run.mode.amp = run.mode.amp, amp
            again_args = [_apart(argument) for argument in args]
            again_kwargs = {name: _apart(argument) for name, argument in kwargs.items()}
            flops = run.tape.flops
            again = interp.call(function, list(again_args), dict(again_kwargs))
            # A step counts three forwards, of which this one more is a third.
            run.tape.flops = flops + (run.tape.flops - flops) / 3
            run.mode.amp = around
            moment = run.tape.moment
            outputs = [tensor for tensor in _tensors(again) if tensor.node is not None]
            backward_all(run, outputs, [None] * len(outputs))
            run.tape.moment = moment
            given = [tensor for tensor in _tensors([*again_args, *again_kwargs.values()])
                     if tensor.needs_grad]  # fmt: skip
            return [tensor.grad.storage if tensor.grad is not None else None for tensor in given]

        node.replay = replay
    return out


def _apart(value: Value) -> Value:
    """Return a tensor of the same block that no graph hangs behind."""
    if not isinstance(value, Tensor):
        return value
    copy = Tensor(value.shape, value.dtype, value.storage)
    copy.stop_gradient, copy.strided = value.stop_gradient, value.strided
    return copy


def _hooked(run: Run, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`use_reentrant=False`: the graph stays, what it saved is made again at its first use."""
    before, run.mode.nodes = run.mode.nodes, []
    out = run.interp.call(function, args, dict(kwargs))
    nodes, run.mode.nodes = run.mode.nodes, before
    if isinstance(out, Unknown) or not nodes:
        return out
    held = [tensor.storage for tensor in _tensors([*args, *kwargs.values()])]
    waiting = [(node, len(node.saved)) for node in nodes]
    for node in nodes:
        node.saved = []
        node.first = _Refill(run, function, args, kwargs, waiting, held)
    return out


class _Refill:
    """Runs the forward again once and restores what every node had saved."""

    def __init__(
        self, run: Run, function: Value, args: list[Value], kwargs: dict[str, Value],
        waiting: list[tuple[Node, int]], held: list[Storage],
    ) -> None:  # fmt: skip
        self.run, self.function, self.args, self.kwargs = run, function, args, kwargs
        self.waiting, self.held, self.amp = waiting, held, run.mode.amp

    def __call__(self) -> None:
        run, nodes = self.run, [node for node, _ in self.waiting]
        if not nodes:
            return
        around, run.mode.amp = run.mode.amp, self.amp
        before, run.mode.nodes = run.mode.nodes, []
        flops = run.tape.flops
        run.interp.call(
            self.function, [_apart(argument) for argument in self.args], dict(self.kwargs)
        )
        run.tape.flops = flops + (run.tape.flops - flops) / 3
        again, run.mode.nodes = run.mode.nodes, before
        run.mode.amp = around
        for old, new in zip(nodes, again, strict=False):
            old.saved = list(new.saved)
            old.first = None
        self.waiting.clear()


def sequential(run: Run, ctx: Value, functions: Value, *args: Value, **kwargs: Value) -> Value:
    """`recompute_sequential`: segments of a Sequential, all but the last recomputed."""
    segments = ctx.get("segments", 1) if isinstance(ctx, dict) else 1
    layers = [layer for _, layer in functions.children()] if isinstance(functions, Layer) else (
        list(functions))  # fmt: skip
    size = max(1, len(layers) // max(1, segments))
    value: Value = args[0] if args else None
    end = 0
    for begin in range(0, size * (segments - 1), size):
        end = begin + size
        value = recompute(run, _chain(run, layers[begin:end]), value, **kwargs)
    return _chain(run, layers[end:]).call(run, value)


def _chain(run: Run, layers: list[Value]) -> NativeFunction:
    def go(_run: Run, value: Value) -> Value:
        for layer in layers:
            value = run.interp.call(layer, [value], {})
        return value

    return NativeFunction(go, "segment")


def hybrid(run: Run, ctx: Value, function: Value, *args: Value, **kwargs: Value) -> Value:
    """`recompute_hybrid`: as `recompute`, for one of several processes."""
    return recompute(run, function, *args, **kwargs)
