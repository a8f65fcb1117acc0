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
    """Return what stands for any of `values`; unknown where they have no common form.

    The position that picks is never the item: only a list of whole numbers gives a number.
    `whole` says that these are all there are, so that the largest of them is a bound.
    """
    found = [value for value in values[: _looked_at(values)] if not isinstance(value, More)]
    whole = whole and len(found) == len(values)
    if not found:
        return Unknown(run.file, run.line, REASON, why.root)
    # Turns of a long loop that are taken alike have left one item in many places.
    found = list({id(one): one for one in found}.values())
    run.interp.tick(1 + len(found) // 8)
    first = found[0]
    if all(equality.same(first, one) for one in found[1:]):
        return first
    if all(isinstance(one, bool) or _is_truth(one) for one in found):
        return Array((), "bool")
    if all(_number(one) for one in found):
        return _some_number(run, found, why, whole)
    if all(type(one) is type(first) for one in found):
        if isinstance(first, Array):
            if all(one.shape == first.shape and one.dtype == first.dtype for one in found):
                made = Array(first.shape, first.dtype)
                made.high = int_bounds.at_most(
                    int_bounds.most([int_bounds.high_of(one) for one in found])
                )
                return made
        elif type(first) in (list, tuple):
            return _sequence(run, found, why, whole)
        elif type(first) is dict and all(one.keys() == first.keys() for one in found):
            return {key: item(run, [one[key] for one in found], why, whole) for key in first}
        elif isinstance(first, Native) and first.is_its_fields:
            return _instance(run, found, why, whole)
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
        """Return what stands for any item of a list."""
        if len(values) <= FEWEST:
            return item(run, list(values), why)
        mark = (len(values), id(values[0]), id(values[len(values) // 2]), id(values[-1]))
        if values is not self._from or mark != self._mark:
            made = item(run, list(values), why)
            if not _is_data(made):
                return made
            self._from, self._mark, self._made = values, mark, made
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
        return {key: _fresh(one) for key, one in value.items()}
    if isinstance(value, Native) and value.is_its_fields:
        made = type(value)()
        made.cls = value.cls
        made.attrs = {name: _fresh(one) for name, one in value.attrs.items()}
        return made
    return value


def _instance(run: Run, found: list[Native], why: Unknown, whole: bool) -> Value:
    """Merge instances of one class of the script field by field."""
    first = found[0]
    if any(one.cls is not first.cls or one.attrs.keys() != first.attrs.keys() for one in found):
        return Unknown(run.file, run.line, REASON, why.root)
    made = type(first)()
    made.cls = first.cls
    for name in first.attrs:
        made.attrs[name] = item(run, [one.attrs[name] for one in found], why, whole)
    return made


def _looked_at(values: list[Value]) -> int:
    first = values[0] if values else None
    return max(FEWEST, MOST // max(1, len(first) if isinstance(first, (list, tuple, dict)) else 1))


def _is_truth(value: Value) -> bool:
    return isinstance(value, Array) and value.dtype == "bool" and not value.shape


def _number(value: Value) -> bool:
    return isinstance(value, (int, float, SomeNumber)) and not isinstance(value, bool)


def _some_number(run: Run, found: list[Value], why: Unknown, whole: bool) -> Value:
    if not all(isinstance(one, (int, SomeInt)) for one in found):
        return SomeNumber(run.file, run.line, REASON, why.root)
    if whole and all(isinstance(one, int) and one >= 0 for one in found):
        return lengths.some(run, REASON, max(found), why)
    return SomeInt(run.file, run.line, REASON, why.root)


def _sequence(run: Run, found: list[Value], why: Unknown, whole: bool) -> Value:
    """Merge place by place; lists that differ in length become one of unknown length."""
    first = found[0]
    sizes = [lengths.length_of(one) for one in found]
    if all(isinstance(size, int) and size == sizes[0] for size in sizes):
        columns = zip(*found, strict=True)
        return type(first)(item(run, list(column), why, whole) for column in columns)
    if isinstance(first, tuple) or 0 in sizes:
        return Unknown(run.file, run.line, REASON, why.root)
    known = [size for size in sizes if isinstance(size, int)]
    high = max(known) if whole and len(known) == len(sizes) else None
    one = item(run, [inner for outer in found for inner in outer], why, whole)
    return lengths.opened(one, lengths.some(run, REASON, high, why))


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
    for one, other in ((first, second), (second, first)):
        joined = getattr(one, "joined", None)
        made = None if joined is None else joined(other)
        if made is not None:
            return made
    numbers = (int, float, SomeNumber)
    for one, other in ((first, second), (second, first)):
        if isinstance(one, Tensor) and not one.shape and isinstance(other, numbers):
            # A threshold, say: as a tensor it takes all that it may take as a number, and more.
            one.forget()
            return one
    if not all(isinstance(one, numbers) and not isinstance(one, bool) for one in sides):
        return why
    kind = SomeInt if all(isinstance(one, (int, SomeInt)) for one in sides) else SomeNumber
    return kind(why.file, why.line, why.reason, why.root)


def is_whole(joined: Value, first: Value, second: Value) -> bool:
    """Whether what was joined says as much of its size as each of the two sides does."""
    if type(first) is not type(second) or first_unknown(joined) is not None:
        return False
    if type(joined) in (list, tuple):
        return all(map(is_whole, joined, first, second))
    if type(joined) is dict:
        return all(is_whole(one, first[key], second[key]) for key, one in joined.items())
    return equality.same(first, second) or hasattr(joined, "joined")


def _places(why: Unknown, first: Value, second: Value) -> Value:
    pairs = zip(first, second, strict=True)
    return type(first)(one_of_two(why, one, other) for one, other in pairs)


def _shallow(items: Value) -> bool:
    """Whether a container is short and holds no containers that hold others in turn."""
    inside = items.values() if isinstance(items, dict) else items
    nested = (list, tuple, dict)
    return len(items) <= FEWEST and not any(
        isinstance(part, nested) or (isinstance(one, dict))
        for one in inside
        if isinstance(one, nested)
        for part in one
    )
