"""Statements and modules: the interpreter itself."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpuconsole.errors import UsageError
from gpuconsole.preflight.scan import operators, source
from gpuconsole.preflight.scan.arrays import Array
from gpuconsole.preflight.scan.flow import Flow, Returned
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.tensors import Tensor
from gpuconsole.preflight.scan.values import (
    MISSING,
    Function,
    Namespace,
    Native,
    NativeClass,
    Scope,
    Unknown,
    UserClass,
    UserModule,
    UserRaise,
    Value,
    Wrapped,
)

MAX_MODULES = 60


class Interpreter(Flow):
    """Runs a script's syntax tree over shapes."""

    def __init__(self, run: Run, project: Path, library: Callable[[str], Namespace | None]) -> None:
        super().__init__(run)
        self.project = project
        self.library = library
        self.modules: dict[str, UserModule] = {}

    def run_module(self, tree: ast.Module, file: str, name: str) -> Scope:
        """Run a module's body and return its names."""
        scope = Scope(None, "module")
        scope.names.update({"__name__": name, "__file__": file, "__doc__": None})
        place = (self.run.file, self.run.line)
        self.run.file = file
        try:
            self.exec_block(tree.body, scope)
        finally:
            self.run.file, self.run.line = place
        return scope

    def exec_block(self, body: Sequence[ast.stmt], scope: Scope) -> Any:
        """Run statements; None, or how they ended early."""
        run = self.run
        for statement in body:
            self.tick()
            if statement.lineno:
                run.line = statement.lineno
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
            left.extend(self.iterate(right))
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
        if len(items) != len(targets):
            if len(items) == 1 and isinstance(items[0], Unknown):
                items = items * len(targets)
            else:
                self.run.fault(f"{len(targets)} names for {len(items)} values")
                items = [self.run.unknown("values that do not match their names")] * len(targets)
        for target, item in zip(targets, items, strict=True):
            self.assign(target, item, scope)

    def _delete(self, node: ast.Delete, scope: Scope) -> Any:
        for target in node.targets:
            if isinstance(target, ast.Name):
                scope.names.pop(target.id, None)
            elif isinstance(target, ast.Subscript):
                owner, key = self.eval(target.value, scope), self.eval(target.slice, scope)
                if isinstance(owner, dict) and isinstance(key, (str, int)):
                    owner.pop(key, None)

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

    def _raise(self, node: ast.Raise, scope: Scope) -> Any:
        what = ast.unparse(node.exc)[:120] if node.exc is not None else "an exception"
        raise UserRaise(f"the script raises {what}")

    def _assert(self, node: ast.Assert, scope: Scope) -> Any:
        if self.truth(self.eval(node.test, scope)) is False:
            raise UserRaise(f"the script asserts {ast.unparse(node.test)[:120]}")

    # -- definitions

    def _def(self, node: ast.FunctionDef, scope: Scope) -> Any:
        made = self.function(node.name, node.args, node.body, scope)
        made.generator = _yields(node.body)
        scope.names[node.name] = self._decorate(made, node.decorator_list, scope)

    def _decorate(self, made: Value, decorators: list[ast.expr], scope: Scope) -> Value:
        for one in reversed(decorators):
            if isinstance(one, ast.Name) and one.id in ("staticmethod", "classmethod", "property"):
                kind = {"staticmethod": "static", "classmethod": "class", "property": "property"}
                if isinstance(made, Function):
                    made.kind = kind[one.id]
                continue
            decorator = self.eval(one, scope)
            if isinstance(decorator, NativeClass):
                decorator = self.call(decorator, [], {})
            if isinstance(decorator, Native) and hasattr(decorator, "enter"):
                made = Wrapped(made, decorator)
            elif isinstance(decorator, Unknown):
                self.run.note_unknown(decorator)
            else:
                result = self.call(decorator, [made], {})
                made = made if isinstance(result, Unknown) or result is None else result
        return made

    def _class(self, node: ast.ClassDef, scope: Scope) -> Any:
        bases = tuple(self.eval(one, scope) for one in node.bases)
        made = UserClass(node.name, bases, node.lineno)
        for base in bases:
            if isinstance(base, Unknown):
                self.run.note_unknown(base)
        body = Scope(scope, "class")
        self.exec_block(node.body, body)
        fields = [name for name in body.names if _annotated(node.body, name)]
        made.attrs = {name: one for name, one in body.names.items() if one is not MISSING}
        for value in made.attrs.values():
            function = value.function if isinstance(value, Wrapped) else value
            if isinstance(function, Function) and function.owner is None:
                function.owner = made
        if any("dataclass" in ast.unparse(one) for one in node.decorator_list):
            made.attrs["__dataclass__"] = fields
            scope.names[node.name] = made
            return
        scope.names[node.name] = self._decorate(made, node.decorator_list, scope)

    # -- imports

    def _import(self, node: ast.Import, scope: Scope) -> Any:
        for one in node.names:
            module = self.module(one.name)
            if one.asname is None and "." in one.name:
                root = one.name.split(".")[0]
                scope.names[root] = self.module(root)
            else:
                scope.names[one.asname or one.name] = module

    def _import_from(self, node: ast.ImportFrom, scope: Scope) -> Any:
        if node.module == "__future__":
            return
        owner = self.module(node.module or "", node.level)
        for one in node.names:
            if one.name == "*":
                if isinstance(owner, UserModule):
                    public = {k: v for k, v in owner.scope.names.items() if not k.startswith("_")}
                    scope.names.update(public)
                elif isinstance(owner, Namespace):
                    scope.names.update(owner.names)
                continue
            found = self.get_attr(owner, one.name)
            if isinstance(found, Unknown):
                inside = f"{node.module}.{one.name}" if node.module else one.name
                nested = self.module(inside, node.level)
                found = found if isinstance(nested, Unknown) else nested
            scope.names[one.asname or one.name] = found

    def module(self, name: str, level: int = 0) -> Value:
        """Return a module: one of the project's own files first, then a modelled library."""
        if not level:
            known = self.library(name)
            if known is not None:
                return known
        if name in self.modules:
            return self.modules[name]
        base = self.project
        if level:
            base = Path(self.run.file).parent
            for _ in range(level - 1):
                base = base.parent
        for path in source.candidates(base, name):
            if len(self.modules) >= MAX_MODULES:
                break
            return self._load(path, name)
        return self.run.unknown(f"module {name or '.'} is not known to the analysis")

    def _load(self, path: Path, name: str) -> Value:
        module = UserModule(name, Scope(None, "module"))
        self.modules[name] = module
        try:
            tree = source.parse(path)
        except UsageError as error:
            return self.run.unknown(f"module {name} cannot be read: {error.message}")
        module.scope = self.run_module(tree, str(path), name)
        return module


def _annotated(body: list[ast.stmt], name: str) -> bool:
    return any(
        isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and one.target.id == name
        for one in body
    )


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
    ast.ImportFrom: Interpreter._import_from,
}  # fmt: skip
