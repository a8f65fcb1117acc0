"""Built-ins that look at names and code: `globals`, `eval`, `__import__`, `property`, ..."""

from __future__ import annotations

import ast
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, TypeVar

from gpuconsole.preflight.interpreter.domain import keys, mappings, sequences, strings
from gpuconsole.preflight.interpreter.domain.values import (
    Function,
    Native,
    NativeClass,
    NativeFunction,
    Scope,
    Unknown,
    UserClass,
    UserModule,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.stdlib import dataclasses_enum

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

Tree = TypeVar("Tree", ast.Expression, ast.Module)
NONE_TYPE = NativeFunction(lambda run: None, "NoneType")
MAX_CODE = 10_000
"""Characters of a text that `eval` and `exec` follow."""


def names(interp: Interpreter) -> dict[str, Value]:
    """Return these built-ins."""
    table: dict[str, Callable[..., Value]] = {
        "globals": lambda run: interp.here.module().names,
        "locals": lambda run: dict(_local(interp.here)),
        "vars": lambda run, *args: _vars(interp, *args),
        "dir": lambda run, *args: _dir(interp, *args),
        "eval": lambda run, text, *scopes: _eval(interp, text, *scopes),
        "exec": lambda run, text, *scopes: _exec(interp, text, *scopes),
        "__import__": lambda run, name, *_, **__: _import(interp, name),
        "property": _property, "staticmethod": _kind("static"), "classmethod": _kind("class"),
        "type": lambda run, *args: _type(interp, *args), "delattr": _delattr,
        "issubclass": lambda run, cls, kinds: is_subclass(run, cls, kinds),
        "frozenset": lambda run, items=(): frozenset(
            item for item in interp.iterate(items) if keys.is_key(item)),
        "format": lambda run, value, spec="": strings.shown(run.interp, value, spec),
        "hex": _number(hex), "bin": _number(bin), "oct": _number(oct),
        "display": lambda run, *_, **__: None, "breakpoint": lambda run: None,
        "memoryview": lambda run, *_: run.unknown("raw memory"),
    }  # fmt: skip
    return {name: NativeFunction(call, name) for name, call in table.items()}


def _number(function: Callable[[int], str]) -> Callable[..., Value]:
    def call(run: Run, value: Value) -> Value:
        return function(value) if isinstance(value, int) else run.unknown("text of something")

    return call


def _local(scope: Scope) -> dict[str, Value]:
    return {name: value for name, value in scope.names.items() if not name.endswith("?")}


def _vars(interp: Interpreter, *args: Value) -> Value:
    return interp.get_attr(args[0], "__dict__") if args else dict(_local(interp.here))


def _dir(interp: Interpreter, *args: Value) -> Value:
    if not args:
        return sorted(_local(interp.here))
    value = args[0]
    if isinstance(value, UserModule):
        return sorted(value.scope.names)
    if isinstance(value, UserClass):
        return sorted({name for cls in value.mro() for name in cls.attrs})
    if isinstance(value, Native) and value.cls is not None:
        return sorted({*value.attrs, *_dir(interp, value.cls)})
    return first_unknown(value) or interp.run.unknown("the names of something")


def _scope(interp: Interpreter, scopes: tuple[Value, ...]) -> Scope:
    """Return where code is run: the caller's place, or the dictionaries given."""
    namespaces = [scope for scope in scopes if isinstance(scope, dict)]
    if not namespaces:
        return interp.here
    scope = Scope(None, "module")
    scope.names = namespaces[0]
    if len(namespaces) > 1:
        inner = Scope(scope)
        inner.names = namespaces[1]
        return inner
    return scope


def _code(interp: Interpreter, text: Value, parse: Callable[[str], Tree]) -> Tree | Unknown:
    if not isinstance(text, str):
        return first_unknown(text) or interp.run.unknown("code that is not known")
    if len(text) > MAX_CODE:
        return interp.run.unknown("code too long to follow")
    try:
        return parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return interp.run.unknown("code that is not Python")


def _expression(text: str) -> ast.Expression:
    return ast.parse(text.strip(), "<text>", "eval")


def _module(text: str) -> ast.Module:
    return ast.parse(text, "<text>")


def _eval(interp: Interpreter, text: Value, *scopes: Value) -> Value:
    # The expression is followed like the rest of the script: nothing is executed.
    tree = _code(interp, text, _expression)
    if isinstance(tree, Unknown):
        return tree
    body = tree.body
    return _placed(interp, tree, lambda: interp.eval(body, _scope(interp, scopes)))


def _exec(interp: Interpreter, text: Value, *scopes: Value) -> Value:
    tree = _code(interp, text, _module)
    if isinstance(tree, Unknown):
        interp.run.note_unknown(tree)
        return None
    body = tree.body
    return _placed(interp, tree, lambda: interp.exec_block(body, _scope(interp, scopes)) and None)


def _placed(interp: Interpreter, tree: ast.AST, work: Callable[[], Value]) -> Value:
    """Follow code of a text as if it stood at the line that runs it."""
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            node.lineno = interp.run.line
    interp.depth += 1
    try:
        interp.check_depth()
        return work()
    finally:
        interp.depth -= 1


def _import(interp: Interpreter, name: Value) -> Value:
    if not isinstance(name, str):
        return first_unknown(name) or interp.run.unknown("a module's name")
    module = interp.imports.module(name)
    return interp.imports.module(name.split(".")[0]) if "." in name else module


def _property(run: Run, getter: Value = None, *_: Value, **__: Value) -> Value:
    return _as(getter, "property")


def _kind(kind: str) -> Callable[..., Value]:
    return lambda run, function: _as(function, kind)


def _as(function: Value, kind: str) -> Value:
    if not isinstance(function, Function):
        return function
    copied = copy(function)
    copied.kind = kind
    return copied


def _type(interp: Interpreter, *args: Value) -> Value:
    if len(args) == 3 and isinstance(args[0], str) and isinstance(args[2], dict):
        cls = UserClass(args[0], tuple(class_bases(list(args[1]))), interp.run.line)
        cls.attrs = dict(args[2])
        for value in cls.attrs.values():
            if isinstance(value, Function) and value.owner is None:
                value.owner = cls
        return cls
    value = args[0]
    if value is None:
        return NONE_TYPE
    for kind in (bool, int, float, str, list, tuple, dict, set):
        if type(value) is kind or (kind is int and isinstance(value, int)):
            return interp.builtins[kind.__name__]
    return interp.get_attr(value, "__class__")


def _delattr(run: Run, value: Value, name: Value) -> None:
    if isinstance(value, Native) and isinstance(name, str):
        value.attrs.pop(name, None)


def is_subclass(run: Run, cls: Value, kinds: Value) -> Value:
    """Stand for `issubclass`."""
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if isinstance(cls, UserClass):
            if kind in cls.mro():
                return True
            if isinstance(kind, NativeClass) and kind.name == "object":
                return True
            if isinstance(kind, NativeClass) and cls.native is not None and (
                issubclass(cls.native, kind.type) and kind.type is not Native
            ):  # fmt: skip
                return True
        elif isinstance(cls, NativeClass) and isinstance(kind, NativeClass):
            if issubclass(cls.type, kind.type):
                return True
        elif isinstance(cls, NativeFunction) and isinstance(kind, NativeFunction):
            if cls.name == kind.name or (cls.name, kind.name) == ("bool", "int"):
                return True
        elif isinstance(cls, Unknown) or isinstance(kind, Unknown):
            return run.unknown("a class relation")
    return False


def class_bases(listed: list[Value]) -> list[Value]:
    """Return the bases of a class as the interpreter has them: `dict` and `list` are of its own."""
    table = {"dict": mappings.Mapping, "OrderedDict": mappings.Mapping,
             "defaultdict": mappings.Mapping, "NamedTuple": dataclasses_enum.Record,
             "list": sequences.Listed}  # fmt: skip
    bases: list[Value] = []
    for base in listed:
        name = base.name.split(".")[-1] if isinstance(base, NativeFunction) else ""
        if name in table:
            bases.append(NativeClass(table[name], name))
        else:
            bases.append(base)
    return bases
