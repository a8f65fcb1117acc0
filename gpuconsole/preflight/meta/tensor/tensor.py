"""The class in place of Paddle's own tensor class: shape, type and block, no data.

`m_…` are our own fields. Methods and operators that in Paddle are written in C++ are here; those
that Paddle writes in Python are put onto this class by Paddle itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..allocation import allocate, twin
from ..inference.views import contiguous as row_major
from ..sizes import ITEM, count, nbytes, word
from ..state import STATE, Unsupported, rightly
from ..values import known
from .construct import initialise

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import generic, ndarray
    from numpy.typing import DTypeLike
    from paddle import Size as PaddleSize
    from paddle.base.core import DataType
    from paddle.base.core import Place as PaddlePlace

    from ..autograd.nodes import Node
    from ..ledger import Block
    from ..paddle_types import OwnTensor
    from ..types import Nested, Shape, Subscript, Written


class Keeper:
    """The place of a gradient, which outlives its tensor while a node holds it."""

    __slots__ = ("__weakref__", "grad")

    def __init__(self) -> None:
        self.grad: Tensor | None = None


class Tensor:
    """A tensor without data."""

    # Not in `__dict__`, which scripts and Paddle copy.
    __slots__ = ("__dict__", "__weakref__", "m_block", "m_dtype", "m_hooks", "m_keeper", "m_known",
                 "m_name", "m_node", "m_parts", "m_place", "m_rows",
                 "m_shape", "m_slot", "m_strides", "m_version", "persistable",
                 "stop_gradient")  # fmt: skip

    m_block: Block | None
    m_shape: Shape
    m_dtype: DataType
    m_strides: Shape | None
    m_known: OwnTensor | None
    """Paddle's own tensor with the data, where it is small and does not come from unknowns."""
    m_node: Node | None
    m_keeper: Keeper | None
    """What holds its gradient, once it may have one: nodes that read the tensor share it."""
    m_hooks: dict[int | tuple[str, int], Callable[..., object]] | None
    m_rows: bool
    """Whether it holds only some rows of a table, as gradients of sparse embeddings do."""
    m_parts: tuple[Tensor, Tensor] | None
    """Values and indices, where it is sparse."""
    m_name: str
    m_place: PaddlePlace | None
    m_source: Tensor | None
    """The leaf that it shares its gradient with."""
    m_slot: int
    m_version: int
    stop_gradient: bool
    persistable: bool

    def __new__(cls, *_: object, **__: object) -> Tensor:
        tensor = object.__new__(cls)
        tensor.m_block = tensor.m_dtype = tensor.m_strides = tensor.m_known = tensor.m_node = None
        tensor.m_keeper = tensor.m_hooks = tensor.m_place = None
        tensor.m_source = tensor.m_parts = None
        tensor.m_shape = ()
        tensor.m_name = ""
        tensor.m_slot = tensor.m_version = 0
        tensor.m_rows = tensor.persistable = False
        tensor.stop_gradient = True
        return tensor

    def __init__(self, *args: object, **kwargs: object) -> None:
        initialise(self, args, kwargs)

    # -- what it is

    @property
    def shape(self) -> PaddleSize | list[int]:
        """Extents, in Paddle's own type for them."""
        return STATE.paddle.Size(self.m_shape) if STATE.sized else list(self.m_shape)

    @property
    def dtype(self) -> DataType:
        """Type of the elements."""
        return self.m_dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.m_shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return count(self.m_shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return nbytes(self.m_shape, self.m_dtype)

    @property
    def strides(self) -> list[int]:
        """Elements between neighbours along each axis."""
        return list(self.m_strides or row_major(self.m_shape))

    def get_strides(self) -> list[int]:
        """Return the strides."""
        return self.strides

    def stride(self, axis: int | None = None) -> list[int] | int:
        """Return all strides or one axis's."""
        return self.strides if axis is None else self.strides[axis]

    def is_contiguous(self) -> bool:
        """Tell whether the elements lie in order."""
        return self.m_strides is None

    @property
    def place(self) -> PaddlePlace:
        """Where it lies."""
        return self.m_place or STATE.paddle.framework._current_expected_place()

    @property
    def type(self) -> PaddlePlace:
        """Kind of variable."""
        kinds = STATE.core.VarDesc.VarType
        return kinds.SELECTED_ROWS if self.m_rows else kinds.DENSE_TENSOR

    @property
    def layout(self) -> str:
        """Order of the axes."""
        return "NCHW"

    @property
    def name(self) -> str:
        """A unique name."""
        if not self.m_name:
            self.m_name = STATE.unique("generated_tensor")
        return self.m_name

    @name.setter
    def name(self, value: str) -> None:
        self.m_name = value

    @property
    def is_leaf(self) -> bool:
        """Whether no operator made it that is recorded."""
        return self.m_node is None or self.stop_gradient

    @property
    def source(self) -> Tensor:
        """The tensor that keeps its gradient: itself but for another face of a leaf."""
        return self if self.m_source is None else self.m_source

    @property
    def grad_fn(self) -> Node | None:
        """The node behind it."""
        return self.m_node

    @property
    def offset(self) -> int:
        """Where in its block it begins."""
        return 0

    @property
    def process_mesh(self) -> None:
        """No mesh: the tensor is not distributed."""
        return None

    placements = num_shard = process_mesh

    @property
    def _place_str(self) -> str:
        return str(self.place)

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return ITEM.get(word(self.m_dtype), 4)

    def _numel(self) -> int:
        return count(self.m_shape)

    def is_dense(self) -> bool:
        """Tell whether all elements are there."""
        return not self.m_rows and self.m_parts is None

    def is_dist(self) -> bool:
        """Tell whether it is spread over processes."""
        return False

    is_sparse_csr = is_dist

    def is_sparse(self) -> bool:
        """Tell whether it is made of values and their indices."""
        return self.m_parts is not None

    is_sparse_coo = is_sparse

    def is_selected_rows(self) -> bool:
        """Tell whether it holds only some rows."""
        return bool(self.m_rows)

    def is_same_shape(self, other: Tensor) -> bool:
        """Tell whether another has the same shape."""
        return self.m_shape == other.m_shape

    def _is_initialized(self) -> bool:
        return self.m_block is not None

    _is_dense_tensor_hold_allocation = _is_initialized

    def _holder_size(self) -> int:
        return self.m_block.nbytes if self.m_block is not None else 0

    def _is_shared_buffer_with(self, other: Tensor) -> bool:
        return self.m_block is not None and self.m_block is other.m_block

    _is_shared_underline_tensor_with = _is_shared_buffer_with

    def data_ptr(self) -> int:
        """Return a number that the tensors of a block share, 0 without one."""
        return self.m_block.index + 1 if self.m_block is not None else 0

    _offset = staticmethod(lambda: 0)

    def _inplace_version(self) -> int:
        return int(self.m_version)

    def _bump_inplace_version(self) -> None:
        self.m_version += 1

    def _reset_grad_inplace_version(self, *_: object) -> None:
        return

    def _getitem_dygraph(self, index: Subscript) -> Tensor:
        return STATE.select(self, index)

    def _setitem_dygraph(self, index: Subscript, value: Written) -> Tensor:
        return STATE.write(self, index, value)

    # -- values

    def numpy(self, *_: object) -> ndarray:
        """Return an array: its data where that is known, else plausible."""
        return known.copied(self, "numpy")

    def _getitem_from_offset(self, *args: object) -> generic:
        array = known.array(self, "item")
        return array.item(*args) if args else array.reshape(-1)[0]

    def item(self, *args: object) -> complex:
        """Return one element as a number."""
        array = known.array(self, "item")
        number = array.item(*args) if args else array.reshape(-1)[0].item()
        unknown = self.m_known is None and isinstance(number, float)
        return STATE.number_of(number) if unknown else number

    def tolist(self) -> Nested:
        """Return nested lists."""
        known.looked_at(self)
        numbers: Nested = known.array(self, "tolist").tolist()
        return numbers

    def __bool__(self) -> bool:
        known.looked_at(self)
        return bool(known.number(self, "bool"))

    __nonzero__ = __bool__

    def __int__(self) -> int:
        known.looked_at(self)
        return int(known.number(self, "int"))

    __index__ = __long__ = __int__

    def __float__(self) -> float:
        known.looked_at(self)
        return float(known.number(self, "float"))

    def __array__(self, dtype: DTypeLike = None, copy: object = None) -> ndarray:
        array = known.copied(self, "numpy")
        return array if dtype is None else array.astype(dtype)

    def __len__(self) -> int:
        if not self.m_shape:
            raise rightly(AssertionError("len() of a 0-D tensor is wrong"))
        return int(self.m_shape[0])

    def __neg__(self) -> Tensor:
        return STATE.call("scale", (self, -1.0, 0.0, True), {})

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        known.looked_at(self)
        return (
            f"Tensor(shape={list(self.m_shape)}, dtype={self.m_dtype}, "
            f"stop_gradient={self.stop_gradient}, without data)"
        )

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        if self.m_shape:
            return object.__format__(repr(self), spec) if not spec else repr(self)
        return format(known.number(self, "format"), spec)

    # -- memory

    def _share_buffer_to(self, other: Tensor) -> None:
        other.m_block, other.m_shape, other.m_dtype = self.m_block, self.m_shape, self.m_dtype
        other.m_strides, other.m_known = self.m_strides, self.m_known

    _share_underline_tensor_to = _unsafe_share_buffer_to = _share_buffer_to

    def _share_data_with(self, other: Tensor) -> Tensor:
        other._share_buffer_to(self)
        return self

    _share_data_nocheck_with = _share_data_with

    def _set_impl(self, other: Tensor) -> None:
        other._share_buffer_to(self)

    def _clear(self) -> None:
        self.m_block = self.m_known = None

    _clear_data = _clear_dataptr = _clear

    def _clear_to_zero_allocation(self) -> None:
        self.m_block = self.m_known = None

    def _unset_fake_empty(self) -> None:
        return

    def _share_memory(self) -> Tensor:
        return self

    def value(self) -> Tensor:
        """Return itself, as Paddle does."""
        return self

    def get_tensor(self) -> Tensor:
        """Return the C++ tensor: itself."""
        return self

    def get_selected_rows(self) -> Tensor:
        """Return the rows: itself."""
        return self

    def set_tensor(self, other: Tensor) -> None:
        """Take another tensor's data over: copied, for the block stays."""
        if self.m_block is None:
            allocate(self, "set_tensor")
        self.m_known = known.copy(other)

    def set(self, array: ndarray, *_: object) -> None:
        """Take an array's data over."""
        self.m_shape = tuple(array.shape)
        self.m_strides = None
        allocate(self, "set")
        self.m_known = None

    def copy_(self, other: Tensor, *_: object) -> Tensor:
        """Copy another tensor's data into this block."""
        if self.m_block is None:
            self.m_shape, self.m_dtype = other.m_shape, other.m_dtype
            allocate(self, "copy_")
        self.m_known = known.copy(other)
        return self

    def _copy_to(self, place: object, *_: object) -> Tensor:
        copy = twin(self)
        allocate(copy, "copy_to")
        copy.m_known = self.m_known
        copy.stop_gradient = self.stop_gradient
        return copy

    def _slice(self, begin: int, end: int) -> Tensor:
        view = twin(self)
        view.m_shape = (end - begin, *self.m_shape[1:])
        view.m_block, view.m_strides = self.m_block, self.m_strides
        return view

    def contiguous(self) -> Tensor:
        """Return itself, or a copy in order."""
        return self if self.m_strides is None else self.clone()

    def detach(self) -> Tensor:
        """Return a view that no graph hangs behind."""
        detached = twin(self)
        detached.m_block, detached.m_strides, detached.m_known = (
            self.m_block,
            self.m_strides,
            self.m_known,
        )
        detached.m_rows = self.m_rows
        return detached

    def detach_(self) -> Tensor:
        """Take it out of the graph."""
        self.m_node, self.stop_gradient = None, True
        return self

    def _new_shared_tensor(self) -> Tensor:
        shared = self.detach()
        shared.m_source = self.source
        shared.stop_gradient, shared.persistable = self.stop_gradient, self.persistable
        shared.m_node, shared.m_slot = self.m_node, self.m_slot
        return shared

    @property
    def data(self) -> Tensor:
        """Return a view without a graph."""
        return self.detach()

    @data.setter
    def data(self, other: Tensor) -> None:
        other._share_buffer_to(self)

    def clone(self) -> Tensor:
        """Return a copy with a gradient."""
        return STATE.call("assign", (self,), {})

    def __deepcopy__(self, memo: dict[int, object]) -> Tensor:
        if STATE.leaves_alone and not self.is_leaf:
            raise rightly(RuntimeError("Only Leaf Tensor support the deepcopy at the moment"))
        twin_made = type(self).__new__(type(self))
        memo[id(self)] = twin_made
        import copy

        for name, value in self.__dict__.items():
            twin_made.__dict__[name] = copy.deepcopy(value, memo)
        twin_made.m_shape, twin_made.m_dtype, twin_made.m_place = (
            self.m_shape,
            self.m_dtype,
            self.m_place,
        )
        twin_made.m_name = STATE.unique("copied")
        twin_made.stop_gradient, twin_made.persistable = self.stop_gradient, self.persistable
        if self.m_block is not None:
            allocate(twin_made, "deepcopy")
        twin_made.m_known = self.m_known
        return twin_made

    def _tensor_use_gpudnn(self, *_: object) -> Tensor:
        return self

    _use_gpudnn = _tensor_use_gpudnn

    def _tensor_uva(self, *_: object) -> None:
        return

    # -- gradients

    @property
    def m_grad(self) -> Tensor | None:
        """The gradient that it holds itself."""
        return None if self.m_keeper is None else self.m_keeper.grad

    @m_grad.setter
    def m_grad(self, value: Tensor | None) -> None:
        if value is not None or self.m_keeper is not None:
            self.keeper().grad = value

    def keeper(self) -> Keeper:
        """Return what holds its gradient."""
        if self.m_keeper is None:
            self.m_keeper = Keeper()
        return self.m_keeper

    @property
    def grad(self) -> Tensor | None:
        """The gradient that has been kept for it."""
        return self.source.m_grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        self.m_grad = value

    grad_ = grad

    def _grad_ivar(self) -> Tensor | None:
        return self.m_grad

    _grad_value = _grad_ivar

    def _grad_name(self) -> str:
        return f"{self.name}@GRAD"

    def _set_grad_ivar(self, value: Tensor | None) -> None:
        self.m_grad = value

    def _set_grad_type(self, *_: object) -> None:
        return

    def _zero_grads(self) -> None:
        return

    def clear_gradient(self, set_to_zero: bool = True) -> None:
        """Zero the gradient, which keeps its memory, or let it go; rows always go."""
        if self.m_grad is not None and (not set_to_zero or self.m_grad.m_rows):
            self.m_grad = None

    def retain_grads(self) -> None:
        """Keep the gradient of a tensor that is no leaf."""
        if self.m_node is not None:
            self.m_node.retain(self)

    def _copy_gradient_from(self, other: Tensor) -> None:
        self.m_grad = other

    def _register_grad_hook(self, hook: Callable[..., object]) -> int:
        if self.m_node is not None:
            return self.m_node.hook(self.m_slot, hook)
        self.m_hooks = self.m_hooks if self.m_hooks is not None else {}
        self.m_hooks[len(self.m_hooks)] = hook
        return len(self.m_hooks) - 1

    def _remove_grad_hook(self, number: int) -> bool:
        hooks = self.m_node.hooks.get(self.m_slot) if self.m_node is not None else self.m_hooks
        return bool(hooks and hooks.pop(number, None) is not None)

    def _register_backward_hook(self, hook: Callable[..., object]) -> None:
        self.m_hooks = self.m_hooks if self.m_hooks is not None else {}
        self.m_hooks["after", len(self.m_hooks)] = hook

    def _apply_backward_hook(self) -> None:
        for key, hook in list((self.m_hooks or {}).items()):
            if isinstance(key, tuple):
                hook()

    def rows(self) -> list[int]:
        """Return the numbers of the rows held."""
        return [0] * (self.m_shape[0] if self.m_shape else 0)

    def _get_tensor_from_selected_rows(self) -> Tensor:
        return self

    def get_map_tensor(self, *_: object) -> None:
        """Texts are not followed."""
        raise Unsupported("tensors of texts")

    set_vocab = set_string_list = get_map_tensor


STATE.tensor = Tensor
