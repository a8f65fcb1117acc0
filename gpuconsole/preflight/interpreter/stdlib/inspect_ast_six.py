"""`inspect`, `ast` and `six`: what code asks about code, and names for two Pythons."""

from __future__ import annotations

import ast
from collections.abc import Callable

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
        constructor = innermost(function.find("__init__"))
        return (constructor, True) if isinstance(constructor, Function) else None
    inner = innermost(function)
    if isinstance(inner, BoundMethod):
        return inner.function, True
    return (inner, False) if isinstance(inner, Function) else None


def _parameters(function: Function, skipped: bool) -> dict[Value, Value]:
    spec = function.args
    plain = [*spec.posonlyargs, *spec.args]
    defaults = [_EMPTY] * (len(plain) - len(function.defaults)) + function.defaults
    kinds = [0] * len(spec.posonlyargs) + [1] * len(spec.args)
    parameters = [
        (argument.arg, kind, value)
        for argument, kind, value in zip(plain, kinds, defaults, strict=True)
    ]
    parameters = parameters[1:] if skipped else parameters
    if spec.vararg is not None:
        parameters.append((spec.vararg.arg, 2, _EMPTY))
    for argument, default in zip(spec.kwonlyargs, function.kw_defaults, strict=True):
        parameters.append((argument.arg, 3, _EMPTY if default is MISSING else default))
    if spec.kwarg is not None:
        parameters.append((spec.kwarg.arg, 4, _EMPTY))
    by_name: dict[Value, Value] = {}
    for name, kind, default in parameters:
        by_name[name] = parameter = Parameter()
        parameter.attrs = {"name": name, "kind": kind, "default": default, "annotation": _EMPTY}
    return by_name


def _signature(run: Run, function: Value, **_: Value) -> Value:
    signature_parts = _arguments(function)
    if signature_parts is None:
        return first_unknown(function) or run.unknown("the arguments of a library's function")
    signature = Signature()
    signature.attrs = {"parameters": _parameters(*signature_parts)}
    return signature


def _full_spec(run: Run, function: Value) -> Value:
    target = _arguments(function)
    if target is None:
        return first_unknown(function) or run.unknown("the arguments of a library's function")
    spec = target[0].args
    spec_ = Signature()
    spec_.attrs = {
        "args": [argument.arg for argument in (*spec.posonlyargs, *spec.args)],
        "varargs": None if spec.vararg is None else spec.vararg.arg,
        "varkw": None if spec.kwarg is None else spec.kwarg.arg,
        "keywords": None if spec.kwarg is None else spec.kwarg.arg,
        "defaults": tuple(target[0].defaults) or None,
        "kwonlyargs": [kwonlyarg.arg for kwonlyarg in spec.kwonlyargs],
        "annotations": {},
    }
    return spec_


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
    tests = [(pair, interp.truth(interp.call(test, [pair[1]], {}))) for pair in pairs]
    if any(truth is None for _, truth in tests):
        return run.unknown("the members of something")
    return [pair for pair, truth in tests if truth]


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
    table: dict[str, Callable[..., Value]] = {
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
    return NativeFunction(lambda run, cls: cls, "six.add_metaclass")


def _with_metaclass(run: Run, meta: Value, *bases: Value) -> Value:
    """Return the base of a class that is made by a metaclass of a library."""
    if isinstance(meta, (UserClass, Unknown)) or len(bases) > 1:
        return first_unknown(meta) or run.unknown("a class that is made by a metaclass")
    return bases[0] if bases else run.interp.builtins["object"]


def six(run: Run) -> Namespace:
    """Return `six` on Python 3."""
    builtins = run.interp.builtins
    items: dict[str, Callable[..., Value]] = {
        f"iter{name}": lambda run, mapping, name=name: run.interp.call(
            run.interp.get_attr(mapping, name), [], {})
        for name in ("items", "keys", "values")
    }  # fmt: skip
    return Namespace("six", {
        **_functions("six", items),
        **_functions("six", {"add_metaclass": _add_metaclass, "with_metaclass": _with_metaclass}),
        "PY2": False, "PY3": True,
        "string_types": (builtins["str"],), "integer_types": (builtins["int"],),
        "text_type": builtins["str"], "binary_type": builtins["bytes"],
        "class_types": (builtins["type"],),
        "moves": Namespace("six.moves", {
            **{name: builtins[name] for name in ("range", "zip", "map", "filter", "input")},
            "xrange": builtins["range"],
        }),
    })  # fmt: skip


def _functions(module: str, table: dict[str, Callable[..., Value]]) -> dict[str, Value]:
    return {name: NativeFunction(call, f"{module}.{name}") for name, call in table.items()}
