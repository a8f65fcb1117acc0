"""Several fields of a record at once, where that happens ten thousand times a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def reader(*names: str) -> Callable[[object], tuple[Value, ...]]:
    """Return what `operator.attrgetter` does of these names, in half its time for records of one
    class with slots: Python remembers where such an attribute is, and `attrgetter` looks it up.
    """
    fields = "".join(f"record.{name}, " for name in names)
    read: Callable[[object], tuple[Value, ...]] = eval(f"lambda record: ({fields})")
    return read
