"""Containers of unknown length, and symbolic arithmetic on their lengths.

A list, set or dictionary filled from a file holds some items and a `More`. Its length is a
`Length`: `ids + [0] * (64 - len(ids))` has 64 items whatever `ids` is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import (
    Length,
    More,
    SomeInt,
    SomeNumber,
    Symbol,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run

MAX_KNOWN = 100_000
"""Items that a list of known length is written out to."""
MAX_LOOKED_AT = 256
MAX_KEY = 300
MAX_TERMS = 32


_ANY = More("", 0, "")


def some(run: Run, reason: str, high: int | None = None, cause: Value = None) -> Length:
    """Return a new unknown length, at most `high`."""
    root = cause.root if isinstance(cause, Unknown) else None
    symbol = Symbol(f"{run.file}:{run.line}:{run.steps}", high)
    return Length(run.file, run.line, reason, root, 0, ((symbol, 1),))


def of_number(run: Run, number: SomeNumber) -> Length:
    """Return an unknown whole number as a length to which others relate: `i + 8` is 8 more than
    `i`."""
    symbol = Symbol(f"{run.file}:{run.line}:{run.steps}", signed=True)
    return Length(number.file, number.line, number.reason, number.root, 0, ((symbol, 1),))


def of_unknown(unknown: Unknown) -> Length:
    """Return the length of an unknown thing: the same each time it is asked for."""
    if isinstance(unknown, More) and isinstance(unknown.length, Length):
        return unknown.length
    text = unknown.root.text if unknown.root is not None else ""
    symbol = Symbol(f"{unknown.file}:{unknown.line}:{unknown.reason}:{text}")
    reason = f"the length of {text}" if text else unknown.reason
    return Length(unknown.file, unknown.line, reason, unknown.root, 0, ((symbol, 1),))


def more_in(value: Value) -> More | None:
    """Return the `More` of an open container; None for any other value."""
    if isinstance(value, (list, tuple)):
        last = value[-1] if value else None
        return last if isinstance(last, More) else None
    if isinstance(value, (dict, set, frozenset)) and _ANY in value:
        return next(item for item in value if isinstance(item, More))
    return None


def opened(item: Value, length: Value) -> Value:
    """Return a list of so many items like `item`."""
    if isinstance(length, int):
        return [item] * min(max(length, 0), MAX_KNOWN)
    return [item, More(length.file, length.line, length.reason, length.root, length)]


def length_of(value: Value) -> Value:
    """Return the number of items of a container, open or not; None for anything else."""
    if isinstance(value, Unknown):
        return of_unknown(value)
    more = more_in(value)
    if more is not None:
        return more.length if isinstance(more.length, (Length, int)) else of_unknown(more)
    return len(value) if isinstance(value, (list, tuple, dict, set, frozenset)) else None


def items_of(value: Value) -> list[Value]:
    """Return the items that stand in an open list."""
    return [item for item in value if not isinstance(item, More)]


def walk(value: Value) -> Iterator[Value]:
    """Yield the items of an open container; the last represents the others."""
    first: Value = None
    for count, item in enumerate(value):
        if not isinstance(item, More):
            first = item if count == 0 else first
            yield item
    more = more_in(value)
    if more is not None:
        yield More(more.file, more.line, more.reason, more.root, more.length, first)


def binary(run: Run, kind: type[ast.operator], left: Value, right: Value) -> Value:
    """Compute with lengths and open lists; None where this is neither."""
    if kind in (ast.Add, ast.Sub) and _whole(left) and _whole(right):
        return plus(left, right, 1 if kind is ast.Add else -1)
    if kind is ast.Mult:
        for length, other in ((left, right), (right, left)):
            if isinstance(length, Length) and type(other) is not bool and isinstance(other, int):
                return times(length, other)
            if isinstance(length, Length) and isinstance(other, list) and len(other) == 1:
                return opened(other[0], length)
    if kind in (ast.FloorDiv, ast.Div) and isinstance(left, Length) and isinstance(right, int):
        high = left.high
        if kind is ast.FloorDiv and right > 0:
            return some(run, left.reason, None if high is None else high // right, left)
    if kind is ast.Add:
        return _joined(left, right)
    return None


def _whole(value: Value) -> bool:
    return isinstance(value, Length) or (isinstance(value, int) and not isinstance(value, bool))


def _joined(left: Value, right: Value) -> Value:
    """Join two lists of which at least one is open; an unknown thing counts as such a list."""
    lists = [side for side in (left, right) if isinstance(side, list)]
    if not lists or not any(isinstance(side, Unknown) or more_in(side) for side in (left, right)):
        return None
    if not all(isinstance(side, (list, Unknown)) for side in (left, right)):
        return None
    if len(lists) == 1 and more_in(lists[0]) is None:
        # Only an open list says that the unknown thing is a list too.
        return None
    total = plus(length_of(left), length_of(right), 1)
    items = [item for each_list in lists for item in items_of(each_list)]
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        unknown = left if isinstance(left, Unknown) else right
        items.append(SomeInt(unknown.file, unknown.line, unknown.reason, unknown.root))
    if isinstance(total, int):
        sample = items[0] if items else None
        return (items + [sample] * max(0, min(total, MAX_KNOWN) - len(items)))[: max(total, 0)]
    return [*items, More(total.file, total.line, total.reason, total.root, total)]


def extend(left: list[Value], right: list[Value]) -> None:
    """Append the items of one list to another; either may be open."""
    if more_in(left) is None and more_in(right) is None:
        left.extend(right)
        return
    total = plus(length_of(left), length_of(right), 1)
    items = [*items_of(left), *items_of(right)]
    if isinstance(total, int):
        items += items[:1] * max(0, min(total, MAX_KNOWN) - len(items))
        left[:] = items[: max(total, 0)]
    else:
        left[:] = [*items, More(total.file, total.line, total.reason, total.root, total)]


def plus(left: Value, right: Value, sign: int) -> Value:
    """Return `left + sign * right` of lengths and whole numbers; an int where all cancels."""
    const, terms = 0, dict[Symbol, int]()
    for operand, times_ in ((left, 1), (right, sign)):
        if isinstance(operand, Length):
            const += times_ * operand.const
            for symbol, count in operand.terms:
                terms[symbol] = terms.get(symbol, 0) + times_ * count
        else:
            const += times_ * int(operand)
    left_over = tuple((symbol, count) for symbol, count in terms.items() if count)
    if not left_over:
        return const
    of = left if isinstance(left, Length) else right
    result = Length(of.file, of.line, of.reason, of.root, const, left_over)
    if len(left_over) > MAX_TERMS:
        whole = Symbol(
            f"sum {hash(left_over)}", None if result.high is None else max(0, result.high)
        )
        return Length(of.file, of.line, of.reason, of.root, 0, ((whole, 1),))
    return result


def between(start: Value, stop: Value) -> Value:
    """Return the number of items of a range with a length as one of its ends; None otherwise."""
    if not (_whole(start) and _whole(stop)) or not (
        isinstance(start, Length) or isinstance(stop, Length)
    ):
        return None
    return plus(stop, start, -1)


def times(length: Length, number: int) -> Value:
    """Return a length times a whole number."""
    if not number:
        return 0
    terms = tuple((symbol, count * number) for symbol, count in length.terms)
    return Length(
        length.file, length.line, length.reason, length.root, length.const * number, terms
    )


def compare(kind: type[ast.cmpop], left: Value, right: Value) -> bool | None:
    """Compare lengths where their bounds decide it; None where they do not."""
    if not (_whole(left) and _whole(right)):
        return None
    gap = plus(left, right, -1)
    low, high = (gap, gap) if isinstance(gap, int) else (gap.low, gap.high)
    if kind in (ast.Eq, ast.NotEq) and ((low or 0) > 0 or (high or 0) < 0):
        return kind is ast.NotEq
    if kind in (ast.Gt, ast.LtE):
        above = _decided(low is not None and low > 0, high is not None and high <= 0)
        return above if kind is ast.Gt or above is None else not above
    if kind in (ast.GtE, ast.Lt):
        above = _decided(low is not None and low >= 0, high is not None and high < 0)
        return above if kind is ast.GtE or above is None else not above
    if kind in (ast.Eq, ast.NotEq) and isinstance(gap, int):
        return (gap == 0) is (kind is ast.Eq)
    return None


def _decided(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None


def extreme(run: Run, smallest: bool, values: list[Value]) -> Value:
    """Return the least or the greatest of lengths and whole numbers; None where it is neither."""
    if not values or not all(map(_whole, values)):
        return None
    lengths = [value for value in values if isinstance(value, Length)]
    if not lengths:
        return None
    for value in values:
        # One that is never beyond the others, such as the side of a crop beside a picture's.
        beyond = ast.LtE if smallest else ast.GtE
        if all(value is other or compare(beyond, value, other) for other in values):
            return value
    highs = [value.high if isinstance(value, Length) else int(value) for value in values]
    bounds = [high for high in highs if high is not None]
    if smallest:
        high = min(bounds) if bounds else None
    else:
        high = max(bounds) if len(bounds) == len(highs) else None
    return some(run, lengths[0].reason, high, lengths[0])


def part(run: Run, value: Value, key: Value) -> Value:
    """Return a slice of an open list or of an unknown thing, at most as long as its end says.

    None where the key is no slice that says how many items there are.
    """
    if not isinstance(key, slice) or key.step not in (None, 1):
        return None
    length = length_of(value)
    start, stop = key.start or 0, key.stop
    if length is not None and isinstance(start, Length) and isinstance(stop, (int, Length)):
        width = plus(stop, start, -1)
        if isinstance(width, int) and width >= 0:
            return opened(_item_of(run, value), width)
    if length is None or not (isinstance(length, Length) or isinstance(stop, Length)):
        return None
    if isinstance(stop, Length) and stop.high is not None:
        stop = stop.high
    high = length.high if isinstance(length, Length) else length
    if isinstance(stop, int) and isinstance(start, int) and stop >= 0 <= start:
        cap = max(0, stop - start)
        high = cap if high is None else min(cap, high)
    elif isinstance(value, Unknown):
        return None
    if high is None and stop is None and not start:
        size = length
    else:
        size = _part_length(run, value, length, (start, stop), high)
    return opened(_item_of(run, value), size)


def _item_of(run: Run, value: Value) -> Value:
    items = [] if isinstance(value, Unknown) else items_of(value)[:1]
    return items[0] if items else SomeInt(run.file, run.line, "an item of a file's data")


def _part_length(run: Run, value: Value, of: Value, ends: Value, high: int | None) -> Length:
    """Return the length of a part: the same part of the same list is as long each time."""
    terms = [(term.key, times_) for term, times_ in of.terms] if isinstance(of, Length) else of
    text = f"part {ends} of {terms}"
    # A part of a part of a part: names do not grow without end.
    symbol = Symbol(text if len(text) <= MAX_KEY else f"part {hash(text)}", high)
    cause = value_root(value)
    reason = f"the length of a part of {_named(value)}"
    root = cause.root if cause is not None else None
    return Length(run.file, run.line, reason, root, 0, ((symbol, 1),))


def drops(node: ast.expr, items: list[Value]) -> bool:
    """Whether a set or dictionary made of these items has fewer than there are."""
    if isinstance(node, ast.DictComp):
        return any(isinstance(key, Unknown) for key, _ in items)
    # Words that are drawn are all put in.
    return isinstance(node, ast.SetComp) and any(
        isinstance(item, Unknown) and not getattr(item, "words", ()) for item in items
    )


def _named(value: Value) -> str:
    root = value.root if isinstance(value, Unknown) else None
    return root.text if root is not None else "a list that is read from data"


def value_root(value: Value) -> Unknown | None:
    """Return the unknown that carries what would settle the length of a container."""
    return value if isinstance(value, Unknown) else more_in(value)


def rest(item: Value) -> More | None:
    """Return the `More` if an item of a walk represents an unknown number of others."""
    if isinstance(item, More):
        return item
    if isinstance(item, tuple):
        return next((part for part in item if isinstance(part, More)), None)
    return None


def likeness(item: Value) -> Value:
    """Return the item that a `More` represents: one like those before it, or an unknown one."""
    if isinstance(item, tuple):
        return tuple(likeness(part) for part in item)
    if not isinstance(item, More):
        return item
    if item.like is not None:
        return item.like
    return Unknown(item.file, item.line, item.reason, item.root)


def fewer(run: Run, more: More | None) -> More:
    """Return the rest of a container of which a condition leaves an unknown number."""
    high = more.length.high if more is not None and isinstance(more.length, Length) else None
    length = some(run, "how many items a condition leaves", high, more)
    return More(length.file, length.line, length.reason, length.root, length)


def looked_up(run: Run, mapping: dict[Value, Value], why: Unknown) -> Unknown:
    """Return the value of a key that is not known: a number where all values are numbers."""
    values = [value_ for value_ in list(mapping.values())[:64] if not isinstance(value_, More)]
    if values and all(isinstance(value, (int, SomeInt)) for value in values):
        return SomeInt(run.file, run.line, "a number that is looked up by data", why.root)
    return why


def open_up(run: Run, container: Value, cause: Unknown) -> None:
    """Mark a container as holding an unknown number of items from now on."""
    length = some(run, f"how many items a loop over {_named(cause)} makes")
    # Its own length would settle it, rather than what its items are made of.
    root = None if cause.root is None else replace(cause.root, form="value", name="")
    length = replace(length, root=root)
    more = More(length.file, length.line, length.reason, root, length)
    old = more_in(container)
    if isinstance(container, list):
        if old is not None:
            container.pop()
        container.append(more)
    elif isinstance(container, dict):
        if old is None:
            container[more] = more
    elif isinstance(container, set) and old is None:
        container.add(more)
