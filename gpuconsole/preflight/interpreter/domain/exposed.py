"""What scripts may name of the objects that models of libraries make: tables, filled by decorators.

    @exposed.method("read", "readlines")
    def do_read(self, run: Run, *args: Value) -> Value: ...

A name that no table holds reaches nothing: no name in a script reaches the interpreter's insides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Literal, TypeVar

from gpuconsole.core.util.lazy_dataclass import dataclass

Call = Callable[..., object]
Kind = Literal["methods", "properties", "setters", "of_class", "static"]
_Function = TypeVar("_Function", bound=Call)
_MARK, _TABLE = "exposed_as", "exposed_table"


@dataclass(frozen=True, slots=True)
class Table:
    """What a class exposes, by the names that scripts use; subclasses expose it too."""

    methods: dict[str, Call] = field(default_factory=dict)
    """`call(self, run, ...)`."""
    properties: dict[str, Call] = field(default_factory=dict)
    """`call(self, run)`."""
    setters: dict[str, Call] = field(default_factory=dict)
    """`call(self, value)`: called with what the script sets; it is stored as an attribute too."""
    of_class: dict[str, Call] = field(default_factory=dict)
    """`call(run, cls, ...)`, of a script's class that derives from it."""
    static: dict[str, Call] = field(default_factory=dict)
    """`call(run, ...)`."""


_added: dict[type, list[tuple[Kind, str, Call]]] = {}


def method(*names: str) -> Callable[[_Function], _Function]:
    """Expose a function as methods of these names."""
    return _marked("methods", names)


def prop(*names: str) -> Callable[[_Function], _Function]:
    """Expose a function as properties of these names."""
    return _marked("properties", names)


def setter(*names: str) -> Callable[[_Function], _Function]:
    """Register a function that is called with what a script sets."""
    return _marked("setters", names)


def of_class(*names: str) -> Callable[[_Function], _Function]:
    """Expose a function as class methods of the script's classes that derive from its class."""
    return _marked("of_class", names)


def static(*names: str) -> Callable[[_Function], _Function]:
    """Expose a function as static methods."""
    return _marked("static", names)


def add(cls: type, kind: Kind, name: str, call: Call) -> None:
    """Expose what is made from a table rather than written; before anything of `cls` is used."""
    _added.setdefault(cls, []).append((kind, name, call))


def of(cls: type) -> Table:
    """Return all that a class exposes, its own before that of its bases; made once for each."""
    table: Table | None = cls.__dict__.get(_TABLE)
    return _made(cls) if table is None else table


def has(cls: type, name: str) -> bool:
    """Whether a class, without its bases, exposes a name."""
    marked = (getattr(value, "__func__", value) for value in vars(cls).values())
    if any(
        name == exposed_name
        for function in marked
        for _, exposed_name in getattr(function, _MARK, ())
    ):
        return True
    return any(name == exposed_name for _, exposed_name, _call in _added.get(cls, ()))


def _made(cls: type) -> Table:
    table = Table()
    for base in reversed(cls.__mro__):
        for value in vars(base).values():
            call = getattr(value, "__func__", value)
            for kind, name in getattr(call, _MARK, ()):
                getattr(table, kind)[name] = call
        for kind, name, call in _added.get(base, ()):
            getattr(table, kind)[name] = call
    # Kept by the class itself, so that it goes with it: some are made again for each run.
    setattr(cls, _TABLE, table)
    return table


def _marked(kind: Kind, names: tuple[str, ...]) -> Callable[[_Function], _Function]:
    def mark(function: _Function) -> _Function:
        before = getattr(function, _MARK, ())
        setattr(function, _MARK, (*before, *((kind, name) for name in names)))
        return function

    return mark
