"""Shapes of a program's variables where the program leaves them open.

A program is written with -1 for what is known only when it is fed. What an operator makes of open
shapes is asked of Paddle again with the shapes that come: the same operator is built once more in a
scratch program, and must have the same attributes there. Gradients are as large as what they are
the gradients of.
"""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING

from ..inference import bounds, infer
from ..inference.infer import Spec
from ..state import STATE, Unsupported
from ..values import known as known_values

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from typing import TypeAlias

    from numpy import ndarray

    from ..paddle_types import Operation, OwnProgram, OwnTensor, OwnValue
    from ..types import Shape

    Specs: TypeAlias = Sequence[Spec | None]
    """What an operand or result is: a tuple for a list of tensors, else a list of one."""
    Array: TypeAlias = ndarray | list[ndarray] | None
    """What is known of an operand: an array, or one for each of a list of tensors."""
    Given: TypeAlias = list[OwnValue | None] | OwnValue | None
    """A value of the scratch program, or some for a list."""

HEADER = "paddle/phi/api/include/api.h"
"""The file of Paddle's that names the arguments of its operators, in their order."""
NO_ATTRIBUTES = frozenset({"op_callstack", "stop_gradient", "struct_name", "op_role", "persistable",
                           "chunk_id", "is_no_need_buffer", "comp_op_name", "scheduling_priority",
                           "execution_stream", "event_to_record", "events_to_wait"})  # fmt: skip
"""What Paddle notes at operators beside their attributes."""
BUILT: set[str] = set()
"""Operators that were built once more with the attributes that they had."""
FOUND: dict[Hashable, Sequence[Specs]] = {}


def results(
    op: Operation,
    inputs: Sequence[Specs],
    rows: Sequence[Specs],
    arrays: Sequence[Array],
) -> Sequence[Specs]:
    """Return the specs of an operator's results, a list for each: None for what it does not make.

    `inputs` are the specs of its operands, a list for each; `rows` its results as the program has
    them; `arrays` an array for each operand with known data, else None.
    """
    if not _open(rows):
        return rows
    names = _names(op)
    if names is not None:
        specs_made = [
            _as_gradient(name, row, names[0], inputs) for name, row in zip(names[1], rows)
        ]
        whole = [specs for specs in specs_made if specs is not None]
        if len(whole) == len(specs_made):
            return whole
    key = (op.name(), str(_attributes(op)), str(arrays),
           tuple(tuple((tuple(spec.shape), str(spec.dtype)) if spec else None for spec in row)
                 for row in inputs))  # fmt: skip
    if key not in FOUND:
        FOUND[key] = _asked(op, inputs, rows, arrays)
    return FOUND[key]


def _open(rows: Sequence[Specs]) -> bool:
    return any(extent < 0 for row in rows for spec in row if spec for extent in spec.shape)


def _names(op: Operation) -> tuple[Sequence[str], Sequence[str]] | None:
    try:
        return op.get_input_names(), op.get_output_names()
    except Exception:
        return None


def _as_gradient(
    name: str, row: Specs, names: Sequence[str], inputs: Sequence[Specs]
) -> Specs | None:
    """Return a result as large as the operand that it is the gradient of, None where it is none."""
    if not _open([row]):
        return row
    plain = name.removesuffix("_grad")
    if plain == name or plain not in names:
        return None
    source = inputs[names.index(plain)]
    if len(source) != len(row) or any(value is None for value in source):
        return None
    if any(spec is not None and spec.rows for spec in row):
        return None
    return [
        None if spec is None or value is None else Spec(value.shape, spec.dtype)
        for spec, value in zip(row, source)
    ]


def _attributes(op: Operation) -> dict[str, object]:
    return {name: attribute for name, attribute in op.attrs().items() if name not in NO_ATTRIBUTES}


def _asked(
    op: Operation,
    inputs: Sequence[Specs],
    rows: Sequence[Specs],
    arrays: Sequence[Array],
) -> list[Specs]:
    """Return the results of an operator that is built once more, with the shapes that come."""
    shapes: list[list[Shape] | None] | None = None
    for single in (False, True):
        # It is held while its operator is looked at.
        program, built = _again(op, inputs, arrays, single)
        if built is not None:
            shapes = [_shapes(value) for value in built.results()]
        del program, built
        if shapes is not None and not any(
            extent < 0 for row in shapes for shape in row or () for extent in shape
        ):
            break
    if shapes is None:
        name = op.name().split(".", 1)[-1]
        raise Unsupported(f"the shapes that {name} makes in a program")
    return [
        _closed(op, specs, built_shapes, inputs, place)
        for place, (specs, built_shapes) in enumerate(zip(rows, shapes))
    ]


def _again(
    op: Operation, inputs: Sequence[Specs], arrays: Sequence[Array], single: bool = False
) -> tuple[OwnProgram, Operation | None]:
    """Return a scratch program and the operator in it, None where it cannot be built. `single`:
    whether a list of one number is given as that number."""
    with STATE.building():
        program = STATE.paddle.static.Program()
        with STATE.paddle.static.program_guard(program):
            values = [_operand(row, item, single) for row, item in zip(inputs, arrays)]
            return program, _built(op, values)


def _operand(row: Specs, array: Array, single: bool = False) -> Given:
    """Return the value of an operand in the scratch program."""
    spec = row[0] if row else None
    if spec is not None and array is not None and not isinstance(array, list) and array.size:
        make, place = STATE.makers, STATE.core.CPUPlace()
        listed = array.ndim == 1 and array.dtype.kind == "i"
        if listed and not (single and array.size == 1):
            return make["full_int_array"](array.tolist(), spec.dtype, place)
        if array.size == 1:
            return make["full"](list(array.shape), array.reshape(-1)[0].item(), spec.dtype, place)
    members = [None if spec is None else _data(spec) for spec in row]
    return members if isinstance(row, tuple) else members[0]


def computed(op: Operation, inputs: Sequence[Specs], arrays: Sequence[Array]) -> ndarray | None:
    """Return what an operator computes of known arrays, None where it is unknown."""
    name = op.name().split(".", 1)[-1]
    if name not in BUILT:
        _again(op, inputs, [None] * len(inputs))
    if name not in BUILT:
        return None
    guard = STATE.paddle.base.dygraph.guard
    with STATE.scratch(), guard(STATE.core.CPUPlace()):
        for plain in (True, False):
            values = [_real(array, plain and bool(place)) for place, array in enumerate(arrays)]
            given = [STATE.core.CPUPlace() if isinstance(argument, STATE.core.Place) else argument
                     for argument in _arguments(op, values)]  # fmt: skip
            try:
                return STATE.operators[name](*given).numpy().copy()
            except Exception:
                continue
    return None


def _real(array: Array, plain: bool) -> OwnTensor | Sequence[OwnTensor | None] | list[int] | None:
    """Return Paddle's own tensor of an array, or of each of a list; where it is to be `plain`, a
    list of whole numbers as that."""
    if array is None or isinstance(array, list):
        return array and [known_values.of_array(item) for item in array]
    if plain and array.ndim == 1 and array.dtype.kind == "i":
        numbers: list[int] = array.tolist()
        return numbers
    return known_values.of_array(array)


def _arguments(op: Operation, values: Sequence[object]) -> list[object]:
    """Return attributes with the operands among them, at their places."""
    attributes, own = _attributes(op), iter(values)
    arguments = [attributes.get(name) for name in op.get_attr_names()]
    for place in _places(op):
        arguments.insert(place, next(own))
    return arguments


def _data(spec: Spec) -> OwnValue:
    shape = [int(extent) for extent in spec.shape]
    value = STATE.makers["data"](f"v{id(spec)}", shape, spec.dtype, STATE.core.Place())
    value.stop_gradient = False
    return value


def _built(op: Operation, values: Sequence[Given]) -> Operation | None:
    """Return the operator, built once more; None where it comes out as another."""
    name = op.name().split(".", 1)[-1]
    function = STATE.makers.get(name)
    if function is None:
        return None
    try:
        out = function(*_arguments(op, values))
    except Exception:
        return None
    maker = _maker(out, op.name())
    if maker is None or _attributes(maker) != _attributes(op) or not _reads(maker, values):
        return None
    BUILT.add(name)
    return maker


def _reads(op: Operation, values: Sequence[Given]) -> bool:
    """Tell whether an operator reads just these values, in this order."""
    sources = op.operands_source()
    return len(sources) == len(values) and all(
        isinstance(value, list) or (value.hash() == own.hash() if value is not None
                                  else not own.initialized())
        for value, own in zip(values, sources)
    )  # fmt: skip


def _places(op: Operation) -> list[int] | range:
    """Return where an operator's operands stand among its arguments: in front, unless Paddle's own
    header says otherwise."""
    operands, attributes = op.get_input_names(), op.get_attr_names()
    named = signatures().get(op.name().split(".", 1)[-1], [])
    if set(named) >= {*operands, *attributes}:
        named = [name for name in named if name in operands or name in attributes]
        positions = [named.index(operand) for operand in operands]
        if positions == sorted(positions):
            return positions
    return range(len(operands))


@functools.cache
def signatures() -> dict[str, list[str]]:
    """Return the names of the arguments of Paddle's operators; nothing where its header is not
    there."""
    path = os.path.join(STATE.paddle.sysconfig.get_include(), HEADER)
    try:
        with open(path, encoding="utf-8") as text:
            return parsed(text.read())
    except OSError:
        return {}


def parsed(text: str) -> dict[str, list[str]]:
    """Return the names of the arguments of the functions that a header declares."""
    arguments_of: dict[str, list[str]] = {}
    for line in text.splitlines():
        match = re.match(r"PADDLE_API .*?(\w+)\((.*)\);", line)
        if match is None or match[1] in arguments_of:
            continue
        plain = re.sub(r"<[^<>]*>|\{[^{}]*\}", "", re.sub(r"<[^<>]*>", "", match[2]))
        arguments_of[match[1]] = [item.split("=")[0].split()[-1].strip("&*")
                          for item in plain.split(",") if item.strip()]  # fmt: skip
    return arguments_of


def _maker(out: OwnValue, name: str) -> Operation | None:
    """Return the operator of a name that made a result."""
    for value in infer._leaves(out):
        define = value.get_defining_op()
        if define is not None and define.name() == "builtin.split":
            define = define.operands_source()[0].get_defining_op()
        if define is not None and define.name() == name:
            return define
    return None


def _shapes(value: OwnValue) -> list[Shape] | None:
    if not value.initialized():
        return None
    kind = value.type()
    parts = kind.as_vec_type() if hasattr(kind, "as_vec_type") else None
    if parts is not None:
        return [tuple(member.shape) for member in parts.as_list()]
    return [tuple(value.shape)]


def _closed(
    op: Operation,
    specs_made: Specs,
    shapes: Sequence[Shape] | None,
    inputs: Sequence[Specs],
    place: int,
) -> Specs:
    """Return the specs of one result; what only data could tell is taken at its largest."""
    name = op.name().split(".", 1)[-1]
    closed: list[Spec | None] = []
    for which, tensor in enumerate(specs_made):
        if tensor is None:
            closed.append(None)
            continue
        if shapes is None or which >= len(shapes):
            raise Unsupported(f"the shapes that {name} makes in a program")
        shape = shapes[which]
        if any(extent < 0 for extent in shape):
            shape = _largest(op, name, shape, inputs, place, (which, len(specs_made)))
        closed.append(Spec(shape, tensor.dtype, tensor.rows))
    return closed


def _largest(
    op: Operation,
    name: str,
    shape: Shape,
    inputs: Sequence[Specs],
    place: int,
    part: tuple[int, int],
) -> Shape:
    specs = [row[0] if row else None for row in inputs]
    first = [None if spec is None else spec.shape for spec in specs]
    most = bounds.largest(name, place, first, op.attrs(), part)
    if most is None:
        raise Unsupported(f"the size of what {name} makes is known only from data")
    STATE.choice(f"{name}: as long as it can be")
    return tuple(extent if extent >= 0 else most for extent in shape)
