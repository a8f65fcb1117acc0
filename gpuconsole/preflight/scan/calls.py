"""Calling: user functions and classes, library objects, attributes, iteration."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from gpuconsole.preflight.scan import constants, lengths
from gpuconsole.preflight.scan.run import MAX_STEPS, Run
from gpuconsole.preflight.scan.tensors import Tensor
from gpuconsole.preflight.scan.values import (
    MISSING,
    Blocked,
    BoundMethod,
    Function,
    More,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Plain,
    Scope,
    ShapeFault,
    SuperOf,
    Unknown,
    UserClass,
    UserModule,
    Value,
    Wrapped,
    first_unknown,
    plain,
)

MAX_CALL_DEPTH = 48
MAX_ITEMS = 100_000
MAX_YIELDS = 64
FOLLOW_ERRORS = (
    TypeError, ValueError, AttributeError, IndexError, KeyError, ArithmeticError, AssertionError,
    StopIteration,
)  # fmt: skip
"""What a library model raises when its arguments are not what it can follow."""


def _with_class(shared: Callable[..., Value], cls: UserClass, run: Run, *args: Value,
                **kwargs: Value) -> Value:  # fmt: skip
    """Call a library's class method on the script's class."""
    return shared(run, cls, *args, **kwargs)


def void(value: Value) -> None:
    """Drop a value."""


class Calls:
    """The part of the interpreter that calls and looks attributes up."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.depth = 0
        self.builtins: dict[str, Value] = {}
        self.here = Scope(None, "module")
        self.trying = 0
        """Blocks that catch exceptions and are being run: what fails in them may be meant to."""

    # The other parts of the interpreter give these.
    def exec_block(self, body: Sequence[ast.stmt], scope: Scope) -> Any:
        """Run statements; None, or how they ended early."""
        raise NotImplementedError

    def eval(self, node: ast.expr, scope: Scope) -> Value:
        """Evaluate an expression."""
        raise NotImplementedError

    def truth(self, value: Value) -> bool | None:
        """Return the truth of a value, None when it cannot be told."""
        raise NotImplementedError

    def binary(self, kind: type[ast.operator], left: Value, right: Value) -> Value:
        """Compute `left op right`."""
        raise NotImplementedError

    def tick(self, cost: int = 1) -> None:
        """Count work; the run is given up beyond its budget."""
        self.run.steps += cost
        if self.run.steps > MAX_STEPS:
            raise Blocked(self.run.unknown("the script does too much to follow within the budget"))

    def check_depth(self) -> None:
        """Give the run up where calls and imports are nested too deep."""
        if self.depth >= MAX_CALL_DEPTH:
            raise Blocked(self.run.unknown("calls are nested too deep to follow"))

    def in_scope(self, scope: Scope, work: Callable[[], Value]) -> Value:
        """Do something with `scope` as the place that `globals()` and `eval()` see."""
        before, self.here = self.here, scope
        try:
            return work()
        finally:
            self.here = before

    # -- attributes

    def get_attr(self, value: Value, name: str) -> Value:
        """Return `value.name` as the script would see it."""
        run = self.run
        if isinstance(value, Unknown):
            return plain(value)
        if isinstance(value, Namespace):
            found = value.find(name)
            if found is MISSING:
                return run.unknown(f"{value.name}.{name} is not known to the analysis")
            return found
        if isinstance(value, Native):
            return self._instance_attr(value, name)
        if isinstance(value, UserModule):
            return value.scope.names.get(
                name, run.unknown(f"module {value.name} has no name {name}")
            )
        if isinstance(value, UserClass):
            found = value.find(name)
            if name == "__name__":
                return value.name
            shared = getattr(value.native, "class_" + name, None) if found is MISSING else None
            if shared is not None:
                return NativeFunction(partial(_with_class, shared, value), name)
            return run.unknown(f"class {value.name} has no {name}") if found is MISSING else found
        if isinstance(value, SuperOf):
            return self._super_attr(value, name)
        if isinstance(value, NativeClass):
            static = getattr(value.type, "static_" + name, None)
            if static is not None:
                return NativeFunction(static, f"{value.name}.{name}")
            return run.unknown(f"{value.name}.{name} is not known to the analysis")
        if isinstance(value, (Function, BoundMethod, Wrapped, NativeFunction)):
            return getattr(value, "name", "") if name == "__name__" else run.unknown(name)
        return constants.attribute(self, value, name)

    def _instance_attr(self, value: Native, name: str) -> Value:
        attrs = getattr(value, "attrs", None)
        if attrs is not None and name in attrs:
            return attrs[name]
        if name == "__dict__":
            return attrs if attrs is not None else {}
        if name == "__class__":
            return value.cls or NativeClass(type(value), value.label)
        if value.cls is not None:
            found = value.cls.find(name)
            if found is not MISSING:
                return self.bind(found, value)
        getter = getattr(value, "get_" + name, None)
        if getter is not None:
            return self.guard(getter, value.label + "." + name)
        method = getattr(value, "do_" + name, None)
        if method is not None:
            return NativeFunction(method, f"{value.label}.{name}")
        fallback = value.cls.find("__getattr__") if value.cls is not None else MISSING
        if isinstance(fallback, Function):
            return self.call(self.bind(fallback, value), [name], {})
        return self.run.unknown(f"{value.label} has no {name} that the analysis knows")

    def bind(self, found: Value, instance: Value) -> Value:
        """Make a function found on a class into a method of `instance`."""
        if isinstance(found, Wrapped) and isinstance(found.function, Function):
            return Wrapped(BoundMethod(found.function, instance), found.context)
        if not isinstance(found, Function) or found.kind == "static":
            return found
        if found.kind == "class":
            return BoundMethod(found, instance.cls if isinstance(instance, Native) else instance)
        if found.kind == "property":
            return self.call(BoundMethod(found, instance), [], {})
        return BoundMethod(found, instance)

    def _super_attr(self, value: SuperOf, name: str) -> Value:
        instance = value.instance
        order = instance.cls.mro() if instance.cls is not None else []
        later = order[order.index(value.owner) + 1 :] if value.owner in order else []
        for one in later:
            if name in one.attrs:
                return self.bind(one.attrs[name], instance)
        if name == "__init__":
            return NativeFunction(instance.init, "__init__")
        if name == "forward" and hasattr(instance, "forward"):
            return NativeFunction(instance.forward, "forward")
        method = getattr(instance, "do_" + name, None)
        if method is not None:
            return NativeFunction(method, name)
        if name.startswith("__"):
            return NativeFunction(lambda run, *args, **kwargs: None, name)
        return self.run.unknown(f"super().{name} is not known to the analysis")

    def set_attr(self, target: Value, name: str, value: Value) -> None:
        """Run `target.name = value`."""
        if isinstance(target, Tensor):
            if name == "stop_gradient" and isinstance(value, bool):
                target.stop_gradient = value
        elif isinstance(target, Native):
            setter = target.cls.find("__setattr__") if target.cls is not None else MISSING
            if isinstance(setter, Function) and not name.startswith("_"):
                self.call(BoundMethod(setter, target), [name, value], {})
                return
            change = getattr(target, "set_" + name, None)
            if change is not None:
                change(value)
            target.attrs[name] = value
        elif isinstance(target, UserClass):
            target.attrs[name] = value
        elif isinstance(target, UserModule):
            target.scope.names[name] = value

    # -- calls

    def call(self, target: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Call anything callable."""
        self.tick()
        if isinstance(target, NativeFunction):
            return self.guard(target.call, target.name, args, kwargs)
        if isinstance(target, Function):
            return self.call_function(target, args, kwargs)
        if isinstance(target, BoundMethod):
            return self.call_function(target.function, [target.instance, *args], kwargs)
        if isinstance(target, Wrapped):
            leave = self.enter(target.context)
            try:
                return self.call(target.function, args, kwargs)
            finally:
                leave()
        if isinstance(target, UserClass):
            return self._instantiate(target, args, kwargs)
        if isinstance(target, NativeClass):
            made = target.type()
            result = self.guard(made.init, target.name, args, kwargs)
            return result if isinstance(result, Unknown) else made
        if isinstance(target, Native):
            if self.run.around is not None:
                return self.run.around(self, target, args, kwargs)
            return self.call_instance(target, args, kwargs)
        if isinstance(target, Unknown):
            if any(isinstance(one, Tensor) and one.needs_grad for one in args):
                self.run.block(target)
            else:
                self.run.note_unknown(target)
            return target
        return self.run.unknown("something that is not a function is called")

    def call_instance(self, target: Native, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Call an object: the script's `__call__`, or the library's."""
        if target.cls is not None:
            found = target.cls.find("__call__")
            if found is not MISSING:
                return self.call(self.bind(found, target), args, kwargs)
        call = getattr(target, "call", None)
        if call is None:
            return self.run.unknown(f"{target.label} is not callable")
        return self.guard(lambda run, *a, **k: call(self, *a, **k), target.label, args, kwargs)

    def guard(
        self,
        function: Callable[..., Value],
        name: str,
        args: Sequence[Value] = (),
        kwargs: Mapping[str, Value] | None = None,
    ) -> Value:
        """Call into a library model; what it cannot follow becomes an unknown or a fault."""
        run = self.run
        try:
            return function(run, *args, **(kwargs or {}))
        except ShapeFault as fault:
            run.fault(fault.message, fault.shapes)
            return run.unknown(fault.message)
        except FOLLOW_ERRORS as error:
            unknown = first_unknown(list(args), dict(kwargs or {}))
            if unknown is None:
                unknown = run.unknown(f"{name}: this use is not known to the analysis ({error})")
            if any(isinstance(one, Tensor) and one.needs_grad for one in args):
                run.block(unknown)
            else:
                run.note_unknown(unknown)
            return unknown

    def _instantiate(self, target: UserClass, args: list[Value], kwargs: dict[str, Value]) -> Value:
        made = (target.native or Plain)()
        made.cls = target
        made.attrs = {}
        prepare = getattr(made, "prepare", None)
        if prepare is not None:
            prepare(self.run)
        init = target.find("__init__")
        if isinstance(init, Function):
            self.call_function(init, [made, *args], kwargs)
        elif "__dataclass__" in target.attrs:
            self._fill_fields(made, target, args, kwargs)
        elif target.native is not None:
            self.guard(made.init, target.name, args, kwargs)
        return made

    def _fill_fields(
        self, made: Native, target: UserClass, args: list[Value], kwargs: dict[str, Value]
    ) -> None:
        names = [name for one in reversed(target.mro()) for name in one.attrs["__dataclass__"]]
        for name, value in zip(names, args, strict=False):
            made.attrs[name] = value
        made.attrs.update({name: kwargs[name] for name in names if name in kwargs})

    def call_function(
        self, function: Function, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        """Run a user function in a new scope."""
        run = self.run
        self.check_depth()
        scope = Scope(function.scope)
        problem = self._bind_arguments(function, args, kwargs, scope)
        if problem is not None:
            return problem
        if function.owner is not None and args:
            scope.names["class?"], scope.names["self?"] = function.owner, args[0]
        place = (run.file, run.line)
        run.file = function.file or run.file
        self.depth += 1
        before, self.here = self.here, scope
        try:
            if function.generator:
                return self._run_generator(function, scope)
            if function.kind == "lambda":
                return self.eval(function.body[0].value, scope)  # type: ignore[attr-defined]
            return self._finish(self.exec_block(function.body, scope), scope)
        finally:
            self.depth -= 1
            self.here = before
            run.file, run.line = place
            if not scope.captured:
                scope.names.clear()

    def _finish(self, end: Any, scope: Scope) -> Value:
        value = end.value if end is not None and hasattr(end, "value") else None
        maybe = scope.names.get("return?", MISSING)
        if maybe is MISSING or constants.same(maybe, value):
            return value
        return self.run.unknown("the function's result depends on a condition that is not known")

    def _run_generator(self, function: Function, scope: Scope) -> Value:
        collected: list[Value] = []
        scope.names["yield?"] = collected
        with contextlib.suppress(constants.EnoughItems):
            self.exec_block(function.body, scope)
        return constants.Items(collected)

    def _bind_arguments(
        self, function: Function, args: list[Value], kwargs: dict[str, Value], scope: Scope
    ) -> Unknown | None:
        spec, names = function.args, scope.names
        plain = [one.arg for one in (*spec.posonlyargs, *spec.args)]
        for name, value in zip(plain, args, strict=False):
            names[name] = value
        rest = args[len(plain) :]
        if spec.vararg is not None:
            names[spec.vararg.arg] = tuple(rest)
        elif rest:
            return self._wrong_call(function, f"takes {len(plain)} arguments, {len(args)} given")
        extra: dict[str, Value] = {}
        keywords = {*plain, *(one.arg for one in spec.kwonlyargs)}
        for name, value in kwargs.items():
            (names if name in keywords else extra)[name] = value
        if spec.kwarg is not None:
            names[spec.kwarg.arg] = extra
        elif extra:
            return self._wrong_call(function, f"has no argument {next(iter(extra))}")
        first = len(plain) - len(function.defaults)
        for name, value in zip(plain[first:], function.defaults, strict=True):
            names.setdefault(name, value)
        for one, value in zip(spec.kwonlyargs, function.kw_defaults, strict=True):
            if value is not MISSING:
                names.setdefault(one.arg, value)
        absent = [name for name in keywords if name not in names]
        if absent:
            return self._wrong_call(function, f"needs the argument {sorted(absent)[0]}")
        return None

    def _wrong_call(self, function: Function, what: str) -> Unknown:
        message = f"{function.name}() {what}"
        self.run.fault(message)
        return self.run.unknown(message)

    # -- contexts and iteration

    def enter(self, context: Value) -> Callable[[], None]:
        """Enter a context manager and return how to leave it."""
        begin = getattr(context, "enter", None) if isinstance(context, Native) else None
        if begin is None:
            return lambda: None
        leave: Callable[[], None] = begin(self.run)
        return leave

    def entered(self, context: Value) -> tuple[Value, Callable[[], None]]:
        """Enter what `with` was given: what it binds with `as`, and how to leave."""
        if not isinstance(context, Native) or context.cls is None:
            bound = getattr(context, "bound", None) if isinstance(context, Native) else None
            leave = self.enter(context)
            return (context if bound is None else bound(self)), leave
        begin, end = context.cls.find("__enter__"), context.cls.find("__exit__")
        if begin is MISSING:
            return context, self.enter(context)
        value = self.call(self.bind(begin, context), [], {})
        if end is MISSING:
            return value, lambda: None
        close = self.bind(end, context)
        return value, lambda: void(self.call(close, [None, None, None], {}))

    def iterate(self, value: Value) -> Iterator[Value]:
        """Give the items of anything that a `for` can walk over; bounded."""
        if isinstance(value, Unknown):
            length = lengths.of_unknown(value)
            yield More(value.file, value.line, value.reason, value.root, length)
            return
        if lengths.more_in(value) is not None:
            yield from lengths.walk(value)
            return
        if isinstance(value, Native):
            walk = getattr(value, "iterate", None)
            if walk is not None:
                yield from walk(self)
                return
            found = value.cls.find("__iter__") if value.cls is not None else MISSING
            if isinstance(found, Function):
                yield from self.iterate(self.call(self.bind(found, value), [], {}))
                return
            yield from self._iterate_sequence(value)
            return
        if isinstance(value, (list, tuple, dict, set, frozenset, str, range)):
            for count, item in enumerate(value):
                if count >= MAX_ITEMS:
                    raise Blocked(self.run.unknown("a loop is too long to follow"))
                self.tick()
                yield item
            return
        yield self.run.unknown("this cannot be walked over by the analysis")

    def _iterate_sequence(self, value: Native) -> Iterator[Value]:
        getter = value.cls.find("__getitem__") if value.cls is not None else MISSING
        if isinstance(getter, Function):
            item = self.call(self.bind(getter, value), [self.run.unknown("the item's index")], {})
            yield item
            return
        yield self.run.unknown(f"{value.label} cannot be walked over by the analysis")
