"""What a run of a program does to memory: its operators read once, for shapes that are fed.

A plan is made for a program, what is fetched of it and the shapes of what is fed, as Paddle makes
an executor for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
    from paddle.pir import Operation
    from paddle.static import Program

    from ..operators.rnn import Room

CONSTANTS = frozenset({"full_int_array", "full"})
SIZES = frozenset({"shape", "shape64"})
MOST = 64
"""Numbers of a tensor that is computed with."""
MISSING: Any = object()
NAMED = {"set_parameter": "parameter_name", "shadow_output": "output_name"}
"""Operators that assign what they read to a variable of the scope, and the place of its name."""
FORMS: dict[str, dict[int, int]] = {}
"""By operator: which results of its form in place lie in which operands."""


class Plan:
    """One program as it is run."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self.values: list[Value] = []
        self.specs: list[Any] = []
        """Shape and type of each value, as they are when it runs."""
        self.fed: dict[str, int] = {}
        self.lasting: dict[str, int] = {}
        """Variables of the scope that it reads, by name."""
        self.parameters: set[int] = set()
        self.named: dict[int, list[Any]] = {}
        """What each operator assigns to the scope: numbers and names."""
        self.fetched: list[int] = []
        self.needs: list[Any] = []
        """By operator: what its kernel takes while it runs, in bytes."""
        self.inside: list[Any] = []
        self.order: list[int] = []
        self.releases: list[Any] = []
        self.gradients: set[int] = set()
        self.trains = False
        """Whether it updates what lasts."""
        self.keeps: set[str] = set()
        """What it is fed that stays in the scope until the next batch."""


class Reader:
    """Reads a program into a plan."""

    def __init__(self, program: Program, shapes: dict[str, tuple[int, ...]], fetched: Any) -> None:
        self.program = program
        self.shapes = shapes
        """By name: shape of what is fed."""
        self.plan = Plan()
        self.numbers: dict[Any, Any] = {}
        """By hash of the program's value: its number, or numbers of the parts of a list."""
        self.known: dict[int, Any] = {}
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
        plan.fetched = [self.numbers[number] for number in self.wanted if number in self.numbers]
        lasting = {*plan.fed.values(), *plan.fetched}
        plan.inside = order.placed(plan.operators, plan.values, lasting)
        fed = set(plan.fed.values())
        on_cpu = STATE.backend == "cpu"
        plan.order = (order.as_ready(plan.operators, plan.inside, fed) if on_cpu
                      else list(range(len(plan.operators))))  # fmt: skip
        plan.releases = order.releases(plan.operators, plan.order, plan.values, ())
        return plan

    def _number(self, spec: Spec, shape: Any, *, lasting: bool = False) -> int:
        plan = self.plan
        plan.values.append(Value(tuple(shape), spec.dtype, lasting))
        plan.specs.append(spec)
        return len(plan.specs) - 1

    def _operator(self, op: Any) -> None:
        name = op.name().split(".", 1)[-1]
        results = op.results()
        if name == "combine":
            row = tuple(flat([self._of(value) for value in op.operands_source()]))
            self.numbers[results[0].hash()] = row
        elif op.name() == "builtin.split":
            parts = self._of(op.operands_source()[0])
            self.numbers.update(zip((result.hash() for result in results), parts))
        elif name in ("parameter", "data"):
            self._variable(op, name, results[0])
        elif name in NAMED:
            number = self._of(op.operands_source()[0])
            self.plan.values[number].lasting = True
            place = max(at for at, operator in enumerate(self.plan.operators)
                        if number in flat(operator.outputs))  # fmt: skip
            self.plan.named.setdefault(place, []).append((number, op.attrs()[NAMED[name]]))
        elif name != "fetch":
            self._computes(op, name, results)

    def _of(self, value: Any) -> Any:
        return self.numbers.get(value.hash()) if value.initialized() else None

    def _variable(self, op: Operation, kind: str, value: Any) -> None:
        """Note a variable of the scope: a parameter, a state, or what is fed."""
        plan, attributes = self.plan, op.attrs()
        name = attributes["parameter_name" if kind == "parameter" else "name"]
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

    def _computes(self, op: Any, name: Any, results: Any) -> None:
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
        outputs = []
        for value, row, specs in zip(results, rows, specs_made):
            parts = tuple(None if spec is None else self._number(spec, before.shape)
                          for spec, before in zip(specs, row))  # fmt: skip
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
        if len(outputs) == 1 and isinstance(outputs[0], int) and not operator.within:
            self._note(op, operands, given, outputs[0])
        plan.operators.append(operator)
        plan.needs.append(_needs(op, name, given, specs_made))
        if name in optimizers.RESULTS:
            plan.trains = True
            plan.gradients.update(flat(operands[1:2]))

    def _given(self, operand: Any) -> Any:
        if operand is None:
            return [None]
        if isinstance(operand, tuple):
            return tuple(self.plan.specs[item] for item in operand)
        return [self.plan.specs[operand]]

    def _note(
        self, op: Operation, operands: list[int | tuple[int, ...] | None], given: Any, number: int
    ) -> None:
        """Note what an operator makes where it hangs on sizes and constants alone."""
        name, spec = op.name().split(".", 1)[-1], self.plan.specs[number]
        if count(spec.shape) > MOST or name.startswith(RANDOM):
            return
        if name in SIZES:
            self.known[number] = numbers([int(extent) for extent in given[0][0].shape], spec)
            return
        arrays = [self._array(operand) for operand in operands]
        if all(array is not MISSING for array in arrays):
            results = program_shapes.computed(op, given, arrays)
            if results is not None and tuple(results.shape) == tuple(spec.shape):
                self.known[number] = results

    def _array(self, operand: Any) -> Any:
        """Return what is known of an operand, `MISSING` where its data is not."""
        if operand is None:
            return None
        if not isinstance(operand, tuple):
            return self.known.get(operand, MISSING)
        arrays = [self.known.get(item, MISSING) for item in operand]
        return MISSING if any(value is MISSING for value in arrays) else arrays


def numbers(values: list[int], spec: Spec) -> Any:
    """Return an array of whole numbers of a spec's type."""
    import numpy

    return numpy.asarray(values, word(spec.dtype))


def _is_list(value: Any) -> bool:
    return value.initialized() and bool(value.is_combine())


def _row(op: Operation, place: int, value: Any) -> Any:
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


def _form(name: Any, op: Operation, given: Any) -> dict[int, int]:
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


def _asked_form(name: object, op: Operation, given: Any) -> dict[int, int]:
    """Build the form in place once, and ask Paddle about it."""
    with STATE.building():
        program = STATE.paddle.static.Program()
        with STATE.paddle.static.program_guard(program):
            values = [program_shapes._operand(row, None) for row in given]
            try:
                STATE.operators[f"{name}_"](*program_shapes._arguments(op, values))
            except Exception:
                return {0: 0}
            for item in program.global_block().ops:
                if item.name() == f"{op.name()}_":
                    return dict(STATE.core.pir.get_op_inplace_info(item))
    return {0: 0}


class Sequence(NamedTuple):
    """What a recurrent net runs over, [time, batch, features], as its rules ask for it."""

    m_shape: Any
    m_dtype: Any
    stop_gradient: bool

    @property
    def nbytes(self) -> int:
        """Bytes of the sequence."""
        return nbytes(self.m_shape, self.m_dtype)


def _room(op: Operation, given: Any) -> Room:
    """Return what the kernel of a recurrent net keeps and needs."""
    names, attributes = op.get_input_names(), op.attrs()
    x = given[0][0]
    unasked = op.name().endswith("_grad") and not op.results()[0].initialized()
    masked = given[names.index("sequence_length")][0] is not None
    cell = rnn.CELLS[attributes["mode"]]
    sides = 2 if attributes["is_bidirec"] else 1
    return rnn.room(cell, Sequence(x.shape, x.dtype, unasked), attributes["hidden_size"],
                          attributes["num_layers"], sides, masked)  # fmt: skip


def _kept(
    op: Operation, given: list[list[Spec | None] | tuple[Spec, ...]], rows: list[list[Spec]]
) -> Any:
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


def _needs(
    op: Operation, name: Any, given: Any, rows: list[list[Spec | None] | list[Spec]]
) -> list[int]:
    """Return what a CPU kernel takes for itself while it runs, in bytes."""
    if STATE.backend != "cpu" or name in CONSTANTS:
        return []
    if name in ("rnn", "rnn_grad"):
        space = _room(op, given)
        if name == "rnn_grad":
            return [space.backward]
        return [space.evaluated if op.attrs()["is_test"] else space.forward]
    step = Step(name, [], [], [list(row) for row in rows])
    step.op = op
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
