"""The backward pass, in the order of Paddle's own engine.

A node is ready when the gradients of all its outputs have arrived; leaves take theirs first; what
a node saved is released as soon as it has run. `paddle.grad` walks the nodes on a way to what it
is asked for.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, overload

from ..allocation import new
from ..sizes import nbytes
from ..state import STATE, Unsupported, rightly
from .graph import in_degrees, on_a_way, reachable
from .to_static import Running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..tensor.tensor import Keeper, Tensor
    from ..types import Grads, Hook, Key
    from .nodes import Edge, Node


def run_backward(
    tensors: Sequence[Tensor], grads: Sequence[Tensor | None], retain: bool = False, *_: object
) -> None:
    """Run back from some tensors into the gradients of the leaves."""
    given = list(grads) + [None] * (len(tensors) - len(grads))
    _of_parts()
    Pass(retain=bool(retain)).go(tensors, given)
    hooks, STATE.final_hooks = STATE.final_hooks, []
    for hook in hooks:
        hook()


def _of_parts(create_graph: bool = False) -> None:
    """Note that gradients are put together of smaller operators, where the script asked for it:
    they are counted as whole ones, which is not done where they have gradients themselves."""
    if not STATE.parts:
        return
    if create_graph:
        raise Unsupported("a second derivative of gradients that Paddle puts together of parts")
    STATE.choice("gradients that Paddle puts together of parts take what whole ones take")


def run_partial_grad(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    grad_outputs: Sequence[Tensor | None] = (),
    retain: bool = False,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    *_: object,
) -> Grads:
    """Return the gradients of some tensors; leaves keep theirs."""
    given = list(grad_outputs) + [None] * (len(outputs) - len(grad_outputs))
    _of_parts(create_graph)
    if create_graph:
        STATE.flags.add("double-backward")
    walk = Pass(retain=bool(retain or create_graph), targets=inputs, graph=bool(create_graph))
    walk.go(outputs, given)
    grads_found = walk.results()
    if not allow_unused and any(each is None for each in grads_found):
        words = "one of the inputs has no gradient: the output does not depend on it"
        raise rightly(ValueError(words))
    return grads_found


def get_all_grads(tensors: Sequence[Tensor]) -> Grads:
    """Return the gradients kept for tensors, None where there is none."""
    return [None if tensor.stop_gradient else tensor.m_grad for tensor in tensors]


class Pass:
    """One walk of the engine."""

    def __init__(
        self, *, retain: bool, targets: Sequence[Tensor] | None = None, graph: bool = False
    ) -> None:
        self.retain = retain
        self.targets = targets
        self.graph = graph
        self.arrived: dict[Key, Grads] = {}
        self.found: dict[tuple[Key, int], Tensor] = {}
        self.wanted = {_where(target) for target in targets or ()}
        self.programs = Running(())

    def go(self, losses: Sequence[Tensor], given: Sequence[Tensor | None]) -> None:
        """Run down to the leaves."""
        roots: list[Node] = []
        for loss, start in zip(losses, given):
            node = loss.m_node
            if node is None:
                self._root_leaf(loss, start)
                continue
            if all(root is not node for root in roots):
                roots.append(node)
                self.arrived[id(node)] = [None] * len(node.outputs)
            # A given gradient is copied by the engine: the caller's own stays as it is.
            shape, dtype = node.outputs[loss.m_slot]
            first = new(shape, dtype, "full_like" if start is None else "copy")
            if start is not None:
                first.m_node, first.m_slot = start.m_node, start.m_slot
                first.stop_gradient = start.stop_gradient
                if start.m_node is None:
                    # What is made of the copy leads to the leaf that it is one of.
                    first.m_source = start.source
            self.arrived[id(node)][loss.m_slot] = first
            del first
        if roots:
            self._walk(roots)

    def _root_leaf(self, loss: Tensor, start: object) -> None:
        if loss.stop_gradient:
            return
        first = new(loss.m_shape, loss.m_dtype, "full_like")
        del start
        self._at_leaf(loss, loss.source.keeper(), first)

    def _walk(self, roots: Sequence[Node]) -> None:
        order = list(reachable(roots))
        degrees = in_degrees(roots, order)
        needed = self._needed(order)
        if needed is None:
            self.programs = Running(order)
            self._begin(roots)
        del order
        ready = deque(root for root in roots if not degrees[id(root)])
        del roots
        while ready:
            node = ready.popleft()
            # What a node was given is held until what it made is added up.
            given = self.arrived.pop(id(node), None) or [None] * len(node.outputs)
            results = self._step(node, list(given), needed)
            self._release(node)
            self._pass_on(node, results, degrees, needed, ready)
            del given
            complete = self.programs.ran(node)
            while complete:
                self._at_leaf(*complete.pop(0))

    def _begin(self, roots: Sequence[Node]) -> None:
        """Give programs that a pass begins with what it begins with."""
        for node in roots:
            for grad in self.arrived[id(node)]:
                self.programs.take(node, None, grad)

    def _release(self, node: Node) -> None:
        """Free what a node saved; `paddle.grad` works on a copy of the graph, which stays whole."""
        if not self.retain and self.targets is None:
            node.release()

    def _pass_on(
        self,
        node: Node,
        results: deque[Tensor | None],
        degrees: dict[Key, int],
        needed: set[Key] | None,
        ready: deque[Node],
    ) -> None:
        for edge in node.edges:
            grad = results.popleft()
            if edge is None:
                continue
            if needed is not None and edge.key not in needed:
                grad = None
            self.programs.take(edge.node, node.program, grad)
            self._collect(edge, grad)
            grad = None
            degrees[edge.key] -= 1
            if degrees[edge.key]:
                continue
            if edge.node is not None:
                if needed is None or id(edge.node) in needed:
                    ready.append(edge.node)
                else:
                    self.arrived.pop(id(edge.node), None)
                continue
            whole = self.arrived.pop(edge.key, [None])[0]
            if not self.programs.keep(node, edge.end(), edge.place(), whole):
                self._at_leaf(edge.end(), edge.place(), whole)
            del whole

    def _step(self, node: Node, grads: Grads, needed: set[Key] | None) -> deque[Tensor | None]:
        """Run one node with the gradients of its outputs."""
        for slot, hooks in node.hooks.items():
            for hook in list(hooks.values()):
                grads[slot] = _hooked(hook, grads[slot])
        for slot, grad in enumerate(grads):
            if (id(node), slot) in self.wanted and grad is not None:
                self.found[id(node), slot] = grad
            reference = node.retained.get(slot)
            keeper = reference() if reference is not None else None
            if keeper is not None and self.targets is None:
                keeper.grad = grad
            grad = None
        if all(grad is None for grad in grads):
            return deque([None] * len(node.edges))
        wants = [edge is not None and (needed is None or edge.key in needed) for edge in node.edges]
        return deque(node.run(grads, self.graph, wants))

    def _collect(self, edge: Edge, grad: Tensor | None) -> None:
        """Add a gradient, in place, to those that have arrived for a node or a leaf."""
        if edge.node is None:
            slots, slot = self.arrived.setdefault(edge.key, [None]), 0
        else:
            width = len(edge.node.outputs)
            slots, slot = self.arrived.setdefault(id(edge.node), [None] * width), edge.slot
        before = slots[slot]
        if before is None or grad is None:
            slots[slot] = before if grad is None else grad
        elif before.m_rows or grad.m_rows:
            slots[slot] = _joined(before, grad)
        elif self.graph:
            slots[slot] = STATE.call("add", (grad, before), {})
        elif before.m_strides is not None or grad.m_strides is not None:
            slots[slot] = _added(before, grad)

    def _at_leaf(self, leaf: Tensor | None, keeper: Keeper | None, grad: Tensor | None) -> None:
        """Put a leaf's whole gradient in place, or add it into the one kept from before: where that
        is still there, though the leaf may be gone."""
        if grad is None:
            return
        hooks = list((leaf.m_hooks or {}).items()) if leaf is not None else []
        for key, hook in hooks:
            if not isinstance(key, tuple):
                grad = _hooked(hook, grad)
        if self.targets is not None:
            if leaf is not None and _where(leaf) in self.wanted:
                self.found[_where(leaf)] = grad
            return
        if keeper is not None:
            _keep(keeper, grad)
        for key, hook in hooks:
            if isinstance(key, tuple):
                hook()

    def _needed(self, order: Sequence[Node]) -> set[Key] | None:
        """Return the nodes and leaves on a way to a target; None where all are."""
        if self.targets is None:
            return None
        return on_a_way(order, {place for place, _ in self.wanted})

    def results(self) -> Grads:
        """Return the gradients that were asked for."""
        results = [self.found.get(_where(target)) for target in self.targets or ()]
        self.found.clear()
        return results


def _keep(keeper: Keeper, grad: Tensor) -> None:
    """Put a gradient in its place, or add it in place to the one that is there."""
    if keeper.grad is None:
        keeper.grad = _alone(grad)
    elif keeper.grad.m_rows or grad.m_rows:
        keeper.grad = _joined(keeper.grad, grad)


def _alone(grad: Tensor) -> Tensor:
    """Return a gradient as its leaf keeps it."""
    grad_alone = grad.detach()
    grad_alone.m_rows = grad.m_rows
    return grad_alone


def _added(before: Tensor, grad: Tensor) -> Tensor:
    """Add a gradient in place to one that arrived before it. Of views in another order Paddle makes
    copies in order: of what is added for as long as that takes, of what it is added to for good."""
    total = (
        before if before.m_strides is None else new(before.m_shape, before.m_dtype, "contiguous")
    )
    if grad.m_strides is not None:
        STATE.ledger.scratch([nbytes(grad.m_shape, grad.m_dtype)], "contiguous")
    return total


def _joined(before: Tensor, grad: Tensor) -> Tensor:
    """Add gradients of rows: rows are put behind rows, and a dense gradient takes them in."""
    if not grad.m_rows:
        return grad
    if not before.m_rows:
        return before
    joined = new((before.m_shape[0] + grad.m_shape[0], *before.m_shape[1:])
               if len(before.m_shape) == len(grad.m_shape) else before.m_shape,
               before.m_dtype, "add_rows")  # fmt: skip
    joined.m_rows = True
    return joined


def _where(tensor: Tensor) -> tuple[Key, int]:
    if tensor.m_node is None:
        return ("leaf", id(weakref.ref(tensor))), 0
    return id(tensor.m_node), tensor.m_slot


@overload
def _hooked(hook: Hook, grad: Tensor) -> Tensor: ...


@overload
def _hooked(hook: Hook, grad: Tensor | None) -> Tensor | None: ...


def _hooked(hook: Hook, grad: Tensor | None) -> Tensor | None:
    """Call a hook on a gradient; it returns another, or None to leave it."""
    if grad is None:
        return None
    changed = hook(grad)
    return changed if isinstance(changed, STATE.tensor) else grad
