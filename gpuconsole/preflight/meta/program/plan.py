"""What a run of a program does to memory: its operators read once, for shapes that are fed.

A plan is made for a program, what is fetched of it and the shapes of what is fed, as Paddle makes
an executor for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..inference import infer, kernels
from ..inference.infer import Spec, Step
from ..operators import optimizers, rnn
from ..operators.inferred import RANDOM
from ..sizes import count, nbytes, word
from ..state import STATE, Unsupported
from . import order
from . import shapes as program_shapes
from .order import Operator, Value, flat

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy import ndarray

    from ..operators.rnn import Room
    from ..paddle_types import Operation, OwnProgram, OwnValue
    from ..types import Shape
    from .order import Operand
    from .shapes import Array, Specs

CONSTANTS = frozenset({"full_int_array", "full"})
SIZES = frozenset({"shape", "shape64"})
MOST = 64
"""Numbers of a tensor that is computed with."""
NAMED = {"set_parameter": "parameter_name", "shadow_output": "output_name"}
"""Operators that assign what they read to a variable of the scope, and the place of its name."""
FORMS: dict[str, dict[int, int]] = {}
"""By operator: which results of its form in place lie in which operands."""


class Plan:
    """One program as it is run."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self.values: list[Value] = []
        self.specs: list[Spec] = []
        """Shape and type of each value, as they are when it runs."""
        self.fed: dict[str, int] = {}
        self.lasting: dict[str, int] = {}
        """Variables of the scope that it reads, by name."""
        self.parameters: set[int] = set()
        self.named: dict[int, list[tuple[int, str]]] = {}
        """What each operator assigns to the scope: numbers and names."""
        self.fetched: list[int] = []
        self.needs: list[list[int]] = []
        """By operator: what its kernel takes while it runs, in bytes."""
        self.inside: list[dict[int, int]] = []
        self.order: list[int] = []
        self.releases: list[list[int]] = []
        self.gradients: set[int] = set()
        self.trains = False
        """Whether it updates what lasts."""
        self.keeps: set[str] = set()
        """What it is fed that stays in the scope until the next batch."""


class Reader:
    """Reads a program into a plan."""

    def __init__(
        self, program: OwnProgram, shapes: Mapping[str, Shape], fetched: Sequence[int]
    ) -> None:
        self.program = program
        self.shapes = shapes
        """By name: shape of what is fed."""
        self.plan = Plan()
        self.numbers: dict[int, Operand] = {}
        """By hash of the program's value: its number, or numbers of the parts of a list."""
        self.known: dict[int, ndarray] = {}
        """By number: an array of what is known without data, such as sizes."""
        self.wanted = fetched

    def read(self) -> Plan:
        """Return the plan."""
        plan = self.plan
        for op in self.program.global_block().ops:
            if op.num_regions():
                raise Unsupported(f"a program with {op.name().split('.', 1)[-1]}: its blocks are "
                                  "not followed")  # fmt: skip
            self._operator(op)
        if plan.named and self.wanted:
            raise Unsupported("what a program fetches that makes parameters")
        plan.fetched = list(flat([self.numbers.get(number) for number in self.wanted]))
        lasting = {*plan.fed.values(), *plan.fetched}
        plan.inside = order.placed(plan.operators, plan.values, lasting)
        fed = set(plan.fed.values())
        on_cpu = STATE.backend == "cpu"
        plan.order = (order.as_ready(plan.operators, plan.inside, fed) if on_cpu
                      else list(range(len(plan.operators))))  # fmt: skip
        plan.releases = order.releases(plan.operators, plan.order, plan.values, ())
        return plan

    def _number(self, spec: Spec, shape: Sequence[int], *, lasting: bool = False) -> int:
        plan = self.plan
        plan.values.append(Value(tuple(shape), spec.dtype, lasting))
        plan.specs.append(spec)
        return len(plan.specs) - 1

    def _operator(self, op: Operation) -> None:
        name = op.name().split(".", 1)[-1]
        results = op.results()
        if name == "combine":
            row = tuple(flat([self._of(value) for value in op.operands_source()]))
            self.numbers[results[0].hash()] = row
        elif op.name() == "builtin.split":
            parts = self._of(op.operands_source()[0])
            whole = parts if isinstance(parts, tuple) else (parts,)
            self.numbers.update(zip((result.hash() for result in results), whole))
        elif name in ("parameter", "data"):
            self._variable(op, name, results[0])
        elif name in NAMED:
            (number,) = flat([self._of(op.operands_source()[0])])
            self.plan.values[number].lasting = True
            place = max(at for at, operator in enumerate(self.plan.operators)
                        if number in flat(operator.outputs))  # fmt: skip
            self.plan.named.setdefault(place, []).append((number, str(op.attrs()[NAMED[name]])))
        elif name != "fetch":
            self._computes(op, name, results)

    def _of(self, value: OwnValue) -> Operand:
        return self.numbers.get(value.hash()) if value.initialized() else None

    def _variable(self, op: Operation, kind: str, value: OwnValue) -> None:
        """Note a variable of the scope: a parameter, a state, or what is fed."""
        plan = self.plan
        name = str(op.attrs()["parameter_name" if kind == "parameter" else "name"])
        lasting = kind == "parameter" or bool(value.persistable)
        shape = self.shapes.get(name, tuple(value.shape))
        number = self._number(Spec(tuple(shape), value.dtype), value.shape, lasting=lasting)
        self.numbers[value.hash()] = number
        if not lasting:
            plan.fed[name] = number
            return
        plan.lasting[name] = number
        if kind == "parameter":
            plan.parameters.add(number)

    def _computes(self, op: Operation, name: str, results: Sequence[OwnValue]) -> None:
        plan = self.plan
        operands = [self._of(value) for value in op.operands_source()]
        given = [self._given(operand) for operand in operands]
        rows = [_row(op, place, value) for place, value in enumerate(results)]
        arrays = [
            self.known.get(operand) if isinstance(operand, int) else None for operand in operands
        ]
        specs_made = program_shapes.results(op, given, rows, arrays)
        if name == "rnn":
            specs_made = _kept(op, given, specs_made)
        outputs: list[Operand] = []
        for value, row, specs in zip(results, rows, specs_made):
            parts = tuple(
                None if spec is None or before is None else self._number(spec, before.shape)
                for spec, before in zip(specs, row)
            )
            whole = parts if _is_list(value) else parts[0]
            outputs.append(whole)
            if value.initialized():
                self.numbers[value.hash()] = whole
        operator = Operator(name, operands, outputs)
        operator.unneeded = frozenset(
            number for value, operand in zip(op.operands_source(), operands)
            if operand is not None and op.is_no_need_buffer(value) for number in flat([operand])
        )  # fmt: skip
        operator.within = _pairs(op)
        operator.form = {} if operator.within else _form(name, op, given)
        first = outputs[0] if len(outputs) == 1 else None
        if isinstance(first, int) and not operator.within:
            self._note(op, operands, given, first)
        plan.operators.append(operator)
        plan.needs.append(_needs(op, name, given, specs_made))
        if name in optimizers.RESULTS:
            plan.trains = True
            plan.gradients.update(flat(operands[1:2]))

    def _given(self, operand: Operand) -> Specs:
        if operand is None:
            return [None]
        if isinstance(operand, tuple):
            return tuple(self.plan.specs[item] for item in flat(operand))
        return [self.plan.specs[operand]]

    def _note(
        self, op: Operation, operands: Sequence[Operand], given: Sequence[Specs], number: int
    ) -> None:
        """Note what an operator makes where it hangs on sizes and constants alone."""
        name, spec = op.name().split(".", 1)[-1], self.plan.specs[number]
        if count(spec.shape) > MOST or name.startswith(RANDOM):
            return
        x = given[0][0] if name in SIZES else None
        if x is not None:
            self.known[number] = numbers([int(extent) for extent in x.shape], spec)
            return
        if all(item in self.known for item in flat(operands)):
            arrays = [self._array(operand) for operand in operands]
            results = program_shapes.computed(op, given, arrays)
            if results is not None and tuple(results.shape) == tuple(spec.shape):
                self.known[number] = results

    def _array(self, operand: Operand) -> Array:
        """Return what an operand with known data holds."""
        if isinstance(operand, tuple):
            return [self.known[item] for item in flat(operand)]
        return None if operand is None else self.known[operand]


def numbers(values: list[int], spec: Spec) -> ndarray:
    """Return an array of whole numbers of a spec's type."""
    import numpy

    return numpy.asarray(values, word(spec.dtype))


def _is_list(value: OwnValue) -> bool:
    return value.initialized() and bool(value.is_combine())


def _row(op: Operation, place: int, value: OwnValue) -> Specs:
    """Return the specs of a result as the program has them."""
    if not value.initialized() or infer._absent(op, place):
        return [None]
    kind = value.type()
    parts = kind.as_vec_type() if hasattr(kind, "as_vec_type") else None
    if parts is not None:
        return [Spec(tuple(member.shape), member.dtype) for member in parts.as_list()]
    return [Spec(tuple(value.shape), value.dtype, value.is_selected_row_type())]


def _pairs(op: Operation) -> dict[int, int]:
    """Return which results of an operator lie in which operands."""
    if not op.name().endswith("_"):
        return {}
    return dict(STATE.core.pir.get_op_inplace_info(op))


def _form(name: str, op: Operation, given: Sequence[Specs]) -> dict[int, int]:
    """Return which results of an operator's form in place lie in which operands; none without one.

    On a CPU the gradients of sums have none.
    """
    if name == "transpose" or f"{name}_" not in STATE.operators:
        return {}
    if STATE.backend == "cpu" and name in ("add_grad", "subtract_grad"):
        return {}
    if name not in FORMS:
        FORMS[name] = _asked_form(name, op, given)
    return FORMS[name]


def _asked_form(name: str, op: Operation, given: Sequence[Specs]) -> dict[int, int]:
    """Build the form in place once, and ask Paddle about it."""
    with STATE.building():
        program = STATE.paddle.static.Program()
        with STATE.paddle.static.program_guard(program):
            values = [program_shapes._operand(row, None) for row in given]
            try:
                STATE.makers[f"{name}_"](*program_shapes._arguments(op, values))
            except Exception:
                return {0: 0}
            for item in program.global_block().ops:
                if item.name() == f"{op.name()}_":
                    return dict(STATE.core.pir.get_op_inplace_info(item))
    return {0: 0}


class Batch:
    """What a recurrent net runs over, [time, batch, features], as its rules ask for it."""

    def __init__(self, spec: Spec, stop_gradient: bool) -> None:
        self.m_shape, self.m_dtype = spec.shape, spec.dtype
        self.stop_gradient = stop_gradient

    @property
    def nbytes(self) -> int:
        """Bytes of the sequence."""
        return nbytes(self.m_shape, self.m_dtype)


def _room(op: Operation, given: Sequence[Specs]) -> Room:
    """Return what the kernel of a recurrent net keeps and needs."""
    names, attributes = op.get_input_names(), op.attrs()
    x = given[0][0]
    if x is None:
        raise Unsupported("a recurrent net that runs over nothing")
    unneeded = op.name().endswith("_grad") and not op.results()[0].initialized()
    masked = given[names.index("sequence_length")][0] is not None
    cell = rnn.CELLS[str(attributes["mode"])]
    sides = 2 if attributes["is_bidirec"] else 1
    hidden, layers = _whole(attributes["hidden_size"]), _whole(attributes["num_layers"])
    return rnn.room(cell, Batch(x, unneeded), hidden, layers, sides, masked)


def _whole(attribute: object) -> int:
    """Return an attribute that is a whole number."""
    if not isinstance(attribute, int):
        raise Unsupported("an attribute that is no number")
    return attribute


def _kept(op: Operation, given: Sequence[Specs], rows: Sequence[Specs]) -> Sequence[Specs]:
    """Return the results of a recurrent net with what its kernel keeps, which no inference of
    shapes tells; nothing in an evaluation."""
    if op.attrs()["is_test"]:
        return rows
    space, names = _room(op, given), op.get_output_names()
    sizes = {"reserve": space.reserve, "dropout_state_out": space.dropped}
    return [
        [Spec((sizes[name],), STATE.paddle.uint8)] if name in sizes and row[0] is not None else row
        for name, row in zip(names, rows)
    ]


def _needs(op: Operation, name: str, given: Sequence[Specs], rows: Sequence[Specs]) -> list[int]:
    """Return what a CPU kernel takes for itself while it runs, in bytes."""
    if STATE.backend != "cpu" or name in CONSTANTS:
        return []
    if name in ("rnn", "rnn_grad"):
        space = _room(op, given)
        if name == "rnn_grad":
            return [space.backward]
        return [space.evaluated if op.attrs()["is_test"] else space.forward]
    step = Step(name, [], [], rows, op)
    specs = [spec for row in given for spec in row if spec is not None]
    if not specs:
        return []
    backward = name.endswith("_grad")
    results = [spec for row in rows for spec in row if spec is not None]
    total = sum(nbytes(spec.shape, spec.dtype) for spec in results)
    sizes = kernels.needs(step, specs, backward=backward, nbytes_made=total, results=results)
    if name in optimizers.COPIES or name in optimizers.COPIES_ON_CPU:
        times = optimizers.COPIES.get(name, optimizers.COPIES_ON_CPU.get(name, 0))
        sizes = [*sizes, *[nbytes(specs[0].shape, specs[0].dtype)] * times]
    return [value for value in sizes if value]
