"""What an item is when data picks it: the form that all items share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import equality, int_bounds, lengths
from gpuconsole.preflight.interpreter.domain.values import (
    More,
    Native,
    SomeInt,
    SomeNumber,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

FEWEST, MOST = 64, 50_000
"""Items that are looked at: at least so many, and so many values inside of them in all."""
REASON = "an item that is picked by data"


def item(run: Run, values: list[Value], why: Unknown, whole: bool = True) -> Value:
    """Join abstract values: the value that describes any of `values`, or `Unknown` if they have no
    common form.

    The index is never part of the result: only a list of whole numbers has a number as its join.
    `whole` means that these are all values there are, so that the largest of them is a bound.
    """
    items = [value for value in values[: _looked_at(values)] if not isinstance(value, More)]
    whole = whole and len(items) == len(values)
    if not items:
        return Unknown(run.file, run.line, REASON, why.root)
    # Iterations of a long loop that are taken alike have left one item in many places.
    items = list({id(value): value for value in items}.values())
    run.interp.tick(1 + len(items) // 8)
    first = items[0]
    if all(equality.same(first, value) for value in items[1:]):
        return first
    if all(isinstance(value, bool) or _is_truth(value) for value in items):
        return Array((), "bool")
    if all(_number(value) for value in items):
        return _some_number(run, items, why, whole)
    if all(type(value) is type(first) for value in items):
        if isinstance(first, Array):
            if all(value.shape == first.shape and value.dtype == first.dtype for value in items):
                array = Array(first.shape, first.dtype)
                array.high = int_bounds.at_most(
                    int_bounds.most([int_bounds.high_of(value) for value in items])
                )
                return array
        elif type(first) in (list, tuple):
            return _sequence(run, items, why, whole)
        elif type(first) is dict and all(value.keys() == first.keys() for value in items):
            return {key: item(run, [value[key] for value in items], why, whole) for key in first}
        elif isinstance(first, Native) and first.is_its_fields:
            return _instance(run, items, why, whole)
    return Unknown(run.file, run.line, REASON, why.root)


class Picks:
    """The last long list that data picked from, so that picking again need not look at all of it.

    Only plain data is kept: what is held here must not hold memory.
    """

    __slots__ = ("_from", "_made", "_mark")

    def __init__(self) -> None:
        self._from: list[Value] | None = None
        self._mark: tuple[int, ...] = ()
        self._made: Value = None

    def item(self, run: Run, values: list[Value], why: Unknown) -> Value:
        """Return the join of the items of a list."""
        if len(values) <= FEWEST:
            return item(run, list(values), why)
        mark = (len(values), id(values[0]), id(values[len(values) // 2]), id(values[-1]))
        if values is not self._from or mark != self._mark:
            joined = item(run, list(values), why)
            if not _is_data(joined):
                return joined
            self._from, self._mark, self._made = values, mark, joined
        return _fresh(self._made)


def _is_data(value: Value) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_data, value))
    if isinstance(value, dict):
        return all(map(_is_data, value.values()))
    if isinstance(value, Array):
        return value.keeps is None
    if isinstance(value, Native) and value.is_its_fields:
        return all(map(_is_data, value.attrs.values()))
    return value is None or isinstance(value, (int, float, str, Unknown))


def _fresh(value: Value) -> Value:
    """Copy containers: the script may fill what it picked."""
    if type(value) in (list, tuple):
        return type(value)(map(_fresh, value))
    if type(value) is dict:
        return {key: _fresh(entry) for key, entry in value.items()}
    if isinstance(value, Native) and value.is_its_fields:
        copy = type(value)()
        copy.cls = value.cls
        copy.attrs = {name: _fresh(attribute) for name, attribute in value.attrs.items()}
        return copy
    return value


def _instance(run: Run, instances: list[Native], why: Unknown, whole: bool) -> Value:
    """Merge instances of one class of the script field by field."""
    first = instances[0]
    if any(
        instance.cls is not first.cls or instance.attrs.keys() != first.attrs.keys()
        for instance in instances
    ):
        return Unknown(run.file, run.line, REASON, why.root)
    joined = type(first)()
    joined.cls = first.cls
    for name in first.attrs:
        joined.attrs[name] = item(run, [instance.attrs[name] for instance in instances], why, whole)
    return joined


def _looked_at(values: list[Value]) -> int:
    first = values[0] if values else None
    return max(FEWEST, MOST // max(1, len(first) if isinstance(first, (list, tuple, dict)) else 1))


def _is_truth(value: Value) -> bool:
    return isinstance(value, Array) and value.dtype == "bool" and not value.shape


def _number(value: Value) -> bool:
    return isinstance(value, (int, float, SomeNumber)) and not isinstance(value, bool)


def _some_number(run: Run, numbers_found: list[Value], why: Unknown, whole: bool) -> Value:
    if not all(isinstance(number, (int, SomeInt)) for number in numbers_found):
        return SomeNumber(run.file, run.line, REASON, why.root)
    if whole and all(isinstance(number, int) and number >= 0 for number in numbers_found):
        return lengths.some(run, REASON, max(numbers_found), why)
    return SomeInt(run.file, run.line, REASON, why.root)


def _sequence(run: Run, sequences: list[Value], why: Unknown, whole: bool) -> Value:
    """Merge place by place; lists that differ in length become one of unknown length."""
    first = sequences[0]
    sizes = [lengths.length_of(sequence) for sequence in sequences]
    if all(isinstance(size, int) and size == sizes[0] for size in sizes):
        columns = zip(*sequences, strict=True)
        return type(first)(item(run, list(column), why, whole) for column in columns)
    if isinstance(first, tuple) or 0 in sizes:
        return Unknown(run.file, run.line, REASON, why.root)
    known_sizes = [size for size in sizes if isinstance(size, int)]
    high = max(known_sizes) if whole and len(known_sizes) == len(sizes) else None
    element = item(run, [inner for outer in sequences for inner in outer], why, whole)
    return lengths.opened(element, lengths.some(run, REASON, high, why))


def one_of_two(why: Unknown, *sides: Value) -> Value:
    """Return what one of two values is when it is not known which.

    Of two numbers it is a number, of two pictures a picture, and containers of the same form are
    joined place by place.
    """
    first, second = sides
    if equality.same(first, second):
        return first
    if type(first) is type(second) and type(first) in (list, tuple):
        alike = len(first) == len(second) and not any(map(lengths.more_in, sides))
        return _places(why, first, second) if alike and _shallow(first) else why
    if type(first) is type(second) is dict and first.keys() == second.keys() and _shallow(first):
        return {key: one_of_two(why, first[key], second[key]) for key in first}
    for left_side, other in ((first, second), (second, first)):
        joined = getattr(left_side, "joined", None)
        joined_value = None if joined is None else joined(other)
        if joined_value is not None:
            return joined_value
    numbers = (int, float, SomeNumber)
    for tensor, other in ((first, second), (second, first)):
        if isinstance(tensor, Tensor) and not tensor.shape and isinstance(other, numbers):
            # A threshold, say: as a tensor it takes all that it may take as a number, and more.
            tensor.forget()
            return tensor
    if not all(isinstance(side, numbers) and not isinstance(side, bool) for side in sides):
        return why
    kind = SomeInt if all(isinstance(side, (int, SomeInt)) for side in sides) else SomeNumber
    return kind(why.file, why.line, why.reason, why.root)


def is_whole(joined: Value, first: Value, second: Value) -> bool:
    """Whether what was joined says as much of its size as each of the two sides does."""
    if type(first) is not type(second) or first_unknown(joined) is not None:
        return False
    if type(joined) in (list, tuple):
        return all(map(is_whole, joined, first, second))
    if type(joined) is dict:
        return all(is_whole(part, first[key], second[key]) for key, part in joined.items())
    return equality.same(first, second) or hasattr(joined, "joined")


def _places(why: Unknown, first: Value, second: Value) -> Value:
    pairs = zip(first, second, strict=True)
    return type(first)(one_of_two(why, left, other) for left, other in pairs)


def _shallow(items: Value) -> bool:
    """Whether a container is short and holds no containers that hold others in turn."""
    inside = items.values() if isinstance(items, dict) else items
    nested = (list, tuple, dict)
    return len(items) <= FEWEST and not any(
        isinstance(part, nested) or (isinstance(container, dict))
        for container in inside
        if isinstance(container, nested)
        for part in container
    )
