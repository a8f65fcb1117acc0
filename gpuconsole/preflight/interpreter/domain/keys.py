"""Keys of dictionaries and members of sets."""

from __future__ import annotations

from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Function,
    Native,
    NativeClass,
    NativeFunction,
    Unknown,
    UserClass,
    Value,
    holds_memory,
)

SOME_KEY = "?"
"""The key for all unknown keys of plain values: its value is the join of theirs."""


class SomeKey(str):
    """An unknown key of a value that may hold memory; it equals itself alone."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def is_key(value: Value) -> bool:
    """Whether a value is plain enough for a key; hashing a tuple deeper than two may not end."""
    if isinstance(value, (str, int, float, bytes, type(None))):
        return True
    if isinstance(value, (Native, UserClass, Function, NativeFunction, NativeClass)):
        return _is_itself(value)
    parts = value if isinstance(value, tuple) else (value,)
    inner = [
        component for part in parts for component in (part if isinstance(part, tuple) else (part,))
    ]
    plain = isinstance(value, tuple)
    return plain and not any(isinstance(o, tuple) or type(o).__hash__ is None for o in inner)


def _is_itself(value: Value) -> bool:
    """Whether an object equals itself alone, or says what it equals."""
    cls = value.cls if isinstance(value, Native) else None
    if cls is not None and cls.find("__eq__") is not MISSING:
        return False
    compared = hasattr(value, "shape") and not value.hashed_as_itself
    return not compared and type(value).__hash__ is not None


def put(entries: dict[Value, Value], key: Value, value: Value) -> None:
    """Set an entry of a dictionary. Of unknown keys it is unknown how many differ: where they may
    hold memory, all do."""
    if is_key(key):
        entries[key] = value
    elif isinstance(key, Unknown):
        if holds_memory(value):
            entries[SomeKey(SOME_KEY)] = value
        else:
            entries.setdefault(SOME_KEY, value)
