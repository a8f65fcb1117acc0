"""What an operator makes and what its gradient reads, from Paddle's own inference of shapes.

The same call is built once in a scratch program of Paddle's intermediate representation, where
only types flow; `core.call_vjp` then appends the gradient operators, and their operands tell what
is saved. Entries are kept by name, shapes, types and attributes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ..sizes import DIFFERENTIABLE, HALVES, word
from ..state import STATE, Unsupported
from . import bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from paddle.base.core import DataType

    from ..paddle_types import Operation, OwnProgram, OwnValue
    from ..types import Attributes, Form, Numbers, Shape, Stops

CONSTANTS = frozenset({"full_int_array", "full", "constant", "assign_value_", "full_with_tensor"})
"""Operators that stand for attributes where they are not what was called."""


class Spec:
    """Shape and type of a value."""

    __slots__ = ("dtype", "rows", "shape")

    def __init__(self, shape: Shape, dtype: DataType, rows: bool = False) -> None:
        self.shape = shape
        self.dtype = dtype
        self.rows = rows
        """Whether it holds only some rows of a table (a gradient of looked-up rows)."""


class Step:
    """One operator: its operands and results are numbers of values; None for what is no tensor."""

    __slots__ = ("attrs", "grads", "inputs", "name", "names", "op", "outputs", "specs", "unneeded")

    def __init__(
        self,
        name: str,
        inputs: Sequence[Numbers],
        outputs: Sequence[Numbers],
        specs: Sequence[Sequence[Spec | None]],
        op: Operation,
    ) -> None:
        self.name = name
        self.inputs = inputs
        """A list of operands, each a list of numbers (of one, but for lists of tensors)."""
        self.outputs = outputs
        self.specs = specs
        self.op = op
        self.names: tuple[Sequence[str], Sequence[str]] = ((), ())
        self.unneeded: Collection[int] = ()
        """Operands with memory that the operator does not read."""
        self.attrs: Attributes | None = None
        self.grads: dict[Stops, Gradient | None] = {}


class Entry:
    """An operator's call: steps, and how its result is put together of their outputs."""

    __slots__ = ("half", "operators", "program", "result", "share", "sizes", "specs", "steps",
                 "values")  # fmt: skip

    program: OwnProgram

    def __init__(self) -> None:
        self.operators = 0
        """How many operators a program has for it, those that hold attributes among them."""
        self.steps: list[Step] = []
        self.values: dict[int, list[int | None]] = {}
        """Number by hash of the program's value, a list of numbers for joined ones."""
        self.specs: list[Spec] = []
        self.result: Form = None
        self.sizes: list[Shape] | None = None
        self.share: Fraction | None = None
        self.half: DataType | None = None


class Gradient:
    """The gradient of one step: its operators, and which value is each input's gradient."""

    __slots__ = ("given", "results", "saved", "steps", "touched")

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.results: list[list[int | None]] = []
        """By operand and place: the number of its gradient, or None."""
        self.saved: list[int] = []
        """Numbers of the forward pass with memory that is read."""
        self.touched: list[int] = []
        """Those that are given, whether or not their memory is read."""
        self.given: dict[tuple[int, int], int] = {}
        """The number of the gradient of each output slot."""


def build(
    function: Callable[..., OwnValue],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    specs: Sequence[Spec],
    sizes: Sequence[Shape] | Fraction | None = None,
) -> Entry:
    """Build a call in a scratch program; `args` have places (see `Place`) for tensors.

    `sizes` are the shapes of the results where they hang on data, or which share of the largest
    they have.
    """
    paddle = STATE.paddle
    entry = Entry()
    if isinstance(sizes, Fraction):
        entry.share = sizes
    else:
        entry.sizes = list(sizes) if sizes is not None else None
    entry.half = _half(specs)
    if entry.half is not None:
        args = [_doubled(entry, item) for item in args]
        kwargs = {key: _doubled(entry, item) for key, item in kwargs.items()}
    with STATE.building():
        entry.program = paddle.static.Program()
        with paddle.static.program_guard(entry.program):
            values = [_data(entry, f"x{place}", spec) for place, spec in enumerate(specs)]
            for value, spec in zip(values, specs):
                _number(entry, value, spec)
            given = [_filled(item, values) for item in args]
            named = {key: _filled(item, values) for key, item in kwargs.items()}
            out = function(*given, **named)
        block = entry.program.global_block()
        returned = {value.hash() for value in _leaves(out)}
        for op in block.ops:
            if op.name() != "pd_op.data" and not op.name().startswith("builtin."):
                entry.operators += 1
            step = _step(entry, op, returned)
            if step is not None:
                entry.steps.append(step)
        entry.result = _structure(entry, out)
    return entry


class Place:
    """The place of a tensor among the arguments."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def _filled(argument: object, values: Sequence[OwnValue]) -> object:
    if isinstance(argument, Place):
        return values[argument.number]
    if isinstance(argument, dict):
        return {key: _filled(item, values) for key, item in argument.items()}
    if isinstance(argument, list):
        return [_filled(item, values) for item in argument]
    if type(argument) is tuple:
        return tuple(_filled(item, values) for item in argument)
    return argument


def _half(specs: Sequence[Spec]) -> DataType | None:
    """Return the half precision among types, for which CPU kernels are often not registered.

    In the scratch program float64 replaces it: every kernel has that, and nothing else uses it.
    """
    words = [word(spec.dtype) for spec in specs]
    if "float64" in words:
        return None
    return next((spec.dtype for spec, name in zip(specs, words) if name in HALVES), None)


def _doubled(entry: Entry, value: object) -> object:
    if isinstance(value, dict):
        return {key: _doubled(entry, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_doubled(entry, item) for item in value]
    if type(value) is tuple:
        return tuple(_doubled(entry, item) for item in value)
    return STATE.paddle.float64 if value == entry.half else value


def _data(entry: Entry, name: str, spec: Spec) -> OwnValue:
    core = STATE.core
    dtype = STATE.paddle.float64 if spec.dtype == entry.half else spec.dtype
    value = STATE.makers["data"](name, list(spec.shape), dtype, core.Place())
    value.stop_gradient = word(spec.dtype) not in DIFFERENTIABLE
    return value


def _number(entry: Entry, value: OwnValue, spec: Spec) -> int:
    number = len(entry.specs)
    entry.specs.append(spec)
    entry.values[value.hash()] = [number]
    return number


def _leaves(out: OwnValue) -> list[OwnValue]:
    if isinstance(out, (list, tuple)):
        return [leaf for item in out for leaf in _leaves(item)]
    return [out] if hasattr(out, "hash") and hasattr(out, "get_defining_op") else []


def _structure(entry: Entry, out: OwnValue | None) -> Form:
    if isinstance(out, (list, tuple)):
        return [_structure(entry, item) for item in out]
    if out is None or not hasattr(out, "get_defining_op"):
        return None
    numbers = entry.values.get(out.hash())
    return Place(numbers[0]) if numbers and numbers[0] is not None else None


def _step(entry: Entry, op: Operation, returned: set[int]) -> Step | None:
    """Read one operator of the program; None for what has no memory of its own."""
    name = op.name().split(".", 1)[-1]
    if name == "data":
        return None
    results = op.results()
    if name == "combine":
        numbers = [
            n for value in op.operands_source() for n in entry.values.get(value.hash(), [None])
        ]
        entry.values[results[0].hash()] = numbers
        return None
    if name == "split" and op.name().startswith("builtin"):
        numbers = entry.values.get(op.operands_source()[0].hash(), [])
        for value, number in zip(results, numbers):
            entry.values[value.hash()] = [number]
        return None
    if name in CONSTANTS and not any(result.hash() in returned for result in results):
        for result in results:
            entry.values[result.hash()] = [None]
        return None
    inputs = [
        entry.values.get(value.hash(), [None]) if value.initialized() else [None]
        for value in op.operands_source()
    ]
    outputs, specs = [], []
    for place, value in enumerate(results):
        numbers, row = _results(entry, value, op, inputs, place)
        outputs.append(numbers)
        specs.append(row)
    step = Step(name, inputs, outputs, specs, op)
    step.unneeded = [
        place
        for place, value in enumerate(op.operands_source())
        if value.initialized() and op.is_no_need_buffer(value)
    ]
    return step


def named(step: Step) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of a step's inputs and outputs."""
    if not step.names[0] and not step.names[1]:
        try:
            step.names = (step.op.get_input_names(), step.op.get_output_names())
        except Exception:
            step.names = ((), ())
    return step.names


def attributes(step: Step) -> Attributes:
    """Return a step's attributes."""
    if step.attrs is None:
        step.attrs = step.op.attrs()
    return step.attrs


def flag(step: Step, name: str) -> bool:
    """Return whether an attribute is set."""
    return bool(attributes(step).get(name, False))


def integer(step: Step, name: str, default: int) -> int:
    """Return an attribute that is a whole number; `default` where the step has none."""
    value = attributes(step).get(name, default)
    return value if isinstance(value, int) else default


def integers(step: Step, name: str) -> Sequence[int]:
    """Return an attribute that is a list of whole numbers; none where the step has none."""
    value = attributes(step).get(name, ())
    values = value if isinstance(value, (list, tuple)) else ()
    return [item for item in values if isinstance(item, int)]


def text(step: Step, name: str, default: str = "") -> str:
    """Return an attribute that is a text; `default` where the step has none."""
    value = attributes(step).get(name, default)
    return value if isinstance(value, str) else default


NORMS = frozenset({"batch_norm", "batch_norm_", "layer_norm", "instance_norm", "group_norm",
                   "rms_norm", "fused_rms_norm", "sync_batch_norm_"})  # fmt: skip


TWICE = {
    "batch_norm_grad": "batch_norm_double_grad", "instance_norm_grad": "instance_norm_double_grad",
}  # fmt: skip
"""Gradients of norms with a kernel of their own for their derivative. It leaves out what did not
arrive; others are given zeros for it."""


TRUTHS = frozenset({"all", "any", "equal_all"})
"""Operators that make booleans, where Paddle infers the type of what they are given."""


def _absent(op: Operation, place: int) -> bool:
    """Tell whether a kernel leaves a result out: without training nothing is dropped."""
    return place == 1 and op.name() == "pd_op.dropout" and bool(op.attrs().get("is_test"))


def _results(
    entry: Entry,
    value: OwnValue,
    op: Operation,
    inputs: Sequence[Numbers],
    place: int,
) -> tuple[list[int | None], list[Spec | None]]:
    if not value.initialized() or _absent(op, place):
        entry.values[value.hash()] = [None]
        return [None], [None]
    kind = value.type()
    parts = kind.as_vec_type() if hasattr(kind, "as_vec_type") else None
    if parts is not None:
        numbers: list[int | None] = []
        part_specs: list[Spec | None] = []
        members = parts.as_list()
        for which, part in enumerate(members):
            dtype = part.dtype
            if entry.half is not None and dtype == STATE.paddle.float64:
                dtype = entry.half
            share = which, len(members)
            spec = Spec(_closed(entry, part.shape, op, inputs, place, share), dtype)
            numbers.append(len(entry.specs))
            entry.specs.append(spec)
            part_specs.append(spec)
        entry.values[value.hash()] = numbers
        return numbers, part_specs
    rows = value.is_selected_row_type()
    dtype = value.dtype
    if entry.half is not None and dtype == STATE.paddle.float64:
        # Norms keep their statistics in single precision.
        norm = op.name().split(".", 1)[-1] in NORMS
        dtype = STATE.paddle.float32 if norm and place else entry.half
    if op.name().split(".", 1)[-1] in TRUTHS:
        dtype = STATE.paddle.bool
    spec = Spec(_closed(entry, value.shape, op, inputs, place), dtype, rows)
    return [_number(entry, value, spec)], [spec]


def _closed(
    entry: Entry,
    extents: Sequence[int],
    op: Operation,
    inputs: Sequence[Numbers],
    place: int,
    part: tuple[int, int] = (0, 1),
) -> Shape:
    """Return a shape without open extents: what only data could tell is taken at its largest."""
    shape, name = tuple(extents), op.name().split(".", 1)[-1]
    if not any(extent < 0 for extent in shape):
        return shape
    if entry.sizes:
        # What an operator makes beside its results is as long as they are.
        given = tuple(entry.sizes.pop(0) if len(entry.sizes) > 1 else entry.sizes[0])
        if len(given) == len(shape):
            return given
        return tuple(extent if extent >= 0 else given[0] for extent in shape)
    firsts = [row[0] for row in inputs]
    shapes = [None if first is None else entry.specs[first].shape for first in firsts]
    most = bounds.largest(name, place, shapes, op.attrs(), part)
    if most is None:
        raise Unsupported(f"the size of what {name} makes is known only from data")
    if entry.share is not None:
        most = int(most * entry.share)
    elif most:
        shared = "shared out evenly" if name in bounds.SHARED else "as long as it can be"
        STATE.choice(f"{name}: {shared}")
    return tuple(extent if extent >= 0 else most for extent in shape)


def gradient(entry: Entry, step: Step, stops: Stops) -> Gradient | None:
    """Return the gradient of a step for a pattern of inputs that need none; None if it has none."""
    if stops not in step.grads:
        step.grads[stops] = _differentiated(entry, step, stops)
    return step.grads[stops]


def whole(entry: Entry, step: Step) -> Gradient | None:
    """Return the gradient of a step for all inputs that can have one."""
    stops = tuple(
        tuple(
            number is None or word(entry.specs[number].dtype) not in DIFFERENTIABLE
            for number in row
        )
        for row in step.inputs
    )
    return gradient(entry, step, stops)


def _differentiated(entry: Entry, step: Step, stops: Stops) -> Gradient | None:
    paddle, core, op = STATE.paddle, STATE.core, step.op
    if not core.has_vjp(op):
        return None
    lacking = any(None in row for row in step.outputs)
    if lacking and step.name.endswith("_grad") and step.name not in TWICE:
        raise Unsupported(f"the derivative of {step.name}")
    gradient = Gradient()
    with STATE.building(), paddle.static.program_guard(entry.program):
        block = entry.program.global_block()
        inputs = [_members(value) for value in op.operands_source()]
        semantics = op.get_input_grad_semantics()
        places = [place for place, asked in enumerate(semantics) if asked]
        outputs: list[list[OwnValue]] = []
        grads: list[list[OwnValue]] = []
        for slot, value in enumerate(op.results()):
            outputs.append(_parts(value))
            given = []
            for place, output in enumerate(outputs[-1]):
                spec = step.specs[slot][place]
                if spec is None:
                    given.append(output)
                    continue
                data = _data(entry, f"g{slot}_{place}_{len(block.ops)}", spec)
                gradient.given[slot, place] = _number(entry, data, spec)
                given.append(data)
            grads.append(given)
        start = len(block.ops)
        grads_found = core.call_vjp(
            op, inputs, outputs, grads, [list(stops[place]) for place in places]
        )
        new = list(block.ops)[start:]
        wanted = {value.hash() for row in grads_found for value in row if value is not None}
        for each in new:
            back = _step(entry, each, wanted)
            if back is not None:
                gradient.steps.append(back)
        gradient.results = [[None] * len(stop) for stop in stops]
        for place, row in zip(places, grads_found):
            for which, item in enumerate(row):
                if item is not None:
                    gradient.results[place][which] = entry.values.get(item.hash(), [None])[0]
    _needed(gradient, step)
    return gradient


def _members(value: OwnValue) -> list[OwnValue]:
    define = value.get_defining_op() if value.initialized() else None
    if define is not None and define.name() == "builtin.combine":
        return list(define.operands_source())
    return [value]


def _parts(value: OwnValue) -> list[OwnValue]:
    """Return the tensors of a result; those of a list come from the operator that splits it."""
    kind = value.type() if value.initialized() else None
    if kind is None or not hasattr(kind, "as_vec_type") or kind.as_vec_type() is None:
        return [value]
    for user in value.all_used_ops():
        if user.name() == "builtin.split":
            return list(user.results())
    return _leaves(STATE.makers["builtin_split"](value))


def _needed(gradient: Gradient, step: Step) -> None:
    """Find which values of the forward pass the gradient reads."""
    forward = {number for numbers in step.inputs for number in numbers if number is not None}
    forward |= {number for numbers in step.outputs for number in numbers if number is not None}
    saved: dict[int, bool] = {}
    touched: dict[int, bool] = {}
    for back in gradient.steps:
        for place, numbers in enumerate(back.inputs):
            for number in numbers:
                if number is not None and number in forward:
                    touched[number] = True
                    if place not in back.unneeded:
                        saved[number] = True
    gradient.saved, gradient.touched = list(saved), list(touched)
