"""Programs as Paddle's executor runs them: which results lie in an operator's input, in which order
operators run, and when variables are let go.

Nothing here knows Paddle: operators name their values by number. The rules are those of Paddle
3.3.1's pass for operators in place and of its executor: a variable goes once the last operator that
reads its memory, or made it, has run; on a CPU what has become ready runs at once on another
thread, on a device all waits its turn in one queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import TypeAlias

    from paddle.base.core import DataType

    Operand: TypeAlias = int | tuple["Operand", ...] | None
    """The number of a value, numbers for a list of tensors, None for what is not given."""

SHAPELESS = frozenset({"reshape", "squeeze", "unsqueeze"})
"""Operators in place with shapes that are not compared."""
LOOSE = frozenset({"reshape_grad", "add_grad"})
"""Operators in place with open extents that are taken as the numbers for them."""


class Value:
    """A variable of a program: its type and its shape as the program has it (-1 is open)."""

    __slots__ = ("dtype", "lasting", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: DataType, lasting: bool = False) -> None:
        self.shape = shape
        self.dtype = dtype
        self.lasting = lasting
        """Whether it outlives the run: parameters, states."""


def flat(row: Sequence[Operand]) -> Iterator[int]:
    """Yield the numbers of operands or results."""
    for item in row:
        if isinstance(item, tuple):
            yield from flat(item)
        elif item is not None:
            yield item


class Operator:
    """One operator: the numbers of what it reads and makes, in order."""

    __slots__ = ("form", "inputs", "name", "outputs", "unneeded", "within")

    def __init__(self, name: str, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> None:
        self.name = name
        self.inputs = inputs
        """Numbers by operand: a tuple of them for a list of tensors, None for what is not given."""
        self.outputs = outputs
        self.unneeded: Collection[int] = frozenset()
        """Numbers of values with memory that is not read."""
        self.within: Mapping[int, int] = {}
        """By result: the operand that it shares memory with, of operators that are in place."""
        self.form: Mapping[int, int] = {}
        """The same of the operator's form in place, where there is one."""


def placed(
    operators: Sequence[Operator], values: Sequence[Value], lasting: set[int]
) -> list[dict[int, int]]:
    """Return for each operator which results (numbers) lie in which inputs (numbers).

    `kept` are numbers that are never written over: what is fed and what is fetched.
    """
    ends = _ends(operators, values, lasting)
    readers = _readers(operators)
    below: dict[int, int] = {}
    shared: list[dict[int, int]] = []
    for place, operator in enumerate(operators):
        for number in flat(operator.inputs):
            readers[number] = readers.get(number, 0) - 1
        pairs = _pairs(operator, operator.within)
        if not operator.within and _fits(operator, place, values, ends, readers, below):
            pairs = _pairs(operator, operator.form)
        below.update(pairs)
        shared.append(pairs)
    return shared


def _pairs(operator: Operator, slots: Mapping[int, int]) -> dict[int, int]:
    pairs: dict[int, int] = {}
    for result, operand in slots.items():
        if result < len(operator.outputs) and operand < len(operator.inputs):
            pairs.update(zip(flat([operator.outputs[result]]), flat([operator.inputs[operand]])))
    return pairs


def _readers(operators: Sequence[Operator]) -> dict[int, int]:
    readers: dict[int, int] = {}
    for operator in operators:
        for number in flat(operator.inputs):
            readers[number] = readers.get(number, 0) + 1
    return readers


def _ends(
    operators: Sequence[Operator], values: Sequence[Value], lasting: set[int]
) -> dict[int, int]:
    """Return the last operator that has to do with each variable that may be written over."""
    ends: dict[int, int] = {}
    for place, operator in enumerate(operators):
        for number in flat((*operator.inputs, *operator.outputs)):
            if number not in lasting and not values[number].lasting:
                ends[number] = place
    return ends


def _fits(
    operator: Operator,
    place: int,
    values: Sequence[Value],
    ends: Mapping[int, int],
    readers: Mapping[int, int],
    below: Mapping[int, int],
) -> bool:
    """Tell whether an operator takes its form in place here."""
    if not operator.form:
        return False
    for result, operand in operator.form.items():
        if operand >= len(operator.inputs) or result >= len(operator.outputs):
            return False
        x, out = operator.inputs[operand], operator.outputs[result]
        if not isinstance(x, int) or not isinstance(out, int):
            return False
        if ends.get(x) != place or out not in ends:
            return False
        if not alike(operator.name, values[x], values[out]) or _read_later(x, readers, below):
            return False
    return True


def _read_later(number: int, readers: Mapping[int, int], below: Mapping[int, int]) -> bool:
    """Tell whether anything in the same memory is still to be read."""
    while not readers.get(number, 0):
        if number not in below:
            return False
        number = below[number]
    return True


def alike(name: object, x: Value, out: Value) -> bool:
    """Tell whether a result may lie in an input, by type and number of elements."""
    if x.dtype != out.dtype:
        return False
    if name in SHAPELESS:
        return True
    if name not in LOOSE and not (_leads(x.shape) and _leads(out.shape)):
        return False
    return _count(x.shape) == _count(out.shape)


def _leads(shape: tuple[int, ...]) -> bool:
    """Tell whether only the first of several extents may be open."""
    return all(extent != -1 or (not place and len(shape) > 1) for place, extent in enumerate(shape))


def _count(shape: tuple[int, ...]) -> int:
    number = 1
    for extent in shape:
        number *= extent
    return number


def releases(
    operators: Sequence[Operator],
    order: Sequence[int],
    values: Sequence[Value],
    lasting: Collection[int],
) -> list[list[int]]:
    """Return for each place of an order the numbers of the variables that are let go after it."""
    last: dict[int, int] = {}
    for turn, place in enumerate(order):
        operator = operators[place]
        for number in flat(operator.inputs):
            if number not in operator.unneeded:
                last[number] = turn
        for number in flat(operator.outputs):
            last[number] = max(turn, last.get(number, turn))
    released: list[list[int]] = [[] for _ in order]
    for number, turn in last.items():
        if number not in lasting and not values[number].lasting:
            released[turn].append(number)
    return released


def as_ready(
    operators: Sequence[Operator],
    inside: Sequence[Mapping[int, int]],
    fed: set[int],
) -> list[int]:
    """Return the order in which threads run operators as they become ready.

    `inside` are the results of `placed`; `fed` the numbers of what is fed: what hangs on none of it
    runs first. Of what an operator has made ready the first goes on in its thread, after the rest,
    which other threads take up at once.
    """
    before, after = _waits(operators, inside)
    left = [len(place) for place in before]
    hangs = _hanging(operators, fed)
    begin = [place for place, number in enumerate(left) if not number]
    begin.sort(key=lambda place: (place in hangs, place))
    order: list[int] = []
    for start in begin:
        stack = [start]
        while stack:
            place = stack.pop()
            order.append(place)
            ready = []
            for item in after[place]:
                left[item] -= 1
                if not left[item]:
                    ready.append(item)
            stack += ready[:1] + ready[:0:-1]
    return order


def _hanging(operators: Sequence[Operator], fed: set[int]) -> set[int]:
    """Return the operators that hang on what is fed."""
    hanging = set(fed)
    places_found = set()
    for place, operator in enumerate(operators):
        if any(number in hanging for number in flat(operator.inputs)):
            hanging.update(flat(operator.outputs))
            places_found.add(place)
    return places_found


def _waits(
    operators: Sequence[Operator], inside: Sequence[Mapping[int, int]]
) -> tuple[list[set[int]], list[list[int]]]:
    """Return which operators each waits for, and which wait for it: for what it reads, and to write
    over what others read."""
    root: dict[int, int] = {}
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    before: list[set[int]] = []
    for place, (operator, pairs) in enumerate(zip(operators, inside)):
        waits: set[int] = set()
        for number in flat(operator.inputs):
            memory = root.get(number, number)
            if memory in writer:
                waits.add(writer[memory])
            readers.setdefault(memory, []).append(place)
        for out in flat(operator.outputs):
            source = pairs.get(out)
            memory = root[out] = root.get(source, source) if source is not None else out
            waits.update(readers.pop(memory, ()))
            writer[memory] = place
        waits.discard(place)
        before.append(waits)
    after: list[list[int]] = [[] for _ in operators]
    for place, waits in enumerate(before):
        for item in waits:
            after[item].append(place)
    return before, after
