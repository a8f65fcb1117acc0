"""`bisect`, `heapq`, `pickle` and `struct`."""

from __future__ import annotations

import bisect as real_bisect
import struct as real_struct
from collections.abc import Callable

from gpuconsole.preflight.interpreter.domain import sorting
from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    NativeFunction,
    SomeInt,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run


def _functions(name: str, table: dict[str, Callable[..., Value]]) -> Namespace:
    names = {key: NativeFunction(call, f"{name}.{key}") for key, call in table.items()}
    return Namespace(name, {**names})


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
