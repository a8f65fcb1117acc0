"""Calling: user functions and classes, library objects, attributes, iteration."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpuconsole.preflight.interpreter.domain import (
    join,
    lengths,
    python_values,
    string_sets,
    strings,
    traversal_cost,
)
from gpuconsole.preflight.interpreter.domain.dimensions import is_open
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Blocked,
    BoundMethod,
    Function,
    More,
    Native,
    NativeClass,
    NativeFunction,
    Plain,
    Scope,
    ShapeFault,
    Unknown,
    UserClass,
    Value,
    Wrapped,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine import instantiation
from gpuconsole.preflight.interpreter.machine.attributes import Attributes
from gpuconsole.preflight.interpreter.machine.exceptions import Raised
from gpuconsole.preflight.interpreter.machine.run import MAX_STEPS, Run
from gpuconsole.preflight.interpreter.paddle.autograd import grad_mode
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor
from gpuconsole.preflight.interpreter.stdlib import copy as stdlib_copy
from gpuconsole.preflight.interpreter.stdlib import dataclasses_enum, introspection

MAX_CALL_DEPTH = 48
MAX_ITEMS = 100_000
CHECK_STEPS = 64
"""Expressions evaluated between two looks at the budget."""
TENSOR_STEPS = 8
"""Making a tensor and ending it takes about as long as this many steps."""
FOLLOW_ERRORS = (
    TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError,
    StopIteration,
)  # fmt: skip
"""What a library model raises when its arguments are not what it can follow."""


def void(value: Value) -> None:
    """Drop a value."""


class Calls(Attributes):
    """The part of the interpreter that calls."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.depth = 0
        self.running: dict[tuple[int, int], int] = {}
        """Unknown conditions around the first of the running calls of a function (of an object)."""
        self.check_at = 0
        """Steps at which the budget is looked at next."""
        self.builtins: dict[str, Value] = {}
        self.here = Scope(None, "module")
        self.making: UserClass | None = None
        """The class that a metaclass is making."""
        self.saved: dict[str, Value] = {}
        """Arrays that the script writes to files, by their names."""
        self.picks = join.Picks()
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

    def subscript(self, target: Value, key: Value) -> Value:
        """Return `target[key]`."""
        raise NotImplementedError

    def tick(self, cost: int = 1) -> None:
        """Count work; the run is given up beyond its budget. A tensor is worth some steps."""
        run = self.run
        run.steps += cost
        self.check_at = run.steps + CHECK_STEPS
        if run.steps + TENSOR_STEPS * len(run.ledger.sizes) > MAX_STEPS:
            raise Blocked(run.unknown("the script does too much to follow within the budget"))

    def too_much(self, *values: Value) -> Unknown | None:
        """Count the work of looking at all that values hold; why not, where that is too much."""
        size = traversal_cost.weight(*values)
        if size >= traversal_cost.ITEMS_PER_STEP:
            self.tick(size // traversal_cost.ITEMS_PER_STEP)
        if size <= traversal_cost.MOST:
            return None
        return self.run.unknown("a value that is nested too deep to follow")

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

    # -- calls

    def call(self, target: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Call anything callable."""
        self.tick()
        if isinstance(target, NativeFunction):
            deep = target.name not in traversal_cost.SHALLOW
            refused = self.too_much(*args, *kwargs.values()) if deep else None
            return refused or self.guard(target.call, target.name, args, kwargs)
        if isinstance(target, Function):
            return self.call_function(target, args, kwargs)
        if isinstance(target, BoundMethod):
            return self.call_function(target.function, [target.instance, *args], kwargs)
        if isinstance(target, Wrapped):
            return grad_mode.within(self, target, args, kwargs)
        if isinstance(target, UserClass):
            return instantiation.instance(self, target, args, kwargs)
        if isinstance(target, NativeClass):
            made = target.type()
            deep = target.name not in traversal_cost.SHALLOW
            refused = self.too_much(*args, *kwargs.values()) if deep else None
            result = refused or self.guard(made.init, target.name, args, kwargs)
            return result if isinstance(result, Unknown) else made
        if isinstance(target, Native):
            if self.run.around is not None:
                return self.run.around(self, target, args, kwargs)
            return self.call_instance(target, args, kwargs)
        if isinstance(target, Unknown):
            tensors = [one for one in args if isinstance(one, Tensor)]
            if tensors and self.run.lost is None:
                self.run.lost = target
            if any(one.needs_grad for one in tensors):
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
        refused = self.too_much(*args, *kwargs.values())
        return refused or self.guard(
            lambda run, /, *a, **k: call(self, *a, **k), target.label, args, kwargs
        )

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
            if is_open(fault):
                return run.unknown("an extent that is not known")
            failed = run.fault(fault.message, fault.shapes)
            if any(isinstance(one, Tensor) and one.needs_grad for one in args):
                run.block(failed)
            return failed
        except FOLLOW_ERRORS as error:
            unknown = getattr(error, "unknown", None) or first_unknown([*args], {**(kwargs or {})})
            if unknown is None:
                unknown = run.unknown(f"{name}: this use is not known to the analysis ({error})")
            if any(isinstance(one, Tensor) and one.needs_grad for one in args):
                run.block(unknown)
            else:
                run.note_unknown(unknown)
            return unknown

    def call_function(
        self, function: Function, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        """Run a user function in a new scope."""
        run = self.run
        self.check_depth()
        # Nobody knows how deep a recursion goes that an unknown condition decides on.
        active = (id(function), id(args[0]) if function.owner is not None and args else 0)
        around = self.running.get(active)
        if around is not None and run.unsure > around:
            return run.unknown(f"how deep {function.name}() calls itself")
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
        if around is None:
            self.running[active] = run.unsure
        try:
            if function.generator:
                return self._run_generator(function, scope)
            if function.kind == "lambda":
                return self.eval(function.body[0].value, scope)  # type: ignore[attr-defined]
            return self._finish(self.exec_block(function.body, scope), scope)
        finally:
            if around is None:
                del self.running[active]
            self.depth -= 1
            self.here = before
            run.file, run.line = place
            scope.end()

    def _finish(self, end: Any, scope: Scope) -> Value:
        value = end.value if end is not None and hasattr(end, "value") else None
        maybe = scope.names.get("return?", MISSING)
        if maybe is MISSING or python_values.same(maybe, value):
            return value
        why = self.run.unknown("the function's result depends on a condition that is not known")
        return python_values.one_of_two(why, maybe, value)

    def _run_generator(self, function: Function, scope: Scope) -> Value:
        """Start a generator function; the generators' part gives this."""
        raise NotImplementedError

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
        return self.run.fault(message)

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
        if isinstance(value, string_sets.DrawnText):
            yield from lengths.walk(string_sets.letters(self.run, value))
            return
        if isinstance(value, Unknown):
            length = lengths.of_unknown(value)
            yield More(value.file, value.line, value.reason, value.root, length)
            return
        if lengths.more_in(value) is not None:
            yield from lengths.walk(value)
            return
        if isinstance(value, Tensor):
            yield from self._rows(value)
            return
        if isinstance(value, Native):
            walk = getattr(value, "iterate", None)
            if walk is not None:
                yield from walk(self)
                return
            found = value.cls.find("__iter__") if value.cls is not None else MISSING
            if isinstance(found, Function):
                walked = self.call(self.bind(found, value), [], {})
                cls = walked.cls if isinstance(walked, Plain) else None
                following = cls.find("__next__") if cls is not None else MISSING
                if walked is value or isinstance(following, Function):
                    yield from self._walk_by_next(walked)
                else:
                    yield from self.iterate(walked)
                return
            yield from self._iterate_sequence(value)
            return
        members = dataclasses_enum.members_of(value)
        if members is not None:
            yield from list(members.values())
            return
        if isinstance(value, (list, tuple, dict, set, frozenset, str, range)):
            for count, item in enumerate(value):
                if count >= MAX_ITEMS:
                    raise Blocked(self.run.unknown("a loop is too long to follow"))
                self.tick()
                yield item
            return
        yield self.run.unknown("this cannot be walked over by the analysis")

    def _rows(self, value: Tensor) -> Iterator[Value]:
        """Give `x[0]`, `x[1]`, ...: Paddle's tensors are walked over by their subscript."""
        if not value.shape:
            yield self.lacking("iteration over a 0-D tensor", "TypeError")
            return
        for place in range(value.shape[0]):
            self.tick()
            yield self.subscript(value, place)

    def _walk_by_next(self, value: Native) -> Iterator[Value]:
        """Give what `__next__` returns until it raises StopIteration."""
        following = value.cls.find("__next__") if value.cls is not None else MISSING
        while isinstance(following, Function):
            self.tick()
            try:
                item = self.call(self.bind(following, value), [], {})
            except Raised as error:
                if getattr(error.value, "label", "") == "StopIteration":
                    return
                raise
            yield item
            item = None

    def as_text(self, value: Value) -> Value:
        """Return what `str(value)` gives for an object of the script, None when unknown."""
        cls = value.cls if isinstance(value, Native) else None
        for name in ("__str__", "__repr__"):
            method = cls.find(name) if cls is not None else MISSING
            if isinstance(method, Function):
                return self.call(self.bind(method, value), [], {})
        return None

    def shown(self, value: Value, spec: Value = "") -> Value:
        """Return a value as `format` shows it."""
        return strings.shown(self, value, spec)

    def bases(self, found: Sequence[Value]) -> list[Value]:
        """Return the bases of a class as the interpreter has them."""
        return introspection.class_bases(list(found))

    def copied(self, value: Value, *, deep: bool = True) -> Value:
        """Copy a value as `copy.deepcopy` or `copy.copy` does."""
        return stdlib_copy.copied(self, value, deep=deep)

    def _iterate_sequence(self, value: Native) -> Iterator[Value]:
        getter = value.cls.find("__getitem__") if value.cls is not None else MISSING
        if isinstance(getter, Function):
            item = self.call(self.bind(getter, value), [self.run.unknown("the item's index")], {})
            yield item
            return
        yield self.run.unknown(f"{value.label} cannot be walked over by the analysis")
