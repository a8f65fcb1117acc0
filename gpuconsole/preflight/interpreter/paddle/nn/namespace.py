"""The names of `paddle.nn`."""

from __future__ import annotations

from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.nn import (
    containers,
    functional,
    functional_layers,
    layer,
    norm,
    rnn,
    weighted_layers,
)
from gpuconsole.preflight.interpreter.paddle.nn.param_attr import Attr
from gpuconsole.preflight.interpreter.paddle.source_modules import Written
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Parameter, Tensor

LONG_SEQUENCE = 512
"""Beyond this length a transformer is flagged: attention grows with its square."""
_CLASSES: tuple[type[layer.Layer], ...] = (
    layer.Layer, containers.Sequential, containers.LayerList, containers.ParameterList,
    containers.LayerDict, weighted_layers.Linear, weighted_layers.Bilinear,
    weighted_layers.Conv1D, weighted_layers.Conv2D, weighted_layers.Conv3D,
    weighted_layers.Conv1DTranspose, weighted_layers.Conv2DTranspose,
    weighted_layers.Conv3DTranspose, weighted_layers.Embedding, weighted_layers.PReLU,
    norm.BatchNorm, norm.BatchNorm1D, norm.BatchNorm2D, norm.BatchNorm3D, norm.SyncBatchNorm,
    norm.LayerNorm, norm.GroupNorm, norm.InstanceNorm1D, norm.InstanceNorm2D,
    norm.InstanceNorm3D, norm.SpectralNorm, rnn.LSTM, rnn.GRU, rnn.SimpleRNN,
)  # fmt: skip
_FUNCTION_MODULES = ("common", "loss", "activation", "norm", "pooling", "conv", "input", "vision")
"""Modules in which Paddle keeps the functions of `paddle.nn.functional`."""
_OTHER_NAMES = {
    "SiLU": "Silu", "HuberLoss": "SmoothL1Loss", "Module": "Layer", "ModuleList": "LayerList",
    "ModuleDict": "LayerDict",
    **{f"{kind}{rank}d": f"{kind}{rank}D" for rank in (1, 2, 3) for kind in (
        "Conv", "ZeroPad", "ConstantPad", "ReflectionPad", "ReplicationPad", "AdaptiveAvgPool",
        "AdaptiveMaxPool")},
    "UpsamplingBilinear2d": "UpsamplingBilinear2D", "UpsamplingNearest2d": "UpsamplingNearest2D",
}  # fmt: skip
"""Names that Paddle 3 has beside its own."""
_INITIALIZERS = (
    "Constant", "Normal", "TruncatedNormal", "Uniform", "XavierNormal", "XavierUniform",
    "KaimingNormal", "KaimingUniform", "Assign", "Orthogonal", "Dirac", "Bilinear", "MSRA",
    "Initializer",
)  # fmt: skip
_FILLERS = (
    "constant_", "normal_", "uniform_", "zeros_", "ones_", "xavier_normal_", "xavier_uniform_",
    "kaiming_normal_", "kaiming_uniform_", "trunc_normal_", "orthogonal_", "eye_", "dirac_",
)  # fmt: skip


_ACTIVATIONS = (
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Maxout", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6",
    "SELU", "Sigmoid", "Silu", "Softmax", "Softmax2D", "Softplus", "Softshrink", "Softsign",
    "Swish", "Tanh", "Tanhshrink", "ThresholdedReLU",
)  # fmt: skip
"""The layers of `paddle.nn.layer.activation`."""


def _activations(space: Written) -> Namespace:
    """Return the module of activations, which scripts look through by name."""
    names = {name: space.find(name) for name in _ACTIVATIONS}
    return Namespace("paddle.nn.layer.activation", {**names, "__dict__": names})


def note_length(run: Run, length: Value) -> None:
    """Flag a long sequence."""
    if isinstance(length, int) and length > LONG_SEQUENCE:
        run.findings.flags.add("long-sequence")


def _filled(run: Run, tensor: Value, *_: Value, **__: Value) -> Value:
    return tensor


def _initializers() -> Namespace:
    names: dict[str, Value] = {name: NativeClass(Attr, name) for name in _INITIALIZERS}
    names.update({name: NativeFunction(_filled, name) for name in _FILLERS})
    names["set_global_initializer"] = NativeFunction(lambda run, *a, **k: None, "set")
    names["calculate_gain"] = NativeFunction(lambda run, *a, **k: 1.0, "calculate_gain")
    return Namespace("paddle.nn.initializer", names)


def _parameter(run: Run, data: Value = None, requires_grad: Value = True, *_: Value) -> Value:
    """`nn.Parameter(tensor)`: the tensor's block as a parameter."""
    if not isinstance(data, Tensor):
        return run.unknown("a parameter of what is not known")
    block = data.storage
    block.ledger.change_kind(block.index, "parameters")
    parameter = Parameter(
        data.shape, data.dtype, data.storage, stop_gradient=requires_grad is False
    )
    parameter.trainable = requires_grad is not False
    return parameter


def _clip(run: Run, parameters: Value, *_: Value, **__: Value) -> Value:
    return run.number("the norm of the gradients")


def nn(run: Run, more: dict[str, Value]) -> Written:
    """Return `paddle.nn`; `more` are names that live elsewhere."""
    classes: dict[str, type[Native]] = {
        layer_class.__name__: layer_class for layer_class in _CLASSES
    }
    utils = Written(run, "paddle.nn.utils", "nn_utils", {
        "clip_grad_norm_": NativeFunction(_clip, "clip_grad_norm_"),
        "clip_grad_value_": NativeFunction(_clip, "clip_grad_value_"),
    })  # fmt: skip
    space = Written(run, "paddle.nn", "nn", {
        **functional_layers.layer_classes(),
        **{name: NativeClass(kind, name) for name, kind in classes.items()},
        "ParameterDict": NativeClass(containers.LayerDict, "ParameterDict"),
        **more,
        "functional": Written(
            run, "paddle.nn.functional", "functional", {**functional.functions()}
        ),
        "initializer": _initializers(), "utils": utils,
        "Parameter": NativeFunction(_parameter, "Parameter"),
        "_note_length": NativeFunction(note_length, "note_length"),
    })  # fmt: skip
    for name, other in _OTHER_NAMES.items():
        space.names[name] = space.find(other)
    # The modules in which Paddle keeps the layers, by which older scripts name them.
    space.names.update(dict.fromkeys(("layer", "loss", "norm", "common"), space))
    space.names["activation"] = _activations(space)
    functional_space = space.names["functional"]
    functional_space.names.update(dict.fromkeys(_FUNCTION_MODULES, functional_space))
    return space
