"""`paddle.nn.functional`."""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.preflight.interpreter.domain.values import NativeFunction, Value
from gpuconsole.preflight.interpreter.paddle.nn import functional_kernels
from gpuconsole.preflight.interpreter.paddle.source_functions import all_sourced
from gpuconsole.preflight.interpreter.paddle.tensor.inplace import changed

_INPLACE = ("relu", "elu", "tanh", "softmax", "leaky_relu", "hardtanh", "thresholded_relu")
FUNCTIONS: dict[str, Callable[..., Value]] = {
    **all_sourced("functional"), **functional_kernels.FUNCTIONS,
    **{f"{name}_": changed(name) for name in _INPLACE},
}  # fmt: skip


def functions() -> dict[str, NativeFunction]:
    """Return `paddle.nn.functional`."""
    return {name: NativeFunction(call, name) for name, call in FUNCTIONS.items()}
