"""Generator functions of a script, run item by item as they are asked for.

What a generator holds while it waits stays alive, as it does in Python: a reader's arrays, the
batch that it gave last.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import ref

from gpuconsole.preflight.interpreter.domain import exposed, lengths
from gpuconsole.preflight.interpreter.domain.values import (
    Function,
    More,
    Native,
    Scope,
    TooMuch,
    UserRaise,
    Value,
)
from gpuconsole.preflight.interpreter.frontend import answers
from gpuconsole.preflight.interpreter.machine.block_exits import BREAK, BlockExit, returns
from gpuconsole.preflight.interpreter.machine.evaluations import memory_of
from gpuconsole.preflight.interpreter.machine.loop_summary import Iterations
from gpuconsole.preflight.interpreter.machine.run_state.batches import LeftOut
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run
    from gpuconsole.preflight.memory.trace import Storage

Steps = Generator[Value, None, BlockExit | None]
"""The items that a block yields; its result says how the block ended."""
MAX_ITEMS = 5000
MAX_FIELDS = 32
"""Fields of a batch that are looked at."""
MANY_STEPS = 50_000
"""Steps for items of unknown number; most data have a batch of them."""
MAX_UNUSED = 4
"""Batches that a loop is given which trains nothing and keeps none of them; the others are like
them."""


class Walk(Native):
    """A running generator of the script."""

    label = "generator"

    def __init__(self, walk: Iterator[Value] | None = None) -> None:
        super().__init__()
        self.walk = walk if walk is not None else iter(())

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the items in order, each once; leaving early does not end the generator."""
        while True:
            try:
                # A list, so that no name here holds the item while its user has it.
                held = [next(self.walk)]
            except StopIteration:
                return
            yield held.pop()

    @exposed.method("send")
    def do_send(self, run: Run, value: Value) -> Value:
        """Give it a value, and return the item that it yields next."""
        send = getattr(self.walk, "send", None)
        try:
            return run.unknown("what a generator makes of it") if send is None else send(value)
        except StopIteration:
            return run.interp.lacking("a generator that has ended is sent a value", "StopIteration")

    @exposed.method("close")
    def do_close(self, run: Run) -> None:
        """End it."""
        self.walk = iter(())


def run_generator(interp: Interpreter, function: Function, scope: Scope) -> Value:
    # The caller would clear the names of a function that nothing closes over.
    scope.captured = True
    return Walk(_generated(interp, function, scope))


def _generated(interp: Interpreter, function: Function, scope: Scope) -> Steps:
    run = interp.run
    steps = _steps(interp, function.body, scope)
    before, count = run.progress.backwards, 0
    sent: Value = None
    first: list[ref[Storage]] = []
    while True:
        place = (run.file, run.line)
        run.file = function.file or run.file
        interp.depth += 1
        try:
            held = [steps.send(sent)]
        except StopIteration:
            return None
        finally:
            interp.depth -= 1
            run.file, run.line = place
        count += 1
        heavy = _heavy(held[0])
        if count == 1:
            first = [ref(memory) for memory in memory_of(held[0])]
        elif isinstance(held[0], More) and any(memory() is not None for memory in first):
            run.block(run.unknown(f"how many items {function.name}() yields, which are kept"))
        sent = yield held.pop()
        unused = (
            run.progress.optimizers > 0
            and run.progress.backwards == before
            and heavy
            and not interp.feeding
            and not any(memory() is not None for memory in first)
        )
        if (unused and count >= MAX_UNUSED) or count >= MAX_ITEMS:
            why = run.unknown(f"how many items {function.name}() yields")
            yield More(why.file, why.line, why.reason, None, lengths.of_unknown(why))
            run.batch.left_out = LeftOut(count, None) if unused else None
            return None


def _steps(interp: Interpreter, body: Sequence[ast.stmt], scope: Scope) -> Steps:
    for statement in body:
        if not yields(statement):
            end = interp.exec_block([statement], scope)
        else:
            interp.tick()
            interp.run.line = statement.lineno
            if interp.run.trail is not None:
                interp.run.trail(interp.run.file, interp.run.line)
            interp.run.findings.lines_seen.add((interp.run.file, statement.lineno))
            end = yield from _STEPS.get(type(statement), _plain)(interp, statement, scope)
        if end is not None:
            return end
    return None


def _fed(interp: Interpreter, items: Iterator[Value]) -> Iterator[Value]:
    """Give the items that a generator asks another for; it may need many to give one."""
    while True:
        interp.feeding += 1
        try:
            held = [next(items)]
        except StopIteration:
            return
        finally:
            interp.feeding -= 1
        yield held.pop()


def _step_value(interp: Interpreter, node: ast.expr, scope: Scope) -> Steps:
    if isinstance(node, ast.Yield):
        return (yield None if node.value is None else interp.eval(node.value, scope))
    if isinstance(node, ast.YieldFrom):
        yield from interp.iterate(interp.eval(node.value, scope))
    return None


def _step_expr(interp: Interpreter, node: ast.Expr, scope: Scope) -> Steps:
    yield from _step_value(interp, node.value, scope)
    return None


def _step_assign(interp: Interpreter, node: ast.Assign, scope: Scope) -> Steps:
    value = yield from _step_value(interp, node.value, scope)
    for target in node.targets:
        interp.assign(target, value, scope)
    return None


def _step_for(interp: Interpreter, node: ast.For, scope: Scope) -> Steps:
    run = interp.run
    walked = interp.eval(node.iter, scope)
    iterations = Iterations(interp, walked)
    items = _fed(interp, iter(interp.iterate(walked)))
    del walked
    run.loop = node
    for item in items:
        iterations.count += 1
        more = lengths.rest(item)
        if more is not None:
            end = yield from _many_iterations(interp, node, lengths.likeness(item), scope)
            if returns(end):
                return end
            yield More(more.file, more.line, more.reason, more.root, more.length)
            continue
        interp.assign(node.target, item, scope)
        item = None
        end = yield from _steps(interp, node.body, scope)
        if returns(end):
            return end
        if end is BREAK:
            return None
        if iterations.enough(interp, node.body, scope):
            iterations.finish(interp, node.body, scope, node)
            why = run.unknown("how many items a generator yields")
            yield More(why.file, why.line, why.reason, why.root, lengths.of_unknown(why))
            return None
    return (yield from _steps(interp, node.orelse, scope))


def _many_iterations(interp: Interpreter, node: ast.For, like: Value, scope: Scope) -> Steps:
    """Turn for an unknown number of items: as often as a batch or two of them may take."""
    before = interp.run.steps
    for _ in range(MAX_ITEMS):
        interp.assign(node.target, like, scope)
        end = yield from _steps(interp, node.body, scope)
        if end is BREAK or returns(end):
            return end
        if interp.run.steps - before > MANY_STEPS:
            break
    return None


def _step_while(interp: Interpreter, node: ast.While, scope: Scope) -> Steps:
    for _ in range(MAX_ITEMS):
        test = interp.eval(node.test, scope)
        truth = interp.truth(test)
        if truth is False:
            return (yield from _steps(interp, node.orelse, scope))
        end = yield from _steps(interp, node.body, scope)
        if returns(end):
            return end
        if end is BREAK:
            return None
        if truth is None:
            why = interp.run.unknown("how often a loop of a generator repeats", test)
            yield More(why.file, why.line, why.reason, why.root, lengths.of_unknown(why))
            return None
    raise TooMuch(interp.run.unknown("a loop is too long to follow"))


def _step_if(interp: Interpreter, node: ast.If, scope: Scope) -> Steps:
    truth = answers.decided(interp, node.test, interp.eval(node.test, scope))
    if truth is None:
        # Each side alone is another run's question; here the first is followed.
        place = (interp.run.file, node.test.lineno)
        interp.run.findings.tests.setdefault(place, ast.unparse(node.test))
        truth = True
    return (yield from _steps(interp, node.body if truth else node.orelse, scope))


def _step_with(interp: Interpreter, node: ast.With, scope: Scope) -> Steps:
    leaving: list[Callable[[], None]] = []
    try:
        for item in node.items:
            value, leave = interp.entered(interp.eval(item.context_expr, scope))
            leaving.append(leave)
            if item.optional_vars is not None:
                interp.assign(item.optional_vars, value, scope)
            value = None
        return (yield from _steps(interp, node.body, scope))
    finally:
        for leave in reversed(leaving):
            leave()


def _step_try(interp: Interpreter, node: ast.Try, scope: Scope) -> Steps:
    try:
        end = yield from _steps(interp, node.body, scope)
    except UserRaise:
        if not node.handlers:
            raise
        end = yield from _steps(interp, node.handlers[0].body, scope)
    else:
        if end is None:
            end = yield from _steps(interp, node.orelse, scope)
    last = yield from _steps(interp, node.finalbody, scope)
    return last if last is not None else end


def _plain(machine: Interpreter, node: ast.stmt, scope: Scope) -> Steps:
    """Run a statement with a `yield` in a place where its value is not followed."""
    yield from ()
    return machine.exec_block([node], scope)


def _heavy(value: Value) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) < MAX_FIELDS and any(map(_heavy, value))
    return isinstance(value, (Tensor, Array))


@lru_cache(maxsize=2048)
def yields(statement: ast.stmt) -> bool:
    """Whether a statement itself yields (functions defined in it do not count)."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return False
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(node))
    return False


_STEPS: dict[type[ast.stmt], Callable[..., Steps]] = {
    ast.Expr: _step_expr, ast.Assign: _step_assign,
    ast.For: _step_for, ast.While: _step_while,
    ast.If: _step_if, ast.With: _step_with, ast.Try: _step_try,
}  # fmt: skip
