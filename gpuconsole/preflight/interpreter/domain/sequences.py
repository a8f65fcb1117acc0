"""Sequences beside plain lists: classes that derive from `list`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import MISSING, Function, Native, Value

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter
    from gpuconsole.preflight.interpreter.machine.run_state.run import Run


class Listed(Native, list[Value]):
    """An instance of a class that derives from `list`: a list that has a class and attributes."""

    label = "list"

    def init(self, run: Run, items: Value = (), /, *_: Value, **__: Value) -> None:
        """Take items like `list`."""
        self[:] = list(run.interp.iterate(items))

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    @property
    def length(self) -> int:
        """Number of items."""
        return len(self)

    def iterate(self, interp: Interpreter) -> Iterator[Value]:
        """Give the items, by the class's own `__iter__` where it has one."""
        method = self.own("__iter__")
        if method is not None:
            yield from interp.iterate(interp.call(interp.bind(method, self), [], {}))
        else:
            yield from list(self)

    def own(self, name: str) -> Function | None:
        """Return what the script's class has of a name, where that is a function."""
        method = self.cls.find(name) if self.cls is not None else MISSING
        return method if isinstance(method, Function) else None

    def clone(self, run: Run) -> Listed:
        """Copy, with all that is inside."""
        copy = type(self)()
        copy.cls = self.cls
        copied = run.interp.copied
        copy.extend(copied(item) for item in self)
        copy.attrs = {name: copied(value) for name, value in self.attrs.items()}
        return copy

    @exposed.prop("data")
    def get_data(self, run: Run) -> Value:
        """Give the list that a `UserList` is made of."""
        return self

    @exposed.method("__getitem__")
    def do___getitem__(self, run: Run, key: Value) -> Value:
        """Give an item, or a part."""
        return run.interp.subscript(list(self), key)

    @exposed.method("__setitem__")
    def do___setitem__(self, run: Run, key: Value, value: Value) -> None:
        """Set an item."""
        if isinstance(key, (int, slice)):
            self[key] = value

    @exposed.method("__len__")
    def do___len__(self, run: Run) -> Value:
        """Give the number of items."""
        return len(self)

    @exposed.method("__iter__")
    def do___iter__(self, run: Run) -> Value:
        """Give the items."""
        return list(self)
