"""Frozen records as plain JSON values, and back.

What comes back makes only the types that the wanted record names: unlike a pickle, it cannot say
itself what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from gpuconsole.core.wording import Joined, Message

_MESSAGE, _JOINED = "message", "joined"
"""The keys of texts that remember how they were made."""
_PLAIN = (str, int, bool, NoneType)


def plain(value: object) -> object:
    """Return a record, and all records inside it, as lists, mappings, texts and numbers."""
    if isinstance(value, Joined):
        return {_JOINED: value.separator, "parts": [plain(part) for part in value.parts]}
    if isinstance(value, Message):
        return {_MESSAGE: value.template, "values": plain(value.values)}
    if is_dataclass(value):
        return [plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value


def read(kind: object, value: object) -> Any:
    """Return the value of a type that `plain` made; ValueError when it is none."""
    if kind is Any or kind is object:
        return value
    if kind is str and type(value) is dict:
        return _message(value)
    if type(value) is kind and kind in _PLAIN:
        return value
    if kind is float and type(value) in (int, float):
        return value
    if is_dataclass(kind) and isinstance(kind, type):
        return _record(kind, value)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal and value in inner:
        return value
    if origin in (Union, UnionType):
        return _one_of(inner, value)
    if origin is tuple and type(value) is list:
        return _row(inner, value)
    if origin is frozenset and type(value) is list:
        return frozenset(read(inner[0], item) for item in value)
    if origin is dict and type(value) is dict:
        return {read(inner[0], key): read(inner[1], item) for key, item in value.items()}
    raise ValueError(f"{type(value).__name__} is no {kind}")


def _message(value: Mapping[str, object]) -> Message:
    try:
        if _JOINED in value:
            parts = read(tuple[str, ...], value["parts"])
            return Joined(read(str, value[_JOINED]), list(parts))
        return Message(read(str, value[_MESSAGE]), read(dict[str, str], value["values"]))
    except (KeyError, TypeError) as error:
        raise ValueError("this is no message") from error


def _record(kind: Any, value: object) -> object:
    hints = _hints(kind)
    if type(value) is not list or len(value) != len(hints):
        raise ValueError(f"this is no {kind.__name__}")
    return kind(*map(read, hints, value))


@lru_cache(maxsize=64)
def _hints(kind: type) -> tuple[object, ...]:
    hints = get_type_hints(kind)
    return tuple(hints[field.name] for field in fields(kind))


def _one_of(kinds: Sequence[object], value: object) -> object:
    for kind in kinds:
        try:
            return read(kind, value)
        except ValueError:
            continue
    raise ValueError(f"{type(value).__name__} is none of {kinds}")


def _row(kinds: Sequence[object], value: list[object]) -> tuple[object, ...]:
    if kinds[-1] is Ellipsis:
        return tuple(read(kinds[0], item) for item in value)
    if len(kinds) != len(value):
        raise ValueError(f"{len(value)} values are not {len(kinds)}")
    return tuple(map(read, kinds, value))
