"""Tensors without data and the blocks of memory that they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .ledger import Block
from .sizes import nbytes
from .state import STATE

if TYPE_CHECKING:
    from .tensor.tensor import Tensor


def new(shape: tuple[int, ...], dtype: Any, name: object, inside: bool = False) -> Any:
    """Return a tensor with a block of its own."""
    made = STATE.tensor.__new__(STATE.tensor)
    made.m_shape, made.m_dtype = shape, dtype
    made.m_block = Block(STATE.ledger, nbytes(shape, dtype), name, inside)
    return made


def twin(tensor: Tensor) -> Any:
    """Return a tensor of the same shape and type without a block."""
    made = STATE.tensor.__new__(STATE.tensor)
    made.m_shape, made.m_dtype, made.m_place = tensor.m_shape, tensor.m_dtype, tensor.m_place
    return made


def allocate(tensor: Tensor, name: str) -> None:
    """Give a tensor a block where it has none of its size."""
    wanted = nbytes(tensor.m_shape, tensor.m_dtype)
    if tensor.m_block is None or tensor.m_block.nbytes != wanted:
        tensor.m_block = None
        tensor.m_block = Block(STATE.ledger, wanted, name)
