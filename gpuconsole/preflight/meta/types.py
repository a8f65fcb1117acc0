"""Types of what the modules of the tier hand each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import EllipsisType
    from typing import Literal, TypeAlias

    from numpy import generic, ndarray

    from .inference.infer import Place
    from .tensor.tensor import Keeper, Tensor

    Shape: TypeAlias = tuple[int, ...]
    """Extents of a tensor, one an axis."""
    Numbers: TypeAlias = Sequence[int | None]
    """Numbers of values in an entry's program; None for what is no tensor."""
    Stops: TypeAlias = tuple[tuple[bool, ...], ...]
    """By operand and place: whether an input needs no gradient."""
    Key: TypeAlias = int | tuple[str, int]
    """What tells the end of an edge from others."""

    Result: TypeAlias = Tensor | Sequence["Result"] | None
    """What an operator returns."""
    Rows: TypeAlias = Sequence[Sequence[Tensor | None]]
    """Tensors by operand, or result, and place."""
    Grads: TypeAlias = list[Tensor | None]
    """Gradients of a node's outputs or inputs, in their order; None where there is none."""
    Operator: TypeAlias = Callable[[str, Sequence[object], Mapping[str, object]], Result]
    """Runs the operator of a name with arguments."""
    Form: TypeAlias = Place | list["Form"] | None
    """How an operator's result is put together of what was numbered."""
    Attributes: TypeAlias = Mapping[str, object]
    """An operator's attributes, as Paddle's program has them: numbers, texts, lists of numbers."""
    OneTensor: TypeAlias = Literal[
        "add", "assign", "cast", "full", "full_like", "masked_select", "matmul", "multiply", "pow",
        "reshape", "scale", "sigmoid", "slice", "squeeze", "strided_slice", "subtract", "sum",
        "unsqueeze",
    ]  # fmt: skip
    """Operators that return one tensor."""

    Whole: TypeAlias = tuple[Tensor | None, Keeper | None, Tensor | None]
    """A leaf, the place of its gradient, and that."""
    Hook: TypeAlias = Callable[[Tensor], object]
    """What a script has called with a gradient."""
    Packing: TypeAlias = tuple[Callable[[Tensor], object], Callable[[object], object]]
    """What packs tensors that are saved, and what unpacks them."""

    Part: TypeAlias = (
        Tensor | ndarray | generic | slice | int | Sequence["Part"] | EllipsisType | None
    )
    """A part of a subscript, along one axis or several."""
    Subscript: TypeAlias = Part | tuple[Part, ...]
    Written: TypeAlias = Tensor | ndarray | generic | complex
    """What a subscript may be set to."""
    Nested: TypeAlias = complex | list["Nested"]
    """Numbers in lists of lists."""
