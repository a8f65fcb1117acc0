"""The replacement of the C++ base of `paddle.autograd.PyLayer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from ..allocation import new
from ..state import STATE, Unsupported
from .nodes import Node, edge_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..tensor.tensor import Tensor
    from ..types import Grads


class Context(Protocol):
    """What a `PyLayer`'s forward leaves for its backward."""

    non_differentiable: Sequence[Tensor] | None
    materialize_grads: bool

    def backward(self, *grads: Tensor | None) -> object:
        """Return the gradients of the inputs."""


class PyLayer:
    """Operators with forward and backward in Python."""

    container: Sequence[object] = ()
    materialize_grads = True
    non_differentiable: Sequence[Tensor] = ()
    not_inplace_tensors: Sequence[Tensor] = ()
    grad_in_dtype_consistent = True
    _backward_function: ClassVar[Callable[[], Context]]
    forward: ClassVar[Callable[..., object]]

    @classmethod
    def name(cls) -> str:
        """Return the operator's name."""
        return cls.__name__

    @classmethod
    def apply(cls, *args: object, **kwargs: object) -> object:
        """Run forward without a graph and hang the backward behind its outputs."""
        context = cls._backward_function()
        before = STATE.core._has_grad()
        inputs = [tensor for value in (*args, *kwargs.values()) for tensor in _tensors(value)]
        STATE.core._set_has_grad(False)
        try:
            results = cls.forward(context, *args, **kwargs)
        finally:
            STATE.core._set_has_grad(before)
        if not before or all(tensor.stop_gradient for tensor in inputs):
            return results
        return _hang(cls, context, inputs, results)


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, STATE.tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [item for item in value if isinstance(item, STATE.tensor)]
    return []


def _hang(cls: type, context: Context, inputs: Sequence[Tensor], results: object) -> object:
    single = not isinstance(results, (list, tuple))
    outputs = list(results) if isinstance(results, (list, tuple)) else [results]
    frozen = {id(tensor) for tensor in context.non_differentiable or ()}
    for place, output in enumerate(outputs):
        if isinstance(output, STATE.tensor) and any(output is given for given in inputs):
            outputs[place] = output.detach()
    tracked = [
        output
        for output in outputs
        if isinstance(output, STATE.tensor) and id(output) not in frozen
    ]
    if tracked:
        PyNode(cls, context, inputs, tracked)
    if single:
        return outputs[0]
    return outputs if isinstance(results, list) else tuple(outputs)


class PyNode(Node):
    """The backward step of a `PyLayer`."""

    def __init__(
        self, cls: type, context: Context, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> None:
        self.cls = cls
        self.context: Context | None = context
        self.dtypes = [(tensor.m_shape, tensor.m_dtype) for tensor in inputs]
        super().__init__(cls.__name__, [edge_of(tensor) for tensor in inputs], outputs)

    def run(self, grads: Grads, graph: bool, wants: Sequence[bool]) -> Grads:
        """Run the backward written in Python."""
        context = self.context
        if context is None:
            raise Unsupported(f"a second backward pass through {self.label}")
        given = []
        for slot, (shape, dtype) in enumerate(self.outputs):
            grad, grads[slot] = grads[slot], None
            if grad is None and context.materialize_grads:
                # An output that nothing was computed from gets zeros.
                grad = new(shape, dtype, "full_like")
            given.append(grad)
            del grad
        grads.clear()
        before = STATE.core._has_grad()
        STATE.core._set_has_grad(bool(graph))
        try:
            returned = context.backward(*_taken(given))
        finally:
            STATE.core._set_has_grad(before)
        grads_found = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        if len(grads_found) != len(self.edges):
            rest = iter(grads_found)
            grads_found = [next(rest, None) if edge is not None else None for edge in self.edges]
        return [value if isinstance(value, STATE.tensor) else None for value in grads_found]

    def release(self) -> None:
        """Let go of the context, which holds what forward saved."""
        self.context = None
        self.done = True


def _taken(values: Grads) -> Iterator[Tensor | None]:
    """Hand values over, keeping none."""
    while values:
        yield values.pop(0)
