"""`collections`, `itertools` and `functools`."""

from __future__ import annotations

import ast
import itertools
from collections import Counter as Count
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed, lengths
from gpuconsole.preflight.interpreter.domain.equality import same
from gpuconsole.preflight.interpreter.domain.mappings import Mapping, mapping_of
from gpuconsole.preflight.interpreter.domain.python_values import Lazy
from gpuconsole.preflight.interpreter.domain.sequences import Listed
from gpuconsole.preflight.interpreter.domain.string_sets import DrawnText
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    BoundMethod,
    Function,
    Memo,
    More,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    Value,
)
from gpuconsole.preflight.interpreter.machine import evaluations
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.stdlib import dataclasses_enum, function_tools

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

MAX_COMBINATIONS = 100_000
MAX_PLAIN = 200_000
"""Different words of one text."""


class Defaults(dict[Value, Value]):
    """`collections.defaultdict`, and `Counter` with a default of 0."""

    make: Callable[[], Value] | None = None

    def __missing__(self, key: Value) -> Value:
        if self.make is None:
            raise KeyError(key)
        value = self[key] = self.make()
        return value


class Counts(Defaults):
    """`collections.Counter`."""

    def __add__(self, other: dict[Value, int]) -> Counts:
        result = counts()
        result.update(self)
        for key, times in other.items():
            result[key] += times
        return result

    def counted(self, run: Run, items: Value = (), sign: int = 1, **more: Value) -> None:
        """Stand for `update` and, with a sign of -1, for `subtract`."""
        _counted(run, self, items, sign)
        _counted(run, self, more, sign)


def counts(**more: Value) -> Counts:
    """Return a counter of nothing, or of what is given by name."""
    result = Counts(**more)
    result.make = lambda: 0
    return result


class Deque(list[Value]):
    """`collections.deque`; a full one drops its oldest item."""

    most: int | None = None

    def append(self, value: Value) -> None:
        """Add at the end."""
        super().append(value)
        if self.most is not None and len(self) > self.most:
            del self[0]

    def extend(self, values: Iterable[Value]) -> None:
        """Add several at the end."""
        for value in values:
            self.append(value)

    def appendleft(self, value: Value) -> None:
        """Add at the beginning."""
        self.insert(0, value)
        if self.most is not None and len(self) > self.most:
            del self[-1]

    def popleft(self) -> Value:
        """Take the first."""
        return self.pop(0)

    def rotate(self, by: int = 1) -> None:
        """Turn the items around."""
        if self:
            by %= len(self)
            self[:] = self[-by:] + self[:-by]


def _ordered(run: Run, items: Value = None, /, **more: Value) -> Value:
    return run.interp.call(run.interp.builtins["dict"], [] if items is None else [items], more)


def _defaultdict(run: Run, factory: Value = None, items: Value = None, /, **more: Value) -> Value:
    result = Defaults(mapping_of(items) or {}, **more)
    interp = run.interp
    if factory is not None:
        result.make = lambda: interp.call(factory, [], {})
    return result


def _counter(run: Run, items: Value = None, **more: Value) -> Value:
    result = counts(**more)
    return result if items is None else _counted(run, result, items, 1) or result


def _counted(run: Run, counts: Counts, items: Value, sign: int) -> Value:
    """Count items into a counter; the unknown that keeps it from being known, if one does."""
    if isinstance(items, dict):
        for key, times in items.items():
            counts[key] = run.interp.binary(ast.Add, counts[key], run.interp.binary(
                ast.Mult, times, sign))  # fmt: skip
        return None
    if isinstance(items, (str, list, tuple)) and all(type(item) is str for item in items):
        tally = Count(items)
        run.interp.tick(len(items) // 16)
        if len(tally) <= MAX_PLAIN and all(type(counts[key]) is int for key in tally):
            for key, times in tally.items():
                counts[key] += sign * times
            return None
    for item in run.interp.iterate(items):
        if isinstance(item, DrawnText) and item.between is None:
            counts.update(dict.fromkeys(item.words, run.number("a count of words drawn at random")))
            continue
        if isinstance(item, More) and any(isinstance(times, Unknown) for times in counts.values()):
            continue  # more of the words that are there already
        if isinstance(item, Unknown):
            lengths.open_up(run, counts, item)
            return run.unknown("counts of items that are not known", item)
        counts[item] += sign
    return None


def _deque(run: Run, items: Value = (), maxlen: Value = None) -> Value:
    deque = Deque()
    deque.most = maxlen if isinstance(maxlen, int) else None
    deque.extend(run.interp.iterate(items))
    return deque


def collections() -> Namespace:
    """Return `collections`."""
    table: dict[str, Callable[..., Value]] = {
        "OrderedDict": _ordered,
        "defaultdict": _defaultdict,
        "Counter": _counter,
        "deque": _deque,
        "namedtuple": dataclasses_enum.namedtuple,
        "ChainMap": lambda run, *maps: {
            k: v for mapping in reversed(maps) for k, v in mapping.items()
        },
    }
    names: dict[str, Value] = {k: NativeFunction(v, k) for k, v in table.items()}
    names["UserDict"] = NativeClass(Mapping, "dict")
    names["UserList"] = NativeClass(Listed, "list")
    kinds = ("Iterable", "Mapping", "Sequence", "Callable", "MutableMapping", "Iterator", "Sized",
             "Generator", "Hashable", "Set", "Container")  # fmt: skip
    names["abc"] = Namespace("collections.abc", {k: NativeClass(Native, k) for k in kinds})
    return Namespace("collections", names)


# -- itertools


def _lazy(make: Callable[..., Iterator[Value]]) -> Callable[..., Value]:
    def call(run: Run, *args: Value, **kwargs: Value) -> Value:
        return Lazy(iter(make(run, *args, **kwargs)))

    return call


def _listed(run: Run, parts: tuple[Value, ...]) -> list[list[Value]]:
    return [list(run.interp.iterate(part)) for part in parts]


def _chain(run: Run, *parts: Value) -> Iterator[Value]:
    for part in parts:
        yield from run.interp.iterate(part)


def _chain_all(run: Run, parts: Value) -> Iterator[Value]:
    for part in run.interp.iterate(parts):
        yield from run.interp.iterate(part)


def _product(run: Run, *parts: Value, repeat: Value = 1) -> Iterator[Value]:
    return itertools.islice(itertools.product(*_listed(run, parts), repeat=repeat),
                            MAX_COMBINATIONS)  # fmt: skip


def _count(run: Run, start: Value = 0, step: Value = 1) -> Iterator[Value]:
    while True:
        run.interp.tick()
        yield start
        start = start + step


def _cycle(run: Run, items: Value) -> Iterator[Value]:
    """Give items again and again; every one of them is kept, all batches of a loader too."""
    stored: list[Value] = []
    if getattr(items, "label", "") == "DataLoader":
        items = evaluations.whole(run.interp, list(run.interp.iterate(items)))
        if lengths.more_in(items) is not None:
            run.block(run.gap("itertools.cycle keeps every batch: how many there are is unknown"))
    for item in run.interp.iterate(items):
        stored.append(item)
        yield item
    while stored:
        run.interp.tick()
        yield from stored


def _repeat(run: Run, value: Value, times: Value = None) -> Iterator[Value]:
    count = 0
    while times is None or count < times:
        run.interp.tick()
        count += 1
        yield value


def _islice(run: Run, items: Value, *ends: Value) -> Iterator[Value]:
    return itertools.islice(run.interp.iterate(items), *ends)


def _longest(run: Run, *parts: Value, fillvalue: Value = None) -> Iterator[Value]:
    return itertools.zip_longest(*_listed(run, parts), fillvalue=fillvalue)


def _accumulate(run: Run, items: Value, function: Value = None, **_: Value) -> Iterator[Value]:
    total: Value = MISSING
    for item in run.interp.iterate(items):
        if total is MISSING:
            total = item
        elif function is None:
            total = run.interp.binary(ast.Add, total, item)
        else:
            total = run.interp.call(function, [total, item], {})
        yield total


def _takewhile(run: Run, test: Value, items: Value) -> Iterator[Value]:
    for item in run.interp.iterate(items):
        if run.interp.truth(run.interp.call(test, [item], {})) is False:
            return
        yield item


def _dropwhile(run: Run, test: Value, items: Value) -> Iterator[Value]:
    dropping = True
    for item in run.interp.iterate(items):
        dropping = dropping and run.interp.truth(run.interp.call(test, [item], {})) is not False
        if not dropping:
            yield item


def _filterfalse(run: Run, test: Value, items: Value) -> Iterator[Value]:
    for item in run.interp.iterate(items):
        value = item if test is None else run.interp.call(test, [item], {})
        if run.interp.truth(value) is not True:
            yield item


def _compress(run: Run, items: Value, selectors: Value) -> Iterator[Value]:
    for item, keep in zip(run.interp.iterate(items), run.interp.iterate(selectors), strict=False):
        if run.interp.truth(keep) is not False:
            yield item


def _grouped(run: Run, items: Value, key: Value = None) -> Iterator[Value]:
    group: list[Value] = []
    now: Value = MISSING
    for item in run.interp.iterate(items):
        value = item if key is None else run.interp.call(key, [item], {})
        if now is MISSING or same(now, value):
            group.append(item)
        else:
            yield now, group
            group = [item]
        now = value
    if now is not MISSING:
        yield now, group


def _tee(run: Run, items: Value, n: Value = 2) -> Value:
    listed = list(run.interp.iterate(items))
    return tuple(Lazy(iter(listed)) for _ in range(min(n, 64)))


def _combinations(run: Run, items: Value, size: Value) -> Iterator[Value]:
    return itertools.islice(itertools.combinations(list(run.interp.iterate(items)), size),
                            MAX_COMBINATIONS)  # fmt: skip


def _with_replacement(run: Run, items: Value, size: Value) -> Iterator[Value]:
    combinations = itertools.combinations_with_replacement(list(run.interp.iterate(items)), size)
    return itertools.islice(combinations, MAX_COMBINATIONS)


class Chain(Native):
    """`itertools.chain`."""

    label = "chain"

    def __init__(self) -> None:
        super().__init__()
        self.parts: tuple[Value, ...] = ()

    def init(self, run: Run, *parts: Value) -> None:
        """Keep the parts."""
        self.parts = parts

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the items of all."""
        return _chain(interp.run, *self.parts)

    static_from_iterable = staticmethod(exposed.static("from_iterable")(_lazy(_chain_all)))


def itertools_module() -> Namespace:
    """Return `itertools`."""
    table: dict[str, Callable[..., Value]] = {"product": _product, "count": _count, "cycle": _cycle,
             "repeat": _repeat, "islice": _islice, "zip_longest": _longest,
             "accumulate": _accumulate, "takewhile": _takewhile, "dropwhile": _dropwhile,
             "filterfalse": _filterfalse, "compress": _compress, "groupby": _grouped,
             "combinations_with_replacement": _with_replacement, "combinations": _combinations,
             "starmap": lambda run, function, items: iter(
                 [run.interp.call(function, list(args), {}) for args in run.interp.iterate(items)]),
             "permutations": lambda run, items, size=None: itertools.islice(
                 itertools.permutations(list(run.interp.iterate(items)), size), MAX_COMBINATIONS),
             "tee": _tee,
             "pairwise": lambda run, items: itertools.pairwise(run.interp.iterate(items)),
             }  # fmt: skip
    names: dict[str, Value] = {k: NativeFunction(_lazy(v), k) for k, v in table.items()}
    return Namespace("itertools", {**names, "chain": NativeClass(Chain, "chain")})


# -- functools


class Partial(Native):
    """`functools.partial`."""

    label = "partial"

    def init(self, run: Run, function: Value, /, *args: Value, **kwargs: Value) -> None:
        """Keep the function and what was given."""
        self.function, self.args, self.kwargs = function, args, kwargs
        self.attrs.update(func=function, args=args, keywords=kwargs)

    def call(self, interp: Interpreter, /, *args: Value, **kwargs: Value) -> Value:
        """Call with both."""
        return interp.call(self.function, [*self.args, *args], {**self.kwargs, **kwargs})


def _keep(run: Run, function: Value = None, *_: Value, **__: Value) -> Value:
    """Stand for a decorator with or without arguments that changes no sizes."""
    if isinstance(function, (Function, NativeFunction, BoundMethod, Native)):
        return function
    return NativeFunction(lambda run, value: value, "decorator")


def _wraps(run: Run, *_: Value, **__: Value) -> Value:
    return NativeFunction(lambda run, value: value, "wraps")


def _reduce(run: Run, function: Value, items: Value, *initial: Value) -> Value:
    total: Value = initial[0] if initial else MISSING
    for item in run.interp.iterate(items):
        total = item if total is MISSING else run.interp.call(function, [total, item], {})
    return run.unknown("reduce() of nothing") if total is MISSING else total


def _cached_property(run: Run, function: Value) -> Value:
    if isinstance(function, Function):
        function.kind = "cached"
    return function


def _lru_cache(run: Run, maxsize: Value = 128, *_: Value, **__: Value) -> Value:
    """Let a function remember as many results as are allowed, all of them for None."""
    if isinstance(maxsize, (Function, Native, NativeFunction, BoundMethod)):
        return _remembers(128, run, maxsize)
    most = maxsize if isinstance(maxsize, int) else None
    return NativeFunction(partial(_remembers, most), "lru_cache")


def _remembers(most: int | None, run: Run, function: Value) -> Value:
    if isinstance(function, Function):
        function.memo = Memo(most)
    return function


def functools() -> Namespace:
    """Return `functools`."""
    table: dict[str, Callable[..., Value]] = {
             "wraps": _wraps, "lru_cache": _lru_cache, "cache": partial(_remembers, None),
             "reduce": _reduce,
             "cached_property": _cached_property, "total_ordering": _keep,
             "cmp_to_key": _keep, "update_wrapper": lambda run, function, *_: function}  # fmt: skip
    names: dict[str, Value] = {k: NativeFunction(v, k) for k, v in table.items()}
    fixed = NativeClass(Partial, "partial")
    return Namespace(
        "functools",
        {
            **names,
            "partial": fixed,
            "singledispatch": NativeFunction(function_tools.dispatch, "singledispatch"),
            "singledispatchmethod": NativeFunction(
                function_tools.method_dispatch, "singledispatch"
            ),
        },
    )
