"""Iterations of a training loop in which it does something else than in the first ones.

`if epoch % 5 == 4: evaluate(...)` or `layer.trainable = epoch >= 3` need memory that two steps do
not show. Where such a test depends on the loop's counter alone, or on whole numbers that each
iteration computes from it (`stage = min(i // 4, 2)`), the first iteration at which one of them
comes out differently is followed too, and the one after it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuconsole.core.util.lazy_dataclass import dataclass
from gpuconsole.preflight.interpreter.domain.values import Scope, Value

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

MAX_ITERATIONS = 6
"""Iterations followed for this in one run, in all loops together."""
FIRST_ITERATIONS = 24
"""Iterations looked at one by one; beyond them those near the numbers that the tests name."""
MAX_TESTS = 8
_PLAIN = (
    ast.Name, ast.Constant, ast.Compare, ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Attribute,
    ast.Subscript, ast.Load, ast.operator, ast.cmpop, ast.boolop, ast.unaryop,
)  # fmt: skip
"""What a test may be made of: evaluating it changes nothing."""
_COMPUTING = frozenset({"abs", "bool", "int", "max", "min", "round"})
"""Built-in functions that it may call."""
_QUIET = frozenset({
    "print", "info", "debug", "warning", "log", "write", "flush", "format", "item", "float", "int",
    "str", "len", "round", "join", "time", "strftime", "add_scalar", "set_description",
    "set_postfix", "append", "update", "numpy", "mean", "sum", "exit", "perf_counter", "state_dict",
    "makedirs", "exists", "get_lr", "avg", "average", "mkdir", "dump",
})  # fmt: skip
"""Calls that a loop makes now and then to report or to store: they need no memory of a device."""
_SAVING = "save"
"""What needs none of a device, and on a CPU the copies of all that is saved."""


@dataclass(frozen=True, slots=True)
class Counter:
    """The counter of a loop: its name and its values, so far as they are known."""

    name: str
    values: range
    counted: int = 0
    """What an iteration adds before its tests ask."""

    @classmethod
    def by_hand(cls, node: ast.For | ast.AsyncFor, scope: Scope, iterations: int) -> list[Counter]:
        """Return what each iteration of a loop counts by `step += 1`, after so many iterations."""
        bound = [inner.id for statement in node.body for inner in ast.walk(statement)
                 if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)]  # fmt: skip
        counters = []
        for statement in node.body:
            by = _step_of(statement)
            if by is None or bound.count(by[0]) > 1:
                continue
            name, each = by
            value = scope.names.get(name)
            if not isinstance(value, int) or isinstance(value, bool):
                continue
            tested = [inner.lineno for other in node.body for inner in ast.walk(other)
                      if isinstance(inner, ast.If) and name in _names(inner.test)]  # fmt: skip
            counted = each if tested and min(tested) > statement.lineno else 0
            first = int(value) - each * iterations + counted
            counters.append(cls(name, range(first, 2**31, each), counted))
        return counters

    @classmethod
    def of(cls, node: ast.For | ast.AsyncFor, walked: Value) -> Counter | None:
        """Return the counter of `for i in range(n)` or `for i, x in enumerate(...)`, else None."""
        target = node.target
        if getattr(walked, "label", "") == "tqdm":
            walked = getattr(walked, "items", None)
        if isinstance(walked, range) and isinstance(target, ast.Name):
            return cls(target.id, walked)
        call = node.iter
        is_counted = (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "enumerate"
            and len(call.args) == 1
            and not call.keywords
        )
        if is_counted and isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
            return cls(target.elts[0].id, range(2**31))
        return None


def _step_of(statement: ast.stmt) -> tuple[str, int] | None:
    """Return the name that a statement counts up, and by how much."""
    if (
        isinstance(statement, ast.AugAssign)
        and isinstance(statement.op, ast.Add)
        and isinstance(statement.target, ast.Name)
        and isinstance(statement.value, ast.Constant)
        and type(statement.value.value) is int
        and statement.value.value > 0
    ):
        return statement.target.id, statement.value.value
    return None


def rare_iterations(
    interp: Interpreter,
    node: ast.For | ast.AsyncFor,
    scope: Scope,
    counter: Counter,
    iterations: int,
) -> Iterator[int]:
    """Yield values of the counter at which a test of the loop comes out as in no iteration before.

    `iterations` is how many were followed. Each value is followed by the next one: what begins in a
    iteration, such as the states of an optimizer, is whole in the iteration after it.
    """
    tests = _tests(node.body, counter.name, interp.run.on_cpu)
    if not tests:
        return
    followed = counter.values[:iterations]
    seen = [
        {_outcome(interp, test, scope, counter.name, value) for value in followed} for test in tests
    ]
    for value in _candidates(interp, tests, scope, counter, iterations):
        outcomes = [_outcome(interp, test, scope, counter.name, value) for test in tests]
        if all(
            outcome is None or outcome in outcomes_seen
            for outcome, outcomes_seen in zip(outcomes, seen, strict=True)
        ):
            continue
        for outcome, outcomes_seen in zip(outcomes, seen, strict=True):
            outcomes_seen.add(outcome)
        yield value
        if value + counter.values.step in counter.values:
            yield value + counter.values.step


def _candidates(
    interp: Interpreter, tests: Sequence[ast.expr], scope: Scope, counter: Counter, iterations: int
) -> list[int]:
    """Return the counter's values that are worth a look, in order, none that was followed."""
    near = {
        number + by
        for test in tests
        for part in ast.walk(test)
        if isinstance(part, ast.Constant | ast.Name | ast.Attribute | ast.Subscript | ast.Call)
        and counter.name not in _names(part)
        and getattr(part, "id", "") not in _COMPUTING
        and isinstance(number := interp.eval(part, scope), int)
        for by in (-2, -1, 0, 1)
    }
    first = set(counter.values[: iterations + FIRST_ITERATIONS])
    followed = set(counter.values[:iterations])
    return sorted(
        {number for number in near if number in counter.values} | first - followed - {None}
    )


def _tests(body: Sequence[ast.stmt], name: str, on_cpu: bool) -> list[ast.expr]:
    """Return what in a loop's body rests on its counter and decides about memory: tests, and
    numbers that are compared with others."""
    computed = _computed(body, name)
    tests_found: list[ast.expr] = []
    for statement in body:
        for inner in ast.walk(statement):
            if isinstance(inner, ast.If):
                tests = [inner.test] if _matters([*inner.body, *inner.orelse], on_cpu) else []
            elif isinstance(inner, ast.Assign):
                tests = [node for node in ast.walk(inner.value) if isinstance(node, ast.Compare)]
            else:
                continue
            whole = [_Inlined(computed).visit(copy.deepcopy(test)) for test in tests]
            tests_found += [test for test in whole if name in _names(test) and _is_plain(test)]
            compared = {each for test in tests for each in _names(test)}
            tests_found += [value for each, value in computed.items() if each in compared]
    return tests_found[:MAX_TESTS]


def _computed(body: Sequence[ast.stmt], name: str) -> dict[str, ast.expr]:
    """Return what each iteration computes from the counter and names, in terms of the counter."""
    computed: dict[str, ast.expr] = {}
    for statement in body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        value = _Inlined(computed).visit(copy.deepcopy(statement.value))
        if name in _names(value) and _is_plain(value):
            computed[statement.targets[0].id] = value
    return computed


class _Inlined(ast.NodeTransformer):
    """Puts what names stand for in their place."""

    def __init__(self, values: dict[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name."""
        return self._values.get(node.id, node)


def _matters(body: Sequence[ast.stmt], on_cpu: bool) -> bool:
    """Tell whether statements may need memory of a device: they do more than report."""
    for statement in body:
        for inner in ast.walk(statement):
            if isinstance(inner, ast.Call):
                function = inner.func
                called = getattr(function, "attr", getattr(function, "id", ""))
                if called not in _QUIET and (on_cpu or called != _SAVING):
                    return True
            elif isinstance(inner, ast.Assign) and any(
                isinstance(target, ast.Attribute) for target in inner.targets
            ):
                return True
    return False


def _is_plain(test: ast.expr) -> bool:
    return all(
        isinstance(inner, _PLAIN) or _looks_up(inner) or _computes(inner)
        for inner in ast.walk(test)
    )


def _computes(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _COMPUTING
        and not node.keywords
    )


def _looks_up(node: ast.AST) -> bool:
    """Tell whether a node asks a mapping for a key, as tests ask settings."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and len(node.args) in (1, 2)
        and not node.keywords
    )


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _outcome(
    interp: Interpreter, test: ast.expr, scope: Scope, name: str, value: int
) -> int | bool | None:
    """Return what a test, or a whole number, is where the counter has a value; None where that is
    not known."""
    before = scope.names.get(name)
    scope.names[name] = value
    try:
        if any(scope.find(name) is None for name in _names(test) - _COMPUTING):
            return None
        result = interp.eval(test, scope)
        return result if type(result) is int else interp.truth(result)
    finally:
        scope.names[name] = before
