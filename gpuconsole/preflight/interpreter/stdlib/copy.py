"""`copy.copy` and `copy.deepcopy`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain.values import Native, Value
from gpuconsole.preflight.interpreter.paddle.io.saving import SavedState
from gpuconsole.preflight.interpreter.stdlib.collections_itertools import Defaults, Deque
from gpuconsole.preflight.interpreter.stdlib.dataclasses_enum import Member

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

MAX_DEPTH = 40
_STEPS = 4
"""Steps that copying one value takes about as long as."""


def copied(interp: Interpreter, value: Value, *, deep: bool = True, depth: int = 0) -> Value:
    """Copy a value; layers get parameters of their own, as in Paddle, when `deep`."""
    interp.tick(_STEPS)
    if depth > MAX_DEPTH:
        return interp.run.unknown("a copy of something nested too deep")

    def inner(value: Value) -> Value:
        return copied(interp, value, depth=depth + 1) if deep else value

    if isinstance(value, (list, tuple, set)) and type(value) in (list, tuple, set, Deque):
        result = type(value)(inner(item) for item in value)
        if isinstance(result, Deque) and isinstance(value, Deque):
            result.most = value.most
        return result
    if isinstance(value, dict):
        entries = {key: inner(item) for key, item in value.items()}
        if not isinstance(value, Defaults):
            return entries
        counted = Defaults(entries)
        counted.make = value.make
        return counted
    if isinstance(value, SavedState):
        states = tuple(inner(tensor) for tensor in value.tensors)
        return SavedState(value.file, value.line, value.reason, None, states)
    if not isinstance(value, Native) or isinstance(value, Member):
        return value
    clone = getattr(value, "clone", None)
    if clone is not None and deep:
        return clone(interp.run)
    if clone is not None or type(value).__init__ is not Native.__init__:
        return value if deep else _shallow(value)
    made_object = _shallow(value)
    made_object.attrs = {name: inner(attribute) for name, attribute in value.attrs.items()}
    return made_object


def _shallow(value: Native) -> Native:
    copy = type(value)()
    copy.__dict__.update(value.__dict__)
    copy.attrs = dict(value.attrs)
    if isinstance(copy, list) and isinstance(value, list):
        copy.extend(value)
    return copy
