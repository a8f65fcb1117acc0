"""Mappings beside plain dictionaries: classes that derive from `dict`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed, keys
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Function,
    Native,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run


class Mapping(Native):
    """An instance of a class that derives from `dict`."""

    label = "dict"

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[Value, Value] = {}

    def init(self, run: Run, items: Value = None, /, *_: Value, **more: Value) -> None:
        """Take items like `dict`."""
        self.do_update(run, items, **more)

    def wrap(self, run: Run, value: Value) -> Value:
        """Return a value as this mapping stores it."""
        return value

    @property
    def length(self) -> int:
        """Number of entries."""
        return len(self.entries)

    @exposed.setter("__dict__")
    def set___dict__(self, value: Value) -> None:
        """Let attributes and entries be one, as `self.__dict__ = self` does."""
        if value is self:
            self.attrs = self.entries
        elif isinstance(value, dict):
            self.attrs = value

    def item(self, interp: Interpreter, key: Value) -> Value:
        """Give an entry."""
        if isinstance(key, Unknown):
            return key
        if key in self.entries:
            return self.entries[key]
        missing = self.cls.find("__missing__") if self.cls is not None else MISSING
        if isinstance(missing, Function):
            return interp.call(interp.bind(missing, self), [key], {})
        return interp.lacking(f"there is no key {key!r}"[:200], "KeyError")

    def store(self, interp: Interpreter, key: Value, value: Value) -> None:
        """Set an entry."""
        keys.put(self.entries, key, self.wrap(interp.run, value))

    def contains(self, key: Value) -> bool:
        """Whether there is an entry."""
        return key in self.entries

    def count(self, interp: Interpreter) -> int:
        """Number of entries."""
        return len(self.entries)

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the keys."""
        yield from list(self.entries)

    @exposed.method("get", "__getitem__")
    def do_get(self, run: Run, key: Value, default: Value = None) -> Value:
        """Give an entry or a default."""
        return key if isinstance(key, Unknown) else self.entries.get(key, default)

    @exposed.method("keys")
    def do_keys(self, run: Run) -> Value:
        """Give the keys."""
        return list(self.entries)

    @exposed.method("values")
    def do_values(self, run: Run) -> Value:
        """Give the values."""
        return list(self.entries.values())

    @exposed.method("items")
    def do_items(self, run: Run) -> Value:
        """Give the pairs."""
        return list(self.entries.items())

    @exposed.method("update", "__init__")
    def do_update(self, run: Run, items: Value = None, /, **more: Value) -> None:
        """Set many."""
        if isinstance(items, Unknown):
            run.note_unknown(items)
        entries = mapping_of(items)
        if entries is None and isinstance(items, (list, tuple)):
            entries = dict(items)
        for key, value in {**(entries or {}), **more}.items():
            self.entries[key] = self.wrap(run, value)

    @exposed.method("pop")
    def do_pop(self, run: Run, key: Value, *default: Value) -> Value:
        """Take an entry out."""
        if key in self.entries:
            return self.entries.pop(key)
        return default[0] if default else run.interp.lacking(f"there is no key {key!r}"[:200],
                                                            "KeyError")  # fmt: skip

    @exposed.method("setdefault")
    def do_setdefault(self, run: Run, key: Value, default: Value = None) -> Value:
        """Give an entry, set before where it is not there."""
        return self.entries.setdefault(key, self.wrap(run, default))

    @exposed.method("copy")
    def do_copy(self, run: Run) -> Value:
        """Copy, one level deep."""
        return self.clone(run, deep=False)

    @exposed.method("clear")
    def do_clear(self, run: Run) -> None:
        """Take all entries out."""
        self.entries.clear()

    def clone(self, run: Run, deep: bool = True) -> Mapping:
        """Copy, with all that is inside when `deep`."""
        copy = type(self)()
        copy.cls = self.cls
        if self.attrs is self.entries:
            copy.attrs = copy.entries
        copied = run.interp.copied
        for key, value in self.entries.items():
            copy.entries[key] = copied(value) if deep else value
        if copy.attrs is not copy.entries:
            copy.attrs.update(self.attrs)
        return copy

    @exposed.method("__setitem__")
    def do___setitem__(self, run: Run, key: Value, value: Value) -> None:
        """Set an entry."""
        self.store(run.interp, key, value)

    @exposed.method("__contains__")
    def do___contains__(self, run: Run, key: Value) -> Value:
        """Whether there is an entry."""
        return self.contains(key)


class SimpleNamespace(Native):
    """`types.SimpleNamespace`."""

    label = "namespace"

    def init(self, run: Run, /, **values: Value) -> None:
        """Set the attributes."""
        self.attrs.update(values)


def merge(run: Run, target: Mapping, values: dict[Value, Value]) -> None:
    """Set entries, mappings within one by one."""
    for key, value in list(values.items()):
        run.interp.tick()
        inner = target.entries.get(key)
        mapping = mapping_of(value)
        if isinstance(inner, Mapping) and mapping is not None:
            merge(run, inner, mapping)
        else:
            target.entries[key] = target.wrap(run, value)


def mapping_of(value: Value) -> dict[Value, Value] | None:
    """Return the entries of anything that `**` takes, or None."""
    if isinstance(value, dict):
        return value
    if isinstance(value, Mapping):
        return value.entries
    return None
