"""`operator`, `bisect`, `heapq`, `statistics`, `struct`, `textwrap`: functions of plain values."""

from __future__ import annotations

import ast
import bisect as real_bisect
import statistics as real_statistics
import struct as real_struct
import textwrap as real_textwrap
import unicodedata as real_unicodedata
from collections.abc import Callable

from gpuconsole.preflight.interpreter.domain import sorting, string_sets
from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    NativeFunction,
    SomeInt,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run

_BINARY: dict[str, type[ast.operator]] = {
    "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "truediv": ast.Div, "mod": ast.Mod,
    "floordiv": ast.FloorDiv, "pow": ast.Pow, "matmul": ast.MatMult, "and_": ast.BitAnd,
    "or_": ast.BitOr, "xor": ast.BitXor, "concat": ast.Add, "iadd": ast.Add, "imul": ast.Mult,
}  # fmt: skip
_COMPARED: dict[str, type[ast.cmpop]] = {
    "eq": ast.Eq, "ne": ast.NotEq, "lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE,
    "is_": ast.Is, "is_not": ast.IsNot,
}  # fmt: skip


def _functions(name: str, table: dict[str, Callable[..., Value]]) -> Namespace:
    names = {key: NativeFunction(call, f"{name}.{key}") for key, call in table.items()}
    return Namespace(name, {**names})


def _all_of(parts: list[Value]) -> Value:
    return parts[0] if len(parts) == 1 else tuple(parts)


def _item_getter(run: Run, *keys: Value) -> Value:
    def get(run: Run, value: Value) -> Value:
        return _all_of([run.interp.subscript(value, key) for key in keys])

    return NativeFunction(get, "itemgetter")


def _attribute_getter(run: Run, *names: Value) -> Value:
    def one(run: Run, value: Value, path: str) -> Value:
        for name in path.split("."):
            value = run.interp.get_attr(value, name)
        return value

    def get(run: Run, value: Value) -> Value:
        return _all_of([one(run, value, name) for name in names])

    return NativeFunction(get, "attrgetter")


def _method_caller(run: Run, name: Value, *args: Value, **kwargs: Value) -> Value:
    def call(run: Run, value: Value) -> Value:
        return run.interp.call(run.interp.get_attr(value, name), list(args), kwargs)

    return NativeFunction(call, "methodcaller")


def operator() -> Namespace:
    """Return `operator`."""

    def binary(kind: type[ast.operator]) -> Callable[..., Value]:
        return lambda run, a, b: run.interp.binary(kind, a, b)

    def compared(kind: type[ast.cmpop]) -> Callable[..., Value]:
        return lambda run, a, b: run.interp.compare(kind, a, b)

    table = {name: binary(kind) for name, kind in _BINARY.items()}
    table.update({name: compared(kind) for name, kind in _COMPARED.items()})
    table.update(
        itemgetter=_item_getter, attrgetter=_attribute_getter, methodcaller=_method_caller,
        getitem=lambda run, value, key: run.interp.subscript(value, key),
        neg=lambda run, value: run.interp.binary(ast.Mult, value, -1),
        contains=lambda run, box, item: run.interp.compare(ast.In, item, box),
        truth=lambda run, value: run.interp.truth(value),
    )  # fmt: skip
    return _functions("operator", table)


def _known(function: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function of plain values that all must be known."""

    def call(run: Run, *args: Value, **kwargs: Value) -> Value:
        unknown = first_unknown(*args, *kwargs.values())
        if unknown is not None:
            return unknown
        run.interp.tick(
            sum(len(argument) for argument in args if isinstance(argument, (list, str, tuple)))
            // 16
        )
        return function(*args, **kwargs)

    return call


def bisect() -> Namespace:
    """Return `bisect`."""
    names = ("bisect", "bisect_left", "bisect_right", "insort", "insort_left", "insort_right")
    return _functions("bisect", {name: _known(getattr(real_bisect, name)) for name in names})


def _ranked(largest: bool) -> Callable[..., Value]:
    def call(run: Run, n: Value, items: Value, key: Value = None) -> Value:
        listed = list(run.interp.iterate(items))
        ordered = sorting.in_order(run.interp, listed, {"key": key, "reverse": largest})
        return ordered[:n] if isinstance(ordered, list) and isinstance(n, int) else (
            first_unknown(n, ordered) or run.unknown("the largest of data"))  # fmt: skip

    return call


def _push(run: Run, heap: list[Value], item: Value) -> None:
    heap.append(item)
    _settle(run, heap)


def _pop(run: Run, heap: list[Value]) -> Value:
    return heap.pop(0)


def _settle(run: Run, heap: list[Value]) -> None:
    ordered = sorting.in_order(run.interp, list(heap), {})
    if isinstance(ordered, list):
        heap[:] = ordered
        run.interp.tick(len(heap) // 16)


def heapq() -> Namespace:
    """Return `heapq`; a heap is kept in order as a whole."""
    return _functions("heapq", {
        "nlargest": _ranked(True), "nsmallest": _ranked(False), "heappush": _push,
        "heappop": _pop, "heapify": _settle,
    })  # fmt: skip


def statistics() -> Namespace:
    """Return `statistics`."""

    def measured(name: str) -> Callable[..., Value]:
        real = getattr(real_statistics, name)

        def call(run: Run, items: Value, *_: Value) -> Value:
            listed = list(run.interp.iterate(items))
            if first_unknown(listed) is not None:
                return run.number("a figure of data")
            return real(listed)

        return call

    names = ("mean", "fmean", "median", "stdev", "pstdev", "variance", "mode")
    return _functions("statistics", {name: measured(name) for name in names})


def unicodedata() -> Namespace:
    """Return `unicodedata`; of text that is drawn, each word is asked for."""

    def of_text(name: str, place: int) -> Callable[..., Value]:
        ask = _known(getattr(real_unicodedata, name))

        def call(run: Run, *args: Value) -> Value:
            text = args[place]
            if isinstance(text, string_sets.DrawnText):
                before, after = args[:place], args[place + 1 :]
                return string_sets.mapped(run, text, lambda word: ask(run, *before, word, *after))
            return ask(run, *args)

        return call

    return _functions("unicodedata", {
        "normalize": of_text("normalize", 1), "category": of_text("category", 0),
        "name": of_text("name", 0), "combining": _known(real_unicodedata.combining),
    })  # fmt: skip


def pickle() -> Namespace:
    """Return `pickle`: what a file holds is not read."""

    def loaded(run: Run, *_: Value, **__: Value) -> Value:
        return run.unknown("what a pickle holds")

    def written(run: Run, *_: Value, **__: Value) -> None:
        return None

    return _functions("pickle", {"load": loaded, "loads": loaded, "dump": written,
                                 "dumps": loaded})  # fmt: skip


MOST_PACKED = 4096
"""Bytes of a format of which each number is given."""


def structs() -> Namespace:
    """Return `struct`: how many numbers a format has is known, what they are is not."""

    def size(run: Run, text: Value) -> Value:
        try:
            return first_unknown(text) or real_struct.calcsize(text)
        except (real_struct.error, TypeError):
            return run.unknown("the size of a format that is not known")

    def unpacked(run: Run, text: Value, *_: Value, **__: Value) -> Value:
        length = size(run, text)
        if not isinstance(length, int) or length > MOST_PACKED:
            return run.unknown("what packed bytes hold")
        run.interp.tick(length // 8)
        return tuple(number(run, value) for value in real_struct.unpack(text, bytes(length)))

    def number(run: Run, like: object) -> Value:
        if isinstance(like, int):
            return SomeInt(run.file, run.line, "a number out of packed data")
        return run.unknown("packed data") if isinstance(like, bytes) else run.number("packed data")

    def opaque(run: Run, *_: Value, **__: Value) -> Value:
        return run.unknown("packed data")

    return _functions("struct", {
        "calcsize": size, "unpack": unpacked, "unpack_from": unpacked, "pack": opaque,
        "pack_into": opaque, "iter_unpack": opaque,
    })  # fmt: skip


def textwrap() -> Namespace:
    """Return `textwrap`."""
    return _functions("textwrap", {
        name: _known(getattr(real_textwrap, name))
        for name in ("dedent", "wrap", "fill", "shorten", "indent")
    })  # fmt: skip
