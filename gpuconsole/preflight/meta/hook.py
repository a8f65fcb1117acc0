"""Paddle's import, watched: its tensor class and its operators are replaced before it uses them."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from typing import TYPE_CHECKING

from .autograd import engine, mixed_precision, py_layer, second_order, to_static
from .ledger import Block
from .operators import dispatch, indexing, optimizers
from .program import executor, saved_layers
from .state import STATE, Unsupported
from .tensor import python_operators
from .tensor.tensor import Tensor
from .values import known

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from .paddle_types import OwnTensor
    from .types import Result

LIBRARY = "paddle.base.libpaddle"


OWN = {
    name: Tensor.__dict__[name]
    for name in ("__bool__", "__nonzero__", "__int__", "__long__", "__index__", "__float__",
                 "__array__", "__len__", "__repr__", "__str__", "__format__", "__hash__",
                 "__deepcopy__", "item", "tolist", "is_contiguous", "contiguous", "stride",
                 "strides", "nbytes", "size", "clear_gradient")
}  # fmt: skip
"""Methods that Paddle would replace by its own, which look at data or at C++ parts."""


class Finder(importlib.abc.MetaPathFinder):
    """Waits for Paddle's compiled library."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        """Return the library's own spec with a loader that replaces parts of it."""
        if name != LIBRARY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader)
        return spec


class Loader(importlib.abc.Loader):
    """Loads the library and replaces parts of it."""

    def __init__(self, inner: importlib.abc.Loader) -> None:
        self.inner = inner

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Load."""
        return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run, then replace."""
        self.inner.exec_module(module)
        replace(module)


def install() -> None:
    """Arrange for tensors without data; before Paddle is imported for the first time."""
    if LIBRARY in sys.modules:
        raise Unsupported("Paddle is loaded already")
    sys.meta_path.insert(0, Finder())


def replace(library: ModuleType) -> None:
    """Put our tensor, operators and engine in the place of the library's."""
    STATE.core = library
    eager = library.eager
    STATE.real = eager.Tensor
    STATE.real_new, STATE.real_init = eager.Tensor.__new__, eager.Tensor.__init__
    STATE.tensor, STATE.run = Tensor, dispatch.call
    second_order.install()
    STATE.sized = hasattr(library, "Size")
    python_operators.install(Tensor)
    STATE.select, STATE.write = indexing.get, indexing.put
    eager.Tensor = Tensor
    eager.PyLayer = py_layer.PyLayer
    eager.run_backward = engine.run_backward
    eager.run_partial_grad = engine.run_partial_grad
    eager.get_all_grads = engine.get_all_grads
    eager.get_grads_lists = mixed_precision.grads_lists
    eager.get_grads_types = mixed_precision.grads_types
    eager.set_master_grads = mixed_precision.master_grads
    eager._add_backward_final_hook = mixed_precision.final_hook
    eager.register_saved_tensors_hooks = lambda pack, unpack: STATE.hooks.append((pack, unpack))
    eager.reset_saved_tensors_hooks = lambda: STATE.hooks.pop() if STATE.hooks else None
    for name in ("all", "bwd", "fwd"):
        # They change programs, those too that tell what a gradient reads.
        setattr(library, f"__set_{name}_prim_enabled", lambda _: None)
    setattr(library, "__set_eager_prim_enabled", gradients_of_parts)
    if hasattr(library, "dygraph_partial_grad"):
        vars(library)["dygraph_partial_grad"] = engine.run_partial_grad
    names = {name: getattr(eager.ops, name) for name in dir(eager.ops)}
    names.update({name: getattr(library.pir.ops, name) for name in dir(library.pir.ops)})
    STATE.described = set(dir(library.pir.ops))
    STATE.inplace = {name[:-1] for name in names if name.endswith("_grad_")}
    for module in (eager.ops, library.pir.ops):
        for name in dir(module):
            if name == "legacy" or name.startswith(("_", "get_")):
                continue
            if callable(getattr(module, name)):
                STATE.operators[name] = STATE.makers[name] = names[name]
                setattr(module, name, operator(name, names[name]))
    older = eager.ops.legacy
    for name in dir(older):
        if not name.startswith(("_", "get_")) and callable(getattr(older, name)):
            setattr(older, name, optimizers.legacy(name, getattr(older, name)))


def gradients_of_parts(wanted: object) -> None:
    """Note whether gradients are to be put together of smaller operators."""
    STATE.parts = bool(wanted)


def followed(name: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Result:
    """Run an operator. An error that Paddle would not raise ends the run whatever the script would
    do about it: with data there is none."""
    try:
        return dispatch.call(name, args, kwargs)
    except Exception as error:
        if isinstance(error, MemoryError) or getattr(error, "rightly", False):
            raise
        words = f"{type(error).__name__}: {str(error).strip()[:200]}"
        raise Unsupported(f"this call of {name} ({words})") from error


def operator(name: str, own: Callable[..., OwnTensor]) -> Callable[..., Result | OwnTensor]:
    """Return the replacement of an operator: Paddle's own while a program is built."""

    def run(*args: object, **kwargs: object) -> Result | OwnTensor:
        if STATE.inside or not STATE.is_ready or not STATE.dynamic():
            return own(*args, **kwargs)
        return followed(name, args, kwargs)

    run.__name__ = name
    return run


def ready(paddle: ModuleType, rules: dict[str, dict[str, str]], backend: str = "gpu") -> None:
    """Finish once Paddle is imported; `rules` is the table of operators by kernel."""
    framework = importlib.import_module("paddle.base.framework")
    STATE.leaves_alone = "is_leaf" in Tensor.__deepcopy__.__code__.co_names
    for name, method in OWN.items():
        setattr(Tensor, name, method)
    STATE.paddle = paddle
    STATE.dynamic = paddle.in_dynamic_mode
    STATE.framework = framework
    STATE.rules = rules
    STATE.backend = backend
    STATE.is_ready = True
    if backend != "cpu":
        mixed_precision.install()
    to_static.install(paddle)
    executor.install(paddle)
    saved_layers.install(paddle)
    own_check()
    known.install_saving()


CHECK_LEFT = 156
"""The most bytes that the program of Paddle's check of its installation was seen to leave; the rest
of the check, which is run, holds more than the program ever does (measured with 3.3.1)."""


def own_check() -> None:
    """Count the program that Paddle's check of its installation runs by what it leaves."""
    check = importlib.import_module("paddle.utils.install_check")
    left: list[Block] = []

    def run(*_: object, **__: object) -> None:
        left.append(Block(STATE.ledger, CHECK_LEFT, "run_check"))

    vars(check)["_run_static_single"] = run
