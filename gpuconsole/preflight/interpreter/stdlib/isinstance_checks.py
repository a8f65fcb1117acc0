"""`isinstance`: what is a value of which type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import mappings, python_values
from gpuconsole.preflight.interpreter.domain.values import (
    Native,
    NativeClass,
    NativeFunction,
    SomeBytes,
    SomeInt,
    Unknown,
    UserClass,
    Value,
)
from gpuconsole.preflight.interpreter.machine.generators import Walk

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (float,), "str": (str,), "list": (list,), "tuple": (tuple,),
    "dict": (dict,), "bool": (bool,), "set": (set,), "bytes": (bytes, SomeBytes),
    "NoneType": (type(None),),
}  # fmt: skip


_ABSTRACT: dict[str, tuple[type, ...]] = {
    "Iterable": (list, tuple, dict, set, frozenset, str, range),
    "Sequence": (list, tuple, str, range), "Mapping": (dict, mappings.Mapping),
    "Sized": (list, tuple, dict, set, frozenset, str, range), "Number": (int, float, complex),
    "Complex": (int, float, complex), "Real": (int, float), "Rational": (int,), "Integral": (int,),
    "MutableMapping": (dict, mappings.Mapping), "Set": (set, frozenset),
    "Iterator": (python_values.Lazy, python_values.Items, Walk),
    "Generator": (python_values.Items, Walk),
}  # fmt: skip


NUMBERS = ("Number", "Complex", "Real", "Rational", "Integral")
"""The kinds of `numbers`, each of which whole numbers are."""


def _is_native(interp: Interpreter, value: Value, kind: NativeClass) -> bool:
    if kind.type is not Native:
        return isinstance(value, kind.type) or kind.type in getattr(value, "also", ())
    if kind.name in ("object", "Any"):
        return True
    if kind.name == "Callable":
        return interp.truth(interp.call(interp.builtins["callable"], [value], {})) is True
    if kind.name == "Iterable" and hasattr(value, "iterate"):
        return True
    return isinstance(value, _ABSTRACT.get(kind.name, ()))


def is_instance(interp: Interpreter, value: Value, kinds: Value) -> Value:
    """Stand for `isinstance`; unknown where the value or a type is."""
    if isinstance(value, SomeInt) and getattr(kinds, "name", "") in ("int", *NUMBERS):
        return True
    if isinstance(value, Unknown) and not isinstance(value, SomeBytes):
        return value
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if isinstance(kind, NativeFunction) and kind.name in _TYPES:
            if isinstance(value, _TYPES[kind.name]):
                return True
            if kind.name == "dict" and isinstance(value, mappings.Mapping):
                return True
        elif isinstance(kind, NativeClass):
            if _is_native(interp, value, kind):
                return True
        elif isinstance(kind, UserClass):
            cls = getattr(value, "cls", None)
            if cls is not None and kind in cls.mro():
                return True
        elif isinstance(kind, Unknown):
            return kind
    return False
