"""Gradient clipping and weight decay: which of them make new gradients, which work in place."""

from __future__ import annotations

from gpuconsole.preflight.interpreter.domain.values import Native, Value, first_unknown
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Parameter, Tensor
from gpuconsole.preflight.memory.trace import Storage


class Clip(Native):
    """`nn.ClipGradByNorm`, `ByValue`: clipped gradients are new and live until the step is over."""

    label = "ClipGrad"
    inplace = False


class GlobalClip(Clip):
    """`nn.ClipGradByGlobalNorm`: gradients are scaled where they lie."""

    inplace = True


class Decay(Native):
    """`paddle.regularizer.L1Decay` and `L2Decay`; a plain number as `weight_decay` is L2."""

    label = "L2Decay"
    power = 2

    def init(self, run: Run, coeff: Value = 0.0, *_: Value) -> None:
        """Keep the strength."""
        self.strength = coeff


class AbsoluteDecay(Decay):
    """`paddle.regularizer.L1Decay`."""

    label = "L1Decay"
    power = 1


def decays(decay: Value, fused: bool) -> bool:
    """Tell whether a decay makes new gradients: a kernel that is given L2 does it by itself."""
    if decay is None or decay is False:
        return False
    if isinstance(decay, (int, float)):
        return decay != 0 and not fused
    if isinstance(decay, Decay):
        return decay.power == 1 or not fused
    return not fused


def decayed(run: Run, grads: list[Tensor]) -> list[Storage]:
    """Add decay: for each gradient a scaled parameter for a moment, and the new gradient."""
    storages: list[Storage] = []
    for grad in grads:
        scaled = run.storage(grad.nbytes, "gradients")
        storages.append(run.storage(grad.nbytes, "gradients"))
        del scaled
    return storages


def _gradients(parameters: Value) -> list[Tensor]:
    given = parameters if isinstance(parameters, (list, tuple)) else [parameters]
    return [
        parameter.grad
        for parameter in given
        if isinstance(parameter, Parameter) and parameter.grad is not None
    ]


def clip_norm(run: Run, parameters: Value, max_norm: Value = 1.0, norm_type: Value = 2.0,
              *_: Value, **__: Value) -> Value:  # fmt: skip
    """`nn.utils.clip_grad_norm_`: in place; the largest norm goes through absolute values."""
    unknown = first_unknown(parameters)
    if unknown is not None:
        run.note_unknown(unknown)
    if norm_type == float("inf"):
        run.scratch(max((gradient.nbytes for gradient in _gradients(parameters)), default=0))
    return run.tensor(())


def clip_value(run: Run, parameters: Value, clip_value: Value = 1.0) -> None:
    """`nn.utils.clip_grad_value_`: in place."""
