"""Operators of `paddle._C_ops` that run by what Paddle infers of them, on tensors without data.

`inferred` finds the entry of a call (see `infer`) and runs its steps: blocks are born for what they
make, views and operators in place share their input's, and a node is hung behind the outputs where
a gradient flows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..allocation import new
from ..autograd import nodes
from ..inference import bounds, einsum, infer, kernels, views
from ..inference.infer import Place, Spec
from ..ledger import Block
from ..sizes import count, word
from ..state import STATE, Unsupported, rightly
from ..tensor.tensor import Tensor
from ..values import known, ranges, settled_lengths
from . import amp

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from fractions import Fraction
    from typing import TypeAlias

    from ..inference.infer import Entry, Step
    from ..paddle_types import OwnTensor
    from ..types import Form, Result, Rows, Shape

    Within: TypeAlias = Mapping[tuple[int, int], Tensor]
    """By result and place: the tensor that a result shares its memory with."""

ENTRIES: dict[Hashable, Entry] = {}
RANDOM = ("uniform", "gaussian", "randint", "randperm", "bernoulli", "multinomial", "dropout",
          "poisson", "binomial", "standard_gamma", "dirichlet", "empty", "truncated_gaussian",
          "exponential", "random", "rrelu", "gumbel")  # fmt: skip
STATISTICS = {"batch_norm": {1: 1, 2: 2}, "batch_norm_": {1: 1, 2: 2},
              "sync_batch_norm_": {1: 1, 2: 2}, "fused_batch_norm_act": {1: 3, 2: 4},
              "fused_bn_add_activation": {1: 4, 2: 5}}  # fmt: skip
"""Outputs that lie in an input's memory though the operator is not named as one in place."""
NUMBERS = {"reshape": (1,), "reshape_": (1,), "expand": (1,), "tile": (1,), "full": (0, 1),
           "full_": (1, 2), "slice": (2, 3), "strided_slice": (2, 3, 4), "arange": (0, 1, 2),
           "randint": (0, 1, 2), "uniform": (0, 2, 3), "gaussian": (0,), "empty": (0,),
           "topk": (1,), "one_hot": (1,), "split": (1, 2), "clip": (1, 2), "scale": (1, 2),
           "pad": (1,), "pad3d": (1,), "cumsum": (1,), "sum": (1,), "squeeze": (1,),
           "unsqueeze": (1,), "roll": (1,), "eye": (0, 1), "truncated_gaussian_random": (0,),
           "randperm": (0,), "set_value_": (1, 2, 3), "set_value": (1, 2, 3), "concat": (1,),
           "full_like": (1,), "linspace": (0, 1, 2), "logspace": (0, 1, 2, 3), "mean": (1,),
           "max": (1,), "min": (1,), "split_with_num": (2,), "gather": (2,),
           "repeat_interleave": (1,), "pow": (1,), "pow_": (1,)}  # fmt: skip
"""By operator: arguments that are numbers though a tensor may be given for them."""
LISTS = frozenset({
    ("reshape", 1), ("reshape_", 1), ("expand", 1), ("tile", 1), ("full", 0), ("full_", 1),
    ("slice", 2), ("slice", 3), ("strided_slice", 2), ("strided_slice", 3), ("strided_slice", 4),
    ("randint", 2), ("uniform", 0), ("gaussian", 0), ("empty", 0), ("split", 1), ("pad", 1),
    ("pad3d", 1), ("sum", 1), ("squeeze", 1), ("unsqueeze", 1), ("roll", 1), ("mean", 1),
    ("truncated_gaussian_random", 0), ("set_value", 1), ("set_value", 2), ("set_value", 3),
    ("set_value_", 1), ("set_value_", 2), ("set_value_", 3),
})  # fmt: skip
"""Those of them that are lists."""
OF_VALUES = {"scale": (1, 2), "scale_": (1, 2), "clip": (1, 2), "clip_": (1, 2), "full": (1,),
             "full_": (2,), "full_like": (1,)}  # fmt: skip
"""By operator: numbers that nothing but values hang on. A factor may be another in each step, as
that of averaged parameters is: it is inferred once."""
AS_TENSORS = frozenset({"linspace", "logspace"})
OF_ONE_TYPE = frozenset({
    "addmm", "baddbmm", "batch_norm", "bce_loss", "bmm", "conv2d", "conv2d_transpose", "conv3d",
    "conv3d_transpose", "depthwise_conv2d", "depthwise_conv2d_transpose", "dot", "grid_sample",
    "matmul", "mv", "nll_loss", "sigmoid_cross_entropy_with_logits", "stack",
})  # fmt: skip
"""Operators with kernels that refuse floats of 32 and of 64 bits together, which no shapes tell."""


OF_TYPES = {"as_real": {"complex64", "complex128"}, "as_complex": {"float32", "float64"}}
"""Operators with kernels for these types alone."""


def inferred(name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> Result:
    """Run an operator by what Paddle infers of it."""
    into = kwargs.get("out")
    kwargs = {key: argument for key, argument in kwargs.items() if key != "out"}
    if name in NUMBERS and name not in AS_TENSORS:
        args = [
            _number(argument, (name, i)) if i in NUMBERS[name] else argument
            for i, argument in enumerate(args)
        ]
    tensors: list[Tensor] = []
    shown = [_any_number(argument) if i in OF_VALUES.get(name, ()) else argument
             for i, argument in enumerate(args)]  # fmt: skip
    places = [_placed(item, tensors) for item in shown]
    named = {key: _placed(item, tensors) for key, item in kwargs.items()}
    if amp.active() and tensors:
        tensors = amp.cast(name, tensors, places)
    if name in OF_ONE_TYPE:
        _refuse_mixed(name, tensors)
    if name in OF_TYPES and tensors:
        _refuse_others(name, tensors[0])
    for tensor in tensors:
        if tensor.m_rows and name not in _ROWS:
            raise Unsupported(f"{name} of a gradient of rows")
        if tensor.m_parts is not None:
            raise Unsupported(f"{name} of a sparse tensor")
    sizes = known.shapes(name, args, kwargs) if name in bounds.DECIDING else None
    share = None
    if name in bounds.LARGEST and sizes is None:
        share = ranges.picked(name, args) or settled_lengths.share(name)
    try:
        entry = _entry(name, places, named, tensors, share or sizes)
    except ValueError:
        shorter = settled_lengths.cut(name, args, tensors)
        if shorter is None:
            raise
        return inferred(name, shorter, kwargs)
    written = _written(name, args, kwargs, tensors)
    result = Running(entry, tensors, name).go()
    settled_lengths.mark(name, sizes, tensors, result)
    _keep_rows(tensors, result)
    _compute(name, args, kwargs, tensors, result)
    if written is not None and isinstance(result, Tensor):
        result.m_known = written
    return _into(into, result) if into is not None else result


def _any_number(value: object) -> object:
    """Return a number of the same type in place of one."""
    return type(value)(1) if isinstance(value, (int, float)) else value


def _refuse_mixed(name: str, tensors: Sequence[Tensor]) -> None:
    """Raise ValueError, as Paddle's kernels do, where floats of 32 and of 64 bits come together."""
    kinds = {word(tensor.m_dtype) for tensor in tensors}
    if {"float32", "float64"} <= kinds:
        words = (
            f"(InvalidArgument) {name} is given float32 and float64: the type of data we are "
            "trying to retrieve does not match the type of data currently contained."
        )
        raise rightly(ValueError(words))


def _refuse_others(name: str, tensor: Tensor) -> None:
    """Raise RuntimeError, as Paddle does where an operator has no kernel for a tensor's type."""
    kind = word(tensor.m_dtype)
    if kind not in OF_TYPES[name]:
        words = f"(NotFound) The kernel `{name}` is not registered for {kind}."
        raise rightly(RuntimeError(words))


def _keep_rows(tensors: Sequence[Tensor], result: Result) -> None:
    """What an operator makes of each row is a gradient of rows too."""
    shapes = {tensor.m_shape for tensor in tensors if tensor.m_rows}
    for tensor in _flat(result) if shapes else ():
        if tensor.m_shape in shapes:
            tensor.m_rows = True


_ROWS = frozenset({"adam_", "adamw_", "sgd_", "momentum_", "merged_adam_", "clip_by_norm",
                   "merge_selected_rows", "squared_l2_norm", "scale", "multiply", "scale_",
                   "multiply_", "lamb_", "adagrad_", "full_", "assign", "cast"})  # fmt: skip


def _number(value: object, where: tuple[str, int]) -> object:
    """Return the number, or numbers, that a tensor given as an attribute holds."""
    if isinstance(value, Tensor):
        array = known.array(value, "an attribute")
        return array.reshape(-1).tolist() if where in LISTS else array.reshape(-1)[0].item()
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
        return [int(_number_of(item)) for item in value]
    return value


def _number_of(value: Tensor | float) -> float:
    return known.number(value, "an attribute") if isinstance(value, Tensor) else value


def _placed(value: object, tensors: list[Tensor]) -> object:
    """Return an argument with places for tensors, which are added to the list."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return Place(len(tensors) - 1)
    if isinstance(value, dict):
        return {key: _placed(item, tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) > 64 and not any(isinstance(item, Tensor) for item in value):
            return value
        items = [_placed(item, tensors) for item in value]
        return tuple(items) if type(value) is tuple else items
    if isinstance(value, STATE.real):
        raise Unsupported("a tensor that holds data among those that do not")
    return value


def _key(value: object) -> str | tuple[object, ...]:
    if isinstance(value, Place):
        return ("T", value.number)
    if isinstance(value, (list, tuple)):
        return tuple(_key(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _key(item)) for key, item in value.items())
    if value is None or isinstance(value, (int, str, bool)):
        return (type(value).__name__, value)
    return repr(value)


def _entry(
    name: str,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    tensors: Sequence[Tensor],
    sizes: tuple[Shape, ...] | Fraction | None,
) -> Entry:
    key = (
        name,
        sizes,
        tuple([(tensor.m_shape, word(tensor.m_dtype), tensor.m_rows) for tensor in tensors]),
        _key(args),
        _key(kwargs),
    )
    entry = ENTRIES.get(key)
    if entry is None:
        specs = [Spec(tensor.m_shape, tensor.m_dtype) for tensor in tensors]
        if name not in STATE.described:
            raise Unsupported(f"the operator {name}")
        try:
            entry = infer.build(STATE.makers[name], args, kwargs, specs, sizes)
        except (ValueError, IndexError) as error:
            # Shapes that collide, but for those of rows, which stand for whole tables.
            if any(tensor.m_rows for tensor in tensors):
                raise Unsupported(f"{name} of a gradient of rows") from None
            raise rightly(error) from None
        except MemoryError:
            raise
        except Exception as error:
            # Kernels know more types and calls than what infers their shapes.
            raise Unsupported(f"this call of {name}: {str(error).strip()[:200]}") from None
        ENTRIES[key] = entry
    return entry


class Running:
    """One run of an entry."""

    def __init__(self, entry: Entry, tensors: list[Tensor], name: str) -> None:
        self.entry = entry
        self.name = name
        self.env: dict[int, Tensor | None] = dict(enumerate(tensors))

    def go(self) -> Result:
        """Run the steps and return what the operator returns."""
        if STATE.program is not None:
            STATE.program.operators += self.entry.operators
        for step in self.entry.steps:
            self._run(step)
        return self._result(self.entry.result)

    def _result(self, form: Form) -> Result:
        if isinstance(form, Place):
            return self.env[form.number]
        if isinstance(form, list):
            return [self._result(tensor) for tensor in form]
        return form

    def _run(self, step: Step) -> None:
        env = self.env
        inputs = [[env.get(n) if n is not None else None for n in row] for row in step.inputs]
        within = self._within(step, inputs)
        before = {id(tensor): nodes.edge_of(tensor) for tensor in within.values()} if within else {}
        if within and self._overwrites(step, inputs, within):
            return self._anew(step, inputs, within)
        copies = self._copies(step, inputs)
        self._keep_copies(step, inputs, copies)
        outputs: list[list[Tensor | None]] = []
        for slot, (numbers, specs) in enumerate(zip(step.outputs, step.specs)):
            row: list[Tensor | None] = []
            for place, (number, spec) in enumerate(zip(numbers, specs)):
                result = within.get((slot, place))
                if result is None:
                    result = self._made(step, spec, inputs, slot, place)
                row.append(result)
                if number is not None:
                    env[number] = result
            outputs.append(row)
        shapes = [self.entry.specs[n] for read in step.inputs for n in read if n is not None]
        STATE.ledger.scratch(kernels.needs(step, shapes), step.name)
        del copies
        if nodes.needed(_given(inputs)):
            self._hang(step, inputs, outputs, within, before)

    def _hang(
        self,
        step: Step,
        inputs: Rows,
        outputs: Rows,
        within: Within,
        before: Mapping[int, nodes.Edge | None],
    ) -> None:
        if within and not before:
            return
        fresh = [
            [None if (slot, place) in within and self.name in STATISTICS else tensor
             for place, tensor in enumerate(row)]
            for slot, row in enumerate(outputs)
        ]  # fmt: skip
        shown = inputs
        if within and self.name not in STATISTICS:
            shown = _as_before(inputs, within)
        nodes.attach(self.entry, step, shown, fresh, self.env)

    def _within(self, step: Step, inputs: Rows) -> Within:
        """Return the tensors that results share memory with, by result and place."""
        alias = STATISTICS.get(self.name)
        if alias is not None:
            firsts = {
                (slot, 0): inputs[operand][0]
                for slot, operand in alias.items()
                if operand < len(inputs)
            }
            return {place: tensor for place, tensor in firsts.items() if tensor is not None}
        if not self.name.endswith("_") or step is not self.entry.steps[-1]:
            return {}
        names_in, names_out = infer.named(step)
        aliases: dict[tuple[int, int], Tensor] = {}
        for slot, row in enumerate(step.outputs):
            operand = _partner(names_out[slot] if slot < len(names_out) else "", names_in, slot)
            if operand is None or operand >= len(inputs):
                continue
            for place in range(len(row)):
                tensor = inputs[operand][place] if place < len(inputs[operand]) else None
                if tensor is not None:
                    spec = step.specs[slot][place]
                    self._rest(tensor, spec, step)
                    aliases[slot, place] = tensor
        return aliases

    def _rest(self, tensor: Tensor, spec: Spec | None, step: Step) -> None:
        """A tensor that is written in place keeps its block, or gets its first."""
        tensor.m_known = None
        tensor.m_version += 1
        if spec is None:
            return
        if tensor.m_block is None or (tensor.m_dtype != spec.dtype):
            tensor.m_block = None
            tensor.m_shape, tensor.m_dtype = spec.shape, spec.dtype
            fresh = new(spec.shape, spec.dtype, step.name)
            tensor.m_block = fresh.m_block
        elif tensor.m_shape != spec.shape:
            tensor.m_strides = views.reshaped(tensor.m_shape, tensor.m_strides, spec.shape)[1]
            tensor.m_shape = spec.shape

    def _overwrites(self, step: Step, inputs: Rows, within: Within) -> bool:
        """Tell whether an operator in place would destroy what its own gradient reads."""
        if self.name in STATISTICS or not STATE.has_grad():
            return False
        stops = tuple(
            tuple(tensor is None or tensor.stop_gradient or not nodes.differentiable(tensor)
                  for tensor in row) for row in inputs
        )  # fmt: skip
        if all(stop for row in stops for stop in row):
            return False
        gradient = infer.gradient(self.entry, step, stops)
        if gradient is None:
            return False
        return any(
            number is not None
            and number in gradient.saved
            and any(self.env.get(number) is tensor for tensor in within.values())
            for row in step.inputs
            for number in row
        )

    def _anew(self, step: Step, inputs: Rows, within: Within) -> None:
        """Compute into new memory: the node keeps what would have been overwritten."""
        shown = _as_before(inputs, within)
        numbers = dict(self.env)
        for read, seen in zip(step.inputs, shown):
            numbers.update((number, item) for number, item in zip(read, seen) if number is not None)
        outputs: list[list[Tensor | None]] = []
        for slot, (row, specs) in enumerate(zip(step.outputs, step.specs)):
            results: list[Tensor | None] = []
            for place, (number, spec) in enumerate(zip(row, specs)):
                result = within.get((slot, place))
                if result is None:
                    result = self._made(step, spec, inputs, slot, place)
                elif spec is not None:
                    result.m_block = new(spec.shape, spec.dtype, step.name).m_block
                    result.m_strides = None
                results.append(result)
                if number is not None:
                    self.env[number] = numbers[number] = result
            outputs.append(results)
        nodes.attach(self.entry, step, shown, outputs, numbers)

    def _copies(self, step: Step, inputs: Rows) -> list[Block]:
        if step.name in views.VIEWS:
            return []
        return [
            Block(STATE.ledger, tensor.nbytes, "contiguous", inside=True)
            for row in inputs
            for tensor in row
            if tensor is not None and tensor.m_strides is not None
        ]

    def _keep_copies(
        self, step: Step, inputs: Sequence[list[Tensor | None]], copies: Sequence[Block]
    ) -> None:
        """Let backward keep the copy that a kernel made of a view, for the kernels that do."""
        if step.name in STRIDED or not copies or not nodes.needed(_given(inputs)):
            return
        blocks = iter(copies)
        for numbers, row in zip(step.inputs, inputs):
            for place, (number, tensor) in enumerate(zip(numbers, row)):
                if tensor is None or tensor.m_strides is None:
                    continue
                copy, block = _before(tensor), next(blocks)
                copy.m_strides, copy.m_block, copy.m_source = None, block, tensor.source
                STATE.ledger.inside.discard(block.index)
                row[place] = copy
                if number is not None:
                    self.env[number] = copy

    def _made(
        self, step: Step, spec: Spec | None, inputs: Rows, slot: int, place: int
    ) -> Tensor | None:
        """Return a result: a view, or a tensor with a block of its own."""
        if spec is None:
            return None
        if step.name == "einsum" and slot:
            return einsum.cached(step, inputs, slot, place)
        x = inputs[0][0] if inputs and inputs[0] else None
        if step.name in views.VIEWS and x is not None and x.m_block is not None:
            if step.name in views.SHAPED:
                if slot:
                    return None
                fits, strides = views.reshaped(x.m_shape, x.m_strides, spec.shape)
            else:
                fits, strides = True, views.picked(step, x, spec.shape)
            if fits:
                view = STATE.tensor.__new__(STATE.tensor)
                view.m_shape, view.m_dtype = spec.shape, spec.dtype
                view.m_block, view.m_strides = x.m_block, strides
                return view
        view = new(spec.shape, spec.dtype, step.name)
        view.m_rows = spec.rows
        return view


STRIDED = frozenset({
    "abs", "acos", "acosh", "amax", "amin", "asin", "asinh", "atan", "atanh", "celu", "conv2d",
    "cos", "cosh", "divide", "elu", "fmax", "fmin", "hardtanh", "leaky_relu", "log", "log10",
    "log1p", "log2", "logsigmoid", "matmul", "max", "maximum", "min", "minimum", "mish",
    "multiply", "prod", "remainder", "silu", "sin", "sinh", "softplus", "softshrink", "softsign",
    "square", "tan",
})  # fmt: skip
"""Kernels with a backward that keeps a view in another order as it is; others keep the copy of it
that they compute on. Measured with 3.3.1; held by `turned_views` of the tests of the meta tier."""


def _given(inputs: Rows) -> list[Tensor]:
    return [tensor for row in inputs for tensor in row if tensor is not None]


def _partner(out: str, names: Sequence[str], slot: int) -> int | None:
    """Return the operand that a result shares memory with, by their names."""
    for name in (out, out.removesuffix("_out"), out.replace("out_", "in_"), f"prev_{out}"):
        if name in names:
            return names.index(name)
    if slot == 0:
        return names.index("output") if "output" in names else 0
    return None


def _as_before(inputs: Rows, within: Within) -> list[list[Tensor | None]]:
    """Return an operator's inputs with those that it writes to as they were."""
    written = {id(tensor) for tensor in within.values()}
    return [
        [_before(tensor) if id(tensor) in written and tensor is not None else tensor
         for tensor in row] for row in inputs
    ]  # fmt: skip


def _before(tensor: Tensor) -> Tensor:
    """Return a tensor as it was before it is changed in place."""
    earlier = tensor.detach()
    earlier.m_node, earlier.m_slot = tensor.m_node, tensor.m_slot
    earlier.stop_gradient, earlier.persistable = tensor.stop_gradient, tensor.persistable
    return earlier


KEPT = frozenset({
    "add_", "bitwise_and_", "bitwise_not_", "bitwise_or_", "clip_", "divide_", "fill_diagonal_",
    "flatten_", "logical_and_", "logical_not_", "logical_or_", "multiply_", "reshape_", "scale_",
    "squeeze_", "subtract_", "tril_", "triu_", "unsqueeze_",
})  # fmt: skip
"""Operators in place by which masks and tables are made."""


def _written(
    name: str, args: Sequence[object], kwargs: Mapping[str, object], tensors: Sequence[Tensor]
) -> OwnTensor | None:
    """Return what an operator in place writes, as Paddle's own tensor; None where it hangs on what
    is not known, or is large."""
    if name not in KEPT or name[:-1] not in STATE.operators:
        return None
    if any(tensor.m_known is None or not known.small(tensor.m_shape) for tensor in tensors):
        return None
    return known.computed(name[:-1], args, kwargs)


def _compute(
    name: str,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    tensors: Sequence[Tensor],
    result: Result,
) -> None:
    """Compute on real data what is small and hangs on nothing unknown."""
    if name.endswith("_") or name.startswith(RANDOM):
        return
    results = _flat(result)
    if name in known.FILLED and results and _is_filled(results[0], tensors):
        results[0].m_known = known.filled(name, args, results[0])
        return
    if not results or any(tensor.m_known is None for tensor in tensors):
        return
    if any(not known.small(tensor.m_shape, name) for tensor in results):
        return
    values = known.all_computed(name, args, kwargs)
    if len(values) != len(results):
        return
    for tensor, value in zip(results, values):
        shape = tuple(value.shape)
        if count(shape) == count(tensor.m_shape) or len(shape) == len(tensor.m_shape):
            tensor.m_shape = shape
            tensor.m_known = value


def _is_filled(result: Tensor, tensors: Sequence[Tensor]) -> bool:
    """Tell whether what is filled is larger than what is computed, or hangs on no data though its
    shape is an unknown tensor's."""
    return not known.small(result.m_shape) or any(tensor.m_known is None for tensor in tensors)


def _flat(value: Result) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [leaf for item in value or () for leaf in _flat(item)]


def _into(target: object, result: Result) -> Result:
    """Put a result into the tensor that the caller gave for it."""
    if isinstance(result, Tensor) and isinstance(target, Tensor):
        target.m_block, target.m_shape = result.m_block, result.m_shape
        target.m_dtype, target.m_strides = result.m_dtype, result.m_strides
        target.m_known = result.m_known
        if result.m_node is not None:
            target.m_node, target.m_slot = result.m_node, result.m_slot
            target.stop_gradient = False
        return target
    return result
