"""`operator`, and `functools.singledispatch`: functions that pick what is done to a value."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    Function,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    OneOf,
    Unknown,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.autograd import grad_mode
from gpuconsole.preflight.interpreter.stdlib import introspection, isinstance_checks

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

_OPERATORS: dict[str, type[ast.operator]] = {
    "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "truediv": ast.Div, "mod": ast.Mod,
    "floordiv": ast.FloorDiv, "pow": ast.Pow, "matmul": ast.MatMult, "and_": ast.BitAnd,
    "or_": ast.BitOr, "xor": ast.BitXor, "concat": ast.Add,
}  # fmt: skip
_COMPARISONS: dict[str, type[ast.cmpop]] = {
    "eq": ast.Eq, "ne": ast.NotEq, "lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE,
    "is_": ast.Is, "is_not": ast.IsNot,
}  # fmt: skip


def _operates(kind: type[ast.operator], run: Run, left: Value, right: Value) -> Value:
    return run.interp.binary(kind, left, right)


def _compares(kind: type[ast.cmpop], run: Run, left: Value, right: Value) -> Value:
    return run.interp.compare(kind, left, right)


def _negated(run: Run, value: Value) -> Value:
    return run.interp.binary(ast.Mult, value, -1)


def _alike(parts: list[Value]) -> Value:
    return parts[0] if len(parts) == 1 else tuple(parts)


def _attrgetter(run: Run, *paths: Value) -> Value:
    def got(run: Run, value: Value) -> Value:
        return _alike([_followed(run, value, path) for path in paths])

    return NativeFunction(got, "attrgetter")


def _followed(run: Run, value: Value, path: Value) -> Value:
    if isinstance(path, Unknown):
        return path
    for name in path.split("."):
        value = run.interp.get_attr(value, name)
    return value


def _itemgetter(run: Run, *keys: Value) -> Value:
    def got(run: Run, value: Value) -> Value:
        return _alike([run.interp.subscript(value, key) for key in keys])

    return NativeFunction(got, "itemgetter")


def _methodcaller(run: Run, name: Value, /, *args: Value, **kwargs: Value) -> Value:
    def called(run: Run, value: Value) -> Value:
        return run.interp.call(run.interp.get_attr(value, name), [*args], {**kwargs})

    return NativeFunction(called, "methodcaller")


def operator() -> Namespace:
    """Return `operator`; names that it lacks, such as those that change a value, are unknown."""
    table: dict[str, Callable[..., Value]] = {
        "attrgetter": _attrgetter, "itemgetter": _itemgetter, "methodcaller": _methodcaller,
        "neg": _negated,
        "getitem": lambda run, value, key: run.interp.subscript(value, key),
        **{name: partial(_operates, kind) for name, kind in _OPERATORS.items()},
        **{name: partial(_compares, kind) for name, kind in _COMPARISONS.items()},
    }  # fmt: skip
    names: dict[str, Value] = {
        key: NativeFunction(call, f"operator.{key}") for key, call in table.items()
    }
    return Namespace("operator", names)


class Dispatch(Native):
    """A function of `functools.singledispatch`: which one runs rests on its first argument."""

    label = "singledispatch"

    place = 0
    """Of a function's arguments the one with an annotation that names its type."""

    def __init__(self, function: Value) -> None:
        super().__init__()
        self.cases: list[tuple[Value, Value]] = [(NativeClass(Native, "object"), function)]
        """Types with what runs for them."""

    @exposed.method("register")
    def do_register(self, run: Run, kind: Value, function: Value = None) -> Value:
        """Take what runs for a type; without a function it is a decorator."""
        inner = grad_mode.innermost(kind)
        if isinstance(inner, Function):
            kind, function = self._annotated(run, inner), kind
        if function is None:
            return NativeFunction(partial(self._registered, kind), "register")
        return self._registered(kind, run, function)

    def _registered(self, kind: Value, run: Run, function: Value) -> Value:
        self.cases.insert(0, (kind, function))
        return function

    def _annotated(self, run: Run, function: Function) -> Value:
        named = [*function.args.posonlyargs, *function.args.args][self.place :]
        written = named[0].annotation if named else None
        if written is None:
            return run.unknown("a type that the analysis does not see")
        return run.interp.eval(written, function.scope)

    def call(self, interp: Interpreter, /, *args: Value, **kwargs: Value) -> Value:
        """Run the function of the first argument's type."""
        return interp.call(self.chosen(interp, args[0]), [*args], kwargs)

    def chosen(self, interp: Interpreter, subject: Value) -> Value:
        """Return what runs for a value; one of several where its type does not decide."""
        fitting: list[tuple[Value, Value]] = []
        for kind, function in self.cases:
            fits = isinstance_checks.is_instance(interp, subject, kind)
            if fits is not False:
                fitting.append((kind, function))
        run = interp.run
        if not isinstance(subject, Unknown):
            kinds = [kind for kind, _ in fitting]
            fitting = [
                (kind, function)
                for kind, function in fitting
                if not any(_narrower(run, other, kind) for other in kinds)
            ]
        functions = [function for _, function in fitting]
        if len(functions) == 1:
            return functions[0]
        why = run.unknown("which function a value's type picks")
        return OneOf(why.file, why.line, why.reason, why.root, tuple(functions))


class MethodDispatch(Dispatch):
    """`functools.singledispatchmethod`."""

    place = 1

    def method_of(self, interp: Interpreter, instance: Value) -> Value:
        """Return the method of an object."""

        def called(run: Run, /, *args: Value, **kwargs: Value) -> Value:
            method = self.chosen(interp, args[0])
            return interp.call(interp.bind(method, instance), [*args], kwargs)

        return NativeFunction(called, "singledispatchmethod")


def _narrower(run: Run, kind: Value, other: Value) -> bool:
    """Whether each value of a type is one of another type, too."""
    if getattr(other, "name", "") == "object":
        return getattr(kind, "name", "") != "object"
    return introspection.is_subclass(run, kind, other) is True and kind is not other


def dispatch(run: Run, function: Value) -> Value:
    """Stand for `functools.singledispatch`."""
    return Dispatch(function)


def method_dispatch(run: Run, function: Value) -> Value:
    """Stand for `functools.singledispatchmethod`."""
    return MethodDispatch(function)
