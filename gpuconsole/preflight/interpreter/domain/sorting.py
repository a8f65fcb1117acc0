"""Sorting: plain values by their own order, objects of the script by their `__lt__`."""

from __future__ import annotations

import ast
from functools import cmp_to_key
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import Value, first_unknown

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter


def in_order(interp: Interpreter, items: list[Value], options: dict[str, Value]) -> Value:
    """Return items sorted as `sorted` does; an unknown if the order is unknown."""
    key = options.get("key")
    keys = items if key is None else [interp.call(key, [item], {}) for item in items]
    unknown = first_unknown(keys, options.get("reverse")) or interp.too_much(keys)
    if unknown is not None:
        return unknown
    if any(getattr(key, "cls", None) is not None for key in keys):
        keys = [cmp_to_key(lambda a, b: _three_way(interp, a, b))(key) for key in keys]
    try:
        places = sorted(range(len(items)), key=keys.__getitem__,
                        reverse=bool(options.get("reverse")))  # fmt: skip
    except TypeError:
        return interp.run.unknown("an order that reading cannot tell")
    return [items[place] for place in places]


def _three_way(interp: Interpreter, left: Value, right: Value) -> int:
    """Compare as `sorted` does objects of the script: by `__lt__` alone."""
    less = interp.compare(ast.Lt, left, right)
    if not isinstance(less, bool):
        raise TypeError("an order that reading cannot tell")
    return -1 if less else int(interp.compare(ast.Lt, right, left) is True)
