"""Tensors without data and the blocks of memory that they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ledger import Block
from .sizes import nbytes
from .state import STATE

if TYPE_CHECKING:
    from paddle.base.core import DataType

    from .tensor.tensor import Tensor


def new(shape: tuple[int, ...], dtype: DataType, name: str, inside: bool = False) -> Tensor:
    """Return a tensor with a block of its own."""
    tensor: Tensor = STATE.tensor.__new__(STATE.tensor)
    tensor.m_shape, tensor.m_dtype = shape, dtype
    tensor.m_block = Block(STATE.ledger, nbytes(shape, dtype), name, inside)
    return tensor


def twin(tensor: Tensor) -> Tensor:
    """Return a tensor of the same shape and type without a block."""
    other: Tensor = STATE.tensor.__new__(STATE.tensor)
    other.m_shape, other.m_dtype, other.m_place = tensor.m_shape, tensor.m_dtype, tensor.m_place
    return other


def allocate(tensor: Tensor, name: str) -> None:
    """Give a tensor a block where it has none of its size."""
    wanted = nbytes(tensor.m_shape, tensor.m_dtype)
    if tensor.m_block is None or tensor.m_block.nbytes != wanted:
        tensor.m_block = None
        tensor.m_block = Block(STATE.ledger, wanted, name)
