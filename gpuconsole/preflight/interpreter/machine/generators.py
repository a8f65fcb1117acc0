"""Generator functions of a script, run item by item as they are asked for.

What a generator holds while it waits stays alive, as it does in Python: a reader's arrays, the
batch that it gave last.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import lru_cache
from typing import Any

from gpuconsole.preflight.interpreter.domain import lengths
from gpuconsole.preflight.interpreter.domain.values import (
    Blocked,
    Function,
    More,
    Native,
    Scope,
    UserRaise,
    Value,
)
from gpuconsole.preflight.interpreter.machine.block_exits import BREAK, returns
from gpuconsole.preflight.interpreter.machine.expressions import Expressions
from gpuconsole.preflight.interpreter.machine.loop_summary import Turns
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor

Steps = Generator[Value, None, Any]
"""The items that a block yields; its result says how the block ended."""
MAX_ITEMS = 5000
MAX_FIELDS = 32
"""Fields of a batch that are looked at."""
MANY_STEPS = 50_000
"""Steps for items of which nobody knows how many there are; most data have a batch of them."""
MAX_UNUSED = 4
"""Batches of arrays that a loop which trains nothing is given; the others are like them."""


class Walk(Native):
    """A running generator of the script."""

    label = "generator"

    def __init__(self, walk: Iterator[Value] | None = None) -> None:
        super().__init__()
        self.walk = walk if walk is not None else iter(())

    def iterate(self, calls: Any) -> Iterator[Value]:
        """Give the items in order, each once; leaving early does not end the generator."""
        while True:
            try:
                # A list, so that no name here holds the item while its user has it.
                held = [next(self.walk)]
            except StopIteration:
                return
            yield held.pop()

    def do_send(self, run: Any, value: Value) -> Value:
        """Give it a value, and return the item that it yields next."""
        send = getattr(self.walk, "send", None)
        try:
            return run.unknown("what a generator makes of it") if send is None else send(value)
        except StopIteration:
            return run.calls.lacking("a generator that has ended is sent a value", "StopIteration")

    def do_close(self, run: Any) -> None:
        """End it."""
        self.walk = iter(())


class Generators(Expressions):
    """The part of the interpreter that runs generator functions."""

    feeding = 0
    """How many generators wait for an item of another: what they gather is used later."""

    def _run_generator(self, function: Function, scope: Scope) -> Value:
        # The caller would clear the names of a function that nothing closes over.
        scope.captured = True
        return Walk(self._generated(function, scope))

    def _generated(self, function: Function, scope: Scope) -> Steps:
        run = self.run
        steps = self._steps(function.body, scope)
        before, count = run.backwards, 0
        sent: Value = None
        while True:
            place = (run.file, run.line)
            run.file = function.file or run.file
            self.depth += 1
            try:
                held = [steps.send(sent)]
            except StopIteration:
                return
            finally:
                self.depth -= 1
                run.file, run.line = place
            count += 1
            heavy = _heavy(held[0])
            sent = yield held.pop()
            unused = run.optimizers > 0 and run.backwards == before and heavy and not self.feeding
            if (unused and count >= MAX_UNUSED) or count >= MAX_ITEMS:
                why = run.unknown(f"how many items {function.name}() gives")
                yield More(why.file, why.line, why.reason, None, lengths.of_unknown(why))
                return

    def _steps(self, body: Sequence[ast.stmt], scope: Scope) -> Steps:
        for statement in body:
            if not yields(statement):
                end = self.exec_block([statement], scope)
            else:
                self.tick()
                self.run.line = statement.lineno
                if self.run.trail is not None:
                    self.run.trail(self.run.file, self.run.line)
                self.run.lines_seen.add((self.run.file, statement.lineno))
                end = yield from _STEPS.get(type(statement), _plain)(self, statement, scope)
            if end is not None:
                return end
        return None

    def _fed(self, items: Iterator[Value]) -> Iterator[Value]:
        """Give the items that a generator asks another for; it may need many to give one."""
        while True:
            self.feeding += 1
            try:
                held = [next(items)]
            except StopIteration:
                return
            finally:
                self.feeding -= 1
            yield held.pop()

    def _step_value(self, node: ast.expr, scope: Scope) -> Steps:
        if isinstance(node, ast.Yield):
            return (yield None if node.value is None else self.eval(node.value, scope))
        if isinstance(node, ast.YieldFrom):
            yield from self.iterate(self.eval(node.value, scope))
        return None

    def _step_expr(self, node: ast.Expr, scope: Scope) -> Steps:
        yield from self._step_value(node.value, scope)
        return None

    def _step_assign(self, node: ast.Assign, scope: Scope) -> Steps:
        value = yield from self._step_value(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)
        return None

    def _step_for(self, node: ast.For, scope: Scope) -> Steps:
        run = self.run
        walked = self.eval(node.iter, scope)
        turns = Turns(self, walked)
        items = self._fed(iter(self.iterate(walked)))
        del walked
        run.loop = node
        for item in items:
            turns.count += 1
            more = lengths.rest(item)
            if more is not None:
                end = yield from self._many_turns(node, lengths.likeness(item), scope)
                if returns(end):
                    return end
                yield More(more.file, more.line, more.reason, more.root, more.length)
                continue
            self.assign(node.target, item, scope)
            item = None
            end = yield from self._steps(node.body, scope)
            if returns(end):
                return end
            if end is BREAK:
                return None
            if turns.enough(self, node.body, scope):
                turns.finish(self, node.body, scope, node)
                why = run.unknown("how many items a generator gives")
                yield More(why.file, why.line, why.reason, why.root, lengths.of_unknown(why))
                return None
        return (yield from self._steps(node.orelse, scope))

    def _many_turns(self, node: ast.For, like: Value, scope: Scope) -> Steps:
        """Turn for an unknown number of items: as often as a batch or two of them may take."""
        before = self.run.steps
        for _ in range(MAX_ITEMS):
            self.assign(node.target, like, scope)
            end = yield from self._steps(node.body, scope)
            if end is BREAK or returns(end):
                return end
            if self.run.steps - before > MANY_STEPS:
                break
        return None

    def _step_while(self, node: ast.While, scope: Scope) -> Steps:
        for _ in range(MAX_ITEMS):
            test = self.eval(node.test, scope)
            truth = self.truth(test)
            if truth is False:
                return (yield from self._steps(node.orelse, scope))
            end = yield from self._steps(node.body, scope)
            if returns(end):
                return end
            if end is BREAK:
                return None
            if truth is None:
                why = self.run.unknown("how often a loop of a generator turns", test)
                yield More(why.file, why.line, why.reason, why.root, lengths.of_unknown(why))
                return None
        raise Blocked(self.run.unknown("a loop is too long to follow"))

    def _step_if(self, node: ast.If, scope: Scope) -> Steps:
        truth = self.decided(node.test, self.eval(node.test, scope))
        if truth is None:
            # Each side alone is another run's question; here the first is followed.
            place = (self.run.file, node.test.lineno)
            self.run.tests.setdefault(place, ast.unparse(node.test))
            truth = True
        return (yield from self._steps(node.body if truth else node.orelse, scope))

    def _step_with(self, node: ast.With, scope: Scope) -> Steps:
        leaving: list[Callable[[], None]] = []
        try:
            for item in node.items:
                value, leave = self.entered(self.eval(item.context_expr, scope))
                leaving.append(leave)
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, value, scope)
                value = None
            return (yield from self._steps(node.body, scope))
        finally:
            for leave in reversed(leaving):
                leave()

    def _step_try(self, node: ast.Try, scope: Scope) -> Steps:
        try:
            end = yield from self._steps(node.body, scope)
        except UserRaise:
            if not node.handlers:
                raise
            end = yield from self._steps(node.handlers[0].body, scope)
        else:
            if end is None:
                end = yield from self._steps(node.orelse, scope)
        last = yield from self._steps(node.finalbody, scope)
        return last if last is not None else end


def _plain(machine: Generators, node: ast.stmt, scope: Scope) -> Steps:
    """Run a statement in which a `yield` stands where its value is not followed."""
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


_STEPS: dict[type[ast.stmt], Callable[[Any, Any, Scope], Steps]] = {
    ast.Expr: Generators._step_expr, ast.Assign: Generators._step_assign,
    ast.For: Generators._step_for, ast.While: Generators._step_while,
    ast.If: Generators._step_if, ast.With: Generators._step_with, ast.Try: Generators._step_try,
}  # fmt: skip
