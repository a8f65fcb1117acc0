"""`paddle` itself: what a script finds under which name."""

from __future__ import annotations

from collections.abc import Callable

from gpuconsole.preflight.interpreter.domain.values import (
    Namespace,
    Native,
    NativeClass,
    NativeFunction,
    Value,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.numpy import array as numpy_array
from gpuconsole.preflight.interpreter.numpy import indexing_sorting
from gpuconsole.preflight.interpreter.paddle import device_utils
from gpuconsole.preflight.interpreter.paddle.io import catalogue, dataloader, saving
from gpuconsole.preflight.interpreter.paddle.nn import namespace as nn_names
from gpuconsole.preflight.interpreter.paddle.nn.param_attr import Attr
from gpuconsole.preflight.interpreter.paddle.source_modules import Written
from gpuconsole.preflight.interpreter.paddle.tensor import api as tensor_api
from gpuconsole.preflight.interpreter.paddle.tensor import creation, methods, signal
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import ITEM_BYTES, Parameter, Tensor
from gpuconsole.preflight.interpreter.paddle.training import namespace as training
from gpuconsole.preflight.interpreter.paddle.training import static_graph
from gpuconsole.preflight.interpreter.paddle.vision import detection, transforms


def _nothing(run: Run, *_: Value, **__: Value) -> None:
    return None


def _functions(table: dict[str, Callable[..., Value]]) -> dict[str, Value]:
    return {name: NativeFunction(call, name) for name, call in table.items()}


def _classes(table: dict[str, type[Native]]) -> dict[str, Value]:
    return {name: NativeClass(kind, name) for name, kind in table.items()}


def _text() -> Namespace:
    text_classes = catalogue.classes(catalogue.TEXT)
    datasets = Namespace("paddle.text.datasets", {**text_classes})
    return Namespace("paddle.text", {**text_classes, "datasets": datasets})


def _own_names() -> dict[str, Value]:
    return {
        **_functions(tensor_api.FUNCTIONS),
        **_functions(
            {
                "seed": _nothing,
                "save": saving.save,
                "set_default_dtype": _default_dtype,
                "get_default_dtype": lambda run: run.mode.dtype,
                "disable_static": static_graph.disable,
                "set_flags": _nothing,
                "create_parameter": _create,
                "load": saving.load,
                "in_dynamic_mode": lambda run: run.program.drafting is None,
                "enable_static": static_graph.enable,
                "is_tensor": lambda run, x: isinstance(x, Tensor),
                "tanh": tensor_api.unary("tanh"),
            }
        ),
        **_classes(
            {
                "ParamAttr": Attr,
            }
        ),
        "Tensor": NativeClass(Tensor, "Tensor", creation.to_tensor),
        "Parameter": NativeClass(Parameter, "Parameter", _create),
    }


_VISION_MODULES = {
    "lenet": "plain", "alexnet": "plain", "vgg": "plain", "mobilenetv1": "mobilenet",
    "mobilenetv2": "mobilenet", "mobilenetv3": "mobilenet",
}  # fmt: skip
"""Modules of `paddle.vision.models` that share a source here."""


def _vision(run: Run) -> Written:
    models = Written(run, "paddle.vision.models", "vision", modules=_VISION_MODULES)
    return Written(run, "paddle.vision", "vision", {
        "models": models, "ops": detection.names(run), "transforms": transforms.transforms(),
        "datasets": Namespace("paddle.vision.datasets", catalogue.classes(catalogue.VISION)),
        "image_load": NativeFunction(transforms.loaded, "image_load"),
        "set_image_backend": NativeFunction(catalogue.set_backend, "set_image_backend"),
    })  # fmt: skip


_ALSO_AT_ROOT = (
    "conv1d", "conv2d", "conv3d", "group_norm", "layer_norm", "softmax", "adaptive_avg_pool1d",
)  # fmt: skip


def paddle(run: Run) -> Namespace:
    """Return `paddle` for a run."""
    nn, vision = nn_names.nn(run, training.nn_names()), _vision(run)
    device = device_utils.device()
    names: dict[str, Value] = {
        **device_utils.names(),
        **_own_names(),
        **training.names(run),
        **{name: numpy_array.DType(name) for name in ITEM_BYTES},
        "nn": nn,
        "io": Namespace("paddle.io", dataloader.names()),
        "text": _text(),
        "vision": vision,
        "distribution": Written(run, "paddle.distribution", "distribution"),
        "device": device,
        "static": static_graph.namespace({"create_parameter": _create}),
        **tensor_api.namespaces(),
        **signal.names(run),
        "__version__": "3.3.1",
        **_classes({"iinfo": indexing_sorting.Limits, "finfo": indexing_sorting.Limits}),
    }
    # Functions of networks that Paddle 3 has at its root too.
    functional = nn.names["functional"]
    names.update({name: functional.find(name) for name in _ALSO_AT_ROOT})
    names.update({name: member for name, member in device.names.items() if name != "cuda"})
    names["cuda"] = device.names["cuda"]
    names.update(dict.fromkeys(("tensor", "framework", "base"), Namespace("paddle.tensor", names)))
    return Namespace("paddle", names)


def _default_dtype(run: Run, dtype: Value) -> None:
    run.mode.dtype = creation.dtype_of(run, dtype)


def _create(run: Run, shape: Value, dtype: Value = None, name: Value = None,
            *_: Value, **__: Value) -> Value:  # fmt: skip
    parameter = run.parameter(tuple(shape), creation.dtype_of(run, dtype))
    parameter.name = name or f"{run.unique('create_parameter')}.w_0"
    return parameter


methods.install()
