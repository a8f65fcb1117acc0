"""`paddle.autograd` and `paddle.grad`: gradients asked for, operators with a backward of theirs."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    Native,
    Unknown,
    UserClass,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.autograd import backward as autograd_backward
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Gradient, Node, Tensor
from gpuconsole.preflight.memory.trace import Storage


def _tensors(value: Value) -> list[Tensor]:
    given = value if isinstance(value, (list, tuple)) else [value]
    return [tensor for tensor in given if isinstance(tensor, Tensor)]


def backward(
    run: Run, tensors: Value, grad_tensors: Value = None, retain_graph: Value = False
) -> None:
    """`paddle.autograd.backward`: one pass from several tensors."""
    unknown = first_unknown(tensors)
    if unknown is not None:
        run.block(unknown)
        return
    losses = _tensors(tensors)
    given = list(grad_tensors) if isinstance(grad_tensors, (list, tuple)) else [None] * len(losses)
    run.progress.backwards += 1
    autograd_backward.backward_all(run, losses, given, retain=retain_graph is True)


def grad(run: Run, outputs: Value, inputs: Value, grad_outputs: Value = None,
         retain_graph: Value = None, create_graph: Value = False, *_: Value,
         **__: Value) -> Value:  # fmt: skip
    """`paddle.grad`: gradients of some tensors, into no leaf."""
    unknown = first_unknown(outputs, inputs)
    if unknown is not None:
        run.block(unknown)
        return unknown
    losses, targets = _tensors(outputs), _tensors(inputs)
    starts = grad_outputs if isinstance(grad_outputs, (list, tuple)) else [grad_outputs]
    given = [start_ if isinstance(start_, Tensor) else None for start_ in starts]
    given += [None] * (len(losses) - len(given))
    graph = create_graph is True
    if graph:
        run.findings.flags.add("double-backward")
    run.progress.backwards += 1
    return autograd_backward.gradients(run, losses, targets, given[: len(losses)],
                            retain=retain_graph is True, graph=graph)  # fmt: skip


class Hook(Native):
    """The result of `register_hook`."""

    label = "TensorHookRemoveHelper"

    def __init__(self) -> None:
        super().__init__()
        self.hooks: list[Value] = []
        self.hook: Value = None
        """What is called, and the shape and the type of the gradients that it is called with."""

    @exposed.method("remove")
    def do_remove(self, run: Run) -> Value:
        """Take the hook off."""
        self.hooks[:] = [hook for hook in self.hooks if hook is not self.hook]
        return True


def register_hook(run: Run, x: Tensor, function: Value) -> Value:
    """`tensor.register_hook`: a function of the gradient, which may put another in its place."""
    if isinstance(function, Unknown):
        run.note_unknown(function)
        return function
    helper = Hook()
    if x.node is not None:
        helper.hooks = x.node.hooks.setdefault(x.slot, [])
    else:
        x.hooks = x.hooks if x.hooks is not None else []
        helper.hooks = x.hooks
    helper.hook = (function, x.shape, x.dtype)
    helper.hooks.append(helper.hook)
    return helper


class Context(Native):
    """The `ctx` of a `PyLayer`: what it saves lives as long as the graph does."""

    label = "PyLayerContext"

    @exposed.method("save_for_backward")
    def do_save_for_backward(self, run: Run, *tensors: Value) -> None:
        """Keep tensors."""
        self.saved = tensors

    @exposed.method("saved_tensor")
    @exposed.prop("saved_tensors")
    def do_saved_tensor(self, run: Run) -> Value:
        """Give them back."""
        return getattr(self, "saved", ())

    @exposed.method("mark_not_inplace", "mark_non_differentiable", "set_materialize_grads")
    def do_mark_not_inplace(self, run: Run, *_: Value) -> None:
        """Change no sizes."""


class PyLayer(Native):
    """`paddle.autograd.PyLayer`: user classes give `forward` and `backward`."""

    label = "PyLayer"

    @staticmethod
    @exposed.of_class("apply")
    def class_apply(run: Run, cls: UserClass, *args: Value, **kwargs: Value) -> Value:
        """Run the user's forward without a graph, and hang the user's backward behind it."""
        context = Context()
        before, run.mode.grad_enabled = run.mode.grad_enabled, False
        try:
            out = run.interp.call(cls.find("forward"), [context, *args], kwargs)
        finally:
            run.mode.grad_enabled = before
        inputs = _tensors([*args, *kwargs.values()])
        outputs = _tensors(out)
        for output in outputs:
            if any(output is given for given in inputs):
                return run.unknown("a PyLayer that returns its own input")
        node = ops.attach(run, inputs, outputs, (), "new")
        if node is not None:
            places = [place for place, tensor in enumerate(inputs) if tensor.needs_grad]
            _go_back(run, node, cls, context, places, [output.dtype for output in outputs],
                     [output.shape for output in outputs])  # fmt: skip
        return out


def _go_back(
    run: Run, node: Node, cls: UserClass, context: Context, places: list[int],
    dtypes: list[str], shapes: list[tuple[int, ...]],
) -> None:  # fmt: skip
    def replay(grads: list[Gradient | None]) -> Sequence[Storage | None] | None:
        given: list[Tensor] = []
        for slot, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True)):
            grad = grads[slot]
            grads[slot] = None
            # An output that nothing was computed from gets zeros.
            storage = run.tensor(shape, dtype).storage if grad is None else grad.storage
            given.append(Tensor(shape, dtype, storage))
            del grad, storage
        before, run.mode.grad_enabled = run.mode.grad_enabled, False
        try:
            returned = run.interp.call(cls.find("backward"), [context, *given], {})
        finally:
            run.mode.grad_enabled = before
        if isinstance(returned, Unknown):
            run.block(returned)
            return None
        results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        wanted = results if len(results) == len(places) else [
            results[place] if place < len(results) else None for place in places]  # fmt: skip
        return [gradient.storage if isinstance(gradient, Tensor) else None for gradient in wanted]

    node.replay = replay
