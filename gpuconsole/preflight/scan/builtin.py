"""The built-in functions of a script."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from gpuconsole.preflight.scan import (
    constants,
    drawn,
    exceptions,
    introspection,
    lengths,
    mappings,
    records,
    texts,
)
from gpuconsole.preflight.scan.arrays import Array
from gpuconsole.preflight.scan.calls import Calls
from gpuconsole.preflight.scan.exceptions import Raised
from gpuconsole.preflight.scan.generators import Walk
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.stdlib import Open
from gpuconsole.preflight.scan.stdlib import quiet_function as quiet
from gpuconsole.preflight.scan.tensors import Tensor
from gpuconsole.preflight.scan.turns import total_of
from gpuconsole.preflight.scan.values import (
    MISSING,
    BoundMethod,
    Exit,
    Function,
    Length,
    More,
    Native,
    NativeClass,
    NativeFunction,
    SomeInt,
    SomeNumber,
    Unknown,
    UserClass,
    Value,
    first_unknown,
    formed,
)


def _iterating(calls: Calls) -> dict[str, Callable[..., Value]]:
    run_iter = calls.iterate

    def enumerate_(run: Run, items: Value, start: Value = 0) -> Value:
        first = int(start)

        def walk() -> Iterator[Value]:
            count = first
            for item in run_iter(items):
                yield (count, item)
                count += 1

        return constants.Lazy(walk(), total_of(items))

    def zip_(run: Run, *parts: Value, strict: Value = False) -> Value:
        sizes = [total_of(one) for one in parts]
        known = [one for one in sizes if one is not None]
        total = min(known) if known and len(known) == len(sizes) else None
        return constants.Lazy(iter(zip(*map(run_iter, parts), strict=False)), total)

    def map_(run: Run, function: Value, *parts: Value) -> Value:
        def walk() -> Iterator[Value]:
            for one in zip(*map(run_iter, parts), strict=False):
                more = lengths.rest(one)
                yield calls.call(function, list(lengths.likeness(one)), {})
                if more is not None:
                    yield more

        return constants.Lazy(walk())

    def filter_(run: Run, function: Value, items: Value) -> Value:
        return [one for one in run_iter(items)
                if calls.truth(one if function is None else calls.call(function, [one], {}))
                is not False]  # fmt: skip

    return {
        "enumerate": enumerate_, "zip": zip_, "map": map_, "filter": filter_,
        "iter": lambda run, items: constants.Lazy(run_iter(items)),
        "next": lambda run, items, *d: _next(calls, items, *d),
        "list": lambda run, items=(): list(run_iter(items)),
        "tuple": lambda run, items=(): tuple(run_iter(items)),
        "set": lambda run, items=(): _set(run, list(run_iter(items))),
        "dict": lambda run, items=(), /, **k: _dict(calls, items, k),
        "sorted": lambda run, items, **k: _sorted(calls, items, k),
        "reversed": lambda run, items: list(run_iter(items))[::-1],
        "len": lambda run, value: _len(calls, value), "range": _range,
        "sum": lambda run, items, start=0: _sum(calls, items, start),
        "max": lambda run, *a, **k: _extreme(calls, max, a, k),
        "min": lambda run, *a, **k: _extreme(calls, min, a, k),
        "any": lambda run, items: _any(calls, items, True),
        "all": lambda run, items: _any(calls, items, False),
    }  # fmt: skip


def _scalars(calls: Calls) -> dict[str, Callable[..., Value]]:
    return {
        "print": quiet, "input": quiet, "exit": _exit, "quit": _exit, "id": lambda run, x: 0,
        "int": _int, "float": _float, "str": _str, "bool": lambda run, x=False: _bool(calls, x),
        "abs": lambda run, x: _abs(calls, x),
        "round": lambda run, x, n=None: round(x, n), "divmod": lambda run, a, b: divmod(a, b),
        "pow": lambda run, a, b: calls.binary(ast.Pow, a, b),
        "isinstance": lambda run, x, kinds: _isinstance(calls, x, kinds),
        "hasattr": lambda run, x, name: _hasattr(calls, x, name),
        "getattr": lambda run, x, name, *d: _getattr(calls, x, name, d),
        "setattr": lambda run, x, name, value: calls.set_attr(x, name, value),
        "callable": lambda run, x: isinstance(
            x, (Function, BoundMethod, NativeFunction, NativeClass, UserClass, Native)),
        "repr": _str, "hash": _str, "slice": lambda run, *a: slice(*a),
        "ord": lambda run, x: ord(x), "chr": lambda run, x: chr(x),
    }  # fmt: skip


def builtins(calls: Calls) -> dict[str, Value]:
    """Return the built-in names of a script."""
    table = {**_iterating(calls), **_scalars(calls)}
    names: dict[str, Value] = {k: NativeFunction(v, k) for k, v in table.items()}
    names["open"] = NativeClass(Open, "open")
    names["object"] = NativeClass(Native, "object")
    names["__name__"] = "__main__"
    names.update(introspection.names(calls))
    names.update(exceptions.names())
    return names


def _exit(run: Run, *args: Value) -> Value:
    raise Exit


def _hashable(value: Value) -> bool:
    return constants.is_key(value)


def _next(calls: Calls, items: Value, *default: Value) -> Value:
    for item in calls.iterate(items):
        return item
    return default[0] if default else calls.run.unknown("next() of an iterator that has ended")


def _dict(calls: Calls, items: Value, more: dict[str, Value]) -> Value:
    if isinstance(items, Unknown):
        return items
    known = mappings.mapping_of(items)
    made: dict[Value, Value] = dict(known) if known is not None else {}
    for pair in () if known is not None else calls.iterate(items):
        key, value = tuple(calls.iterate(pair))
        if isinstance(key, Unknown):
            lengths.open_up(calls.run, made, key)
        elif _hashable(key):
            made[key] = value
    made.update(more)
    return made


def _set(run: Run, items: list[Value]) -> set[Value]:
    """Return the set of items; of unknown ones nobody knows how many differ."""
    known = {one for one in items if _hashable(one)}
    drawn_ones = [one for one in items if drawn.single(one)]
    for one in drawn_ones:
        known.update(one.words)
    # Words of which more are drawn in the same way are all there already.
    unknown = next((one for one in items if isinstance(one, Unknown) and not drawn.single(one)
                    and not (drawn_ones and isinstance(one, More))), None)  # fmt: skip
    if unknown is not None:
        lengths.open_up(run, known, unknown)
    return known


def _sorted(calls: Calls, items: Value, options: dict[str, Value]) -> Value:
    found = list(calls.iterate(items))
    if lengths.more_in(found) is not None:
        return found
    made = constants.in_order(calls, list(found), options)
    # What cannot be put in order keeps its length.
    return found if isinstance(made, Unknown) else made


def _len(calls: Calls, value: Value) -> Value:
    length = lengths.length_of(value)
    if length is not None:
        return length
    if isinstance(value, (str, range, bytes)):
        return len(value)
    if isinstance(value, (Tensor, Array)):
        return value.shape[0]
    members = records.members_of(value)
    if members is not None:
        return len(members)
    method = value.cls.find("__len__") if getattr(value, "cls", None) is not None else MISSING
    if isinstance(method, Function):
        return calls.call(BoundMethod(method, value), [], {})
    size = getattr(value, "count", None)
    if callable(size):
        return size(calls)
    return calls.run.unknown("a length that reading cannot tell")


def _range(run: Run, *args: Value) -> Value:
    last = args[min(1, len(args) - 1)]
    count = lengths.between(args[0] if len(args) > 1 else 0, last) if len(args) < 3 else None
    if count is not None:
        return lengths.opened(SomeInt(run.file, run.line, "a count"), count)
    unknown = first_unknown(*args)
    return unknown if unknown is not None else range(*args)


def _abs(calls: Calls, value: Value) -> Value:
    if isinstance(value, Tensor):
        return calls.call(calls.get_attr(value, "abs"), [], {})
    return abs(value) if isinstance(value, (int, float)) else value


def _sum(calls: Calls, items: Value, start: Value) -> Value:
    total = start
    for item in calls.iterate(items):
        total = calls.binary(ast.Add, total, item)
    return total


def _extreme(calls: Calls, pick: Any, args: tuple[Value, ...], options: dict[str, Value]) -> Value:
    items = list(calls.iterate(args[0])) if len(args) == 1 else list(args)
    if not items and "default" in options:
        return options["default"]
    if options.get("key") is not None:
        ordered = constants.in_order(calls, items, {"key": options["key"]})
        return ordered if isinstance(ordered, Unknown) else ordered[0 if pick is min else -1]
    told = lengths.extreme(calls.run, pick is min, [one for one in items if type(one) is not More])
    if told is not None:
        return told
    unknown = first_unknown(items)
    if unknown is not None:
        return formed(unknown, "number")
    if items and (
        all(isinstance(one, (int, float)) for one in items)
        or all(isinstance(one, str) for one in items)
    ):
        return pick(items)
    return calls.run.unknown("an extreme that reading cannot tell")


def _any(calls: Calls, items: Value, wanted: bool) -> Value:
    for item in calls.iterate(items):
        truth = calls.truth(item)
        if truth is None:
            return calls.run.unknown("a condition that is not known")
        if truth is wanted:
            return wanted
    return not wanted


def _number(run: Run, value: Value) -> Value:
    if isinstance(value, Array) and isinstance(value.data, (int, float)):
        return value.data
    if isinstance(value, Array) and isinstance(value.data, (int, float)):
        return value.data
    if isinstance(value, (Tensor, Array)) and value.high is not None and value.high >= 0:
        return lengths.some(run, "the largest number of data", int(value.high))
    if isinstance(value, (Tensor, Array)):
        return run.number("a number out of data that the script does not state")
    return value


def _int(run: Run, value: Value = 0, base: Value = 10) -> Value:
    value = _number(run, value)
    if isinstance(value, records.Member):
        value = value.attrs["value"]
    if isinstance(value, Length):
        return value
    if isinstance(value, SomeNumber):
        return lengths.of_number(run, value)
    if isinstance(value, Unknown):
        return SomeInt(value.file, value.line, value.reason, value.root)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _read_int(run, value, base)
    return int(value)


def _read_int(run: Run, value: str, base: Value) -> Value:
    try:
        number = int(value[:64], base)
    except ValueError:
        return run.calls.lacking(f"{value[:40]!r} is not a whole number", "ValueError")
    place = getattr(value, "file", None)
    if place is None:
        return number
    line: int = getattr(value, "line", 0)
    return run.sourced(number, place, line, "constant", f"{place}:{line}:text")


def _float(run: Run, value: Value = 0.0) -> Value:
    value = _number(run, value)
    if isinstance(value, Unknown):
        return SomeNumber(value.file, value.line, value.reason, value.root)
    return float(value[:64]) if isinstance(value, str) else float(value)


def _str(run: Run, value: Value = "") -> Value:
    if isinstance(value, (int, float, bool)) or value is None:
        return str(value)
    return value if isinstance(value, str) else texts.shown(run.calls, value)


def _bool(calls: Calls, value: Value) -> Value:
    truth = calls.truth(value)
    return calls.run.unknown("a condition that is not known") if truth is None else truth


def _getattr(calls: Calls, value: Value, name: Value, default: tuple[Value, ...]) -> Value:
    if not isinstance(name, str):
        return first_unknown(name) or calls.run.unknown("a name that is not known")
    try:
        found = calls.get_attr(value, name)
    except Raised:
        if not default:
            raise
        return default[0]
    if isinstance(found, Unknown) and default:
        return default[0]
    return found


def _hasattr(calls: Calls, value: Value, name: Value) -> Value:
    try:
        return not isinstance(calls.get_attr(value, name), Unknown)
    except Raised:
        return False


_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (float,), "str": (str,), "list": (list,), "tuple": (tuple,),
    "dict": (dict,), "bool": (bool,), "set": (set,),
}  # fmt: skip


_ABSTRACT: dict[str, tuple[type, ...]] = {
    "Iterable": (list, tuple, dict, set, frozenset, str, range),
    "Sequence": (list, tuple, str, range), "Mapping": (dict, mappings.Mapping),
    "Sized": (list, tuple, dict, set, frozenset, str, range), "Number": (int, float),
    "MutableMapping": (dict, mappings.Mapping), "Set": (set, frozenset),
    "Iterator": (constants.Lazy, constants.Items, Walk), "Generator": (constants.Items, Walk),
}  # fmt: skip


def _is_native(calls: Calls, value: Value, kind: NativeClass) -> bool:
    if kind.type is not Native:
        return isinstance(value, kind.type)
    if kind.name in ("object", "Any"):
        return True
    if kind.name == "Callable":
        return calls.truth(calls.call(calls.builtins["callable"], [value], {})) is True
    if kind.name == "Iterable" and hasattr(value, "iterate"):
        return True
    return isinstance(value, _ABSTRACT.get(kind.name, ()))


def _isinstance(calls: Calls, value: Value, kinds: Value) -> Value:
    if isinstance(value, Unknown):
        return value
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if isinstance(kind, NativeFunction) and kind.name in _TYPES:
            if isinstance(value, _TYPES[kind.name]):
                return True
            if kind.name == "dict" and isinstance(value, mappings.Mapping):
                return True
        elif isinstance(kind, NativeClass):
            if _is_native(calls, value, kind):
                return True
        elif isinstance(kind, UserClass):
            cls = getattr(value, "cls", None)
            if cls is not None and kind in cls.mro():
                return True
        elif isinstance(kind, Unknown):
            return kind
    return False
