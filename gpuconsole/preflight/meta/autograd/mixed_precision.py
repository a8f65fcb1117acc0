"""Mixed precision as on a device: on a CPU Paddle leaves everything in float32."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ..sizes import word
from ..state import STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..tensor.tensor import Tensor


class Place:
    """Where a device's tensors would lie, as far as mixed precision asks."""

    def is_gpu_place(self) -> bool:
        """Tell that it is a GPU."""
        return True

    def is_cpu_place(self) -> bool:
        """Tell that it is no CPU."""
        return False

    is_xpu_place = is_custom_place = is_cpu_place

    def __repr__(self) -> str:
        return "Place(gpu:0)"


class Tracer:
    """Paddle's tracer, but for where tensors lie."""

    def __init__(self, own: object) -> None:
        object.__setattr__(self, "own", own)

    def __getattr__(self, name: str) -> object:
        return Place() if name == "_expected_place" else getattr(self.own, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.own, name, value)


def install() -> None:
    """Let `paddle.amp` work as it does where there is a device."""
    for name in ("auto_cast", "grad_scaler"):
        module = importlib.import_module(f"paddle.amp.{name}")
        vars(module)["_dygraph_tracer"] = tracer
        for asked in ("_is_gpu_float16_supported", "_is_gpu_bfloat16_supported"):
            if hasattr(module, asked):
                setattr(module, asked, lambda: True)


def tracer() -> Tracer | None:
    """Return the tracer as `paddle.amp` sees it."""
    own = STATE.framework._dygraph_tracer()
    return None if own is None else Tracer(own)


def grads_lists(parameters: Iterable[Tensor]) -> tuple[list[Tensor], ...]:
    """Return the gradients of parameters by type: float16, bfloat16, float32."""
    by_type: dict[str, list[Tensor]] = {"float16": [], "bfloat16": [], "float32": []}
    for parameter in parameters:
        grad = parameter.m_grad
        if grad is not None and word(grad.m_dtype) in by_type:
            by_type[word(grad.m_dtype)].append(grad)
    return by_type["float16"], by_type["bfloat16"], by_type["float32"]


def grads_types(parameters: Iterable[Tensor]) -> list[int]:
    """Return the numbers of the types of the gradients that there are."""
    numbers = {"float16": 4, "bfloat16": 22, "float32": 5}
    grads = [parameter.m_grad for parameter in parameters]
    return [numbers.get(word(grad.m_dtype), 5) for grad in grads if grad is not None]


def master_grads(parameters: Iterable[Tensor]) -> None:
    """Turn the gradients of parameters into float32."""
    for parameter in parameters:
        grad = parameter.m_grad
        if grad is not None and word(grad.m_dtype) != "float32":
            parameter.m_grad = STATE.call("cast", (grad, STATE.paddle.float32), {})


def final_hook(hook: Callable[[], object]) -> None:
    """Call a function once at the end of the next backward pass."""
    STATE.final_hooks.append(hook)
