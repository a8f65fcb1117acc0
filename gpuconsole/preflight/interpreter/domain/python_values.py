"""Plain Python values inside the interpreter: operators and methods, with bounds.

Only names listed here can be called on a constant, and nothing may grow without limit: a hostile
script can make the answer "unknown", never the console slow.
"""

from __future__ import annotations

import ast
import operator
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain import (
    lengths,
    sorting,
    string_sets,
    strings,
    traversal_cost,
)
from gpuconsole.preflight.interpreter.domain.numpy_scalars import Double
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    More,
    Native,
    NativeFunction,
    SomeInt,
    Unknown,
    Value,
    first_unknown,
)

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

MAX_LENGTH = strings.MAX_LENGTH
MAX_BITS = 4096
MAX_EXPONENT = 4096


class Items(Native):
    """The items of a generator, already run."""

    label = "generator"

    def __init__(self, items: list[Value] | None = None) -> None:
        super().__init__()
        self.items = deque(items if items is not None else ())

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the items in order, each once."""
        while self.items:
            interp.tick()
            yield self.items.popleft()


class Lazy(Native):
    """A lazy built-in such as `enumerate` or `zip` over something."""

    label = "iterator"

    def __init__(
        self,
        walk: Iterator[Value] | None = None,
        total: int | None = None,
        *,
        is_data: bool = False,
    ) -> None:
        super().__init__()
        self.is_data = is_data
        """Whether walking over it runs no code of the script."""
        self.walk = walk if walk is not None else iter(())
        self.total = total
        """How many items it yields, where that is known."""

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the items in order, each once; leaving early does not end the iterator."""
        while True:
            try:
                item = next(self.walk)
            except StopIteration:
                return
            yield item
            item = None


BINARY: Mapping[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.BitAnd: operator.and_,
}  # fmt: skip
COMPARE: Mapping[type[ast.cmpop], Callable[[Value, Value], Value]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
PLAIN = (int, float, str, bytes, list, tuple, dict, set, frozenset, type(None), range, slice)
_SIZED = (str, bytes, list, tuple)
_LONG = (*_SIZED, dict, set, frozenset)
_ITEMS_PER_STEP = 64
"""Items or letters that one operation goes over in about the time of one step of a run."""

METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset([
        "lower", "upper", "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines",
        "startswith", "endswith", "find", "count", "title", "capitalize", "isdigit", "isalpha",
        "isalnum", "partition", "rpartition", "index", "removeprefix", "removesuffix", "swapcase",
        "encode", "isupper", "islower", "rfind", "rindex", "casefold", "isspace", "isnumeric",
        "isdecimal", "isidentifier", "expandtabs", "__len__", "__contains__",
    ]),
    list: frozenset([
        "append", "extend", "insert", "pop", "remove", "reverse", "index", "count", "copy",
        "clear", "appendleft", "popleft", "rotate", "__len__", "__contains__", "__getitem__",
    ]),
    tuple: frozenset([
        "index", "count", "__len__", "__contains__", "__getitem__",
    ]),
    dict: frozenset([
        "get", "pop", "setdefault", "copy", "clear", "__len__", "__contains__",
        "__getitem__", "__setitem__",
    ]),
    set: frozenset([
        "add", "remove", "discard", "union", "intersection", "difference", "update", "copy",
        "issubset", "issuperset", "isdisjoint", "symmetric_difference", "pop", "clear",
        "intersection_update", "difference_update",
    ]),
    frozenset: frozenset([
        "union", "intersection", "difference", "issubset", "issuperset",
    ]),
    int: frozenset([
        "bit_length", "conjugate",
    ]),
    float: frozenset([
        "is_integer",
    ]),
    bytes: frozenset([
        "decode", "hex",
    ]),
}  # fmt: skip


_LOOKING_UP = frozenset([
    "index", "count", "remove", "get", "pop", "setdefault", "add", "discard", "__contains__",
    "__getitem__", "__setitem__",
])  # fmt: skip
"""Methods that compare their first argument, or take it for a key."""
_ENDS = frozenset(["append", "insert", "appendleft", "pop", "popleft", "__len__"])
"""Methods that work at one place of a list."""
_AT_THE_ENDS = frozenset(["startswith", "endswith", "removeprefix", "removesuffix", "__len__"])
"""Methods that look only at the beginning or the end of a text."""
_MOVED_PER_STEP = 4096
"""Items of a list that are moved by one place in about the time of one step of a run."""
_NEEDS_KNOWN = frozenset(["index", "count", "get", "pop", "setdefault", "remove", "discard", "add"])


def is_plain(value: Value) -> bool:
    """Whether a value is an ordinary constant or container."""
    return isinstance(value, PLAIN)


def binary(interp: Interpreter, kind: type[ast.operator], left: Value, right: Value) -> Value:
    """Compute `left op right` for plain values, refusing what would grow without limit."""
    run = interp.run
    if kind is ast.Pow and isinstance(right, (int, float)) and abs(right) > MAX_EXPONENT:
        return run.unknown("a power too large to follow")
    shifted = kind is ast.LShift and isinstance(left, int) and isinstance(right, int)
    if shifted and left.bit_length() + right > MAX_BITS:
        return run.unknown("a shift too large to follow")
    if kind is ast.Mult:
        for sized, times in ((left, right), (right, left)):
            many = isinstance(sized, _SIZED) and isinstance(times, int)
            if many and len(sized) * max(times, 0) > MAX_LENGTH:
                return run.unknown("a sequence too long to follow")
    joined = kind is ast.Add and isinstance(left, _SIZED) and isinstance(right, _SIZED)
    if joined and len(left) + len(right) > MAX_LENGTH:
        return run.unknown("a sequence too long to follow")
    if kind is ast.Mod and isinstance(left, (str, bytes)):
        return strings.percent(interp, left, right)
    if (kind is ast.Pow or kind is ast.Mult) and isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() * (right if kind is ast.Pow else 1) + right.bit_length()
        if bits > MAX_BITS:
            return run.unknown("a number too large to follow")
    try:
        result = BINARY[kind](left, right)
    except (TypeError, ValueError, ArithmeticError, KeyError) as error:
        return run.unknown(msg("this cannot be computed: {error}", error=error))
    going_over(interp, result, left)
    if isinstance(result, int) and result.bit_length() > MAX_BITS:
        return run.unknown("a number too large to follow")
    if type(result) is float and (isinstance(left, Double) or isinstance(right, Double)):
        return Double(result)
    return result


def going_over(interp: Interpreter, *values: Value) -> None:
    """Count the work of an operation that goes over the items or letters of values once."""
    longest = max((len(value) for value in values if isinstance(value, _LONG)), default=0)
    if longest >= _ITEMS_PER_STEP:
        interp.tick(longest // _ITEMS_PER_STEP)


def compare(interp: Interpreter, kind: type[ast.cmpop], left: Value, right: Value) -> Value:
    """Compare plain values; unknown where that cannot be done, or goes over too much."""
    if traversal_cost.is_container(left) and traversal_cost.is_container(right):
        differ = kind in (ast.Eq, ast.NotEq) and len(left) != len(right)
        refused = None if differ else interp.too_much(left, right)
        if refused is not None:
            return refused
    try:
        return bool(COMPARE[kind](left, right))
    except TypeError as error:
        return interp.run.unknown(msg("this cannot be compared: {error}", error=error))


def contains(interp: Interpreter, container: Value, item: Value) -> bool | Unknown:
    """Whether a plain container has an item, which alone is not too much to look at.

    TypeError where it cannot have such items.
    """
    if isinstance(container, range):
        # Python itself looks for anything but its own whole numbers one by one.
        whole = isinstance(item, int) or (isinstance(item, float) and item.is_integer())
        return whole and int(item) in container
    refused = None
    if traversal_cost.is_container(item) and isinstance(container, (list, tuple)):
        refused = interp.too_much(item, container)
    elif isinstance(container, str):
        refused = strings.searched(interp, container, item)
    elif isinstance(container, (list, tuple)):
        going_over(interp, container)
    return refused or item in container


def attribute(interp: Interpreter, value: Value, name: str) -> Value:
    """Return a method of a plain value as something to call."""
    run = interp.run
    for kind, names in METHODS.items():
        if isinstance(value, kind) and name in names:
            return NativeFunction(lambda run, *a, **k: _method(interp, value, name, a, k), name)
    if isinstance(value, dict) and name in ("keys", "values", "items", "update", "subtract"):
        return NativeFunction(lambda run, *a, **k: _mapping(interp, value, name, a, k), name)
    if isinstance(value, dict) and name in ("move_to_end", "most_common", "elements", "popitem"):
        return NativeFunction(lambda run, *a, **k: _counted(interp, value, name, a, k), name)
    if name == "maxlen" and hasattr(value, "most"):
        return value.most
    if isinstance(value, str) and name == "format":
        return NativeFunction(
            lambda run, *a, **k: strings.formatted(interp, value, list(a), k), name
        )
    if isinstance(value, str) and name in ("join", "replace"):
        return NativeFunction(
            lambda run, *a: strings.joined_or_replaced(interp, value, name, a), name
        )
    if isinstance(value, str) and name in ("translate", "maketrans"):
        return NativeFunction(lambda run, *a: strings.translated(run, value, name, a), name)
    if isinstance(value, list) and name == "sort":
        return NativeFunction(lambda run, **k: _sort(interp, value, k), name)
    if isinstance(value, str) and name in ("zfill", "rjust", "ljust", "center"):
        return NativeFunction(lambda run, *a: strings.padded(run, value, name, a), name)
    if isinstance(value, (int, float)) and name in ("real", "imag", "numerator", "denominator"):
        return getattr(value, name)
    if isinstance(value, (int, float)) and name in ("item", "numpy", "astype"):
        return NativeFunction(lambda run, *a: value, name)
    return run.unknown(
        msg("{kind}.{name} is not known to the analysis", kind=type(value).__name__, name=name)
    )


def _work(interp: Interpreter, value: Value, name: str, args: Sequence[Value]) -> Unknown | None:
    """Count the work of a method; why it is not called, where it goes over too much."""
    if isinstance(value, (str, bytes)) and name not in _AT_THE_ENDS:
        return strings.searched(interp, value, *args)
    if name in _LOOKING_UP and isinstance(value, (dict, set)):
        # A default is handed on as it is.
        return interp.too_much(*args[:1])
    if name in _ENDS:
        interp.tick(len(value) // _MOVED_PER_STEP)
        return None
    going_over(interp, value)
    if name in _LOOKING_UP and args and traversal_cost.is_container(args[0]):
        return interp.too_much(value, args[0])
    return None if name == "extend" else interp.too_much(*args)


def _method(
    interp: Interpreter,
    value: Value,
    name: str,
    args: Sequence[Value],
    kwargs: dict[str, Value],
) -> Value:
    refused = _work(interp, value, name, args)
    if refused is not None:
        return refused
    more = lengths.more_in(value)
    if more is not None and isinstance(value, list):
        return _open_list(interp, value, more, name, args)
    if isinstance(value, list) and name == "extend":
        return lengths.extend(value, list(interp.iterate(args[0])))
    if isinstance(value, (list, set)) and len(value) > MAX_LENGTH:
        return interp.run.unknown("a sequence too long to follow")
    unknown = next((arg for arg in args if isinstance(arg, Unknown)), None)
    if isinstance(unknown, string_sets.DrawnText) and args[0] is unknown:
        looked_up = _of_drawn(interp, value, name, unknown, args[1:])
        if looked_up is not MISSING:
            return looked_up
    if unknown is not None and isinstance(value, set) and name == "add":
        return lengths.open_up(interp.run, value, unknown)
    if isinstance(value, dict) and name == "get" and args:
        why = args[0] if isinstance(args[0], Unknown) else more
        if why is not None and (why is not more or args[0] not in value):
            return lengths.looked_up(interp.run, value, why)
    if unknown is not None and isinstance(value, (str, list, tuple)):
        if name in ("index", "rindex") and value:
            return lengths.some(interp.run, "the place of an item", len(value) - 1, unknown)
        if name in ("find", "rfind", "count"):
            run = interp.run
            return SomeInt(run.file, run.line, "the place or count of an item", unknown.root)
    if unknown is not None and name in _NEEDS_KNOWN:
        return unknown
    return getattr(value, name)(*args, **kwargs)


def _of_drawn(
    interp: Interpreter, value: Value, name: str, text: Unknown, rest: Sequence[Value]
) -> Value:
    """Call a method of a set or mapping with text that is drawn; MISSING where that is no help."""
    run = interp.run
    assert isinstance(text, string_sets.DrawnText)
    if isinstance(value, set) and name == "add" and string_sets.stored(run, value, text):
        return None
    if isinstance(value, dict) and name in ("get", "setdefault"):
        value_found = string_sets.looked_up(run, value, text, *(rest or (None,)))
        if name == "setdefault" and text.between is None:
            for word in text.words:
                value.setdefault(word, rest[0] if rest else None)
        return MISSING if value_found is None else value_found
    return MISSING


def _open_list(
    interp: Interpreter, value: list[Value], more: More, name: str, args: Sequence[Value]
) -> Value:
    """Call a method of a list of unknown length; what ends it stays at its end."""
    run = interp.run
    if name in ("append", "insert"):
        value.insert(len(value) - 1, args[-1])
        added: Value = 1
    elif name == "extend":
        return lengths.extend(value, list(interp.iterate(args[0])))
    elif name == "pop":
        added = -1
    elif name == "copy":
        return list(value)
    elif name in ("reverse", "remove"):
        return None
    elif name == "clear":
        return value.clear()
    else:
        return run.unknown("what a list holds that is read from data", more)
    total = lengths.plus(lengths.length_of([more]), added, 1)
    if isinstance(total, int):
        value[-1:] = [value[0]] * max(0, min(total, lengths.MAX_KNOWN) - len(value) + 1)
    else:
        value[-1] = More(total.file, total.line, total.reason, total.root, total)
    if name != "pop":
        return None
    return value[0] if len(value) > 1 else lengths.likeness(more)


def _mapping(
    interp: Interpreter,
    value: dict[Value, Value],
    name: str,
    args: Sequence[Value],
    kwargs: dict[str, Value],
) -> Value:
    subtracts = name == "subtract"
    if (name == "update" or subtracts) and hasattr(value, "counted"):
        return value.counted(interp.run, *args, sign=-1 if subtracts else 1, **kwargs)
    if name == "update":
        given = args[0] if args else {}
        if isinstance(given, (list, tuple)) or hasattr(given, "walk"):
            pairs = [tuple(pair) for pair in interp.iterate(given)]
            refused = interp.too_much([pair[0] for pair in pairs])
            if refused is not None:
                return refused
            given = dict(pairs)
        given = getattr(given, "entries", given)
        going_over(interp, given)
        value.update(given if isinstance(given, dict) else {})
        value.update(kwargs)
        return None
    going_over(interp, value)
    if name == "items":
        return list(value.items())
    return list(value) if name == "keys" else list(value.values())


def _sort(interp: Interpreter, value: list[Value], options: dict[str, Value]) -> None:
    ordered = sorting.in_order(interp, list(value), options)
    if isinstance(ordered, list):
        value[:] = ordered


def _counted(
    interp: Interpreter,
    value: dict[Value, Value],
    name: str,
    args: Sequence[Value],
    kwargs: dict[str, Value],
) -> Value:
    if name == "move_to_end":
        moved = value.pop(args[0])
        rest = dict(value) if kwargs.get("last", True) is False else {}
        if rest:
            value.clear()
        value[args[0]] = moved
        value.update(rest)
        return None
    if name == "popitem":
        last = (kwargs.get("last", True) if not args else args[0]) is not False
        key = next(reversed(value) if last else iter(value), MISSING)
        if key is MISSING:
            return interp.lacking("popitem of an empty dictionary", "KeyError")
        return key, value.pop(key)
    if name == "elements":
        return [key for key, times in value.items() for _ in range(times)]
    if first_unknown(list(value.values())) is not None:
        return interp.run.unknown("an order of counts that are not known")
    pairs = sorted(value.items(), key=lambda pair: -pair[1])
    return pairs[: args[0]] if args else pairs


def remove(owner: Value, key: Value) -> None:
    """Run `del owner[key]` if its effect is known."""
    if isinstance(owner, dict) and isinstance(key, (str, int, float, tuple)):
        if traversal_cost.weight(key) <= traversal_cost.MOST:
            owner.pop(key, None)
    elif isinstance(owner, list) and (
        (isinstance(key, int) and -len(owner) <= key < len(owner))
        or (isinstance(key, slice) and not first_unknown(key.start, key.stop, key.step))
    ):  # fmt: skip
        del owner[key]
