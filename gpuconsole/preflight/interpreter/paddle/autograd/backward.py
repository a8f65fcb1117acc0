"""The backward pass, in the order of Paddle's own engine.

Nodes become ready when all their outputs' gradients have arrived, leaf accumulation runs first,
and what a node saved is let go as soon as it has run. `paddle.grad` runs the same engine over
the nodes that lie on a way to what it is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import ref

from gpuconsole.preflight.interpreter.paddle.autograd.double_grad import IN_PARTS, mirror, summed
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import (
    Edge,
    Gradient,
    Node,
    Parameter,
    Tensor,
)
from gpuconsole.preflight.memory.trace import Kind, Storage
from gpuconsole.preflight.meta.autograd.graph import in_degrees, on_a_way, reachable

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.domain.values import Value
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

BESIDE = 2
"""Operators that the static executor begins while a parameter is being updated (measured)."""
TRAVELLING = 2**23
"""Bytes of small gradients that sharded training gathers before it sends them (its default)."""


def backward(run: Run, loss: Tensor, *, retain: bool = False) -> None:
    """Run the backward pass from `loss` into the gradients of the leaves."""
    _Pass(run, retain=retain).go([loss], [None])


def backward_all(
    run: Run, losses: Sequence[Tensor], given: Sequence[Tensor | None], *, retain: bool = False
) -> None:
    """Run one backward pass from several tensors, with the gradients that are given for them."""
    _Pass(run, retain=retain).go(losses, given)


def gradients(
    run: Run, outputs: Sequence[Tensor], targets: Sequence[Tensor],
    given: Sequence[Tensor | None], *, retain: bool, graph: bool,
) -> list[Tensor | None]:  # fmt: skip
    """Return the gradients of `targets`, as `paddle.grad` does; leaves keep theirs.

    With `graph` the gradients can be differentiated again.
    """
    backward_pass = _Pass(run, retain=retain or graph, targets=targets, graph=graph)
    backward_pass.go(outputs, given)
    return backward_pass.results()


class _Pass:
    """One walk of the engine."""

    def __init__(
        self, run: Run, *, retain: bool, targets: Sequence[Tensor] | None = None,
        graph: bool = False,
    ) -> None:  # fmt: skip
        self.run = run
        self.retain = retain
        self.graph = graph
        self.targets = targets
        self.arrived: dict[int, list[Gradient | None]] = {}
        self.found: dict[tuple[int, int], Gradient] = {}
        self.wanted = {_where(target) for target in targets or ()}
        self.groups: list[Storage] = []
        self.parts: dict[tuple[int, int], list[Gradient]] = {}
        """Further gradients of one tensor, which a static program adds up at once."""
        self.done: list[Node] = []
        self.count = 0
        self.updating: deque[tuple[int, Storage]] = deque()
        """Gradients of parameters with an update that runs beside the backward pass, and until
        when."""

    def go(self, losses: Sequence[Tensor], given: Sequence[Tensor | None]) -> None:
        """Run from the given tensors down to the leaves."""
        roots: list[Node] = []
        for loss, start in zip(losses, given, strict=True):
            if loss.node is None:
                continue
            if loss.node not in roots:
                roots.append(loss.node)
                self.arrived[id(loss.node)] = [None] * len(loss.node.outputs)
            # A given gradient is copied by the engine: the caller's own stays as it is.
            first = Gradient(self.run.storage(start.nbytes if start else loss.nbytes))
            if start is not None and start.node is not None:
                first.maker = (start.node, start.slot)
            self.arrived[id(loss.node)][loss.slot] = first
            del first
        if not roots:
            return
        run = self.run
        run.tape.ledger.backwards.append(len(run.tape.ledger.events))
        around, run.tape.moment = (run.tape.moment, run.tape.layer), "backward"
        degrees = in_degrees(roots, reachable(roots))
        needed = self._needed(roots)
        ready = deque(root for root in roots if not degrees[id(root)])
        del roots
        while ready:
            run.steps += 6
            node = ready.popleft()
            run.tape.layer = node.layer
            if node.mode not in ("view", "strided"):
                self.count += 1
                while self.updating and self.updating[0][0] < self.count:
                    self.updating.popleft()
            results = self._step(node)
            self._let_go(node)
            self._pass_on(node, results, degrees, needed, ready)
        for parameter in run.mode.full_gradients if self.targets is None else ():
            if parameter.grad is not None and parameter.grad.dtype != "float32":
                parameter.grad = run.tensor(parameter.shape, "float32", "gradients")
        for node in self.done:
            node.saved.clear()
        run.tape.moment, run.tape.layer = around

    def _let_go(self, node: Node) -> None:
        """Free what a node saved; `paddle.grad` works on a copy of the graph and frees at the end.

        A backward of its own is done with too: its context keeps what it saved no longer.
        """
        if self.retain:
            return
        if self.targets is None:
            node.saved.clear()
            node.replay = None
        else:
            self.done.append(node)

    def _pass_on(
        self, node: Node, results: deque[Gradient | None], degrees: dict[int, int],
        needed: set[int] | None, ready: deque[Node],
    ) -> None:  # fmt: skip
        # Popped one by one: a gradient that was added into a leaf's is gone at once.
        for edge in node.edges:
            grad = results.popleft()
            if needed is not None and edge.key not in needed:
                grad = None
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
            else:
                whole = self._whole(edge.key, 0, self.arrived.pop(edge.key, [None])[0])
                self._at_leaf(edge.leaf, whole)
                whole = None

    def _step(self, node: Node) -> deque[Gradient | None]:
        """Run one node: the input gradients it makes; its output gradients are dropped."""
        run = self.run
        grads = self.arrived.pop(id(node))
        for slot in range(len(grads)):
            grads[slot] = self._whole(id(node), slot, grads[slot])
        for slot in node.hooks:
            for hook in node.hooks[slot]:
                grads[slot] = _hooked(run, hook, grads[slot])
        for slot, grad in enumerate(grads):
            if (id(node), slot) in self.wanted and grad is not None:
                self.found[id(node), slot] = grad
        grad = None
        if all(grad is None for grad in grads):
            return deque([None] * len(node.edges))
        if node.first is not None:
            node.first()
        scratch = _prepare(run, node, grads)
        results = _replayed(node, grads)
        if results is None:
            results = _made(run, node, grads, apart=self.graph)
        if self.graph:
            if node.name in IN_PARTS:
                run.block(run.unknown(f"the second derivative of {node.name}"))
            mirror(node, grads, results)
        grads.clear()
        del scratch
        return results

    def _collect(self, edge: Edge, grad: Gradient | None) -> None:
        """Add a gradient, in place, to those that have arrived for a node or a leaf."""
        if edge.node is None:
            slots, slot = self.arrived.setdefault(edge.key, [None]), 0
        else:
            width = len(edge.node.outputs)
            slots, slot = self.arrived.setdefault(id(edge.node), [None] * width), edge.slot
        before = slots[slot]
        if before is None or grad is None:
            slots[slot] = before if grad is None else grad
        elif before.rows:
            slots[slot] = self._joined(before, grad)
        elif self.graph:
            slots[slot] = summed(self.run, before, grad)
        elif self.run.mode.in_program:
            key = edge.key if edge.node is None else id(edge.node)
            self.parts.setdefault((key, slot), []).append(grad)

    def _whole(self, key: int, slot: int, first: Gradient | None) -> Gradient | None:
        """Return the gradient of a tensor; that of several users in a block beside its parts."""
        parts = self.parts.pop((key, slot), None)
        if first is None or parts is None:
            return first
        return Gradient(self.run.storage(first.storage.nbytes, "gradients"))

    def _joined(self, before: Gradient, grad: Gradient) -> Gradient:
        """Add to a gradient of rows: rows are put behind rows, and dense tensors take them in."""
        if not grad.rows:
            return grad
        both = Gradient(self.run.storage(before.storage.nbytes + grad.storage.nbytes, "gradients"))
        both.rows = True
        return both

    def _at_leaf(self, leaf: Tensor | None, grad: Gradient | None) -> None:
        """Put a leaf's whole gradient in place, or add it into the one kept from before."""
        if grad is None or leaf is None:
            return
        for hook in leaf.hooks or ():
            changed = _hooked(self.run, hook, grad)
            grad = changed if changed is not None else grad
        if self.targets is not None:
            if _where(leaf) in self.wanted:
                self.found[_where(leaf)] = grad
            return
        if id(leaf) in self.run.mode.reduced:
            self.groups.append(self.run.storage(leaf.nbytes, "gradients"))
        if self.run.mode.at_once:
            storage = grad.storage
            if id(leaf) in self.run.mode.decays:
                storage = self.run.storage(leaf.nbytes, "gradients")
                del self.run.mode.decays[id(leaf)]
            self.updating.append((self.count + BESIDE, storage))
            return
        if self.run.mode.own_gradients is not None and id(leaf) not in self.run.mode.own_gradients:
            # It travels to the process that owns it once the buffer is full.
            self.groups.append(grad.storage)
            if sum(group.nbytes for group in self.groups) > TRAVELLING:
                self.groups.clear()
            return
        earlier = leaf.grad
        if earlier is None or earlier.rows or earlier.emptied:
            if earlier is not None and earlier.rows:
                grad = self._joined(_as_gradient(earlier), grad)
            leaf.grad = Tensor(leaf.shape, leaf.dtype, grad.storage)
            leaf.grad.rows = grad.rows
            if grad.behind is not None:
                # What a hook computed is derived from the gradient that it was called with.
                leaf.grad.node = grad.behind

    def _needed(self, roots: Sequence[Node]) -> set[int] | None:
        """Return the nodes and leaves on a way to a target; None where all are."""
        if self.targets is None:
            return None
        return on_a_way(list(reachable(roots)), {place for place, _ in self.wanted})

    def results(self) -> list[Tensor | None]:
        """Return the gradients that were asked for."""
        out: list[Tensor | None] = []
        for target in self.targets or ():
            grad = self.found.get(_where(target))
            if grad is None:
                out.append(None)
                continue
            gradient = Tensor(target.shape, target.dtype, grad.storage)
            if grad.maker is not None:
                gradient.node, gradient.slot = grad.maker
                gradient.stop_gradient = False
            out.append(gradient)
        self.found.clear()
        return out


def saving_nodes(loss: Tensor) -> list[Node]:
    """Return the nodes behind a tensor."""
    return list(reachable([loss.node])) if loss.node is not None else []


def parameters_of(loss: Tensor) -> list[Parameter]:
    """Return the parameters that a tensor depends on, each once."""
    parameters: dict[int, Parameter] = {}
    for node in saving_nodes(loss):
        for edge in node.edges:
            leaf = edge.leaf
            if isinstance(leaf, Parameter):
                parameters.setdefault(id(leaf), leaf)
    return list(parameters.values())


def _where(tensor: Tensor) -> tuple[int, int]:
    return (id(ref(tensor)), 0) if tensor.node is None else (id(tensor.node), tensor.slot)


def _as_gradient(tensor: Tensor) -> Gradient:
    gradient = Gradient(tensor.storage)
    gradient.rows = tensor.rows
    return gradient


def _hooked(run: Run, hook: Value, grad: Gradient | None) -> Gradient | None:
    """Call a hook on a gradient; it returns another, or None to leave it."""
    if grad is None:
        return None
    function, shape, dtype = hook
    returned = run.interp.call(
        function, [Tensor(shape, dtype, grad.storage, stop_gradient=False)], {}
    )
    if not isinstance(returned, Tensor):
        return grad
    changed = Gradient(returned.storage)
    changed.maker = grad.maker
    changed.behind = returned.node
    return changed


def _prepare(run: Run, node: Node, grads: list[Gradient | None]) -> list[Storage]:
    """Fill in what a kernel must be given, and return what it takes while it runs."""
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
    return scratch


def _replayed(node: Node, grads: list[Gradient | None]) -> deque[Gradient | None] | None:
    """Run a node that has a backward of its own; None where it makes no gradients itself."""
    if node.replay is None:
        return None
    storages = node.replay(grads)
    if storages is None:
        return None
    return deque(None if storage is None else Gradient(storage) for storage in storages)


def _made(
    run: Run, node: Node, grads: list[Gradient | None], *, apart: bool
) -> deque[Gradient | None]:
    """Make the input gradients; `apart` from the output's, where those are needed again."""
    results: deque[Gradient | None] = deque()
    first = next((grad for grad in grads if grad is not None), None)
    given = {slot for slot, grad in enumerate(grads) if grad is not None}
    for place, edge in enumerate(node.edges):
        if edge.unless is not None and given <= {edge.unless}:
            results.append(None)
            continue
        shared = _shared(node, place, first, edge)
        if shared is not None and not (apart and node.mode in ("inplace", "saved")):
            results.append(shared)
            continue
        kind: Kind = "gradients" if isinstance(edge.leaf, Parameter) else "activations"
        gradient = Gradient(run.storage(edge.nbytes, kind))
        gradient.rows = edge.rows
        results.append(gradient)
        del gradient
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
