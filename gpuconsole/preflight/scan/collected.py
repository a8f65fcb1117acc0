"""`collections`, `itertools` and `functools`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from gpuconsole.preflight.scan import records
from gpuconsole.preflight.scan.constants import Lazy
from gpuconsole.preflight.scan.mappings import mapping_of
from gpuconsole.preflight.scan.run import Run
from gpuconsole.preflight.scan.values import (
    MISSING,
    BoundMethod,
    Function,
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    Value,
)

MAX_COMBINATIONS = 100_000


class Defaults(dict[Value, Value]):
    """`collections.defaultdict`, and `Counter` with a default of 0."""

    make: Callable[[], Value] | None = None

    def __missing__(self, key: Value) -> Value:
        if self.make is None:
            raise KeyError(key)
        value = self[key] = self.make()
        return value


class Deque(list[Value]):
    """`collections.deque`; a full one lets go of what it holds longest."""

    most: int | None = None

    def append(self, value: Value) -> None:
        """Add at the end."""
        super().append(value)
        if self.most is not None and len(self) > self.most:
            del self[0]

    def extend(self, values: Any) -> None:
        """Add several at the end."""
        for one in values:
            self.append(one)

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
    return run.calls.call(run.calls.builtins["dict"], [] if items is None else [items], more)


def _defaultdict(run: Run, factory: Value = None, items: Value = None, /, **more: Value) -> Value:
    made = Defaults(mapping_of(items) or {}, **more)
    calls = run.calls
    if factory is not None:
        made.make = lambda: calls.call(factory, [], {})
    return made


def _counter(run: Run, items: Value = None, **more: Value) -> Value:
    made = Defaults(**more)
    made.make = lambda: 0
    if isinstance(items, dict):
        made.update(items)
    elif items is not None:
        for one in run.calls.iterate(items):
            if isinstance(one, Unknown):
                return run.unknown("counts of items that are not known", one)
            made[one] += 1
    return made


def _deque(run: Run, items: Value = (), maxlen: Value = None) -> Value:
    made = Deque()
    made.most = maxlen if isinstance(maxlen, int) else None
    made.extend(run.calls.iterate(items))
    return made


def collections() -> Namespace:
    """Return `collections`."""
    table: dict[str, Any] = {
        "OrderedDict": _ordered,
        "defaultdict": _defaultdict,
        "Counter": _counter,
        "deque": _deque,
        "namedtuple": records.namedtuple,
        "ChainMap": lambda run, *maps: {k: v for one in reversed(maps) for k, v in one.items()},
    }
    names: dict[str, Value] = {k: NativeFunction(v, k) for k, v in table.items()}
    kinds = ("Iterable", "Mapping", "Sequence", "Callable", "MutableMapping", "Iterator", "Sized",
             "Generator", "Hashable", "Set", "Container")  # fmt: skip
    names["abc"] = Namespace("collections.abc", {k: NativeClass(Native, k) for k in kinds})
    return Namespace("collections", names)


# -- itertools


def _lazy(make: Callable[..., Iterator[Value]]) -> Callable[..., Value]:
    def call(run: Run, *args: Value, **kwargs: Value) -> Value:
        return Lazy(make(run, *args, **kwargs))

    return call


def _listed(run: Run, parts: tuple[Value, ...]) -> list[list[Value]]:
    return [list(run.calls.iterate(one)) for one in parts]


def _chain(run: Run, *parts: Value) -> Iterator[Value]:
    for one in parts:
        yield from run.calls.iterate(one)


def _chain_all(run: Run, parts: Value) -> Iterator[Value]:
    for one in run.calls.iterate(parts):
        yield from run.calls.iterate(one)


def _product(run: Run, *parts: Value, repeat: Value = 1) -> Iterator[Value]:
    return itertools.islice(itertools.product(*_listed(run, parts), repeat=repeat),
                            MAX_COMBINATIONS)  # fmt: skip


def _count(run: Run, start: Value = 0, step: Value = 1) -> Iterator[Value]:
    while True:
        run.calls.tick()
        yield start
        start = start + step


def _cycle(run: Run, items: Value) -> Iterator[Value]:
    # Walked over again, not kept: what a loader gives must not live longer than a turn.
    while True:
        run.calls.tick()
        empty = True
        for one in run.calls.iterate(items):
            empty = False
            yield one
            one = None
        if empty:
            return


def _repeat(run: Run, value: Value, times: Value = None) -> Iterator[Value]:
    count = 0
    while times is None or count < times:
        run.calls.tick()
        count += 1
        yield value


def _islice(run: Run, items: Value, *ends: Value) -> Iterator[Value]:
    return itertools.islice(run.calls.iterate(items), *ends)


def _longest(run: Run, *parts: Value, fillvalue: Value = None) -> Iterator[Value]:
    return itertools.zip_longest(*_listed(run, parts), fillvalue=fillvalue)


def _accumulate(run: Run, items: Value, function: Value = None, **_: Value) -> Iterator[Value]:
    import ast

    total: Value = MISSING
    for one in run.calls.iterate(items):
        if total is MISSING:
            total = one
        elif function is None:
            total = run.calls.binary(ast.Add, total, one)
        else:
            total = run.calls.call(function, [total, one], {})
        yield total


def _takewhile(run: Run, test: Value, items: Value) -> Iterator[Value]:
    for one in run.calls.iterate(items):
        if run.calls.truth(run.calls.call(test, [one], {})) is False:
            return
        yield one


def _combinations(run: Run, items: Value, size: Value) -> Iterator[Value]:
    return itertools.islice(itertools.combinations(list(run.calls.iterate(items)), size),
                            MAX_COMBINATIONS)  # fmt: skip


class Chain(Native):
    """`itertools.chain`."""

    label = "chain"

    def __init__(self) -> None:
        super().__init__()
        self.parts: tuple[Value, ...] = ()

    def init(self, run: Run, *parts: Value) -> None:
        """Keep the parts."""
        self.parts = parts

    def iterate(self, calls: Any) -> Iterator[Value]:
        """Give the items of all."""
        return _chain(calls.run, *self.parts)

    static_from_iterable = staticmethod(_lazy(_chain_all))


def itertools_module() -> Namespace:
    """Return `itertools`."""
    table: dict[str, Any] = {"product": _product, "count": _count, "cycle": _cycle,
             "repeat": _repeat, "islice": _islice, "zip_longest": _longest,
             "accumulate": _accumulate, "takewhile": _takewhile, "combinations": _combinations,
             "starmap": lambda run, function, items: iter(
                 [run.calls.call(function, list(one), {}) for one in run.calls.iterate(items)]),
             "permutations": lambda run, items, size=None: itertools.islice(
                 itertools.permutations(list(run.calls.iterate(items)), size), MAX_COMBINATIONS),
             "pairwise": lambda run, items: itertools.pairwise(run.calls.iterate(items)),
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

    def call(self, calls: Any, /, *args: Value, **kwargs: Value) -> Value:
        """Call with both."""
        return calls.call(self.function, [*self.args, *args], {**self.kwargs, **kwargs})


def _keep(run: Run, function: Value = None, *_: Value, **__: Value) -> Value:
    """Stand for a decorator with or without arguments that changes no sizes."""
    if isinstance(function, (Function, NativeFunction, BoundMethod, Native)):
        return function
    return NativeFunction(lambda run, one: one, "decorator")


def _wraps(run: Run, *_: Value, **__: Value) -> Value:
    return NativeFunction(lambda run, one: one, "wraps")


def _reduce(run: Run, function: Value, items: Value, *initial: Value) -> Value:
    total: Value = initial[0] if initial else MISSING
    for one in run.calls.iterate(items):
        total = one if total is MISSING else run.calls.call(function, [total, one], {})
    return run.unknown("reduce() of nothing") if total is MISSING else total


def _property(run: Run, function: Value) -> Value:
    if isinstance(function, Function):
        function.kind = "property"
    return function


def functools() -> Namespace:
    """Return `functools`."""
    table: dict[str, Any] = {"wraps": _wraps, "lru_cache": _keep, "cache": _keep, "reduce": _reduce,
             "cached_property": _property, "total_ordering": _keep, "singledispatch": _keep,
             "cmp_to_key": _keep, "update_wrapper": lambda run, one, *_: one}  # fmt: skip
    names: dict[str, Value] = {k: NativeFunction(v, k) for k, v in table.items()}
    partial = NativeClass(Partial, "partial")
    return Namespace("functools", {**names, "partial": partial, "partialmethod": partial})
