"""Branches, loops and contexts."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NamedTuple

from gpuconsole.preflight.scan import asking, constants
from gpuconsole.preflight.scan.evaluate import Expressions
from gpuconsole.preflight.scan.run import CYCLES
from gpuconsole.preflight.scan.values import (
    MISSING,
    Blocked,
    Scope,
    Unknown,
    UserRaise,
    Value,
)

MAX_LOOPS = 20_000


class End(NamedTuple):
    """How a block ended early: `break`, `continue` or `return` with a value."""

    how: str
    value: Value = None


class Returned:
    """A `return`, holding its value until the call is over."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


def _returns(end: Any) -> bool:
    return isinstance(end, Returned)


def _weightless(*values: Value) -> bool:
    """Whether what differs cannot be a size: a figure of a metric, or not known anyway."""
    return any(isinstance(one, (float, Unknown)) for one in values)


BREAK, CONTINUE = End("break"), End("continue")


class Flow(Expressions):
    """The part of the interpreter that decides what runs next."""

    def _if(self, node: ast.If, scope: Scope) -> Any:
        test = self.eval(node.test, scope)
        truth = self.decided(node, test)
        if truth is None:
            return self._both(node, test, scope)
        return self.exec_block(node.body if truth else node.orelse, scope)

    def _both(self, node: ast.If, test: Value, scope: Scope) -> Any:
        """Follow both sides of a condition that is not known and keep what they agree on."""
        run = self.run
        place = (run.file, node.lineno)
        events = len(run.ledger.events)
        before = dict(scope.names)
        ends: list[Any] = []
        outcomes: list[dict[str, Value] | None] = []
        for body in (node.body, node.orelse):
            scope.names.clear()
            scope.names.update(before)
            try:
                ends.append(self.exec_block(body, scope))
                outcomes.append(dict(scope.names))
            except UserRaise:
                ends.append(None)
                outcomes.append(None)
            except Blocked:
                run.tests.setdefault(place, asking.text_of(node.test))
                raise
        before.clear()
        merged, agreed = self._merge(outcomes[0], outcomes[1], test)
        scope.names.clear()
        scope.names.update(merged)
        if not agreed or len(run.ledger.events) != events or any(map(_returns, ends)):
            # What each side alone would need is another run's question.
            run.tests.setdefault(place, asking.text_of(node.test))
        return self._joined_end(ends, outcomes, test, scope)

    def _joined_end(
        self, ends: list[Any], outcomes: list[dict[str, Value] | None], test: Value, scope: Scope
    ) -> Any:
        returned = [end.value for end in ends if isinstance(end, Returned)]
        if len(returned) == 2:
            if constants.same(*returned):
                return Returned(returned[0])
            return Returned(self.run.unknown("the result depends on a condition not known", test))
        if returned:
            if outcomes[0 if ends[1] is not None else 1] is None:
                return Returned(returned[0])
            scope.names["return?"] = returned[0]
        return None

    def _merge(
        self, left: dict[str, Value] | None, right: dict[str, Value] | None, test: Value
    ) -> tuple[dict[str, Value], bool]:
        """Return what holds after both sides, and whether they agree on all that has a size."""
        if left is None or right is None:
            return (left if right is None else right) or {}, True
        merged: dict[str, Value] = {}
        agreed = True
        for name in {**left, **right}:
            one, other = left.get(name, MISSING), right.get(name, MISSING)
            if one is MISSING or other is MISSING:
                merged[name] = other if one is MISSING else one
            elif constants.same(one, other):
                merged[name] = one
            else:
                why = f"{name} depends on a condition that is not known"
                merged[name] = self.run.unknown(why, test)
                agreed = agreed and _weightless(one, other)
        return merged, agreed

    def _for(self, node: ast.For, scope: Scope) -> Any:
        run = self.run
        count = 0
        # No enumerate() here: its tuple would keep a batch alive longer than the script does.
        for item in self.iterate(self.eval(node.iter, scope)):
            count += 1  # noqa: SIM113
            self.assign(node.target, item, scope)
            item = None
            cycles = run.cycles
            end = self.exec_block(node.body, scope)
            run.close_hand_made_cycle()
            if isinstance(end, Returned):
                return end
            if end is BREAK:
                return None
            if run.cycles >= CYCLES and run.cycles > cycles:
                return None
            if count > MAX_LOOPS:
                raise Blocked(run.unknown("a loop is too long to follow"))
        return self.exec_block(node.orelse, scope)

    def _while(self, node: ast.While, scope: Scope) -> Any:
        run = self.run
        for _ in range(MAX_LOOPS):
            truth = self.truth(self.eval(node.test, scope))
            if truth is False:
                return self.exec_block(node.orelse, scope)
            cycles = run.cycles
            end = self.exec_block(node.body, scope)
            run.close_hand_made_cycle()
            if isinstance(end, Returned):
                return end
            # A condition nobody knows: one pass, or as many as give the steady state.
            if end is BREAK or (run.cycles >= CYCLES and run.cycles > cycles):
                return None
            if truth is None and (run.cycles == cycles or run.cycles >= CYCLES):
                return None
        raise Blocked(run.unknown("a loop is too long to follow"))

    def _break(self, node: ast.Break, scope: Scope) -> Any:
        return BREAK

    def _continue(self, node: ast.Continue, scope: Scope) -> Any:
        return CONTINUE

    def _pass(self, node: ast.stmt, scope: Scope) -> Any:
        return None

    def _try(self, node: ast.Try, scope: Scope) -> Any:
        try:
            end = self.exec_block(node.body, scope)
            if end is None:
                end = self.exec_block(node.orelse, scope)
        except UserRaise:
            if not node.handlers:
                raise
            handler = node.handlers[0]
            if handler.name:
                scope.names[handler.name] = self.run.unknown("an exception's value")
            end = self.exec_block(handler.body, scope)
        last = self.exec_block(node.finalbody, scope)
        return last if last is not None else end

    def _with(self, node: ast.With, scope: Scope) -> Any:
        leaving: list[Callable[[], None]] = []
        for item in node.items:
            context = self.eval(item.context_expr, scope)
            leaving.append(self.enter(context))
            if item.optional_vars is not None:
                self.assign(item.optional_vars, context, scope)
        try:
            return self.exec_block(node.body, scope)
        finally:
            for leave in reversed(leaving):
                leave()
