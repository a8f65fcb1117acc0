"""What the tier uses of Paddle's own objects: its programs, and tensors with data. Paddle ships no
types for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy import ndarray
    from paddle.base.core import DataType


class OwnTensor(Protocol):
    """A tensor that holds its data."""

    @property
    def shape(self) -> Sequence[int]:
        """Extents."""

    def numpy(self) -> ndarray:
        """Return its data."""

    def clone(self) -> OwnTensor:
        """Return a copy."""


class Member(Protocol):
    """The type of a tensor in a list."""

    @property
    def shape(self) -> Sequence[int]:
        """Extents, of which -1 is open."""

    @property
    def dtype(self) -> DataType:
        """Type of the elements."""


class Members(Protocol):
    """The type of a list of tensors."""

    def as_list(self) -> Sequence[Member]:
        """Return the type of each."""


class Kind(Protocol):
    """The type of a value."""

    def as_vec_type(self) -> Members | None:
        """Return the types of a list; None for a tensor."""


class OwnValue(Member, Protocol):
    """A value of a program: a tensor or a list of them."""

    stop_gradient: bool

    @property
    def name(self) -> str:
        """The name of a variable of the scope."""

    @property
    def persistable(self) -> bool:
        """Whether it outlives a run."""

    def hash(self) -> int:
        """Return what tells it from others."""

    def type(self) -> Kind:
        """Return its type."""

    def initialized(self) -> bool:
        """Tell whether there is such a value: optional ones may be absent."""

    def is_combine(self) -> bool:
        """Tell whether it is a list."""

    def is_selected_row_type(self) -> bool:
        """Tell whether it holds only some rows of a table."""

    def get_defining_op(self) -> Operation | None:
        """Return the operator that makes it."""

    def all_used_ops(self) -> Sequence[Operation]:
        """Return the operators that read it."""


class Operation(Protocol):
    """An operator of a program."""

    def name(self) -> str:
        """Return its name with its dialect: `pd_op.matmul`."""

    def attrs(self) -> dict[str, object]:
        """Return its attributes: numbers, texts, lists of numbers."""

    def results(self) -> Sequence[OwnValue]:
        """Return what it makes."""

    def operands_source(self) -> Sequence[OwnValue]:
        """Return what it reads."""

    def operand_source(self, place: int) -> OwnValue:
        """Return what it reads at a place."""

    def num_regions(self) -> int:
        """Return how many blocks of operators it has within."""

    def is_no_need_buffer(self, value: OwnValue) -> bool:
        """Tell whether it reads the shape of an operand alone."""

    def get_input_names(self) -> Sequence[str]:
        """Return the names of its operands."""

    def get_output_names(self) -> Sequence[str]:
        """Return the names of its results."""

    def get_attr_names(self) -> Sequence[str]:
        """Return the names of its attributes."""

    def get_input_grad_semantics(self) -> Sequence[bool]:
        """Return by operand whether a gradient may be asked for it."""


class OwnBlock(Protocol):
    """Operators in order."""

    @property
    def ops(self) -> Sequence[Operation]:
        """The operators."""


class OwnProgram(Protocol):
    """A program."""

    def global_block(self) -> OwnBlock:
        """Return its outermost block."""
