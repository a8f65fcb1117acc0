"""Expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import (
    dimensions,
    equality,
    keys,
    lengths,
    python_values,
    string_sets,
    strings,
    syntax,
)
from gpuconsole.preflight.interpreter.domain.mappings import mapping_of
from gpuconsole.preflight.interpreter.domain.sequences import Listed
from gpuconsole.preflight.interpreter.domain.string_sets import DrawnText
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Function,
    Length,
    Native,
    OneOf,
    Reshaped,
    Saved,
    Scope,
    Share,
    SomeInt,
    SomeNumber,
    SuperOf,
    Unknown,
    Value,
    as_number,
    first_unknown,
    plain,
)
from gpuconsole.preflight.interpreter.frontend import answers
from gpuconsole.preflight.interpreter.libraries import cv2
from gpuconsole.preflight.interpreter.machine import comprehensions, operators
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

_TRAINING = frozenset(["backward", "minimize", "clear_grad", "clear_gradients"])
"""Methods that losses, optimizers and networks have, and hardly anything else."""


def evaluate(interp: Interpreter, node: ast.expr, scope: Scope) -> Value:
    """Evaluate an expression."""
    run = interp.run
    run.steps += 1
    if run.steps >= interp.check_at:
        interp.tick(0)
    method = _EVALUATORS.get(type(node))
    if method is None:
        return run.unknown(msg("{name} is not known to the analysis", name=type(node).__name__))
    if run.answering:
        value = answers.answerable(interp, lambda: method(interp, node, scope), node)
    else:
        value = method(interp, node, scope)
    if not isinstance(value, Unknown):
        return value
    if not isinstance(value, SomeNumber):
        run.doubted(value)
    return value if run.answering else answers.fresh(interp, node, value)


def _constant(interp: Interpreter, node: ast.Constant, scope: Scope) -> Value:
    value = node.value
    if type(value) is int and node.lineno:
        run = interp.run
        number = run.batch.numbers.get(node)
        if number is None:
            key = f"{run.file}:{node.lineno}:{node.col_offset}"
            number = run.sourced(value, run.file, node.lineno, "constant", key)
            run.batch.numbers[node] = number
        return number
    return value


def name_of(interp: Interpreter, node: ast.Name, scope: Scope) -> Value:
    name = node.id
    if name in scope.names and name not in scope.declared:
        return scope.names[name]
    home = scope.declared.get(name) or scope.find(name)
    if home is not None and name in home.names:
        return home.names[name]
    if name in interp.builtins:
        return interp.builtins[name]
    return interp.run.unknown(
        msg("the name {id} is not defined where the analysis can see it", id=node.id)
    )


def _attribute(interp: Interpreter, node: ast.Attribute, scope: Scope) -> Value:
    owner = interp.eval(node.value, scope)
    if isinstance(owner, Unknown) and not isinstance(owner, (DrawnText, Reshaped)):
        return answers.part(interp, node, owner)
    value = interp.get_attr(owner, node.attr)
    return answers.of_owner(interp, node, owner, value) if isinstance(value, Unknown) else value


def _call(interp: Interpreter, node: ast.Call, scope: Scope) -> Value:
    if isinstance(node.func, ast.Name) and node.func.id == "super":
        return _super(interp, node, scope)
    target = interp.eval(node.func, scope)
    args: list[Value] = []
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            args.extend(interp.iterate(interp.eval(arg.value, scope)))
        else:
            args.append(interp.eval(arg, scope))
    kwargs: dict[str, Value] = {}
    for keyword in node.keywords:
        value = interp.eval(keyword.value, scope)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif (entries := mapping_of(value)) is not None:
            kwargs.update({k: v for k, v in entries.items() if isinstance(k, str)})
        else:
            return first_unknown(value) or interp.run.unknown("** of something unknown")
    interp.run.line = node.lineno or interp.run.line
    if isinstance(target, Unknown) and isinstance(node.func, ast.Attribute):
        _unknown_training(interp, target, node.func.attr)
    result = interp.call(target, args, kwargs)
    return (
        answers.of_call(interp, node, target, [*args, *kwargs.values()], result)
        if isinstance(result, Unknown)
        else result
    )


def _unknown_training(interp: Interpreter, target: Unknown, method: str) -> None:
    """Give the memory up where what trains is not known: a loss or an optimizer.

    That of a training which was followed is known, but not that of one after it: its optimizer has
    not stepped.
    """
    run = interp.run
    if method in _TRAINING:
        lose = run.give_up if 0 in run.progress.steps_of else run.block
        lose(run.gap(target.reason))
    elif method == "step" and interp.run.findings.lost is None:
        interp.run.findings.lost = target


def _super(interp: Interpreter, node: ast.Call, scope: Scope) -> Value:
    function: Scope | None = scope
    while function is not None and "class?" not in function.names:
        function = function.parent
    if node.args and len(node.args) == 2:
        owner, instance = (interp.eval(argument, scope) for argument in node.args)
        return SuperOf(instance, owner)
    if function is None or "self?" not in function.names:
        return interp.run.unknown("super() outside a method")
    return SuperOf(function.names["self?"], function.names["class?"])


def _binary(interp: Interpreter, node: ast.BinOp, scope: Scope) -> Value:
    left, right = interp.eval(node.left, scope), interp.eval(node.right, scope)
    return interp.binary(type(node.op), left, right)


def binary(interp: Interpreter, kind: type[ast.operator], left: Value, right: Value) -> Value:
    """Compute `left op right` for anything."""
    result = lengths.binary(interp.run, kind, left, right)
    if result is not None:
        return result
    for operand, other in ((left, right), (right, left)):
        if isinstance(operand, Unknown):
            if isinstance(operand, SomeNumber) and isinstance(other, (Tensor, Array)):
                break
            if isinstance(operand, SomeNumber) and isinstance(other, Unknown):
                # A number and something that may be an array make what may be an array.
                operand = operand if isinstance(other, SomeNumber) else other
            if isinstance(other, Tensor) and other.needs_grad:
                interp.run.block(operand)
            return as_number(_computed(kind, operand, other))
    if isinstance(left, Listed) or isinstance(right, Listed):
        result = operators.by_own_method(interp, kind, left, right)
        if result is not MISSING:
            return result
    if python_values.is_plain(left) and python_values.is_plain(right):
        return python_values.binary(interp, kind, left, right)
    return interp.guard(
        lambda run, a, b: operators.binary(interp, kind, a, b), "operator", (left, right)
    )


def _computed(kind: type[ast.operator], unknown: Unknown, other: Value) -> Unknown:
    """Return what is computed with an unknown: of a length, a number that is another length's."""
    if not isinstance(unknown, Length):
        return unknown
    whole = kind in (ast.Mult, ast.FloorDiv, ast.Mod) and isinstance(other, (int, SomeInt))
    return (SomeInt if whole else SomeNumber)(
        unknown.file, unknown.line, unknown.reason, unknown.root
    )


def _unary(interp: Interpreter, node: ast.UnaryOp, scope: Scope) -> Value:
    value = interp.eval(node.operand, scope)
    if isinstance(node.op, ast.Not):
        truth = interp.truth(value)
        if truth is None:
            return interp.run.unknown("a condition that is not known", value)
        return not truth
    if isinstance(value, Unknown):
        return value
    if isinstance(value, (int, float)):
        if isinstance(node.op, ast.Invert):
            return ~value if isinstance(value, int) else interp.run.unknown("~ of a float")
        return -value if isinstance(node.op, ast.USub) else value
    return interp.guard(
        lambda run, a: operators.unary(interp, type(node.op), a), "operator", (value,)
    )


def truth(interp: Interpreter, value: Value) -> bool | None:
    """Return the truth of a value, None if unknown."""
    if isinstance(value, Unknown):
        return True if isinstance(value, OneOf) and None not in value.things else None
    if isinstance(value, Native):
        if getattr(value, "shape", None) is not None:
            return None
        size = getattr(value, "length", None)
        return True if size is None else bool(size)
    if python_values.is_plain(value):
        if lengths.more_in(value) is not None and len(value) == 1:
            return None
        return bool(value)
    return True


def _bool(interp: Interpreter, node: ast.BoolOp, scope: Scope) -> Value:
    wanted = isinstance(node.op, ast.Or)
    unsure: Value = None
    value: Value = None
    for operand in node.values:
        value = interp.eval(operand, scope)
        truth = interp.truth(value)
        if truth is None:
            unsure = value if unsure is None else unsure
        elif truth is wanted:
            return value if unsure is None or not wanted else unsure
    if unsure is None:
        return value
    return interp.run.unknown("a condition that is not known", unsure)


def _compare(interp: Interpreter, node: ast.Compare, scope: Scope) -> Value:
    left = interp.eval(node.left, scope)
    result: Value = True
    for op, operand in zip(node.ops, node.comparators, strict=True):
        right = interp.eval(operand, scope)
        result = interp.compare(type(op), left, right)
        if result is False or isinstance(result, (Unknown, Native)):
            return result
        left = right
    return result


def compare(interp: Interpreter, kind: type[ast.cmpop], left: Value, right: Value) -> Value:
    """Compare anything; the result may be unknown."""
    if kind in (ast.Is, ast.IsNot):
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return first_unknown(left, right)
        if left is None or right is None or isinstance(left, bool):
            return (left is right) is (kind is ast.Is)
        # Constants that are equal are one; containers only when they are the same.
        alike = all(isinstance(side, (int, float, str)) for side in (left, right))
        equal = left is right or (alike and left == right)
        return equal is (kind is ast.Is)
    if kind in (ast.In, ast.NotIn):
        return _contains(interp, left, right, kind is ast.In)
    if isinstance(left, Length) or isinstance(right, Length):
        answer = lengths.compare(kind, left, right)
        if answer is not None:
            return answer
        if kind in (ast.Eq, ast.NotEq) and cv2.same_side(interp.run, left, right):
            return kind is ast.Eq
    if isinstance(left, Share) or isinstance(right, Share):
        answer = _compare_share(kind, left, right)
        if answer is not None:
            return answer
    unknown = first_unknown(left, right)
    arrays = isinstance(left, (Tensor, Array)) or isinstance(right, (Tensor, Array))
    if unknown is not None and not (isinstance(unknown, SomeNumber) and arrays):
        return unknown
    if kind in (ast.Eq, ast.NotEq) and dimensions.may_be_equal(left, right):
        return interp.run.unknown("a number from data")
    if python_values.is_plain(left) and python_values.is_plain(right):
        return python_values.compare(interp, kind, left, right)
    return interp.guard(
        lambda run, a, b: operators.compare(interp, kind, a, b), "comparison", (left, right)
    )


_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE,
}  # fmt: skip


def _compare_share(kind: type[ast.cmpop], left: Value, right: Value) -> bool | None:
    """Compare a number from 0 up to 1 with one that it is never above, or never below."""
    if not isinstance(left, Share):
        left, right, kind = right, left, _MIRRORED.get(kind, kind)
    if not isinstance(right, (int, float)) or kind not in _MIRRORED:
        return None
    if right >= 1:
        return kind in (ast.Lt, ast.LtE)
    if right < 0 or (right == 0 and kind in (ast.Lt, ast.GtE)):
        return kind in (ast.Gt, ast.GtE)
    return None


def _contains(interp: Interpreter, item: Value, container: Value, wanted: bool) -> Value:
    item = operators.plain_key(interp.run, item)
    if isinstance(item, DrawnText):
        answer = string_sets.inside(item, container)
        return plain(item) if answer is None else answer is wanted
    unknown = first_unknown(item) or interp.too_much(item)
    if unknown is None and isinstance(container, Unknown):
        unknown = container
    if unknown is not None:
        return unknown
    try:
        if isinstance(container, (list, tuple, dict, set, frozenset, str, range)):
            inside = python_values.contains(interp, container, item)
            if not inside and lengths.more_in(container) is not None:
                return interp.run.unknown("whether data has this item", container)
            return inside if isinstance(inside, Unknown) else inside is wanted
    except TypeError as error:
        return interp.run.unknown(msg("this cannot be looked up: {error}", error=error))
    if isinstance(container, Native):
        contains = getattr(container, "contains", None)
        if contains is not None:
            return contains(item) is wanted
        method = container.cls.find("__contains__") if container.cls is not None else MISSING
        if isinstance(method, Function):
            return interp.truth(interp.call(interp.bind(method, container), [item], {})) is wanted
        names = container.attrs if hasattr(container, "attrs") else {}
        return (item in names) is wanted
    return interp.run.unknown("membership that is unknown")


def _if_expression(interp: Interpreter, node: ast.IfExp, scope: Scope) -> Value:
    test = interp.eval(node.test, scope)
    truth = answers.decided(interp, node.test, test)
    if truth is None:
        first, second = interp.eval(node.body, scope), interp.eval(node.orelse, scope)
        if equality.same(first, second):
            return first
        return answers.either(interp, node.test, test, first, second)
    return interp.eval(node.body if truth else node.orelse, scope)


def _subscript(interp: Interpreter, node: ast.Subscript, scope: Scope) -> Value:
    target = interp.eval(node.value, scope)
    key = interp.eval(node.slice, scope)
    if isinstance(key, slice):
        result = lengths.part(interp.run, target, key)
        if result is not None:
            return result
    if isinstance(target, Unknown):
        part = answers.part(interp, node, target)
        return target.part(part) if isinstance(target, Saved) else part
    return interp.subscript(target, key)


def subscript(interp: Interpreter, target: Value, key: Value) -> Value:
    """Return `target[key]`."""
    if isinstance(target, Unknown):
        return plain(target)
    return interp.guard(
        lambda run, t, k: operators.subscript(interp, t, k), "subscript", (target, key)
    )


def _slice(interp: Interpreter, node: ast.Slice, scope: Scope) -> Value:
    parts = [
        None if bound is None else interp.eval(bound, scope)
        for bound in (node.lower, node.upper, node.step)
    ]
    return slice(*parts)


def _items(interp: Interpreter, nodes: list[ast.expr], scope: Scope) -> list[Value]:
    items: list[Value] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            items.extend(interp.iterate(interp.eval(node.value, scope)))
        else:
            items.append(interp.eval(node, scope))
    return items


def _dict(interp: Interpreter, node: ast.Dict, scope: Scope) -> Value:
    mapping: dict[Value, Value] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        item = interp.eval(value, scope)
        if key is None:
            mapping.update(mapping_of(item) or {})
            continue
        name = interp.eval(key, scope)
        keys.put(mapping, name, item)
    return mapping


def _set(interp: Interpreter, node: ast.Set, scope: Scope) -> Value:
    return interp.call(interp.builtins["set"], [_items(interp, node.elts, scope)], {})


def _lambda(interp: Interpreter, node: ast.Lambda, scope: Scope) -> Value:
    body: list[ast.stmt] = [ast.copy_location(ast.Expr(node.body), node)]
    lambda_function = function(interp, "<lambda>", node.args, body, scope)
    lambda_function.kind = "lambda"
    return lambda_function


def function(
    interp: Interpreter, name: str, args: ast.arguments, body: list[ast.stmt], scope: Scope
) -> Function:
    """Make a function that closes over `scope`."""
    interp.tick()
    result = Function(name, args, body, scope)
    result.file = interp.run.file
    result.defaults = [interp.eval(default, scope) for default in args.defaults]
    result.kw_defaults = [
        MISSING if kw_default is None else interp.eval(kw_default, scope)
        for kw_default in args.kw_defaults
    ]
    if scope.ends:
        # The body is looked through for what it closes over.
        interp.tick(8 * len(body) + (body[-1].end_lineno or 0) - body[0].lineno)
        scope.close_over(syntax.names(body))
    return result


def _await(interp: Interpreter, node: ast.Await, scope: Scope) -> Value:
    return interp.eval(node.value, scope)


def _joined(interp: Interpreter, node: ast.JoinedStr, scope: Scope) -> Value:
    parts: list[str] = []
    unknown: Value = None
    length = 0
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
            continue
        assert isinstance(part, ast.FormattedValue)
        value = interp.eval(part.value, scope)
        spec = "" if part.format_spec is None else interp.eval(part.format_spec, scope)
        text = strings.shown(interp, value, spec, part.conversion)
        if isinstance(text, str):
            parts.append(text)
        else:
            unknown = value
        length += len(parts[-1]) if parts else 0
        if length > python_values.MAX_LENGTH:
            break
    if unknown is not None or length > python_values.MAX_LENGTH:
        return interp.run.unknown("text made from a value that is not known", unknown)
    return "".join(parts)


def _yield(interp: Interpreter, node: ast.Yield | ast.YieldFrom, scope: Scope) -> Value:
    """Run a `yield` with a value that is used: what is sent to a generator is not followed."""
    if node.value is not None:
        interp.eval(node.value, scope)
    return None


def _named(interp: Interpreter, node: ast.NamedExpr, scope: Scope) -> Value:
    value = interp.eval(node.value, scope)
    interp.assign(node.target, value, scope)
    return value


def _sequence(kind: type) -> Callable[[Interpreter, ast.List | ast.Tuple | ast.Set, Scope], Value]:
    return lambda interp, node, scope: kind(_items(interp, node.elts, scope))


_EVALUATORS: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Constant: _constant, ast.Name: name_of,
    ast.Attribute: _attribute, ast.Call: _call,
    ast.BinOp: _binary, ast.UnaryOp: _unary,
    ast.BoolOp: _bool, ast.Compare: _compare,
    ast.IfExp: _if_expression, ast.Subscript: _subscript,
    ast.Slice: _slice, ast.List: _sequence(list), ast.Tuple: _sequence(tuple),
    ast.Dict: _dict, ast.Set: _set, ast.Lambda: _lambda,
    ast.ListComp: comprehensions.comprehension, ast.SetComp: comprehensions.comprehension,
    ast.DictComp: comprehensions.comprehension, ast.GeneratorExp: comprehensions.comprehension,
    ast.JoinedStr: _joined, ast.Yield: _yield,
    ast.Await: _await, ast.YieldFrom: _yield,
    ast.NamedExpr: _named,
}  # fmt: skip
