"""What is recognised but not followed: other frameworks, and Paddle before 2.0."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gpuconsole.core.wording import msg
from gpuconsole.preflight.interpreter.domain.values import Blocked, Unknown
from gpuconsole.preflight.interpreter.machine.run_state.run import Run

FRAMEWORKS: Mapping[str, str] = MappingProxyType({
    "torch": "PyTorch", "torchvision": "PyTorch", "pytorch_lightning": "PyTorch",
    "lightning": "PyTorch", "tensorflow": "TensorFlow", "keras": "Keras", "jax": "JAX",
    "flax": "JAX", "mxnet": "MXNet", "mindspore": "MindSpore", "oneflow": "OneFlow",
    "megengine": "MegEngine", "jittor": "Jittor", "chainer": "Chainer", "caffe": "Caffe",
})  # fmt: skip
GONE = ("paddle.fluid", "paddle.v2")
"""Packages of Paddle before 2.0 that no Paddle since 2.5 has."""
OLD = ("paddle.dataset",)
"""Readers from before 2.0 that are still shipped; their sizes are not modelled."""


class Unsupported(Blocked):
    """An import that Paddle 3 no longer has: the script stops there unless it catches that."""


def framework(run: Run, name: str) -> Unknown | None:
    """Return why a module of another framework cannot be followed."""
    label = FRAMEWORKS.get(name.split(".")[0])
    if label is None:
        return None
    return run.unknown(
        msg(
            "not supported: {name} is {label}; the analysis reads PaddlePaddle alone",
            name=name,
            label=label,
        )
    )


def refuse_gone(run: Run, name: str) -> None:
    """Raise Unsupported for a module or attribute that went with Paddle 2.0."""
    if any(name == gone or name.startswith(f"{gone}.") for gone in GONE):
        raise Unsupported(run.unknown(
            msg(
                "not supported: {name} is of Paddle before 2.0, which Paddle 3 no longer has",
                name=name,
            )
        ))  # fmt: skip


def old(run: Run, name: str) -> Unknown | None:
    """Return why a reader from before Paddle 2.0 cannot be followed."""
    if not any(name == old_name or name.startswith(f"{old_name}.") for old_name in OLD):
        return None
    return run.unknown(
        msg(
            "not supported: {name} holds readers from before Paddle 2.0; use paddle.io instead",
            name=name,
        )
    )
