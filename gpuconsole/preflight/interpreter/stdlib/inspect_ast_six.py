"""`inspect`, `ast` and `six`: what code asks about code, and names for two Pythons."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    BoundMethod,
    Function,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    UserClass,
    UserModule,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.autograd.grad_mode import innermost

MAX_LITERAL = 10_000
"""Characters of a text that `literal_eval` reads."""


class Parameter(Native):
    """`inspect.Parameter`: name, default and kind of an argument."""

    label = "Parameter"


class Signature(Native):
    """`inspect.Signature`."""

    label = "Signature"


_EMPTY = NativeClass(Native, "empty")
_KINDS = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "VAR_POSITIONAL", "KEYWORD_ONLY",
          "VAR_KEYWORD")  # fmt: skip


def _arguments(function: Value) -> tuple[Function, bool] | None:
    """Return the function behind a callable of the script, and whether its first is bound."""
    if isinstance(function, UserClass):
        made = innermost(function.find("__init__"))
        return (made, True) if isinstance(made, Function) else None
    inner = innermost(function)
    if isinstance(inner, BoundMethod):
        return inner.function, True
    return (inner, False) if isinstance(inner, Function) else None


def _parameters(function: Function, skipped: bool) -> dict[Value, Value]:
    spec = function.args
    plain = [*spec.posonlyargs, *spec.args]
    defaults = [_EMPTY] * (len(plain) - len(function.defaults)) + function.defaults
    kinds = [0] * len(spec.posonlyargs) + [1] * len(spec.args)
    found = [
        (one.arg, kind, value) for one, kind, value in zip(plain, kinds, defaults, strict=True)
    ]
    found = found[1:] if skipped else found
    if spec.vararg is not None:
        found.append((spec.vararg.arg, 2, _EMPTY))
    for one, default in zip(spec.kwonlyargs, function.kw_defaults, strict=True):
        found.append((one.arg, 3, _EMPTY if default is MISSING else default))
    if spec.kwarg is not None:
        found.append((spec.kwarg.arg, 4, _EMPTY))
    made: dict[Value, Value] = {}
    for name, kind, default in found:
        made[name] = parameter = Parameter()
        parameter.attrs = {"name": name, "kind": kind, "default": default, "annotation": _EMPTY}
    return made


def _signature(run: Run, function: Value, **_: Value) -> Value:
    found = _arguments(function)
    if found is None:
        return first_unknown(function) or run.unknown("the arguments of a library's function")
    made = Signature()
    made.attrs = {"parameters": _parameters(*found)}
    return made


def _full_spec(run: Run, function: Value) -> Value:
    found = _arguments(function)
    if found is None:
        return first_unknown(function) or run.unknown("the arguments of a library's function")
    spec = found[0].args
    made = Signature()
    made.attrs = {
        "args": [one.arg for one in (*spec.posonlyargs, *spec.args)],
        "varargs": None if spec.vararg is None else spec.vararg.arg,
        "varkw": None if spec.kwarg is None else spec.kwarg.arg,
        "keywords": None if spec.kwarg is None else spec.kwarg.arg,
        "defaults": tuple(found[0].defaults) or None,
        "kwonlyargs": [one.arg for one in spec.kwonlyargs],
        "annotations": {},
    }
    return made


def _is(*kinds: type) -> Callable[..., Value]:
    def call(run: Run, value: Value) -> Value:
        if isinstance(value, Unknown):
            return value
        inner = value if isinstance(value, tuple(kinds)) else innermost(value)
        return isinstance(inner, tuple(kinds))

    return call


def _members(run: Run, value: Value, test: Value = None) -> Value:
    interp = run.interp
    names = interp.call(interp.builtins["dir"], [value], {})
    if isinstance(names, Unknown):
        return names
    pairs = [(name, interp.get_attr(value, name)) for name in names]
    if test is None:
        return pairs
    told = [(pair, interp.truth(interp.call(test, [pair[1]], {}))) for pair in pairs]
    if any(truth is None for _, truth in told):
        return run.unknown("the members of something")
    return [pair for pair, truth in told if truth]


def _literal(run: Run, text: Value) -> Value:
    if not isinstance(text, str):
        return text if isinstance(text, (Unknown, int, float, list, dict, tuple)) else run.unknown(
            "a literal out of something")  # fmt: skip
    if len(text) > MAX_LITERAL:
        return run.unknown("a literal too long to follow")
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return run.interp.lacking("a text that is no literal", "ValueError")


def inspect() -> Namespace:
    """Return `inspect`."""
    table: dict[str, Callable[..., Any]] = {
        "signature": _signature, "getfullargspec": _full_spec, "getargspec": _full_spec,
        "getmembers": _members, "isclass": _is(UserClass, NativeClass),
        "isfunction": _is(Function), "ismethod": _is(BoundMethod), "ismodule": _is(UserModule),
        "isbuiltin": _is(NativeFunction),
        "isroutine": _is(Function, BoundMethod, NativeFunction),
    }  # fmt: skip
    kinds = {name: number for number, name in enumerate(_KINDS)}
    parameter = Namespace("inspect.Parameter", {**kinds, "empty": _EMPTY})
    return Namespace("inspect", {
        **_functions("inspect", table), "Parameter": parameter, "_empty": _EMPTY,
    })  # fmt: skip


def syntax() -> Namespace:
    """Return `ast`, as far as scripts read values with it."""
    return Namespace("ast", _functions("ast", {"literal_eval": _literal}))


def _add_metaclass(run: Run, meta: Value) -> Value:
    """Return the decorator: a metaclass of a library changes no class in what it holds."""
    if isinstance(meta, (UserClass, Unknown)):
        return first_unknown(meta) or run.unknown("a class that is made by a metaclass")
    return NativeFunction(lambda run, made: made, "six.add_metaclass")


def _with_metaclass(run: Run, meta: Value, *bases: Value) -> Value:
    """Return the base of a class that is made by a metaclass of a library."""
    if isinstance(meta, (UserClass, Unknown)) or len(bases) > 1:
        return first_unknown(meta) or run.unknown("a class that is made by a metaclass")
    return bases[0] if bases else run.interp.builtins["object"]


def six(run: Run) -> Namespace:
    """Return `six` on Python 3."""
    known = run.interp.builtins
    items: dict[str, Callable[..., Any]] = {
        f"iter{name}": lambda run, one, name=name: run.interp.call(
            run.interp.get_attr(one, name), [], {})
        for name in ("items", "keys", "values")
    }  # fmt: skip
    return Namespace("six", {
        **_functions("six", items),
        **_functions("six", {"add_metaclass": _add_metaclass, "with_metaclass": _with_metaclass}),
        "PY2": False, "PY3": True,
        "string_types": (known["str"],), "integer_types": (known["int"],),
        "text_type": known["str"], "binary_type": known["bytes"], "class_types": (known["type"],),
        "moves": Namespace("six.moves", {
            **{name: known[name] for name in ("range", "zip", "map", "filter", "input")},
            "xrange": known["range"],
        }),
    })  # fmt: skip


def _functions(module: str, table: dict[str, Callable[..., Any]]) -> dict[str, Value]:
    return {name: NativeFunction(call, f"{module}.{name}") for name, call in table.items()}
