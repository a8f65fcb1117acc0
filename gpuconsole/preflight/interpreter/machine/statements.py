"""Statements and modules: the interpreter itself."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

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
from gpuconsole.preflight.interpreter.machine import instantiation, operators
from gpuconsole.preflight.interpreter.machine.attributes import SETTER
from gpuconsole.preflight.interpreter.machine.block_exits import Returned
from gpuconsole.preflight.interpreter.machine.imports import Modules
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.autograd.grad_mode import innermost
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor
from gpuconsole.preflight.interpreter.stdlib import dataclasses_enum

_MODELLED = (Native, NativeFunction)
"""Decorators that are models: those of no effect give nothing."""


class Interpreter(Modules):
    """Runs a script's syntax tree over shapes."""

    def exec_block(self, body: Sequence[ast.stmt], scope: Scope) -> Any:
        """Run statements; None, or how they ended early."""
        run = self.run
        for statement in body:
            self.tick()
            if statement.lineno:
                run.line = statement.lineno
                if run.trail is not None:
                    run.trail(run.file, run.line)
                run.lines_seen.add((run.file, statement.lineno))
            method = _STATEMENTS.get(type(statement))
            if method is None:
                run.note_unknown(run.unknown(f"{type(statement).__name__} is not understood"))
                continue
            end = method(self, statement, scope)
            if end is not None:
                return end
        return None

    # -- simple statements

    def _expr(self, node: ast.Expr, scope: Scope) -> Any:
        self.eval(node.value, scope)

    def _assign(self, node: ast.Assign, scope: Scope) -> Any:
        value = self.eval(node.value, scope)
        if isinstance(value, Unknown):
            value = self.settled(node.targets[0], node.value, value)
        for target in node.targets:
            self.assign(target, value, scope)

    def _annotated(self, node: ast.AnnAssign, scope: Scope) -> Any:
        if node.value is not None:
            self.assign(node.target, self.eval(node.value, scope), scope)
        elif scope.kind == "class" and isinstance(node.target, ast.Name):
            scope.names.setdefault(node.target.id, MISSING)

    def _augmented(self, node: ast.AugAssign, scope: Scope) -> Any:
        target = node.target
        if isinstance(target, ast.Name):
            left = self._name(target, scope)
        elif isinstance(target, ast.Attribute):
            left = self.get_attr(self.eval(target.value, scope), target.attr)
        elif isinstance(target, ast.Subscript):
            owner = self.eval(target.value, scope)
            if isinstance(owner, (Array, Tensor)):
                # In place: neither the shape nor the memory of the whole changes.
                self.eval(node.value, scope)
                return
            left = self.subscript(owner, self.eval(target.slice, scope))
        right = self.eval(node.value, scope)
        if isinstance(left, list) and isinstance(node.op, ast.Add):
            lengths.extend(left, list(self.iterate(right)))
            value: Value = left
        else:
            value = self.binary(type(node.op), left, right)
        del left, right
        self.assign(target, value, scope)

    def assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        """Bind a target to a value."""
        if isinstance(target, ast.Name):
            home = scope.declared.get(target.id, scope)
            home.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value, scope)
        elif isinstance(target, ast.Attribute):
            self.set_attr(self.eval(target.value, scope), target.attr, value)
        elif isinstance(target, ast.Subscript):
            owner = self.eval(target.value, scope)
            key = self.eval(target.slice, scope)
            operators.store(self, owner, key, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, scope)

    def _unpack(self, targets: list[ast.expr], value: Value, scope: Scope) -> None:
        if isinstance(value, Unknown):
            for target in targets:
                self.assign(target, value, scope)
            return
        items = list(self.iterate(value))
        star = next((i for i, one in enumerate(targets) if isinstance(one, ast.Starred)), None)
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
                items = [self.run.fault(f"{len(targets)} names for {len(items)} values")]
                items *= len(targets)
        for target, item in zip(targets, items, strict=True):
            self.assign(target, item, scope)

    def _delete(self, node: ast.Delete, scope: Scope) -> Any:
        for target in node.targets:
            if isinstance(target, ast.Name):
                scope.names.pop(target.id, None)
            elif isinstance(target, ast.Subscript):
                owner, key = self.eval(target.value, scope), self.eval(target.slice, scope)
                python_values.remove(owner, key)
            elif isinstance(target, ast.Attribute):
                owner = self.eval(target.value, scope)
                if isinstance(owner, Native):
                    owner.attrs.pop(target.attr, None)
            elif isinstance(target, (ast.Tuple, ast.List)):
                self._delete(ast.Delete(target.elts), scope)

    def _global(self, node: ast.Global, scope: Scope) -> Any:
        for name in node.names:
            scope.declared[name] = scope.module()

    def _nonlocal(self, node: ast.Nonlocal, scope: Scope) -> Any:
        for name in node.names:
            home = scope.parent.find(name) if scope.parent is not None else None
            if home is not None:
                scope.declared[name] = home

    def _return(self, node: ast.Return, scope: Scope) -> Any:
        return Returned(None if node.value is None else self.eval(node.value, scope))

    # -- definitions

    def _def(self, node: ast.FunctionDef, scope: Scope) -> Any:
        made = self.function(node.name, node.args, node.body, scope)
        self.tick((node.end_lineno or node.lineno) - node.lineno)  # its body is looked through
        made.generator = _yields(node.body)
        if node.name == "__new__":
            made.kind = "static"
        last = node.decorator_list[-1] if node.decorator_list else None
        if isinstance(last, ast.Attribute) and last.attr in ("setter", "deleter", "getter"):
            if last.attr == "setter":
                scope.names[node.name + SETTER] = made
            return
        scope.names[node.name] = self._decorate(made, node.decorator_list, scope)

    def _decorate(self, made: Value, decorators: list[ast.expr], scope: Scope) -> Value:
        for one in reversed(decorators):
            if isinstance(one, ast.Name) and one.id in ("staticmethod", "classmethod", "property"):
                kind = {"staticmethod": "static", "classmethod": "class", "property": "property"}
                function = innermost(made)
                if isinstance(function, Function):
                    function.kind = kind[one.id]
                continue
            decorator = self.eval(one, scope)
            if isinstance(decorator, NativeClass):
                decorator = self.call(decorator, [], {})
            if isinstance(decorator, Native) and hasattr(decorator, "enter"):
                made = Wrapped(made, decorator)
            else:
                result = self.call(decorator, [made], {})
                made = made if result is None and isinstance(decorator, _MODELLED) else result
        return made

    def _class(self, node: ast.ClassDef, scope: Scope) -> Any:
        # `Generic[T]` is a base like `Generic`.
        named = [one.value if isinstance(one, ast.Subscript) else one for one in node.bases]
        bases = tuple(self.bases([self.eval(one, scope) for one in named]))
        made = UserClass(node.name, bases, node.lineno)
        for base in bases:
            if isinstance(base, Unknown):
                self.run.note_unknown(base)
        body = Scope(scope, "class")
        self.exec_block(node.body, body)
        made.attrs = {name: one for name, one in body.names.items() if one is not MISSING}
        for value in made.attrs.values():
            function = innermost(value)
            if isinstance(function, Function) and function.owner is None:
                function.owner = made
        hints = {
            one.target.id: ast.unparse(one.annotation)
            for one in node.body
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        }
        if hints:
            made.attrs["__annotations__"] = hints
        self._complete(made, node, scope)
        given = [self.eval(one.value, scope) for one in node.keywords if one.arg == "metaclass"]
        if given and isinstance(given[0], UserClass):
            made.meta = given[0]
        whole = made if made.meta is None else instantiation.by_metaclass(self, made)
        scope.names[node.name] = self._decorate(whole, node.decorator_list, scope)

    def _complete(self, made: UserClass, node: ast.ClassDef, scope: Scope) -> None:
        """Do what the bases do to a class that derives from them."""
        if made.native is not None and issubclass(made.native, dataclasses_enum.Member):
            dataclasses_enum.enumerate_members(made)
        if made.native is not None and issubclass(made.native, dataclasses_enum.Record):
            dataclasses_enum.named_fields(made)
        for base in made.mro()[1:]:
            hook = base.attrs.get("__init_subclass__")
            if isinstance(hook, Function):
                given = {one.arg: self.eval(one.value, scope) for one in node.keywords if one.arg}
                self.call(BoundMethod(hook, made), [], given)
                break


def _yields(body: list[ast.stmt]) -> bool:
    """Whether a function body itself yields (nested functions do not count)."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(node))
    return False


_STATEMENTS: dict[type[ast.stmt], Callable[[Interpreter, Any, Scope], Any]] = {
    ast.Expr: Interpreter._expr, ast.Assign: Interpreter._assign,
    ast.AnnAssign: Interpreter._annotated, ast.AugAssign: Interpreter._augmented,
    ast.Delete: Interpreter._delete, ast.Global: Interpreter._global,
    ast.Nonlocal: Interpreter._nonlocal, ast.Return: Interpreter._return,
    ast.Raise: Interpreter._raise, ast.Assert: Interpreter._assert, ast.If: Interpreter._if,
    ast.For: Interpreter._for, ast.While: Interpreter._while, ast.Break: Interpreter._break,
    ast.Continue: Interpreter._continue, ast.Pass: Interpreter._pass, ast.Try: Interpreter._try,
    ast.With: Interpreter._with, ast.FunctionDef: Interpreter._def,
    ast.ClassDef: Interpreter._class, ast.Import: Interpreter._import,
    ast.ImportFrom: Interpreter._import_from, ast.Match: Interpreter._match,
    ast.AsyncFunctionDef: Interpreter._def, ast.AsyncFor: Interpreter._for,
    ast.AsyncWith: Interpreter._with,
}  # fmt: skip
