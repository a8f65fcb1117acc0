"""Evaluations of which a few batches were followed, and what each of the others keeps; what lies
beside a training and has no size that is known.

A loop that trains nothing is given two batches, for the others are alike. Where it keeps something
of each (outputs in a list, to be put together and judged at the end), the list is given as many
items as all batches make, and they take the memory that each batch was seen to keep.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import lengths
from gpuconsole.preflight.interpreter.domain.keys import SomeKey
from gpuconsole.preflight.interpreter.domain.sequences import Listed
from gpuconsole.preflight.interpreter.domain.values import Scope, Value
from gpuconsole.preflight.interpreter.machine.loop_summary import containers
from gpuconsole.preflight.interpreter.machine.run_state.run import SMALL, Run
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor
from gpuconsole.preflight.memory.trace import Storage

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

MOST = 5000
"""Items added to a list one by one; of a longer one the length is known, and no more."""
LOOKED_AT = 8
"""Items of a list that tell it from another one."""
UNKNOWN = 1000
"""Batches that an epoch of unknown length may have, to tell if what is kept of each matters."""


class Evaluation:
    """A loop that may be an evaluation: what it keeps after its first and its last iteration.

    Lists are remembered by identities: what is held here would outlive its iteration.
    """

    __slots__ = (
        "_backwards", "_blocks", "_filled", "_first", "_grown", "_iterations", "_last", "_open",
        "_waiting", "_weight",
    )  # fmt: skip

    def __init__(self, interp: Interpreter) -> None:
        run = interp.run
        self._iterations = 0
        self._backwards, self._blocks = run.progress.backwards, len(run.tape.ledger.sizes)
        self._first = self._last = 0
        self._grown: dict[str, tuple[int, ...]] = {}
        """Shapes of the arrays and tensors that have a name after the first iteration."""
        self._filled: dict[int, tuple[int, ...]] = {}
        """Length and first items of each list after the first iteration."""
        self._open: list[tuple[list[Value], int]] = []
        """Lists that still lack what the waiting batches add, and how much each adds."""
        self._weight = 1.0
        """What an iteration keeps over the memory of what it adds to lists."""
        self._waiting = 0

    def look(self, interp: Interpreter, scope: Scope, *more: list[Value]) -> None:
        """Look at what is kept after an iteration, `more` lists among it."""
        run = interp.run
        run.batch.left_out, run.batch.keeps = None, False
        self._iterations += 1
        if not run.progress.optimizers or not self._is_one(run):
            return
        if self._iterations == 1:
            lists = [*_lists(scope), *more]
            self._filled = {id(items): _identities(items) for items in lists if items}
            self._first = _held(run)
            self._grown = {name: value.shape for name, value in scope.names.items()
                           if isinstance(value, (Array, Tensor))}  # fmt: skip
        else:
            self._last = _held(run)
            run.batch.keeps = self._growth > SMALL

    def fill(self, interp: Interpreter, scope: Scope, *further: list[Value]) -> None:
        """Add what the batches keep that the loop's reader leaves out, if it leaves any out.

        Before the last iteration that is all but what waits in the reader then; the rest comes
        after it.
        """
        run = interp.run
        left_out, run.batch.left_out = run.batch.left_out, None
        if self._waiting:
            for items, each in self._open:
                _extend(interp, items, each, self._waiting, self._weight)
            self._join(interp, scope, self._waiting, 1)
            self._open, self._waiting = [], 0
        if left_out is None or self._iterations < 2 or not self._is_one(run):
            return
        growth = self._growth
        more = None if left_out.all is None else max(0, left_out.all - left_out.followed)
        self._waiting = min(more or 0, left_out.waiting)
        filled = [*_lists(scope), *further]
        lists = [(items, each) for items in filled if (each := self._each(items))]
        tensors = [tensor for items, each in lists for tensor in memory_of(items[-each:])]
        own = sum(tensor.nbytes for tensor in tensors)
        now = None if more is None else more - self._waiting
        self._weight = max(1.0, growth / own) if own else 1.0
        for items, each in lists:
            _extend(interp, items, each, now, self._weight)
        self._open = lists
        joined = self._join(interp, scope, now, self._iterations - 1)
        if growth > SMALL and (more is None or not (tensors or joined)):
            # Nothing that is known holds it: the memory is not known either.
            _unseen(run, growth * (UNKNOWN if more is None else more))

    @property
    def _growth(self) -> int:
        """Bytes by which each iteration after the first has made memory grow."""
        return max(0, (self._last - self._first) // max(1, self._iterations - 1))

    def _is_one(self, run: Run) -> bool:
        """Whether it computes, and trains nothing."""
        ran = len(run.tape.ledger.sizes) > self._blocks
        return ran and run.progress.backwards == self._backwards

    def _join(self, interp: Interpreter, scope: Scope, more: int | None, seen: int) -> bool:
        """Lengthen what each iteration seen has put together with its own; return whether that is
        a tensor."""
        run = interp.run
        tensors = False
        grown, self._grown = self._grown, {}
        for name, before in grown.items():
            value = scope.names.get(name)
            if not isinstance(value, (Array, Tensor)) or value.shape == before:
                continue
            shape = _longer(before, value.shape, seen, more)
            tensors = tensors or isinstance(value, Tensor)
            if shape is None:
                scope.names[name] = run.unknown("how many batches are kept")
                continue
            self._grown[name] = shape
            if isinstance(value, Tensor):
                scope.names[name] = run.tensor(shape, value.dtype)
            else:
                scope.names[name] = Array(shape, value.dtype)
        return tensors

    def _each(self, items: list[Value]) -> int:
        """Return how many items each iteration has added to a list; 0 where that is not known."""
        before = self._filled.get(id(items), ())
        if not before or _identities(items[: before[0]]) != before:
            return 0
        each, rest = divmod(len(items) - before[0], self._iterations - 1)
        return 0 if rest or each < 0 else each


def _longer(
    before: tuple[int, ...], now: tuple[int, ...], seen: int, more: int | None
) -> tuple[int, ...] | None:
    """Return the shape after `more` iterations; None where it has not grown along one axis."""
    axes = [axis for axis, (a, b) in enumerate(zip(before, now, strict=False)) if a != b]
    if more is None or len(before) != len(now) or len(axes) != 1:
        return None
    axis = axes[0]
    each, rest = divmod(now[axis] - before[axis], seen)
    if rest or each < 0:
        return None
    return (*now[:axis], now[axis] + each * more, *now[axis + 1 :])


def look_beside_training(interp: Interpreter) -> None:
    """Look at what is there once two steps were followed: tensors of unknown size that were made
    before the training, and containers of an unknown number of tensors."""
    run = interp.run
    for memory, unknown in run.unsized:
        if memory() is not None:
            run.give_up(unknown)
            break
    for container, _ in containers(interp.here):
        more = lengths.more_in(container)
        if more is None or any(isinstance(key, SomeKey) for key in container):
            continue
        items = container.values() if isinstance(container, dict) else container
        each = max(map(nbytes_of, islice(items, lengths.MAX_LOOKED_AT)), default=0)
        count = more.length if isinstance(more.length, int) else UNKNOWN
        run.progress.unseen = max(run.progress.unseen, each * count)


def whole(interp: Interpreter, items: list[Value]) -> list[Value]:
    """Return what was just read to its end, with all batches of a reader that left some out."""
    run = interp.run
    left_out, run.batch.left_out = run.batch.left_out, None
    if left_out is not None and len(items) == left_out.followed:
        more = None if left_out.all is None else max(0, left_out.all - left_out.followed)
        _extend(interp, items, 1, more, 1.0)
    return items


def _unseen(run: Run, nbytes: int) -> None:
    run.progress.unseen = max(run.progress.unseen, nbytes)


def _held(run: Run) -> int:
    """Return the bytes alive, those of batches among them: as many wait after each iteration."""
    return run.tape.kept() + run.tape.ledger.live("inputs")


def _lists(scope: Scope) -> list[list[Value]]:
    fillable = (container for container, _ in containers(scope))
    return [
        items
        for items in fillable
        if type(items) in (list, Listed) and lengths.more_in(items) is None
    ]


def _identities(items: list[Value]) -> tuple[int, ...]:
    return (len(items), *map(id, items[:LOOKED_AT]))


def _extend(
    interp: Interpreter, items: list[Value], each: int, more: int | None, weight: float
) -> None:
    """Add to a list what so many iterations add, each tensor with `weight` times its own memory.

    What is too much, or of an unknown number of iterations, counts as memory that no trace has.
    """
    run, last = interp.run, items[-each:]
    if more is None or each * more > MOST:
        own = weight * sum(memory.nbytes for memory in memory_of(last))
        _unseen(run, int(own) * (UNKNOWN if more is None else more))
        lengths.open_up(run, items, run.unknown("how many batches are kept"))
        return
    for _ in range(more):
        items.extend(_like(interp, item, weight) for item in last)


def _like(interp: Interpreter, item: Value, weight: float) -> Value:
    interp.tick()
    if isinstance(item, Tensor):
        storage = interp.run.storage(int(item.nbytes * weight), "activations")
        return Tensor(item.shape, item.dtype, storage)
    if isinstance(item, Array) and item.keeps is not None:
        storage = interp.run.storage(int(item.keeps.nbytes * weight), "activations")
        return Array(item.shape, item.dtype, keeps=storage)
    if type(item) in (list, tuple):
        return type(item)(_like(interp, part, weight) for part in item)
    if type(item) is dict:
        return {key: _like(interp, part, weight) for key, part in item.items()}
    return item


def nbytes_of(value: Value) -> int:
    """Return how many bytes the tensors in a value take."""
    return sum(memory.nbytes for memory in memory_of(value))


def memory_of(value: Value) -> Iterator[Storage]:
    """Give the memory of tensors, and of arrays that are looked at in Paddle's memory."""
    if isinstance(value, Tensor):
        yield value.storage
    elif isinstance(value, Array) and value.keeps is not None:
        yield value.keeps
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from memory_of(part)
    elif isinstance(value, dict):
        yield from memory_of(list(value.values()))
