"""Calling: user functions and classes, library objects, attributes, iteration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import (
    join,
    lengths,
    string_sets,
    traversal_cost,
)
from gpuconsole.preflight.interpreter.domain.dimensions import is_open
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    BoundMethod,
    Function,
    More,
    Native,
    NativeClass,
    NativeFunction,
    OneOf,
    Plain,
    Scope,
    ShapeFault,
    TooMuch,
    Unknown,
    UserClass,
    Value,
    Wrapped,
    first_unknown,
    plain,
)
from gpuconsole.preflight.interpreter.machine import instantiation
from gpuconsole.preflight.interpreter.machine.block_exits import BlockExit
from gpuconsole.preflight.interpreter.machine.exceptions import Raised
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.autograd import grad_mode
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor
from gpuconsole.preflight.interpreter.stdlib import dataclasses_enum

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

MAX_ITEMS = 100_000
Container = list[Value] | dict[Value, Value] | set[Value]
MOST_LOOKED_AT = 256
"""Items of a container that are looked at."""
MAYBE_RETURNED = "return?"
"""The name in a function's scope of what it may have returned under conditions not known."""
FOLLOW_ERRORS = (
    TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError,
    StopIteration,
)  # fmt: skip
"""What a library model raises when its arguments are not what it can follow."""


def void(value: Value) -> None:
    """Drop a value."""


def call(interp: Interpreter, target: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call anything callable."""
    interp.tick()
    if isinstance(target, NativeFunction):
        deep = target.name not in traversal_cost.SHALLOW
        refused = interp.too_much(*args, *kwargs.values()) if deep else None
        return refused or interp.guard(target.call, target.name, args, kwargs)
    if isinstance(target, Function):
        return interp.call_function(target, args, kwargs)
    if isinstance(target, BoundMethod):
        return interp.call_function(target.function, [target.instance, *args], kwargs)
    if isinstance(target, Wrapped):
        return grad_mode.within(interp, target, args, kwargs)
    if isinstance(target, UserClass):
        return instantiation.instance(interp, target, args, kwargs)
    if isinstance(target, NativeClass) and target.make is not None:
        return interp.guard(target.make, target.name, args, kwargs)
    if isinstance(target, NativeClass):
        instance = target.type()
        deep = target.name not in traversal_cost.SHALLOW
        refused = interp.too_much(*args, *kwargs.values()) if deep else None
        result = refused or instantiation.begin(interp, instance, target.name, args, kwargs)
        return result if isinstance(result, Unknown) else instance
    if isinstance(target, Native):
        if interp.run.mode.around is not None:
            return interp.run.mode.around(interp, target, args, kwargs)
        return interp.call_instance(target, args, kwargs)
    if isinstance(target, OneOf) and not any(isinstance(arg, Tensor) for arg in args):
        return _any_of(interp, target, args, kwargs)
    if isinstance(target, Unknown):
        tensors = list(_tensors_of((*args, *kwargs.values())))
        if tensors and interp.run.findings.lost is None:
            interp.run.findings.lost = target
        if any(tensor.needs_grad for tensor in tensors):
            interp.run.block(target)
        else:
            interp.run.note_unknown(target)
        _may_have_filled(interp.run, target, (*args, *kwargs.values()))
        return target
    return interp.run.unknown("something that is not a function is called")


def _tensors_of(handed: Iterable[Value], depth: int = 3) -> Iterator[Tensor]:
    """Give the tensors among what is handed over, and those in containers there."""
    for value in itertools.islice(handed, MOST_LOOKED_AT):
        if isinstance(value, Tensor):
            yield value
        elif depth and isinstance(value, (list, tuple, set, dict)):
            yield from _tensors_of(value.values() if isinstance(value, dict) else value, depth - 1)


def _may_have_filled(run: Run, target: Unknown, handed: Iterable[Value]) -> None:
    """Open the containers that something unknown was called with, which it may have filled: those
    that were empty or hold tensors or layers. Numbers and texts, such as settings, are taken to be
    read only."""
    for container in handed:
        if not isinstance(container, (list, dict, set)) or lengths.more_in(container) is not None:
            continue
        if not container or _holds_memory(container):
            _open(run, target, container)


def _holds_memory(container: Container) -> bool:
    items = container.values() if isinstance(container, dict) else container
    first = itertools.islice(items, MOST_LOOKED_AT)
    return any(isinstance(item, Tensor) or hasattr(item, "parameters") for item in first)


def _open(run: Run, target: Unknown, container: Container) -> None:
    # No answer about the function tells what it puts into its arguments.
    why = run.gap(target.reason)
    length = lengths.some(run, why.reason, cause=why)
    more = More(length.file, length.line, length.reason, length.root, length)
    if isinstance(container, list):
        container.append(more)
    elif isinstance(container, set):
        container.add(more)
    else:
        container[more] = why


def _any_of(
    interp: Interpreter, target: OneOf, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Call each of the things that one is picked from: what all give alike is given."""
    things = [thing for thing in target.things if thing is not None]
    given = interp.call(things[0], [*args], {**kwargs})
    for thing in things[1:]:
        other = interp.call(thing, [*args], {**kwargs})
        given = join.one_of_two(plain(target), given, other)
    return given


def call_instance(
    interp: Interpreter, target: Native, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Call an object: the script's `__call__`, or the library's."""
    if target.cls is not None:
        method = target.cls.find("__call__")
        if method is not MISSING:
            return interp.call(interp.bind(method, target), args, kwargs)
    patched = interp.patched_method(target, "__call__")
    if patched is not MISSING:
        return interp.call(patched, args, kwargs)
    call = getattr(target, "call", None)
    if call is None:
        return interp.run.unknown(msg("{label} is not callable", label=target.label))
    refused = interp.too_much(*args, *kwargs.values())
    return refused or interp.guard(
        lambda run, /, *a, **k: call(interp, *a, **k), target.label, args, kwargs
    )


def _is_scalar(value: Value) -> bool:
    """Whether a value is a scalar of NumPy with a known number."""
    is_scalar = isinstance(value, Array) and not value.shape
    return is_scalar and isinstance(value.data, (int, float))


def _as_number(value: Value) -> Value:
    return value.data if _is_scalar(value) else value


def _is_label(error: Exception, kwargs: Mapping[str, Value]) -> bool:
    """Whether a model of a function lacks `name` alone, a label that Paddle's functions take."""
    label = kwargs.get("name", MISSING)
    wrong_label = isinstance(error, TypeError) and (label is None or isinstance(label, str))
    return wrong_label and str(error).endswith("an unexpected keyword argument 'name'")


def guard(
    interp: Interpreter,
    function: Callable[..., Value],
    name: str,
    args: Sequence[Value] = (),
    kwargs: Mapping[str, Value] | None = None,
) -> Value:
    """Call into a library model; what it cannot follow becomes an unknown or a fault."""
    run = interp.run
    try:
        return function(run, *args, **(kwargs or {}))
    except ShapeFault as fault:
        if is_open(fault):
            return run.unknown("an extent that is not known")
        draft = run.program.draft
        if draft is not None and run.program.drafting is not None:
            draft.misfit(run, fault.shapes)
        failed = run.fault(fault.message, fault.shapes)
        if any(isinstance(arg, Tensor) and arg.needs_grad for arg in args):
            run.block(failed)
        return failed
    except FOLLOW_ERRORS as error:
        named = kwargs or {}
        if _is_label(error, named):
            return guard(interp, function, name, args, {k: named[k] for k in named if k != "name"})
        if any(map(_is_scalar, (*args, *named.values()))):
            # A number that NumPy holds is one all the same.
            numbers = {key: _as_number(argument) for key, argument in named.items()}
            return guard(interp, function, name, [_as_number(arg) for arg in args], numbers)
        unknown = getattr(error, "unknown", None) or first_unknown([*args], {**(kwargs or {})})
        if unknown is None:
            unknown = run.unknown(
                msg(
                    "{name}: this use is not known to the analysis ({error})",
                    name=name,
                    error=error,
                )
            )
        return _not_followed(run, unknown, args)


def _not_followed(run: Run, unknown: Unknown, args: Iterable[Value]) -> Unknown:
    """List the unknown that a call of a library returns; with tensors that train, memory is too."""
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    if tensors and run.findings.unsized is None:
        run.findings.unsized = unknown
    if any(tensor.needs_grad for tensor in tensors):
        run.block(unknown)
    else:
        run.note_unknown(unknown)
    return unknown


def call_function(
    interp: Interpreter, function: Function, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Run a user function in a new scope; one that remembers its results is run once for each."""
    memo, key = function.memo, _key(args, kwargs) if function.memo is not None else None
    if memo is None or key is None:
        return _run_function(interp, function, args, kwargs)
    before = memo.results.pop(key, None)
    result = before[1] if before is not None else _run_function(interp, function, args, kwargs)
    memo.keep(key, (args, kwargs), result)
    return result


def _key(args: list[Value], kwargs: dict[str, Value]) -> tuple[Value, ...] | None:
    """Return what tells calls apart, None where an argument is not known."""
    parts: list[Value] = []
    for name, value in (*enumerate(args), *sorted(kwargs.items())):
        if isinstance(value, Unknown):
            return None
        plain = isinstance(value, (str, bytes, int, float, bool, type(None)))
        parts.append((name, value if plain else id(value), type(value)))
    return tuple(parts)


def _run_function(
    interp: Interpreter, function: Function, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    run = interp.run
    interp.check_depth()
    # The depth of a recursion that an unknown condition decides on is unknown.
    active = (id(function), id(args[0]) if function.owner is not None and args else 0)
    around = interp.running.get(active)
    if around is not None and run.findings.unsure > around:
        return run.unknown(msg("how deep {name}() calls itself", name=function.name))
    scope = Scope(function.scope)
    wrong = _bind_arguments(function, args, kwargs, scope)
    if wrong:
        return _wrong_call(interp, function, wrong, (*args, *kwargs.values()))
    if function.owner is not None and args:
        scope.names["class?"], scope.names["self?"] = function.owner, args[0]
    place = (run.file, run.line)
    run.file = function.file or run.file
    in_library = not function.file
    run.in_library += in_library
    interp.depth += 1
    before, interp.here = interp.here, scope
    if around is None:
        interp.running[active] = run.findings.unsure
    try:
        if function.generator:
            return interp.run_generator(function, scope)
        if function.kind == "lambda":
            return interp.eval(function.body[0].value, scope)  # type: ignore[attr-defined]
        return _finish(interp, interp.exec_block(function.body, scope), scope)
    finally:
        if around is None:
            del interp.running[active]
        interp.depth -= 1
        run.in_library -= in_library
        interp.here = before
        run.file, run.line = place
        scope.end()


def _finish(interp: Interpreter, end: BlockExit | None, scope: Scope) -> Value:
    value = end.value if end is not None and hasattr(end, "value") else None
    given = scope.names.get(MAYBE_RETURNED, ())
    if given:
        why = interp.run.unknown("the function's result depends on a condition that is not known")
        for maybe in given:
            value = join.one_of_two(why, maybe, value)
    return value


def _bind_arguments(
    function: Function, args: list[Value], kwargs: dict[str, Value], scope: Scope
) -> str:
    """Give the names of a function their values; return what is wrong with the call, or ""."""
    spec, names = function.args, scope.names
    plain = [parameter.arg for parameter in (*spec.posonlyargs, *spec.args)]
    for name, value in zip(plain, args, strict=False):
        names[name] = value
    rest = args[len(plain) :]
    if spec.vararg is not None:
        names[spec.vararg.arg] = tuple(rest)
    elif rest:
        return f"takes {len(plain)} arguments, {len(args)} given"
    extra: dict[str, Value] = {}
    keywords = {*plain, *(kwonlyarg.arg for kwonlyarg in spec.kwonlyargs)}
    for name, value in kwargs.items():
        (names if name in keywords else extra)[name] = value
    if spec.kwarg is not None:
        names[spec.kwarg.arg] = extra
    elif extra:
        return f"has no argument {next(iter(extra))}"
    first = len(plain) - len(function.defaults)
    for name, value in zip(plain[first:], function.defaults, strict=True):
        names.setdefault(name, value)
    for parameter, value in zip(spec.kwonlyargs, function.kw_defaults, strict=True):
        if value is not MISSING:
            names.setdefault(parameter.arg, value)
    absent = [name for name in keywords if name not in names]
    if absent:
        return f"needs the argument {sorted(absent)[0]}"
    return ""


def _wrong_call(
    interp: Interpreter, function: Function, what: str, args: Iterable[Value]
) -> Unknown:
    run, message = interp.run, f"{function.name}() {what}"
    # The source model of a library's function may lack arguments that it takes.
    return run.fault(message) if function.file else _not_followed(run, run.gap(message), args)


def enter(interp: Interpreter, context: Value) -> Callable[[], None]:
    """Enter a context manager and return how to leave it."""
    begin = getattr(context, "enter", None) if isinstance(context, Native) else None
    if begin is None:
        return lambda: None
    leave: Callable[[], None] = begin(interp.run)
    return leave


def entered(interp: Interpreter, context: Value) -> tuple[Value, Callable[[], None]]:
    """Enter what `with` was given: what it binds with `as`, and how to leave."""
    if not isinstance(context, Native) or context.cls is None:
        bound = getattr(context, "bound", None) if isinstance(context, Native) else None
        leave = interp.enter(context)
        return (context if bound is None else bound(interp)), leave
    begin, end = context.cls.find("__enter__"), context.cls.find("__exit__")
    if begin is MISSING:
        return context, interp.enter(context)
    value = interp.call(interp.bind(begin, context), [], {})
    if end is MISSING:
        return value, lambda: None
    close = interp.bind(end, context)
    return value, lambda: void(interp.call(close, [None, None, None], {}))


def iterate(interp: Interpreter, value: Value) -> Iterator[Value]:
    """Give the items of anything that a `for` can walk over; bounded."""
    if isinstance(value, string_sets.DrawnText):
        yield from lengths.walk(string_sets.letters(interp.run, value))
        return
    if isinstance(value, Unknown):
        length = lengths.of_unknown(value)
        yield More(value.file, value.line, value.reason, value.root, length)
        return
    if lengths.more_in(value) is not None:
        yield from lengths.walk(value)
        return
    if isinstance(value, Tensor):
        yield from _rows(interp, value)
        return
    if isinstance(value, Native):
        walk = getattr(value, "iterate", None)
        if walk is not None:
            yield from walk(interp)
            return
        method = value.cls.find("__iter__") if value.cls is not None else MISSING
        if isinstance(method, Function):
            walked = interp.call(interp.bind(method, value), [], {})
            cls = walked.cls if isinstance(walked, Plain) else None
            following = cls.find("__next__") if cls is not None else MISSING
            if walked is value or isinstance(following, Function):
                yield from _walk_by_next(interp, walked)
            else:
                yield from interp.iterate(walked)
            return
        yield from _iterate_sequence(interp, value)
        return
    members = dataclasses_enum.members_of(value)
    if members is not None:
        yield from list(members.values())
        return
    if isinstance(value, (list, tuple, dict, set, frozenset, str, range)):
        for count, item in enumerate(value):
            if count >= MAX_ITEMS:
                raise TooMuch(interp.run.unknown("a loop is too long to follow"))
            interp.tick()
            yield item
        return
    yield interp.run.unknown("this cannot be walked over by the analysis")


def _rows(interp: Interpreter, value: Tensor) -> Iterator[Value]:
    """Give `x[0]`, `x[1]`, ...: Paddle's tensors are walked over by their subscript."""
    if not value.shape:
        yield interp.lacking("iteration over a 0-D tensor", "TypeError")
        return
    for place in range(value.shape[0]):
        interp.tick()
        yield interp.subscript(value, place)


def _walk_by_next(interp: Interpreter, value: Native) -> Iterator[Value]:
    """Give what `__next__` returns until it raises StopIteration."""
    following = value.cls.find("__next__") if value.cls is not None else MISSING
    while isinstance(following, Function):
        interp.tick()
        try:
            item = interp.call(interp.bind(following, value), [], {})
        except Raised as error:
            if getattr(error.value, "label", "") == "StopIteration":
                return
            raise
        yield item
        item = None


def as_text(interp: Interpreter, value: Value) -> Value:
    """Return the result of `str(value)` for an object of the script, None if unknown."""
    cls = value.cls if isinstance(value, Native) else None
    for name in ("__str__", "__repr__"):
        method = cls.find(name) if cls is not None else MISSING
        if isinstance(method, Function):
            return interp.call(interp.bind(method, value), [], {})
    return None


def _iterate_sequence(interp: Interpreter, value: Native) -> Iterator[Value]:
    getter = value.cls.find("__getitem__") if value.cls is not None else MISSING
    if isinstance(getter, Function):
        item = interp.call(interp.bind(getter, value), [interp.run.unknown("the item's index")], {})
        yield item
        return
    yield interp.run.unknown(
        msg("{label} cannot be walked over by the analysis", label=value.label)
    )
