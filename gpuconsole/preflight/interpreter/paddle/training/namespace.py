"""The parts of `paddle` that train: what a script finds under which name."""

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
from gpuconsole.preflight.interpreter.paddle.autograd import api as autograd_api
from gpuconsole.preflight.interpreter.paddle.autograd import grad_mode
from gpuconsole.preflight.interpreter.paddle.autograd import recompute as autograd_recompute
from gpuconsole.preflight.interpreter.paddle.nn import functional_kernels
from gpuconsole.preflight.interpreter.paddle.tensor import geometric
from gpuconsole.preflight.interpreter.paddle.training import (
    amp,
    distributed,
    grad_clip,
    hapi,
    metrics,
    optimizers,
)
from gpuconsole.preflight.interpreter.paddle.training.metrics import Quiet

_SCHEDULERS = (
    "CosineAnnealingDecay", "LinearWarmup", "StepDecay", "MultiStepDecay", "PiecewiseDecay",
    "PolynomialDecay", "ExponentialDecay", "NoamDecay", "ReduceOnPlateau", "LambdaDecay",
    "NaturalExpDecay", "InverseTimeDecay", "OneCycleLR", "CyclicLR", "LRScheduler",
    "CosineAnnealingWarmRestarts", "MultiplicativeDecay", "LinearLR",
)  # fmt: skip
_CALLBACKS = ("VisualDL", "ModelCheckpoint", "EarlyStopping", "LRScheduler", "Callback",
              "ProgBarLogger", "ReduceLROnPlateau", "WandbCallback")  # fmt: skip


def _functions(table: dict[str, Callable[..., Value]]) -> dict[str, Value]:
    return {name: NativeFunction(call, name) for name, call in table.items()}


def _classes(table: dict[str, type[Native]]) -> dict[str, Value]:
    return {name: NativeClass(kind, name) for name, kind in table.items()}


def nn_names() -> dict[str, Value]:
    """Return what `paddle.nn` has for training."""
    return {
        **_classes({
            "ClipGradByGlobalNorm": grad_clip.GlobalClip, "ClipGradByNorm": grad_clip.Clip,
            "ClipGradByValue": grad_clip.Clip,
        }),
        "utils": Namespace("paddle.nn.utils", _functions({
            "clip_grad_norm_": grad_clip.clip_norm, "clip_grad_value_": grad_clip.clip_value,
        })),
    }  # fmt: skip


def _optimizer() -> Namespace:
    names: dict[str, Value] = {
        name: NativeClass(optimizers.optimizer_class(name), name) for name in optimizers.KINDS
    }
    names["lr"] = Namespace(
        "paddle.optimizer.lr", _classes(dict.fromkeys(_SCHEDULERS, optimizers.Scheduler))
    )
    names["LBFGS"] = NativeClass(optimizers.SecondOrder, "LBFGS")
    names["Optimizer"] = NativeClass(optimizers.Optimizer, "Optimizer")
    return Namespace("paddle.optimizer", names)


def _amp() -> Namespace:
    names = {
        **_classes({"auto_cast": amp.AutoCast, "GradScaler": amp.GradScaler}),
        **_functions({
            "is_autocast_enabled": lambda run, *_: run.mode.amp.level != "O0",
            "get_autocast_dtype": lambda run, *_: run.mode.amp.dtype,
            "decorate": amp.decorate, "is_float16_supported": lambda run, *_: amp.active(run),
            "is_bfloat16_supported": lambda run, *_: amp.active(run),
        }),
    }  # fmt: skip
    names["amp_guard"] = names["auto_cast"]
    return Namespace("paddle.amp", names)


def _autograd() -> Namespace:
    return Namespace("paddle.autograd", {
        **_functions({"backward": autograd_api.backward, "grad": autograd_api.grad}),
        **_classes({
            "PyLayer": autograd_api.PyLayer, "PyLayerContext": autograd_api.Context,
            "no_grad": grad_mode.NoGrad, "enable_grad": grad_mode.EnableGrad,
            "set_grad_enabled": grad_mode.SetGradEnabled,
        }),
    })  # fmt: skip


def _unknown_path(what: str) -> Callable[..., Value]:
    def call(run: Run, *_: Value, **__: Value) -> Value:
        unknown = run.unknown(what)
        run.block(unknown)
        return unknown

    return call


def _to_static(run: Run, function: Value = None, *_: Value, **__: Value) -> Value:
    """`paddle.jit.to_static`, as a function or a decorator: followed as if not compiled."""
    note = "A network compiled by to_static is followed as the dynamic graph that it is made from."
    if note not in run.findings.notes:
        run.findings.notes.append(note)
    if function is None:
        return NativeFunction(lambda _run, function, *a, **k: function, "to_static")
    return function


def _jit() -> Namespace:
    return Namespace("paddle.jit", _functions({
        "to_static": _to_static, "not_to_static": lambda run, function=None, *a: function,
        "save": lambda run, *a, **k: None,
        "load": _unknown_path("a network loaded from a file: its layers are not in the script"),
    }))  # fmt: skip


def _inference() -> Namespace:
    why = "an inference engine runs a saved network: its layers are not in the script"
    return Namespace("paddle.inference", _functions(
        dict.fromkeys(("Config", "create_predictor", "Predictor"), _unknown_path(why))
    ))  # fmt: skip


def _fused() -> dict[str, Value]:
    segments = {f"segment_{kind}": geometric.segment for kind in ("sum", "mean", "max", "min")}
    return _functions({
        **segments, "softmax_mask_fuse": functional_kernels.softmax_masked,
        "graph_send_recv": geometric.send_u_recv, "identity_loss": lambda run, x, *_, **__: x,
    })  # fmt: skip


def names(run: Run) -> dict[str, Value]:
    """Return what `paddle` itself has for training, by name."""
    metric = {
        **_classes(dict.fromkeys(("Metric", "Precision", "Recall", "Auc"), metrics.Metric)),
        "Accuracy": NativeClass(metrics.Accuracy, "Accuracy"),
        "accuracy": NativeFunction(metrics.accuracy, "accuracy"),
    }
    recompute = _functions({"recompute_sequential": autograd_recompute.sequential,
                            "recompute_hybrid": autograd_recompute.hybrid})  # fmt: skip
    fleet = Namespace("paddle.incubate.distributed.fleet", recompute)
    return {
        **_classes({
            "no_grad": grad_mode.NoGrad, "enable_grad": grad_mode.EnableGrad,
            "set_grad_enabled": grad_mode.SetGradEnabled, "Model": hapi.Model,
        }),
        **_functions({
            "grad": autograd_api.grad, "summary": hapi.summary, "flops": hapi.flops,
            "DataParallel": distributed.data_parallel,
            "is_grad_enabled": lambda run: run.mode.grad_enabled,
            "CPUPlace": lambda run: "cpu",
            "CUDAPlace": lambda run, index=0: f"gpu:{index}",
        }),
        "optimizer": _optimizer(), "amp": _amp(), "autograd": _autograd(), "jit": _jit(),
        "inference": _inference(), "distributed": distributed.namespace(),
        "metric": Namespace("paddle.metric", metric),
        "regularizer": Namespace("paddle.regularizer", _classes(
            {"L1Decay": grad_clip.AbsoluteDecay, "L2Decay": grad_clip.Decay}
        )),
        "callbacks": Namespace("paddle.callbacks", _classes(
            {**dict.fromkeys(_CALLBACKS, Quiet), "ModelCheckpoint": hapi.Checkpoint}
        )),
        "incubate": Namespace("paddle.incubate", {
            "distributed": Namespace("paddle.incubate.distributed", {"fleet": fleet}),
            **_fused(),
        }),
    }  # fmt: skip
