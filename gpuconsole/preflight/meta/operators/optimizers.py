"""Operators of optimizers: parameters and states change where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..allocation import new
from ..sizes import count, nbytes
from ..state import STATE, Unsupported
from ..tensor.construct import as_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..paddle_types import OwnTensor
    from ..tensor.tensor import Tensor
    from ..types import Result

RESULTS = {"adam_": 7, "adamw_": 7, "merged_adam_": 7, "fused_adam_": 7, "merged_momentum_": 3,
           "momentum_": 3, "lars_momentum_": 3, "adagrad_": 3, "average_accumulates_": 6,
           "sgd_": 2, "lamb_": 6, "rmsprop_": 5, "adadelta_": 4, "adamax_": 4, "nadam_": 6,
           "radam_": 6, "asgd_": 4, "rprop_": 4}  # fmt: skip
"""How many values each returns."""
COPIES = {"lamb_": 1, "asgd_": 1}
"""Tensors of the parameter's size that a kernel takes while it runs, on any device (measured)."""
COPIES_ON_CPU = {"rprop_": 4}

MERGED = {"adagrad_": 2}
"""Copies of the rows of a gradient, where there are more than one."""


def update(name: str) -> Callable[..., Result]:
    """Return the replacement of an optimizer's operator."""

    def run(first: Tensor | list[Tensor], *rest: object, **_: object) -> Result:
        tensors = [tensor for value in (first, *rest) for tensor in _tensors(value)]
        ledger = STATE.ledger
        for tensor in tensors:
            if tensor.m_rows:
                # Rows that were looked up twice are merged into a copy.
                ledger.scratch([tensor.nbytes] * MERGED.get(name, 1), "merge_rows")
            elif tensor.m_block is None:
                raise Unsupported(f"{name} of a tensor that was never filled")
        times = COPIES.get(name, COPIES_ON_CPU.get(name, 0) if STATE.backend == "cpu" else 0)
        if times and isinstance(first, STATE.tensor):
            ledger.scratch([nbytes(first.m_shape, first.m_dtype)] * times, name)
        for item in tensors:
            if not item.m_rows and len(item.m_shape) and item.m_known is not None:
                item.m_known = None
        return (first,) * RESULTS[name]

    return run


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, STATE.tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [item for item in value if isinstance(item, STATE.tensor)]
    return []


def unscale(*args: object) -> None:
    """`check_finite_and_unscale` of the older operators: gradients change where they lie."""
    STATE.choice("gradients are taken to be finite")


def accuracy(*args: object) -> tuple[Tensor, ...]:
    """`accuracy` of the older operators: three numbers."""
    paddle = STATE.paddle
    kinds = (paddle.float32, paddle.int32, paddle.int32)
    return tuple(new((), kind, "accuracy") for kind in kinds)


def coalesced(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], fused: Tensor, *attributes: object
) -> None:
    """`coalesce_tensor` of the older operators: tensors are laid into one block."""
    given = dict(zip(attributes[::2], attributes[1::2]))
    fused.m_dtype = as_dtype(given.get("dtype", 5)) if "dtype" in given else inputs[0].m_dtype
    fused.m_shape = (sum(count(tensor.m_shape) for tensor in inputs),)
    fused.m_block = new(fused.m_shape, fused.m_dtype, "coalesce_tensor").m_block
    for output in outputs:
        output.m_block, output.m_known = fused.m_block, None


def parted(whole: Tensor, outputs: Sequence[Tensor], *attributes: object) -> None:
    """`split` of the older operators: tensors that have memory are filled with parts of a flat one,
    as gradients are after all ranks have added up what lies in one block."""
    sections = dict(zip(attributes[::2], attributes[1::2])).get("sections")
    if not isinstance(sections, (list, tuple)) or len(whole.m_shape) != 1:
        raise Unsupported("the older operator split, but into flat parts of known lengths")
    for output, length in zip(outputs, sections):
        output.m_shape, output.m_known = (int(length),), None


ACTIVATIONS: dict[str, tuple[str, tuple[float, ...]]] = {
    **{item: (item, ()) for item in ("relu", "relu6", "sigmoid", "tanh", "gelu", "swish", "silu")},
    "softmax": ("softmax", (-1,)), "hard_swish": ("hardswish", ()),
    "hard_sigmoid": ("hardsigmoid", (0.2, 0.5)),
}  # fmt: skip
"""What computes the same as an older operator that a layer's `act` names, with what it is given
after the tensor."""


ATTRIBUTES: dict[str, dict[str, int]] = {
    "argsort": {"axis": -1, "descending": False, "stable": False}
}
"""What an older operator of one tensor is given after it by name, in today's order, with what it is
where it is not given."""


def attributed(name: str) -> Callable[..., Result]:
    """Return the replacement of an older operator with attributes as names and values in turn."""

    def run(tensor: Tensor, *given: object) -> Result:
        attributes: dict[object, object] = dict(ATTRIBUTES[name].items())
        attributes.update(zip(given[::2], given[1::2]))
        return STATE.call(name, (tensor, *(attributes[item] for item in ATTRIBUTES[name])), {})

    return run


def activation(name: str, given: tuple[float, ...]) -> Callable[..., Result]:
    """Return the replacement of an older operator of one tensor; its attributes change no shape."""
    return lambda tensor, *_: STATE.call(name, (tensor, *given), {})


def legacy(name: str, own: Callable[..., OwnTensor]) -> Callable[..., Result | OwnTensor]:
    """Return the replacement of one of the older operators."""
    others: Mapping[str, Callable[..., Result]] = {
        **{name: attributed(name) for name in ATTRIBUTES},
        "check_finite_and_unscale": unscale, "accuracy": accuracy, "coalesce_tensor": coalesced,
        "split": parted,
    }  # fmt: skip
    stand_in = activation(*ACTIVATIONS[name]) if name in ACTIVATIONS else others.get(name)

    def run(*args: object, **kwargs: object) -> Result | OwnTensor:
        if STATE.inside or not STATE.is_ready or not STATE.dynamic():
            return own(*args, **kwargs)
        if stand_in is None:
            raise Unsupported(f"the older operator {name}")
        return stand_in(*args)

    return run


FUNCTIONS = {name: update(name) for name in RESULTS}
