"""The built-in functions of a script."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import (
    keys,
    lengths,
    mappings,
    python_values,
    sorting,
    string_sets,
    strings,
)
from gpuconsole.preflight.interpreter.domain.dimensions import extent_of
from gpuconsole.preflight.interpreter.domain.values import (
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
    as_number,
    first_unknown,
    plain,
)
from gpuconsole.preflight.interpreter.machine import evaluations, exceptions
from gpuconsole.preflight.interpreter.machine.exceptions import Raised
from gpuconsole.preflight.interpreter.machine.loop_summary import Iterations, is_data, total_of
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor
from gpuconsole.preflight.interpreter.stdlib import (
    dataclasses_enum,
    introspection,
    isinstance_checks,
)
from gpuconsole.preflight.interpreter.stdlib.io import Open
from gpuconsole.preflight.interpreter.stdlib.registry import quiet_function as quiet
from gpuconsole.preflight.memory.backends import terms

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

MAX_PLACES = 400
"""Places that a number is rounded to: a float has no more on either side."""
_BITS_PER_STEP = 2**14


def _iterating(interp: Interpreter) -> dict[str, Callable[..., Value]]:
    run_iter = interp.iterate

    def enumerate_(run: Run, items: Value, start: Value = 0) -> Value:
        first = int(start)

        def walk() -> Iterator[Value]:
            count = first
            for item in run_iter(items):
                yield (count, item)
                count += 1

        return python_values.Lazy(walk(), total_of(items), is_data=is_data(items))

    def filter_(run: Run, function: Value, items: Value) -> Value:
        return [item for item in run_iter(items)
                if interp.truth(item if function is None else interp.call(function, [item], {}))
                is not False]  # fmt: skip

    return {
        "enumerate": enumerate_, "zip": lambda run, *parts, strict=False: _zip(interp, parts),
        "map": lambda run, function, *parts: _map(interp, function, parts), "filter": filter_,
        "iter": lambda run, items: python_values.Lazy(run_iter(items)),
        "next": lambda run, items, *d: _next(interp, items, *d),
        "list": lambda run, items=(): evaluations.whole(interp, list(run_iter(items))),
        "tuple": lambda run, items=(): tuple(evaluations.whole(interp, list(run_iter(items)))),
        "set": lambda run, items=(): (
            set(items) if isinstance(items, str) else _set(run, list(run_iter(items)))),
        "dict": lambda run, items=(), /, **k: _dict(interp, items, k),
        "sorted": lambda run, items, **k: _sorted(interp, items, k),
        "reversed": lambda run, items: list(run_iter(items))[::-1],
        "len": lambda run, value: _len(interp, value), "range": _range,
        "sum": lambda run, items, start=0: _sum(interp, items, start),
        "max": lambda run, *a, **k: _extreme(interp, max, a, k),
        "min": lambda run, *a, **k: _extreme(interp, min, a, k),
        "any": lambda run, items: _any(interp, items, True),
        "all": lambda run, items: _any(interp, items, False),
    }  # fmt: skip


def _zip(interp: Interpreter, parts: tuple[Value, ...]) -> Value:
    if any(isinstance(part, More) for part in parts):
        return _columns(interp, parts)
    sizes = [total_of(part) for part in parts]
    totals = [size for size in sizes if size is not None]
    total = min(totals) if totals and len(totals) == len(sizes) else None
    walks = [interp.iterate(part) for part in parts]
    if interp.run.repeats:
        walks = [_left(interp, walk) if longer else walk
                 for walk, longer in zip(walks, _longer(interp, parts), strict=True)]  # fmt: skip
    rows = iter(zip(*walks, strict=False))
    return python_values.Lazy(rows, total, is_data=all(map(is_data, parts)))


def _longer(interp: Interpreter, parts: tuple[Value, ...]) -> list[bool]:
    """Tell of what is zipped whether it is a loader that another part ends before its own end."""
    if not any(map(_is_loader, parts)):
        return [False for _ in parts]
    counts = [_count_of(interp, part) for part in parts]
    least = min((size for size in counts if size is not None), default=None)
    return [
        _is_loader(part) and least is not None and size is not None and size > least
        for part, size in zip(parts, counts, strict=True)
    ]


def _is_loader(part: Value) -> bool:
    return getattr(part, "label", "") == "DataLoader"


def _left(interp: Interpreter, walk: Iterator[Value]) -> Iterator[Value]:
    """Give the batches of a loader that is left early in each epoch: those that wait in it then
    are never let go."""
    for batch in walk:
        progress = interp.run.progress
        waiting = terms(interp.run.setting.backend).waiting_batches
        progress.left_by_epoch = max(progress.left_by_epoch, evaluations.nbytes_of(batch) * waiting)
        box = [batch]
        batch = None
        yield box.pop()


def _count_of(interp: Interpreter, part: Value) -> int | None:
    """Return how many items a value has, without asking code of the script's own; None where that
    is not known."""
    total = part.count(interp) if _is_loader(part) else total_of(part)
    return total if isinstance(total, int) else None


def _map(interp: Interpreter, function: Value, parts: tuple[Value, ...]) -> Value:
    zipped = _zip(interp, parts)

    def walk() -> Iterator[Value]:
        iterations, here, rows = (
            Iterations(interp, zipped),
            interp.here,
            iter(interp.iterate(zipped)),
        )
        for row in rows:
            iterations.count += 1
            more, progress = lengths.rest(row), interp.run.progress
            steps = progress.optimizer_steps
            yield interp.call(function, list(lengths.likeness(row)), {})
            if more is not None:
                progress.note_open_ended(steps)
                yield more
            elif iterations.enough(interp, (), here):
                for row in iterations.telling(rows):
                    iterations.count += 1
                    yield interp.call(function, list(row), {})
                yield from _others(interp, iterations, row, function)
                return

    return python_values.Lazy(walk(), total_of(zipped))


def _scalars(interp: Interpreter) -> dict[str, Callable[..., Value]]:
    return {
        "print": quiet, "input": quiet, "exit": _exit, "quit": _exit, "id": _id,
        "int": _int, "float": _float, "str": _str, "bytes": _bytes,
        "bytearray": _bytes,
        "bool": lambda run, x=False: _bool(interp, x),
        "abs": lambda run, x: _abs(interp, x),
        "round": _round, "divmod": lambda run, a, b: divmod(a, b),
        "pow": lambda run, a, b, *m: _power(interp, a, b, *m),
        "isinstance": lambda run, x, wanted: isinstance_checks.is_instance(interp, x, wanted),
        "hasattr": lambda run, x, name: _hasattr(interp, x, name),
        "getattr": lambda run, x, name, *d: _getattr(interp, x, name, d),
        "setattr": lambda run, x, name, value: _setattr(interp, x, name, value),
        "callable": lambda run, x: isinstance(
            x, (Function, BoundMethod, NativeFunction, NativeClass, UserClass, Native)),
        "repr": _str, "hash": _hash, "slice": lambda run, *a: slice(*a),
        "ord": lambda run, x: ord(x), "chr": lambda run, x: chr(x),
    }  # fmt: skip


def builtins(interp: Interpreter) -> dict[str, Value]:
    """Return the built-in names of a script."""
    table = {**_iterating(interp), **_scalars(interp)}
    names: dict[str, Value] = {k: NativeFunction(v, k) for k, v in table.items()}
    names["open"] = NativeClass(Open, "open")
    names["object"] = NativeClass(Native, "object")
    names["__name__"] = "__main__"
    names.update(introspection.names(interp))
    names.update(exceptions.names())
    return names


def _exit(run: Run, *args: Value) -> Value:
    raise Exit


def _columns(interp: Interpreter, rows: tuple[Value, ...]) -> Value:
    """Return `zip(*rows)` of an unknown number of rows."""
    more = next(row for row in rows if isinstance(row, More))
    columns = [list(interp.iterate(row)) for row in rows if not isinstance(row, More)]
    if not columns:
        return plain(more)
    return python_values.Lazy(iter([(*column, more) for column in zip(*columns, strict=False)]))


def _others(
    interp: Interpreter, iterations: Iterations, last: tuple[Value, ...], function: Value
) -> Iterator[Value]:
    """Give what a function makes of the items that are left: like what it makes of the last."""
    left = iterations.left()
    iterations.finish(interp, (), interp.here)
    like = interp.call(function, list(last), {})
    if left is not None and left <= lengths.MAX_KNOWN:
        yield from [like] * left
    else:
        yield lengths.fewer(interp.run, None)


def _hashable(value: Value) -> bool:
    return keys.is_key(value)


def _next(interp: Interpreter, items: Value, *default: Value) -> Value:
    following = items.cls.find("__next__") if isinstance(items, Native) and items.cls else None
    if isinstance(following, Function):
        try:
            return interp.call(interp.bind(following, items), [], {})
        except Raised as error:
            if default and getattr(error.value, "label", "") == "StopIteration":
                return default[0]
            raise
    for item in interp.iterate(items):
        return item
    return default[0] if default else interp.run.unknown("next() of an iterator that has ended")


def _dict(interp: Interpreter, items: Value, more: dict[str, Value]) -> Value:
    if isinstance(items, Unknown):
        return items
    entries = mappings.mapping_of(items)
    result: dict[Value, Value] = dict(entries) if entries is not None else {}
    for pair in () if entries is not None else interp.iterate(items):
        key, value = tuple(interp.iterate(pair))
        if isinstance(key, Unknown):
            lengths.open_up(interp.run, result, key)
        elif _hashable(key):
            result[key] = value
    result.update(more)
    return result


def _set(run: Run, items: list[Value]) -> set[Value]:
    """Return the set of items; of unknown ones the number of different items is unknown."""
    members = {item for item in items if _hashable(item)}
    drawn_ones = [item for item in items if string_sets.single(item)]
    for drawn_one in drawn_ones:
        members.update(drawn_one.words)
    # Words of which more are drawn in the same way are all there already.
    unknown = next(
        (
            item
            for item in items
            if isinstance(item, Unknown)
            and not string_sets.single(item)
            and not (drawn_ones and isinstance(item, More))
        ),
        None,
    )
    if any(not isinstance(item, Unknown) and not _hashable(item) for item in items):
        unknown = unknown or run.unknown("how many objects that the script compares differ")
    if unknown is not None:
        lengths.open_up(run, members, unknown)
    return members


def _sorted(interp: Interpreter, items: Value, options: dict[str, Value]) -> Value:
    listed = list(interp.iterate(items))
    if lengths.more_in(listed) is not None:
        return listed
    ordered = sorting.in_order(interp, list(listed), options)
    # What cannot be put in order keeps its length.
    return listed if isinstance(ordered, Unknown) else ordered


def _len(interp: Interpreter, value: Value) -> Value:
    length = lengths.length_of(value)
    if length is not None:
        return length
    if isinstance(value, (str, range, bytes)):
        return len(value)
    if isinstance(value, Array):
        return extent_of(value.shape[0])
    if isinstance(value, Tensor):
        return value.shape[0]
    members = dataclasses_enum.members_of(value)
    if members is not None:
        return len(members)
    method = value.cls.find("__len__") if getattr(value, "cls", None) is not None else MISSING
    if isinstance(method, Function):
        return interp.call(BoundMethod(method, value), [], {})
    size = getattr(value, "count", None)
    if callable(size):
        return size(interp)
    return interp.run.unknown("a length that reading cannot tell")


def _range(run: Run, *args: Value) -> Value:
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    count = lengths.between(start, stop)
    if count is not None:
        high = getattr(stop, "high", stop)
        item = lengths.some(run, "a count", None if high is None else max(0, high - 1))
        if len(args) > 2:
            step, most = args[2], count if isinstance(count, int) else count.high
            has_bound = isinstance(step, int) and step > 0 and most is not None
            count = lengths.some(run, "a count", -(-most // step) if has_bound else None, stop)
        return lengths.opened(item, count)
    unknown = first_unknown(*args)
    return unknown if unknown is not None else range(*args)


def _abs(interp: Interpreter, value: Value) -> Value:
    if isinstance(value, Tensor):
        return interp.call(interp.get_attr(value, "abs"), [], {})
    return abs(value) if isinstance(value, (int, float)) else value


def _round(run: Run, value: Value, places: Value = None) -> Value:
    if isinstance(places, int) and abs(places) > MAX_PLACES:
        return run.unknown("a number rounded to more places than it has")
    value = _number(run, value)
    return value if isinstance(value, Unknown) else round(value, places)


def _sum(interp: Interpreter, items: Value, start: Value) -> Value:
    total = start
    for item in interp.iterate(items):
        total = interp.binary(ast.Add, total, item)
    return total


def _extreme(
    interp: Interpreter,
    pick: Callable[[list[Value]], Value],
    args: tuple[Value, ...],
    options: dict[str, Value],
) -> Value:
    items = list(interp.iterate(args[0])) if len(args) == 1 else list(args)
    if not items and "default" in options:
        return options["default"]
    if options.get("key") is not None:
        ordered = sorting.in_order(interp, items, {"key": options["key"]})
        return ordered if isinstance(ordered, Unknown) else ordered[0 if pick is min else -1]
    extreme_length = lengths.extreme(
        interp.run, pick is min, [item for item in items if type(item) is not More]
    )
    if extreme_length is not None:
        return extreme_length
    unknown = first_unknown(items)
    if unknown is not None:
        return as_number(unknown)
    if items and (
        all(isinstance(item, (int, float)) for item in items)
        or all(isinstance(item, str) for item in items)
    ):
        return pick(items)
    ordered = sorting.in_order(interp, items, {}) if items else items
    if ordered and isinstance(ordered, list):
        return ordered[0 if pick is min else -1]
    return interp.run.unknown("an extreme that reading cannot tell")


def _any(interp: Interpreter, items: Value, wanted: bool) -> Value:
    for item in interp.iterate(items):
        truth = interp.truth(item)
        if truth is None:
            return interp.run.unknown("a condition that is not known")
        if truth is wanted:
            return wanted
    return not wanted


def _number(run: Run, value: Value) -> Value:
    if isinstance(value, Array) and isinstance(value.data, (int, float)):
        return value.data
    if isinstance(value, Tensor) and value.numbers is not None and not value.shape:
        return value.numbers[0]
    if isinstance(value, (Tensor, Array)) and value.high is not None and value.high >= 0:
        return lengths.some(run, "the largest number of data", int(value.high))
    if isinstance(value, (Tensor, Array)):
        return run.number("a number out of data that the script does not state")
    return value


def _int(run: Run, value: Value = 0, base: Value = 10) -> Value:
    value = _number(run, value)
    if isinstance(value, dataclasses_enum.Member):
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
        return run.interp.lacking(f"{value[:40]!r} is not a whole number", "ValueError")
    place = getattr(value, "file", None)
    if place is None:
        return number
    line: int = getattr(value, "line", 0)
    return run.sourced(
        number, place, line, "constant", f"{place}:{line}:{getattr(value, 'column', 'text')}"
    )


def _float(run: Run, value: Value = 0.0) -> Value:
    value = _number(run, value)
    if isinstance(value, Unknown):
        return SomeNumber(value.file, value.line, value.reason, value.root)
    return float(value[:64]) if isinstance(value, str) else float(value)


def _str(run: Run, value: Value = "") -> Value:
    if isinstance(value, (int, float, bool)) or value is None:
        return str(value)
    return value if isinstance(value, str) else strings.shown(run.interp, value)


def _id(run: Run, value: Value) -> Value:
    return value if isinstance(value, Unknown) else id(value)


def _hash(run: Run, value: Value) -> Value:
    """A number is its own, that of an object no other's; of a text it differs from run to run."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Native) and keys.is_key(value):
        return id(value)
    return SomeInt(run.file, run.line, "a hash, which differs from run to run")


def _power(interp: Interpreter, base: Value, exponent: Value, *modulus: Value) -> Value:
    numbers = (base, exponent, *modulus)
    if modulus and all(isinstance(number, int) for number in numbers) and exponent >= 0:
        interp.tick(sum(number.bit_length() for number in numbers) ** 2 // _BITS_PER_STEP)
        return pow(*numbers)
    return interp.binary(ast.Pow, base, exponent)


def _bytes(run: Run, value: Value = b"", encoding: Value = "utf-8", *_: Value) -> Value:
    if isinstance(value, bytes):
        return value
    try:
        if isinstance(value, str) and isinstance(encoding, str):
            return value.encode(encoding)
        if isinstance(value, int) and 0 <= value <= python_values.MAX_LENGTH:
            return bytes(value)
    except (LookupError, UnicodeError):
        return run.interp.lacking("a text that cannot be encoded", "UnicodeEncodeError")
    return first_unknown(value) or run.unknown("bytes out of something")


def _bool(interp: Interpreter, value: Value) -> Value:
    truth = interp.truth(value)
    return interp.run.unknown("a condition that is not known") if truth is None else truth


def _getattr(interp: Interpreter, value: Value, name: Value, default: tuple[Value, ...]) -> Value:
    if not isinstance(name, str):
        return first_unknown(name) or interp.run.unknown("a name that is not known")
    try:
        attribute = interp.get_attr(value, name)
    except Raised:
        if not default:
            raise
        return default[0]
    if isinstance(attribute, Unknown) and default:
        return default[0]
    return attribute


def _setattr(interp: Interpreter, target: Value, name: Value, value: Value) -> None:
    if isinstance(name, str):
        interp.set_attr(target, name, value)


def _hasattr(interp: Interpreter, value: Value, name: Value) -> Value:
    if not isinstance(name, str):
        return first_unknown(name) or interp.run.unknown("a name that is not known")
    try:
        return not isinstance(interp.get_attr(value, name), Unknown)
    except Raised:
        return False
