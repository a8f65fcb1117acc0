"""Nodes of the backward pass: what each holds of the forward pass and what its run makes."""

from __future__ import annotations

import abc
import sys
import weakref
from typing import TYPE_CHECKING

from ..allocation import new
from ..inference import infer, kernels, views
from ..ledger import Block
from ..sizes import DIFFERENTIABLE, count, nbytes, word
from ..state import STATE, Unsupported, rightly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from paddle.base.core import DataType

    from ..inference.infer import Entry, Gradient, Spec, Step
    from ..tensor.tensor import Keeper, Tensor
    from ..types import Grads, Hook, Key, Rows, Shape
    from .to_static import Program


class Edge:
    """Where the gradient of an input goes: to another node's output, or to a leaf."""

    __slots__ = ("dtype", "keeper", "key", "leaf", "node", "parameter", "shape", "slot")

    def __init__(self, tensor: Tensor) -> None:
        self.node = tensor.m_node
        self.slot = tensor.m_slot
        # As in Paddle a graph keeps no leaf alive that nothing else holds.
        alone = tensor.m_node is None
        self.leaf = weakref.ref(tensor.source) if alone else None
        self.keeper = weakref.ref(tensor.source.keeper()) if alone else None
        self.shape, self.dtype = tensor.m_shape, tensor.m_dtype
        self.parameter = tensor.m_node is None and tensor.persistable
        self.key: Key = id(self.node) if self.node is not None else ("leaf", id(self.leaf))
        """What tells this edge's end from others."""

    def end(self) -> Tensor | None:
        """Return the leaf that it leads to, None where that is gone or there is a node."""
        return self.leaf() if self.leaf is not None else None

    def place(self) -> Keeper | None:
        """Return the place of the leaf's gradient, None as for `end`."""
        return self.keeper() if self.keeper is not None else None


class Saved:
    """Memory that a node holds, and how the tensor lies in it."""

    __slots__ = ("block", "packed", "shape", "strides")

    def __init__(self, tensor: Tensor) -> None:
        self.shape, self.strides = tensor.m_shape, tensor.m_strides
        self.packed: tuple[Callable[[object], object], object] | None = None
        self.block: Block | None = None
        if STATE.hooks:
            pack, unpack = STATE.hooks[-1]
            self.packed = (unpack, pack(tensor.detach()))
        else:
            self.block = tensor.m_block

    def open(self) -> Block | None:
        """Return the memory, unpacked where a hook packed it."""
        if self.packed is None:
            return self.block
        unpack, value = self.packed
        given = unpack(value)
        return given.m_block if isinstance(given, STATE.tensor) else None


class Node(abc.ABC):
    """The backward step of one operator; `edges` has None for inputs without a gradient."""

    def __init__(self, name: str, edges: Sequence[Edge | None], outputs: Sequence[Tensor]) -> None:
        self.label = name
        self.edges = edges
        self.outputs: list[tuple[Shape, DataType]] = [
            (output.m_shape, output.m_dtype) for output in outputs
        ]
        self.hooks: dict[int, dict[int, Hook]] = {}
        self.retained: dict[int, weakref.ref[Keeper]] = {}
        self.done = False
        self.program: Program | None = STATE.program
        """The program that it is a part of, None where it runs by itself."""
        self.keepers: Sequence[Keeper] = ()
        """The places of the gradients of the tensors that it reads."""
        for slot, output in enumerate(outputs):
            output.m_node, output.m_slot, output.stop_gradient = self, slot, False

    def name(self) -> str:
        """Return the operator's name, as Paddle's nodes do."""
        return self.label

    @property
    def next_functions(self) -> list[Node]:
        """Nodes behind this one."""
        return [edge.node for edge in self.edges if edge is not None and edge.node is not None]

    def hook(self, slot: int, function: Hook) -> int:
        """Call a function with the gradient of an output, once it is whole."""
        mine = self.hooks.setdefault(slot, {})
        number = max(mine, default=-1) + 1
        mine[number] = function
        return number

    def retain(self, tensor: Tensor) -> None:
        """Keep the gradient of an output in its tensor."""
        self.retained[tensor.m_slot] = weakref.ref(tensor.keeper())

    @abc.abstractmethod
    def run(self, grads: Grads, graph: bool, wants: Sequence[bool]) -> Grads:
        """Return the gradients of the inputs, in the order of the edges; clears `grads`.

        `graph`: whether they are to be differentiated again. `wants`: which edges need one.
        """

    def release(self) -> None:
        """Let go of what was saved."""
        self.keepers = ()
        self.done = True


class OperatorNode(Node):
    """The backward step of an operator that Paddle's representation knows the gradient of."""

    def __init__(
        self,
        entry: Entry,
        step: Step,
        gradient: Gradient,
        edges: Sequence[Edge],
        places: Sequence[tuple[int, int]],
        outputs: Sequence[tuple[int, int, Tensor]],
        tensors: Mapping[int, Tensor | None],
    ) -> None:
        self.step = step
        self.gradient = gradient
        self.places = places
        """For each edge: operand and place of the input."""
        self.slots = [(slot, place) for slot, place, _ in outputs]
        """The result and the place in it of each output."""
        self.specs, self.entry = entry.specs, entry
        self.kept: Sequence[Tensor | None] = ()
        self.saved: dict[int, Saved] = {}
        for number in gradient.saved:
            tensor = tensors.get(number)
            if tensor is not None:
                self.saved[number] = Saved(tensor)
        super().__init__(step.name, edges, [tensor for _, _, tensor in outputs])
        self.keepers = keepers(tensors.get(number) for number in gradient.touched)

    def run(self, grads: Grads, graph: bool, wants: Sequence[bool]) -> Grads:
        """Run the gradient's operators."""
        if self.done:
            words = f"Trying to backward through {self.label} a second time: "
            raise rightly(SystemError(f"{words}specify retain_graph=True"))
        runner = _Runner(self, grads, graph, wants)
        grads.clear()
        return runner.go()

    def origin(self, number: int) -> tuple[Edge | None, Node | None, int]:
        """Return the edge of an input, or the node and slot that made a value."""
        for edge, (operand, place) in zip(self.edges, self.places):
            if edge is not None and self.step.inputs[operand][place] == number:
                return edge, edge.node, edge.slot
        for position, (slot, place) in enumerate(self.slots):
            if self.step.outputs[slot][place] == number:
                return None, self, position
        return None, None, 0

    def release(self) -> None:
        """Let go of what was saved."""
        self.saved.clear()
        self.kept = ()
        super().release()


BILINEAR = frozenset({"conv2d_grad_grad", "depthwise_conv2d_double_grad", "conv3d_double_grad"})
"""Second derivatives of products: operands x, y, the gradient, and what arrived for both."""
SECOND: dict[str, Callable[[Step, Sequence[Tensor], Grads], Node]] = {}
"""By operator of a gradient: what hangs the node of its own derivative behind its results, where
Paddle makes that of other operators (see `second_order`)."""
HELD = 4
"""References to memory that a node holds, while it runs: its own, that of the run, and two of who
counts them."""
SUMS = frozenset({"add_grad", "subtract_grad"})
"""Gradients of sums, which are reduced in the copy of what arrived where there is one."""
IN_PLACE = frozenset({"tanh_double_grad", "sigmoid_double_grad"})
"""Second derivatives with a last result that is made in the memory of what arrived."""


class _Runner:
    """One run of a gradient's operators."""

    def __init__(
        self, node: OperatorNode, grads: Grads, graph: bool, wants: Sequence[bool]
    ) -> None:
        self.node = node
        self.graph = graph
        self.wants = wants
        # What is to be differentiated again must have all its results.
        whole = infer.whole(node.entry, node.step) if graph else None
        self.gradient = node.gradient if whole is None else whole
        self.unused: set[int | None] = set()
        self.env: dict[int, Tensor] = {}
        self.opened = {number: tensor.open() for number, tensor in node.saved.items()}
        for (slot, place), number in self.gradient.given.items():
            position = node.slots.index((slot, place)) if (slot, place) in node.slots else None
            grad = grads[position] if position is not None else None
            if grad is not None:
                self.env[number] = grad

    def go(self) -> Grads:
        node, gradient = self.node, self.gradient
        wanted = [
            gradient.results[operand][place] if wants else None
            for (operand, place), wants in zip(node.places, self.wants)
        ]
        last = _last_uses(gradient.steps)
        self.unused = {number for step in gradient.steps for row in step.outputs for number in row
                       if number not in last and number not in wanted}  # fmt: skip
        for at, step in enumerate(gradient.steps):
            self._run(step, wanted)
            for number in [number for number in self.env if last.get(number, -1) <= at]:
                if number not in wanted:
                    del self.env[number]
        return [None if number is None else self.env.get(number) for number in wanted]

    def _run(self, step: Step, wanted: Sequence[int | None]) -> None:
        given = self.gradient.given
        bilinear = step.name in BILINEAR
        lacking = self._lacking(step) if bilinear else set()
        for place, numbers in enumerate(step.inputs if not bilinear else ()):
            for number in numbers:
                # What did not arrive is filled with zeros.
                if number is not None and number in given.values() and number not in self.env:
                    if place in step.unneeded or step.name in infer.TWICE.values():
                        continue
                    lacked = self.node.specs[number]
                    self.env[number] = new(lacked.shape, lacked.dtype, "full_like")
        copies = self._copies(step)
        outputs = self._alias(step, wanted)
        for slot, (numbers, specs) in enumerate(zip(step.outputs, step.specs)):
            for number, spec in zip(numbers, specs):
                if number is None or spec is None or number in self.unused or number in outputs:
                    continue
                if slot in lacking:
                    continue
                outputs[number] = new(spec.shape, spec.dtype, step.name)
        nbytes_made = sum(output.nbytes for output in outputs.values())
        if not copies or step.name not in SUMS:
            if step.name in infer.TWICE.values():
                needs = kernels.normed_twice(step, self._shapes(step)[0], self._there(step))
            else:
                needs = kernels.needs(
                    step, self._shapes(step), backward=True, nbytes_made=nbytes_made,
                    results=self._results(step),
                )  # fmt: skip
            STATE.ledger.scratch(needs, step.name)
        del copies
        self.env.update(outputs)
        if self.graph:
            self._hang(step)

    def _there(self, step: Step) -> list[bool]:
        """Return which operands of a gradient's operator there are."""
        return [
            any(number in self.env or number in self.opened for number in row)
            for row in step.inputs
        ]

    def _lacking(self, step: Step) -> set[int]:
        """Return the results of a second derivative of a product that cannot be made: each needs
        what has arrived for the other factor."""
        arrived = [any(number in self.env for number in row) for row in step.inputs]
        first, second = arrived[3], arrived[4]
        return {place for place, there in ((0, second), (1, first)) if not there}

    def _hang(self, step: Step) -> None:
        """Hang the node of the second derivative behind what a gradient's operator has made."""
        inputs = [[self._shown(number) for number in row] for row in step.inputs]
        outputs = [[self._made(number) for number in row] for row in step.outputs]
        flowing = any(
            tensor is not None and not tensor.stop_gradient for row in inputs for tensor in row
        )
        if not flowing:
            return
        if step.name in SECOND:
            flat = [tensor for row in inputs for tensor in row if tensor is not None]
            SECOND[step.name](step, flat, [tensor for row in outputs for tensor in row])
            return
        if not STATE.core.has_vjp(step.op):
            order = "third" if step.name.endswith("_double_grad") else "second"
            raise Unsupported(f"the {order} derivative of {self.node.label.removesuffix('_grad')}")
        numbers = {number: item for row, shown in zip(step.inputs, inputs)
                   for number, item in zip(row, shown)
                   if number is not None and item is not None}  # fmt: skip
        numbers.update(self.env)
        attach(self.node.entry, step, inputs, outputs, numbers)
        if step.name == "add_grad":
            first = next((tensor for row in outputs for tensor in row if tensor is not None), None)
            if first is not None and isinstance(first.m_node, OperatorNode):
                # Measured: it keeps the gradient it was given though it reads nothing of it.
                first.m_node.kept = inputs[-1]

    def _made(self, number: int | None) -> Tensor | None:
        return None if number is None else self.env.get(number)

    def _shown(self, number: int | None) -> Tensor | None:
        """Return an operand of a gradient's operator with the graph behind it."""
        if number is None or number in self.env:
            return self._made(number)
        edge, node, slot = self.node.origin(number)
        leaf = edge.end() if edge is not None else None
        if leaf is not None:
            return leaf
        spec = self.node.specs[number]
        tensor = in_block(self.opened.get(number), spec)
        if node is not None:
            tensor.m_node, tensor.m_slot, tensor.stop_gradient = node, slot, False
        return tensor

    def _copies(self, step: Step) -> list[Block]:
        """Return the copies that a kernel makes of tensors with elements out of order."""
        if step.name in views.VIEWS:
            return []
        copies = []
        for place, numbers in enumerate(step.inputs):
            if place in step.unneeded:
                continue
            for number in numbers:
                saved = None if number is None else self.node.saved.get(number)
                tensor = self._made(number)
                if saved is not None and saved.strides is not None:
                    copies.append(self._copy(saved.shape, saved.block))
                elif tensor is not None and tensor.m_strides is not None:
                    copies.append(Block(STATE.ledger, tensor.nbytes, "contiguous", inside=True))
        return copies

    def _copy(self, shape: Shape, block: Block | None) -> Block:
        whole = block.nbytes if block is not None else 0
        return Block(STATE.ledger, min(whole, 4 * count(shape)), "contiguous", inside=True)

    def _shapes(self, step: Step) -> list[Spec]:
        entry_specs = self.node.specs
        return [
            entry_specs[number] for numbers in step.inputs for number in numbers
            if number is not None
        ]  # fmt: skip

    def _results(self, step: Step) -> list[Spec]:
        """Return the results of a gradient's operator that are made."""
        return [
            spec for numbers, specs in zip(step.outputs, step.specs)
            for number, spec in zip(numbers, specs)
            if spec is not None and number not in self.unused
        ]  # fmt: skip

    def _alias(self, step: Step, wanted: Sequence[int | None]) -> dict[int, Tensor]:
        """Return results that lie in memory that exists: views and gradients made in place."""
        grads = [n for numbers in step.inputs for n in numbers if n is not None and n in self.env]
        first_out = next((n for n in step.outputs[0] if n is not None), None)
        spec = step.specs[0][0]
        if first_out is None or spec is None or not grads:
            return {}
        arrived = self.env[grads[-1]]
        if step.name == "batch_norm_double_grad":
            return self._over_gradient(step)
        if step.name in IN_PLACE:
            last, last_spec = step.outputs[-1][0], step.specs[-1][0]
            if self.graph or last is None or last_spec is None or last in self.unused:
                return {}
            return {last: _shared(arrived, last_spec, arrived.m_strides)}
        if step.name in views.VIEWS:
            if step.name == "transpose_grad":
                strides = views.picked(step, arrived, spec.shape)
                return {first_out: _shared(arrived, spec, strides)}
            fits, strides = views.reshaped(arrived.m_shape, arrived.m_strides, spec.shape)
            return {first_out: _shared(arrived, spec, strides)} if fits else {}
        edge = next((e for e in self.node.edges if e is not None), None)
        if (
            self.graph
            or edge is None
            or edge.parameter
            or self.node.places[0] != (0, 0)
            or first_out != wanted[0]
        ):
            return {}
        mode = kernels.placed(step, self._shapes(step), self._results(step))
        if mode == "saved":
            block = next(
                (b for b in self.opened.values() if b is not None and b.nbytes == _bytes(spec)),
                None,
            )
            if block is not None:
                return {first_out: in_block(block, spec)}
        free = arrived.m_block is not None and not arrived.m_block.lent
        if mode == "inplace" and free and arrived.nbytes >= _bytes(spec):
            return {first_out: _shared(arrived, spec, arrived.m_strides)}
        return {}

    def _over_gradient(self, step: Step) -> dict[int, Tensor]:
        """Return the last result of a second derivative of a norm of batches, which is made in the
        memory of the gradient that the first derivative was given, if nothing else holds that."""
        last, given, spec = step.outputs[-1][0], step.inputs[6][0], step.specs[-1][0]
        block = None if given is None else self.opened.get(given)
        if self.graph or last is None or spec is None or last in self.unused or block is None:
            return {}
        if sys.getrefcount(block) > HELD:
            return {}
        return {last: in_block(block, spec)}


def keepers(tensors: Iterable[Tensor | None]) -> list[Keeper]:
    """Return what holds the gradients of some tensors, where they may have any."""
    return [
        tensor.m_keeper for tensor in tensors if tensor is not None and tensor.m_keeper is not None
    ]


def _bytes(spec: Spec) -> int:
    return nbytes(spec.shape, spec.dtype)


def in_block(block: Block | None, spec: Spec) -> Tensor:
    """Return a tensor of a shape and type that lies in some memory."""
    tensor = STATE.tensor.__new__(STATE.tensor)
    tensor.m_shape, tensor.m_dtype, tensor.m_block = spec.shape, spec.dtype, block
    return tensor


def _shared(tensor: Tensor, spec: Spec, strides: Shape | None) -> Tensor:
    shared = in_block(tensor.m_block, spec)
    shared.m_strides = strides
    return shared


def _last_uses(steps: Sequence[Step]) -> dict[int, int]:
    last: dict[int, int] = {}
    for at, step in enumerate(steps):
        for numbers in step.inputs:
            for number in numbers:
                if number is not None:
                    last[number] = at
    return last


class PlainNode(Node):
    """A backward step with gradients that are new tensors of given shapes."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        saved: Sequence[Tensor] = (),
    ) -> None:
        self.saved = [Saved(tensor) for tensor in saved]
        super().__init__(name, [edge_of(tensor) for tensor in inputs], outputs)
        self.keepers = keepers(saved)

    def run(self, grads: Grads, graph: bool, wants: Sequence[bool]) -> Grads:
        """Make the gradients."""
        arrived = next((grad for grad in grads if grad is not None), None)
        copies = in_order(grads)
        grads.clear()
        results: Grads = []
        for edge, wanted in zip(self.edges, wants):
            if edge is None or not wanted:
                results.append(None)
            else:
                results.append(new(edge.shape, edge.dtype, f"{self.label}_grad"))
        del copies
        behind = [tensor for tensor in results if tensor is not None and tensor is not arrived]
        if graph and arrived is not None and needed([arrived]) and behind:
            # These operators are linear in the gradient that arrives.
            PlainNode(f"{self.label}_grad", [arrived], behind)
        return results

    def release(self) -> None:
        """Let go of what was saved."""
        self.saved.clear()
        super().release()


class RowsNode(PlainNode):
    """Rows looked up: the gradient holds as many rows as were asked for."""

    def run(self, grads: Grads, graph: bool, wants: Sequence[bool]) -> Grads:
        """Make a gradient of rows: one for each place that was looked up."""
        arrived = next(grad for grad in grads if grad is not None)
        grads.clear()
        wide = arrived.m_shape[-1]
        shape = (count(arrived.m_shape) // max(1, wide), wide)
        results = new(shape, arrived.m_dtype, "embedding_sparse_grad")
        results.m_rows = True
        return [results]


def in_order(tensors: Iterable[Tensor | None]) -> list[Block]:
    """Return the copies that a kernel makes of tensors with elements out of order."""
    return [
        Block(STATE.ledger, tensor.nbytes, "contiguous", inside=True)
        for tensor in tensors
        if tensor is not None and tensor.m_strides is not None
    ]


def edge_of(tensor: Tensor) -> Edge | None:
    """Return the edge to a tensor, None where no gradient is needed."""
    return None if tensor.stop_gradient else Edge(tensor)


def needed(tensors: Iterable[Tensor]) -> bool:
    """Tell whether a node is to be made for an operator of these inputs."""
    return STATE.has_grad() and any(not tensor.stop_gradient for tensor in tensors)


def differentiable(tensor: Tensor) -> bool:
    """Tell whether a tensor can have a gradient."""
    return word(tensor.m_dtype) in DIFFERENTIABLE


def attach(
    entry: Entry,
    step: Step,
    inputs: Rows,
    outputs: Rows,
    tensors: Mapping[int, Tensor | None],
) -> None:
    """Hang a node behind an operator's outputs where a gradient flows to an input.

    `inputs` are tensors by operand and place, `outputs` by result and place; `tensors` by number.
    """
    stops = tuple(
        tuple(
            tensor is None or tensor.stop_gradient or not differentiable(tensor) for tensor in row
        )
        for row in inputs
    )
    if all(stop for row in stops for stop in row):
        return
    differentiated = [
        (slot, place, tensor)
        for slot, row in enumerate(outputs)
        for place, tensor in enumerate(row)
        if tensor is not None and differentiable(tensor)
    ]
    if not differentiated:
        return
    gradient = infer.gradient(entry, step, stops)
    if gradient is None:
        return
    flowing = [
        (operand, place, tensor)
        for operand, row in enumerate(inputs)
        for place, tensor in enumerate(row)
        if tensor is not None
        and not stops[operand][place]
        and gradient.results[operand][place] is not None
    ]
    edges = [Edge(tensor) for _, _, tensor in flowing]
    places = [(operand, place) for operand, place, _ in flowing]
    OperatorNode(entry, step, gradient, edges, places, differentiated, tensors)
