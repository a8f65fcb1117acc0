"""Operators and subscripts on tensors, arrays and other modelled objects."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpuconsole.preflight.interpreter.domain import (
    equality,
    int_bounds,
    join,
    keys,
    lengths,
    python_values,
    string_sets,
)
from gpuconsole.preflight.interpreter.domain.sequences import Listed
from gpuconsole.preflight.interpreter.domain.string_sets import DrawnText
from gpuconsole.preflight.interpreter.domain.values import (
    MISSING,
    Function,
    More,
    Native,
    NativeClass,
    SomeInt,
    Unknown,
    UserClass,
    Value,
    first_unknown,
    plain,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy import array as numpy_array
from gpuconsole.preflight.interpreter.numpy import array_methods, contents
from gpuconsole.preflight.interpreter.numpy.array import Array
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor import operators as tensor_operators
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import FLOATS, Tensor
from gpuconsole.preflight.interpreter.stdlib import dataclasses_enum
from gpuconsole.preflight.interpreter.stdlib.no_effect import Silent

if TYPE_CHECKING:
    from gpuconsole.preflight.interpreter.machine.interpreter import Interpreter

_SPECIAL = {
    ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.Div: "__truediv__",
    ast.Mod: "__mod__", ast.MatMult: "__matmul__", ast.FloorDiv: "__floordiv__",
    ast.Pow: "__pow__", ast.BitOr: "__or__", ast.BitAnd: "__and__", ast.LShift: "__lshift__",
    ast.RShift: "__rshift__",
}  # fmt: skip
_COMPARED = {
    ast.Eq: "__eq__", ast.NotEq: "__ne__", ast.Lt: "__lt__", ast.LtE: "__le__",
    ast.Gt: "__gt__", ast.GtE: "__ge__",
}  # fmt: skip


def binary(interp: Interpreter, kind: type[ast.operator], left: Value, right: Value) -> Value:
    """Compute `left op right` where one side is a modelled object."""
    run = interp.run
    refused = interp.too_much(left, right)
    if refused is not None:
        return refused
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return tensor_operators.binary(run, kind, left, right)
    if isinstance(left, Array) or isinstance(right, Array):
        return array_binary(run, kind, left, right)
    result = by_own_method(interp, kind, left, right)
    if result is not MISSING:
        return result
    return run.unknown("this operator is not known for these values")


def by_own_method(
    interp: Interpreter, kind: type[ast.operator], left: Value, right: Value
) -> Value:
    """Compute `left op right` as the class of a side says; `MISSING` where none says how."""
    for operand, other, first in ((left, right, True), (right, left, False)):
        name = _SPECIAL.get(kind, "")
        name = name if first else name.replace("__", "__r", 1)
        method = (
            operand.cls.find(name)
            if isinstance(operand, Native) and operand.cls is not None
            else None
        )
        if isinstance(method, Function):
            return interp.call(interp.bind(method, operand), [other], {})
        operate = getattr(operand, "operate", None) if isinstance(operand, Native) else None
        if operate is not None:
            return operate(interp, kind, other, first=first)
    return MISSING


def array_binary(run: Run, kind: type[ast.operator], left: Value, right: Value) -> Value:
    """Compute with arrays: only the shape and type are known."""
    if kind is ast.MatMult:
        return array_methods.times(run, numpy_array.make(run, left), right)
    result = numpy_array.binary(run, left, right, divide=kind is ast.Div)
    if isinstance(result, Array):
        result.data = contents.paired(contents.OPERATORS.get(kind), left, right, result.dtype)
        if result.dtype not in FLOATS:
            result.high = int_bounds.combined(kind, left, right)
    return result


def unary(interp: Interpreter, kind: type[ast.unaryop], value: Value) -> Value:
    """Compute `-x` or `~x`."""
    run = interp.run
    if isinstance(value, Tensor):
        if kind is ast.UAdd:
            return value
        if kind is ast.Invert:
            return run.tensor(value.shape, value.dtype)
        return ops.unary(run, "scale", value)
    if isinstance(value, Array):
        operation = contents.UNARY.get(kind)
        return Array(value.shape, value.dtype, contents.mapped(operation, value, value.dtype))
    return run.unknown("this operator is not known for this value")


def _number_of(value: Value) -> int | float | None:
    """Return the number that a value is, also as an array of one; None for anything else."""
    if isinstance(value, Array) and not value.shape:
        value = value.data
    return value if isinstance(value, (int, float)) else None


def compare(interp: Interpreter, kind: type[ast.cmpop], left: Value, right: Value) -> Value:
    """Compare modelled objects: elementwise on tensors and arrays."""
    run = interp.run
    refused = interp.too_much(left, right)
    if refused is not None:
        return refused
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return tensor_operators.compare(run, left, right)
    first, second = (_number_of(side) for side in (left, right))
    if first is not None and second is not None:
        return python_values.compare(interp, kind, first, second)
    if isinstance(left, Array) or isinstance(right, Array):
        result = numpy_array.binary(run, left, right)
        if isinstance(result, Unknown) or not result.shape:
            return run.unknown("a number from data")
        return Array(result.shape, "bool")
    for operand, other in ((left, right), (right, left)):
        cls = getattr(operand, "cls", None)
        method = cls.find(_COMPARED.get(kind, "")) if cls is not None and operand is left else None
        if isinstance(method, Function):
            return interp.truth(interp.call(interp.bind(method, operand), [other], {}))
        equals = getattr(operand, "equals", None)
        if equals is not None and kind in (ast.Eq, ast.NotEq):
            return equals(other) is (kind is ast.Eq)
    if kind in (ast.Eq, ast.NotEq) and dataclasses_enum.is_dataclass(left):
        return dataclasses_enum.equal(interp, left, right) is (kind is ast.Eq)
    if kind is ast.Eq:
        return left is right
    if kind is ast.NotEq:
        return left is not right
    return run.unknown("a comparison that is unknown")


def subscript(interp: Interpreter, target: Value, key: Value) -> Value:
    """Return `target[key]` for anything."""
    run = interp.run
    refused = interp.too_much(key)
    if refused is not None:
        return refused
    if isinstance(target, Listed) and target.own("__getitem__") is not None:
        return _object_item(interp, target, key)
    if isinstance(target, (list, tuple, str, range, bytes)):
        return _sequence_item(run, target, plain_key(run, key))
    if isinstance(target, dict):
        key = plain_key(run, key)
        if isinstance(key, DrawnText):
            value = string_sets.looked_up(run, target, key)
            if value is not None:
                return value
        more = lengths.more_in(target)
        unknown = first_unknown(key)
        if unknown is not None or (more is not None and key not in target):
            return _of_any(run, target, unknown or more)
        if key in target or getattr(target, "make", None) is not None:
            return target[key]
        return interp.lacking(f"there is no key {key!r}"[:200], "KeyError")
    if isinstance(target, Array):
        return numpy_array.picked(run, target, key)
    if isinstance(target, Tensor):
        return tensor_operators.item(run, target, key)
    if isinstance(target, Native):
        return _object_item(interp, target, key)
    if isinstance(target, UserClass):
        # A member of an enumeration by its name; otherwise a type's parameters.
        members = target.find("__members__")
        return members.get(key, target) if isinstance(members, dict) else target
    if isinstance(target, NativeClass):
        return target
    return run.unknown("this cannot be indexed by the analysis")


def _object_item(interp: Interpreter, target: Native, key: Value) -> Value:
    method = target.cls.find("__getitem__") if target.cls is not None else MISSING
    if isinstance(method, Function):
        return interp.call(interp.bind(method, target), [key], {})
    item = getattr(target, "item", None)
    if item is not None:
        return item(interp, key)
    return interp.run.unknown("this cannot be indexed by the analysis")


def plain_key(run: Run, key: Value) -> Value:
    """Return a number that NumPy or Paddle holds as the number that it is as a key."""
    if isinstance(key, (Array, Tensor)) and key.shape in ((), (1,)):
        data = key.data if isinstance(key, Array) else None
        if isinstance(data, (int, float)):
            return data
        return SomeInt(run.file, run.line, "a number out of data")
    if isinstance(key, Silent):
        return run.unknown("what a module of no effect on memory returns")
    return key


def _of_any(run: Run, target: dict[Value, Value], why: Unknown | None) -> Value:
    """Return the value of a key that is not known: what all values are, or a number as they."""
    values = [value for value in list(target.values())[:64] if not isinstance(value, More)]
    same = all(equality.same(values[0], value) for value in values[1:])
    if values and same and not isinstance(values[0], (int, float)):
        return values[0]
    why = why or run.unknown("a value that is looked up by data")
    if values and isinstance(values[0], (list, tuple, dict, Array)):
        entries = [value for value in target.values() if not isinstance(value, More)]
        return join.item(run, entries, why, lengths.more_in(target) is None)
    return lengths.looked_up(run, target, why)


def _sequence_item(run: Run, target: Value, key: Value) -> Value:
    more = lengths.more_in(target)
    if more is not None and not isinstance(key, slice):
        return target[0] if len(target) > 1 else lengths.likeness(more)
    if isinstance(key, Unknown):
        if isinstance(target, list):
            return run.interp.picks.item(run, target, key)
        return join.item(run, list(target), key)
    if isinstance(key, slice) and first_unknown(key.start, key.stop, key.step) is not None:
        return first_unknown(key.start, key.stop, key.step)
    try:
        item = target[key]
        if isinstance(key, slice):
            python_values.going_over(run.interp, item)
        return item
    except IndexError:
        return run.interp.lacking(f"index {key} of a sequence of {len(target)}", "IndexError")


def _store_in_dict(
    interp: Interpreter, target: dict[Value, Value], key: Value, value: Value
) -> None:
    if isinstance(key, DrawnText):
        if string_sets.stored(interp.run, target, key, value):
            return
        key = plain(key)
    if isinstance(key, tuple):
        target[key] = value
        return
    keys.put(target, key, value)
    if isinstance(key, Unknown):
        lengths.open_up(interp.run, target, key)


def store(interp: Interpreter, target: Value, key: Value, value: Value) -> None:
    """Run `target[key] = value`."""
    if interp.too_much(key) is not None:
        return
    if isinstance(target, dict):
        _store_in_dict(interp, target, plain_key(interp.run, key), value)
    elif isinstance(target, Listed) and (own := target.own("__setitem__")) is not None:
        interp.call(interp.bind(own, target), [key, value], {})
    elif isinstance(target, list):
        key = plain_key(interp.run, key)
        if isinstance(key, int) and -len(target) <= key < len(target):
            target[key] = value
        elif isinstance(key, slice) and first_unknown(key.start, key.stop, key.step) is None:
            target[key] = list(interp.iterate(value))
    elif isinstance(target, Tensor):
        interp.guard(tensor_operators.store, "subscript", (target, key, value))
    elif isinstance(target, Array):
        target.forget()
    elif isinstance(target, Unknown):
        interp.run.keep_somewhere(value)
    elif isinstance(target, Native):
        method = target.cls.find("__setitem__") if target.cls is not None else MISSING
        if isinstance(method, Function):
            interp.call(interp.bind(method, target), [key, value], {})
            return
        change = getattr(target, "store", None)
        if change is not None:
            change(interp, key, value)
