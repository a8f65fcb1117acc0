"""Data classes with methods that are made when they are first used.

`dataclasses.dataclass` writes up to seven methods for each class and compiles each by itself: half
a millisecond a class, for hundreds of classes at each start, most of which make no object. Here
`dataclasses` arranges fields and slots, methods that need no compiling are closures, `__init__` is
compiled when it is first looked up: to make an object, or for its signature, and what reads all
fields when the first two objects are compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, TypeAlias

from gpuconsole.core.util.field_reader import reader

if TYPE_CHECKING:
    # Type checkers see data classes as they are everywhere else.
    from dataclasses import dataclass  # noqa: TID251

__all__ = ["dataclass"]

Fields: TypeAlias = Sequence["Field[object]"]
_POST = "__post_init__"

if not TYPE_CHECKING:

    def dataclass(kind=None, /, *, frozen=False, slots=False, eq=True, kw_only=False):
        """Make a data class as `dataclasses.dataclass` does, with these of its options.

        There is no `InitVar`, and what derives from such a class is made here too.
        """

        def decorated(kind: type) -> type:
            own = dict(vars(kind))
            result = _arranged(kind, slots=slots, kw_only=kw_only)
            for name, method in _methods(result, slots=slots, frozen=frozen, eq=eq).items():
                # Python itself says that a class with an `__eq__` of its own has no hash.
                if own.get(name) is None:
                    setattr(result, name, method)
            return result

        return decorated if kind is None else decorated(kind)


def _arranged(kind: type, *, slots: bool, kw_only: bool) -> type:
    """Return the class with its fields and slots, and without methods."""
    undocumented = not kind.__doc__
    if undocumented:
        # Else a signature is worked out for it.
        kind.__doc__ = kind.__name__
    options = {"slots": slots, "kw_only": kw_only}
    arrange = dataclasses.dataclass(init=False, repr=False, eq=False, **options)  # noqa: TID251
    result: type = arrange(kind)
    if undocumented:
        result.__doc__ = None
    return result


def _methods(kind: type, *, slots: bool, frozen: bool, eq: bool) -> dict[str, object]:
    """Return the methods of a class, by name."""
    fields: Fields = dataclasses.fields(kind)
    names = [field.name for field in fields]
    methods: dict[str, object] = {
        "__init__": _Initialiser(kind, slots=slots, frozen=frozen),
        "__repr__": _representation([field.name for field in fields if field.repr]),
    }
    if eq:
        methods["__eq__"] = _equality([field.name for field in fields if field.compare])
        hashed = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
        methods["__hash__"] = _hash(hashed) if frozen else None
    if frozen:
        methods |= _refusals(kind, frozenset(names))
    if frozen and slots:
        methods |= _pickling(names)
    return methods


class _Initialiser:
    """Takes the place of a class's `__init__` until it is looked up, which compiles it."""

    __slots__ = ("_frozen", "_kind", "_slots")

    def __init__(self, kind: type, *, slots: bool, frozen: bool) -> None:
        self._kind = kind
        self._slots = slots
        self._frozen = frozen

    def __get__(self, instance: object, owner: type | None = None) -> object:
        init = _compiled(self._kind, slots=self._slots, frozen=self._frozen)
        type.__setattr__(self._kind, "__init__", init)
        bound: object = init.__get__(instance, owner)
        return bound


def _compiled(kind: type, *, slots: bool, frozen: bool) -> Callable[..., None]:
    """Return the `__init__` of a class."""
    fields: Fields = dataclasses.fields(kind)
    names: dict[str, object] = {"_set": object.__setattr__, "_missing": MISSING}
    lines: list[str] = []
    for field in fields:
        name = field.name
        names[f"_default_{name}"], names[f"_make_{name}"] = field.default, field.default_factory
        value = _first_value(field, slots=slots)
        if value:
            lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(kind, _POST):
        lines.append(f"self.{_POST}()")
    first = [_parameter(field) for field in fields if field.init and not field.kw_only]
    by_name = [_parameter(field) for field in fields if field.init and field.kw_only]
    parameters = ["self", *first, *(["*", *by_name] if by_name else [])]
    body = "\n    ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):\n    {body}\n", names)
    init: Callable[..., None] = names["__init__"]  # type: ignore[assignment]
    init.__qualname__, init.__module__ = f"{kind.__qualname__}.__init__", kind.__module__
    init.__annotations__ = {field.name: field.type for field in fields if field.init}
    init.__annotations__["return"] = None
    return init


def _first_value(field: Field[object], *, slots: bool) -> str:
    """Return the source of a field's first value; empty where the class itself holds it."""
    name = field.name
    if field.default_factory is not MISSING:
        return f"_make_{name}() if {name} is _missing else {name}" if field.init else (
            f"_make_{name}()")  # fmt: skip
    if field.init:
        return name
    return f"_default_{name}" if slots and field.default is not MISSING else ""


def _parameter(field: Field[object]) -> str:
    if field.default_factory is not MISSING:
        return f"{field.name}=_missing"
    return field.name if field.default is MISSING else f"{field.name}=_default_{field.name}"


def _representation(names: Sequence[str]) -> object:
    @recursive_repr()
    def representation(self: object) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({fields})"

    return representation


def _equality(names: Sequence[str]) -> object:
    values: Callable[[object], tuple[object, ...]] | None = None

    def is_equal(self: object, other: object) -> object:
        nonlocal values
        if other.__class__ is not self.__class__:
            return NotImplemented
        if values is None:
            values = reader(*names)
        return values(self) == values(other)

    return is_equal


def _hash(names: Sequence[str]) -> object:
    values: Callable[[object], tuple[object, ...]] | None = None

    def hashed(self: object) -> int:
        nonlocal values
        if values is None:
            values = reader(*names)
        return hash(values(self))

    return hashed


def _refusals(kind: type, names: frozenset[str]) -> dict[str, object]:
    """Return methods that refuse to change fields; a derived class may have other attributes."""

    def set_attribute(self: object, name: str, value: object) -> None:
        if type(self) is kind or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def delete_attribute(self: object, name: str) -> None:
        if type(self) is kind or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    return {"__setattr__": set_attribute, "__delattr__": delete_attribute}


def _pickling(names: Sequence[str]) -> dict[str, object]:
    """Return methods that pickle and copy objects with fields that cannot be assigned to."""

    def state(self: object) -> list[object]:
        return [getattr(self, name) for name in names]

    def set_state(self: object, values: Sequence[object]) -> None:
        for name, value in zip(names, values, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": state, "__setstate__": set_state}
