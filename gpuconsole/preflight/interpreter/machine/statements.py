"""Simple statements and definitions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import lengths, python_values
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    BoundMethod,
    Function,
    More,
    Native,
    NativeClass,
    NativeFunction,
    Scope,
    Unknown,
    UserClass,
    Value,
    Wrapped,
)
from gpuconsole.preflight.interpreter.frontend import answers
from gpuconsole.preflight.interpreter.machine import expressions, instantiation, operators
from gpuconsole.preflight.interpreter.machine.attributes import SETTER
from gpuconsole.preflight.interpreter.machine.block_exits import BlockExit, Returned
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.autograd.grad_mode import innermost
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor
from gpuconsole.preflight.interpreter.stdlib import dataclasses_enum, introspection

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

_MODELLED = (Native, NativeFunction)
"""Decorators that are models: those of no effect give nothing."""


def _expr(interp: Interpreter, node: ast.Expr, scope: Scope) -> None:
    interp.eval(node.value, scope)


def _assign(interp: Interpreter, node: ast.Assign, scope: Scope) -> None:
    value = interp.eval(node.value, scope)
    if isinstance(value, Unknown):
        value = answers.settled(interp, node.targets[0], node.value, value)
    for target in node.targets:
        interp.assign(target, value, scope)


def _annotated(interp: Interpreter, node: ast.AnnAssign, scope: Scope) -> None:
    if node.value is not None:
        interp.assign(node.target, interp.eval(node.value, scope), scope)
    elif scope.kind == "class" and isinstance(node.target, ast.Name):
        scope.names.setdefault(node.target.id, MISSING)


def _augmented(interp: Interpreter, node: ast.AugAssign, scope: Scope) -> None:
    target = node.target
    if isinstance(target, ast.Name):
        left = expressions.name_of(interp, target, scope)
    elif isinstance(target, ast.Attribute):
        left = interp.get_attr(interp.eval(target.value, scope), target.attr)
    elif isinstance(target, ast.Subscript):
        owner = interp.eval(target.value, scope)
        if isinstance(owner, (Array, Tensor)):
            # In place: neither the shape nor the memory of the whole changes.
            owner.forget()
            interp.eval(node.value, scope)
            return
        left = interp.subscript(owner, interp.eval(target.slice, scope))
    right = interp.eval(node.value, scope)
    if isinstance(left, list) and isinstance(node.op, ast.Add):
        lengths.extend(left, list(interp.iterate(right)))
        value: Value = left
    elif isinstance(left, Array) and left.shape:
        # NumPy computes in place: the type and the shape stay, whatever comes from the right.
        result = interp.binary(type(node.op), left, right)
        value = result if isinstance(result, (Unknown, Tensor)) else left
        left.forget()
        if isinstance(result, Array) and (result.shape, result.dtype) == (left.shape, left.dtype):
            left.data, left.high = result.data, result.high
    else:
        value = interp.binary(type(node.op), left, right)
    del left, right
    interp.assign(target, value, scope)


def assign(interp: Interpreter, target: ast.expr, value: Value, scope: Scope) -> None:
    """Bind a target to a value."""
    if isinstance(target, ast.Name):
        home = scope.declared.get(target.id, scope)
        home.names[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(interp, target.elts, value, scope)
    elif isinstance(target, ast.Attribute):
        interp.set_attr(interp.eval(target.value, scope), target.attr, value)
    elif isinstance(target, ast.Subscript):
        owner = interp.eval(target.value, scope)
        key = interp.eval(target.slice, scope)
        operators.store(interp, owner, key, value)
    elif isinstance(target, ast.Starred):
        interp.assign(target.value, value, scope)


def _unpack(interp: Interpreter, targets: list[ast.expr], value: Value, scope: Scope) -> None:
    if isinstance(value, Unknown):
        for target in targets:
            interp.assign(target, value, scope)
        return
    items = list(interp.iterate(value))
    star = next((i for i, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
    if star is not None:
        tail = len(targets) - star - 1
        middle = items[star : len(items) - tail]
        items = [*items[:star], middle, *items[len(items) - tail :]]
    if items and isinstance(items[-1], More):
        rest = lengths.likeness(items.pop())
        items += [rest] * (len(targets) - len(items))
        items = items[: len(targets)]
    if len(items) != len(targets):
        if len(items) == 1 and isinstance(items[0], Unknown):
            items = items * len(targets)
        else:
            items = [interp.run.fault(f"{len(targets)} names for {len(items)} values")]
            items *= len(targets)
    for target, item in zip(targets, items, strict=True):
        interp.assign(target, item, scope)


def _delete(interp: Interpreter, node: ast.Delete, scope: Scope) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            scope.names.pop(target.id, None)
        elif isinstance(target, ast.Subscript):
            owner, key = interp.eval(target.value, scope), interp.eval(target.slice, scope)
            python_values.remove(owner, key)
        elif isinstance(target, ast.Attribute):
            owner = interp.eval(target.value, scope)
            if isinstance(owner, Native):
                owner.attrs.pop(target.attr, None)
        elif isinstance(target, (ast.Tuple, ast.List)):
            _delete(interp, ast.Delete(target.elts), scope)


def _global(interp: Interpreter, node: ast.Global, scope: Scope) -> None:
    for name in node.names:
        scope.declared[name] = scope.module()


def _nonlocal(interp: Interpreter, node: ast.Nonlocal, scope: Scope) -> None:
    for name in node.names:
        home = scope.parent.find(name) if scope.parent is not None else None
        if home is not None:
            scope.declared[name] = home


def _return(interp: Interpreter, node: ast.Return, scope: Scope) -> BlockExit | None:
    return Returned(None if node.value is None else interp.eval(node.value, scope))


_METHODS = "methods?"
"""Where the scope of a class's body has the functions that were defined there."""


def _def(interp: Interpreter, node: ast.FunctionDef, scope: Scope) -> None:
    result = expressions.function(interp, node.name, node.args, node.body, scope)
    if node.name == "__new__":
        result.kind = "static"
    if scope.kind == "class":
        scope.names.setdefault(_METHODS, []).append(result)
    last = node.decorator_list[-1] if node.decorator_list else None
    if isinstance(last, ast.Attribute) and last.attr in ("setter", "deleter", "getter"):
        if last.attr == "setter":
            scope.names[node.name + SETTER] = result
        return
    scope.names[node.name] = _decorate(interp, result, node.decorator_list, scope)


def _decorate(interp: Interpreter, value: Value, decorators: list[ast.expr], scope: Scope) -> Value:
    for node in reversed(decorators):
        if isinstance(node, ast.Name) and node.id in ("staticmethod", "classmethod", "property"):
            kind = {"staticmethod": "static", "classmethod": "class", "property": "property"}
            function = innermost(value)
            if isinstance(function, Function):
                function.kind = kind[node.id]
            continue
        decorator = interp.eval(node, scope)
        if isinstance(decorator, NativeClass):
            decorator = interp.call(decorator, [], {})
        if isinstance(decorator, Native) and hasattr(decorator, "enter"):
            value = Wrapped(value, decorator)
        else:
            result = interp.call(decorator, [value], {})
            value = value if result is None and isinstance(decorator, _MODELLED) else result
    return value


def _class(interp: Interpreter, node: ast.ClassDef, scope: Scope) -> None:
    # `Generic[T]` is a base like `Generic`.
    named = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    bases = tuple(introspection.class_bases([interp.eval(base, scope) for base in named]))
    new_class = UserClass(node.name, bases, node.lineno)
    new_class.doc = ast.get_docstring(node, clean=False)
    written = issubclass(
        new_class.native or object, (dataclasses_enum.Member, dataclasses_enum.Record)
    )
    if new_class.doc is None and written:
        new_class.doc = interp.run.unknown(dataclasses_enum.WRITTEN_BY_PYTHON)
    new_class.module = scope.module_name()
    for base in bases:
        if isinstance(base, Unknown):
            interp.run.note_unknown(base)
    body = Scope(scope, "class")
    interp.exec_block(node.body, body)
    methods = body.names.pop(_METHODS, [])
    new_class.attrs = {name: member for name, member in body.names.items() if member is not MISSING}
    for value in (*methods, *new_class.attrs.values()):
        # What a decorator has wrapped knows its class, too: `super()` in it means that one.
        function = innermost(value)
        if isinstance(function, Function) and function.owner is None:
            function.owner = new_class
    hints = {
        statement.target.id: ast.unparse(statement.annotation)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }
    if hints:
        new_class.attrs["__annotations__"] = hints
    _complete(interp, new_class, node, scope)
    given = [
        interp.eval(keyword.value, scope) for keyword in node.keywords if keyword.arg == "metaclass"
    ]
    if given and isinstance(given[0], UserClass):
        new_class.meta = given[0]
    whole = new_class if new_class.meta is None else instantiation.by_metaclass(interp, new_class)
    scope.names[node.name] = _decorate(interp, whole, node.decorator_list, scope)


def _complete(interp: Interpreter, new_class: UserClass, node: ast.ClassDef, scope: Scope) -> None:
    """Do what the bases do to a class that derives from them."""
    if new_class.native is not None and issubclass(new_class.native, dataclasses_enum.Member):
        dataclasses_enum.enumerate_members(new_class)
    if new_class.native is not None and issubclass(new_class.native, dataclasses_enum.Record):
        dataclasses_enum.named_fields(new_class)
    if new_class.native is not None:
        new_class.native.derived(new_class, scope)
    for name, value in list(new_class.attrs.items()):
        named = value.cls.find("__set_name__") if isinstance(value, Native) and value.cls else None
        if isinstance(named, Function):
            interp.call(BoundMethod(named, value), [new_class, name], {})
    for base in new_class.mro()[1:]:
        hook = base.attrs.get("__init_subclass__")
        if isinstance(hook, Function):
            given = {
                keyword.arg: interp.eval(keyword.value, scope)
                for keyword in node.keywords
                if keyword.arg
            }
            interp.call(BoundMethod(hook, new_class), [], given)
            break


STATEMENTS: dict[type[ast.stmt], Callable[..., BlockExit | None]] = {
    ast.Expr: _expr, ast.Assign: _assign, ast.AnnAssign: _annotated, ast.AugAssign: _augmented,
    ast.Delete: _delete, ast.Global: _global, ast.Nonlocal: _nonlocal, ast.Return: _return,
    ast.FunctionDef: _def, ast.AsyncFunctionDef: _def, ast.ClassDef: _class,
}  # fmt: skip
