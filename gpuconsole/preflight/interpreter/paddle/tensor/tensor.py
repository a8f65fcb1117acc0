"""Tensors without data: shape, type, the block they live in, and the autograd graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING
from weakref import ref

from gpuconsole.preflight.interpreter.domain.values import Native, Value
from gpuconsole.preflight.memory.trace import Storage

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4,
    "float32": 4, "int64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


class Tensor(Native):
    """A tensor as the script sees it. Views share the storage of what they look at."""

    label = "Tensor"
    hashed_as_itself = True
    __slots__ = ("dtype", "emptied", "grad", "high", "hooks", "name", "node", "numbers", "rows",
                 "shape", "slot", "stop_gradient", "storage", "strided", "trainable")  # fmt: skip

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
        self.rows = False
        self.emptied = False
        """Of a gradient, whether it was zeroed: the next takes its place, nothing is added."""
        self.hooks: list[Value] | None = None
        self.name = ""
        self.high: int | None = None
        self.numbers: tuple[float, ...] | None = None
        """The few numbers in it along its one axis, or its only one, where they are known."""

    def clone(self, run: Run) -> Tensor:
        """Copy as `copy.deepcopy` does."""
        return Tensor(self.shape, self.dtype, run.storage(self.nbytes, "activations"))

    def forget(self) -> None:
        """Forget the numbers: something else was written into it."""
        self.numbers = None

    def clear_gradient(self, *, zero: bool) -> None:
        """Zero the gradient, which keeps its memory, or let it go; rows always go."""
        if self.grad is not None and (not zero or self.grad.rows):
            self.grad = None
        elif self.grad is not None:
            self.grad.emptied = True

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

    def clone(self, run: Run) -> Tensor:
        """Copy as `copy.deepcopy` does."""
        parameter = run.parameter(self.shape, self.dtype, trainable=self.trainable)
        parameter.stop_gradient = self.stop_gradient
        parameter.name = f"{self.name}{run.unique('_deepcopy')}" if self.name else ""
        return parameter


class Edge:
    """Where one input gradient of a node goes: to another node's output slot, or to a leaf."""

    __slots__ = ("end", "nbytes", "node", "rows", "slot", "unless")

    def __init__(self, tensor: Tensor) -> None:
        self.node = tensor.node
        self.slot = tensor.slot
        self.end = ref(tensor) if tensor.node is None else None
        """The leaf; as in Paddle a graph does not keep a leaf alive that nothing else holds."""
        self.nbytes = tensor.nbytes
        self.rows = False
        """Whether the gradient holds only the rows that were looked up, `nbytes` of them."""
        self.unless: int | None = None
        """The output slot with a gradient that alone makes no gradient for this input."""

    @property
    def leaf(self) -> Tensor | None:
        """The leaf at the end, while it lives."""
        return self.end() if self.end is not None else None

    @property
    def key(self) -> int:
        """What tells this edge's node or leaf from others."""
        return id(self.end) if self.node is None else id(self.node)

    @classmethod
    def to(cls, node: Node, slot: int, nbytes: int) -> Edge:
        """Make an edge to a node's output slot."""
        edge = cls.__new__(cls)
        edge.node, edge.slot, edge.end, edge.nbytes = node, slot, None, nbytes
        edge.rows, edge.unless = False, None
        return edge

    def copy(self) -> Edge:
        """Make another edge to the same place."""
        copy = type(self).__new__(type(self))
        copy.node, copy.slot, copy.end, copy.nbytes = self.node, self.slot, self.end, self.nbytes
        copy.rows, copy.unless = self.rows, self.unless
        return copy


class Node:
    """The backward step of one operator.

    `mode`: how the first input's gradient is made: `new`, `inplace` (in the output gradient's
    block), `view` (shares it), `strided` (shares it, in another order), `saved` (in the block of
    the first thing saved), `fill` (new, and absent output gradients are filled with zeros).
    """

    __slots__ = ("edges", "first", "hooks", "layer", "mode", "name", "outputs", "replay", "saved",
                 "temp", "wants_contiguous")  # fmt: skip

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
        self.replay: Callable[[list[Gradient | None]], Sequence[Storage | None] | None] | None = (
            None
        )
        """A backward of its own: the blocks of the input gradients, or None to make new ones."""
        self.first: Callable[[], None] | None = None
        """What is done before the node runs: it may give back what was saved."""
        self.hooks: dict[int, list[Value]] = {}
        self.layer = ""
        self.name = ""


class Gradient:
    """A gradient on its way: its block, and whether its elements are out of order."""

    __slots__ = ("behind", "maker", "rows", "storage", "strided")

    def __init__(self, storage: Storage, strided: bool = False) -> None:
        self.storage = storage
        self.strided = strided
        self.rows = False
        self.maker: tuple[Node, int] | None = None
        """The node behind it, where gradients of gradients are asked for."""
        self.behind: Node | None = None
        """The node behind what a hook returned in its place: it keeps what that computed with."""


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
