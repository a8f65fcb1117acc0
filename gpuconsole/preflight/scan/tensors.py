"""Tensors without data: shape, type, the block they live in, and the autograd graph.

The engine follows Paddle's own: nodes become ready when all their outputs' gradients have
arrived, leaf accumulation runs first, and what a node saved is let go as soon as it has run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from gpuconsole.preflight.scan.values import Native, Value
from gpuconsole.preflight.trace import Kind, Storage

if TYPE_CHECKING:
    from gpuconsole.preflight.scan.run import Run

ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4,
    "float32": 4, "int64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


class Tensor(Native):
    """A tensor as the script sees it. Views share the storage of what they look at."""

    label = "Tensor"
    __slots__ = ("dtype", "grad", "name", "node", "shape", "slot", "stop_gradient", "storage",
                 "strided", "trainable")  # fmt: skip

    def __init__(
        self, shape: tuple[int, ...], dtype: str, storage: Storage, *, stop_gradient: bool = True
    ) -> None:
        self.cls = None
        self.shape = shape
        self.dtype = dtype
        self.storage = storage
        self.stop_gradient = stop_gradient
        self.node: Node | None = None
        self.slot = 0
        self.grad: Tensor | None = None
        self.strided = False
        self.trainable = False
        self.name = ""

    @property
    def nbytes(self) -> int:
        """Bytes of the data that this tensor shows."""
        return prod(self.shape) * ITEM_BYTES[self.dtype]

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def needs_grad(self) -> bool:
        """Whether a gradient would flow to it."""
        return not self.stop_gradient


class Parameter(Tensor):
    """A trainable tensor that a layer owns."""

    label = "Parameter"


class Edge:
    """Where one input gradient of a node goes: to another node's output slot, or to a leaf."""

    __slots__ = ("leaf", "nbytes", "node", "slot")

    def __init__(self, tensor: Tensor) -> None:
        self.node = tensor.node
        self.slot = tensor.slot
        self.leaf = tensor if tensor.node is None else None
        self.nbytes = tensor.nbytes


class Node:
    """The backward step of one operator.

    `mode`: how the first input's gradient is made: `new`, `inplace` (in the output gradient's
    block), `view` (shares it), `strided` (shares it, in another order), `saved` (in the block of
    the first thing saved), `fill` (new, and absent output gradients are filled with zeros).
    """

    __slots__ = ("edges", "layer", "mode", "outputs", "replay", "saved", "temp",
                 "wants_contiguous")  # fmt: skip

    def __init__(
        self,
        edges: list[Edge],
        outputs: list[int],
        saved: list[Storage],
        mode: str,
        temp: int,
    ) -> None:
        self.edges = edges
        self.outputs = outputs
        self.saved = saved
        self.mode = mode
        self.temp = temp
        self.wants_contiguous = True
        self.replay: object = None
        self.layer = ""


class Gradient:
    """A gradient on its way: its block, and whether its elements are out of order."""

    __slots__ = ("storage", "strided")

    def __init__(self, storage: Storage, strided: bool = False) -> None:
        self.storage = storage
        self.strided = strided


def _in_degrees(root: Node) -> dict[int, int]:
    degrees: dict[int, int] = {id(root): 0}
    pending = [root]
    while pending:
        for edge in pending.pop().edges:
            if edge.node is None:
                degrees[id(edge.leaf)] = degrees.get(id(edge.leaf), 0) + 1
                continue
            if id(edge.node) not in degrees:
                degrees[id(edge.node)] = 0
                pending.append(edge.node)
            degrees[id(edge.node)] += 1
    return degrees


def backward(run: Run, loss: Tensor, *, retain: bool = False) -> None:
    """Run the backward pass from `loss`, writing its allocations and frees."""
    if loss.node is None:
        return
    run.ledger.backwards.append(len(run.ledger.events))
    around, run.moment = (run.moment, run.layer), "backward"
    degrees = _in_degrees(loss.node)
    arrived: dict[int, list[Gradient | None]] = {}
    arrived[id(loss.node)] = [None] * len(loss.node.outputs)
    arrived[id(loss.node)][loss.slot] = Gradient(run.storage(loss.nbytes))
    ready = deque([loss.node])
    while ready:
        node = ready.popleft()
        run.layer = node.layer
        results = _step(run, node, arrived.pop(id(node)))
        if not retain:
            node.saved.clear()
        # Popped one by one: a gradient that was added into a leaf's is gone at once.
        for edge in node.edges:
            target = edge.leaf if edge.node is None else edge.node
            _collect(edge, results.popleft(), arrived)
            degrees[id(target)] -= 1
            if degrees[id(target)]:
                continue
            if edge.node is not None:
                ready.append(edge.node)
            elif edge.leaf is not None:
                _accumulate(edge.leaf, arrived.pop(id(edge.leaf)))
    run.moment, run.layer = around


def _step(run: Run, node: Node, grads: list[Gradient | None]) -> deque[Gradient]:
    """Run one node: the input gradients it makes; its output gradients are dropped on return."""
    scratch: list[Storage] = []
    for slot, grad in enumerate(grads):
        if grad is None and node.mode == "fill":
            grads[slot] = Gradient(run.storage(node.outputs[slot]))
        elif grad is not None and grad.strided and node.wants_contiguous:
            if node.mode == "view":
                grads[slot] = Gradient(run.storage(node.outputs[slot]))
            else:
                scratch.append(run.storage(node.outputs[slot], "workspace"))
    if node.temp:
        scratch.append(run.storage(node.temp, "workspace"))
    if callable(node.replay):
        node.replay(grads)
    results: deque[Gradient] = deque()
    first = next((grad for grad in grads if grad is not None), None)
    for place, edge in enumerate(node.edges):
        shared = _shared(node, place, first, edge)
        if shared is not None:
            results.append(shared)
            continue
        kind: Kind = "gradients" if isinstance(edge.leaf, Parameter) else "activations"
        results.append(Gradient(run.storage(edge.nbytes, kind)))
    grads.clear()
    return results


def _shared(node: Node, place: int, first: Gradient | None, edge: Edge) -> Gradient | None:
    """Return the existing block in which an input gradient is made, or None for a new one."""
    if place or first is None or isinstance(edge.leaf, Parameter):
        return None
    if node.mode == "saved" and node.saved:
        return Gradient(node.saved[0])
    if node.mode in ("view", "strided"):
        return Gradient(first.storage, first.strided or node.mode == "strided")
    if node.mode == "inplace" and first.storage.nbytes >= edge.nbytes:
        return Gradient(first.storage, first.strided)
    return None


def _collect(edge: Edge, grad: Gradient, arrived: dict[int, list[Gradient | None]]) -> None:
    """Add a gradient, in place, to those that have arrived for a node or a leaf."""
    if edge.node is None:
        slots = arrived.setdefault(id(edge.leaf), [None])
        if slots[0] is None:
            slots[0] = grad
        return
    slots = arrived.setdefault(id(edge.node), [None] * len(edge.node.outputs))
    if slots[edge.slot] is None:
        slots[edge.slot] = grad


def _accumulate(leaf: Tensor, grads: list[Gradient | None]) -> None:
    """Put a leaf's whole gradient in place, or add it into the one kept from the step before."""
    if leaf.grad is None and grads[0] is not None:
        leaf.grad = Tensor(leaf.shape, leaf.dtype, grads[0].storage)


def as_shape(value: Value) -> tuple[int, ...]:
    """Return a shape from a list, tuple or int; TypeError when a part of it is not an int."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    if not isinstance(value, (list, tuple)):
        raise TypeError("a shape is a list of whole numbers")
    for part in value:
        if not isinstance(part, int):
            raise TypeError("a shape is a list of whole numbers")
    return tuple(value)


def broadcast(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...] | None:
    """Return the broadcast shape, or None when the two do not go together."""
    if len(left) < len(right):
        left, right = right, left
    shape = list(left)
    gap = len(left) - len(right)
    for place, extent in enumerate(right):
        mine = left[gap + place]
        if mine == 1:
            shape[gap + place] = extent
        elif extent not in (1, mine):
            return None
    return tuple(shape)
