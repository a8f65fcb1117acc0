"""Gradients of gradients: the node behind what a backward step has made, as `create_graph` asks."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Edge, Gradient, Node

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

IN_PARTS = frozenset({"divide", "silu", "swish"})
"""Operators with a second derivative that Paddle composes of others, each of which keeps its
own."""

_FLAT = frozenset({"relu", "relu6", "leaky_relu", "hardtanh", "abs", "dropout"})
"""Operators with a derivative that does not change with their input: no second gradient reaches
it."""

_SUMS = frozenset({"add", "subtract"})
"""Operators with a second derivative that keeps its incoming gradient though nothing was saved."""


def mirror(node: Node, grads: list[Gradient | None], results: deque[Gradient | None]) -> None:
    """Hang the node of the second derivative behind the gradients that a node has made.

    It keeps what the first one saved and was given. Its own gradients go to the given gradients
    and, where the operator is not linear, to the operator's inputs: an input's part needs the
    gradient of another input, as in a product.
    """
    edges: list[Edge] = []
    for slot, grad in enumerate(grads):
        if grad is not None and grad.maker is not None:
            edges.append(Edge.to(*grad.maker, node.outputs[slot]))
    if node.saved and node.name not in _FLAT:
        for place, edge in enumerate(node.edges):
            again = edge.copy()
            again.unless = place if len(node.edges) > 1 else None
            edges.append(again)
    if not edges:
        return
    saved = list(node.saved)
    if node.name in _SUMS or (saved and node.name not in _FLAT):
        saved += [grad.storage for grad in grads if grad is not None]
    sizes = [edge.nbytes for edge in node.edges]
    mirrored = Node(edges, sizes, saved, "new", 0)
    mirrored.name, mirrored.layer = node.name, node.layer
    for slot, result in enumerate(results):
        if result is not None:
            result.maker = (mirrored, slot)


def summed(run: Run, before: Gradient, grad: Gradient) -> Gradient:
    """Return the sum of two gradients of one tensor: in a graph that is differentiated again it is
    an addition like any other, into a block of its own."""
    both = Gradient(run.storage(before.storage.nbytes, "gradients"))
    makers = [gradient.maker for gradient in (before, grad) if gradient.maker is not None]
    if makers:
        size = both.storage.nbytes
        node = Node([Edge.to(*maker, size) for maker in makers], [size], [], "inplace", 0)
        node.name = "add"
        both.maker = node, 0
    return both
