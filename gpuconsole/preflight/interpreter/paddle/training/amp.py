"""`paddle.amp`: automatic mixed precision, loss scaling, models in half precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import Native, Value
from gpuconsole.preflight.interpreter.machine.run_state.modes import Amp
from gpuconsole.preflight.interpreter.machine.run_state.run import Run
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.ops import apply as ops
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Parameter, Tensor
from gpuconsole.preflight.interpreter.paddle.training.optimizers import Optimizer
from gpuconsole.preflight.memory.backends import terms

_HALF_NAMES = {"float16": "float16", "bfloat16": "bfloat16", "fp16": "float16", "bf16": "bfloat16"}
_ALWAYS_FULL = ("BatchNorm",)
_FULL_AT_FLOAT16 = ("LayerNorm", "InstanceNorm")


def active(run: Run) -> bool:
    """Tell whether this back end mixes precision at all: on the CPU Paddle silently does not."""
    return terms(run.setting.backend).mixed_precision


def half_name(dtype: Value) -> str:
    """Return the half precision that a script names; float16 where it names none."""
    return _HALF_NAMES.get(str(getattr(dtype, "name", dtype)), "float16")


def _names(value: Value) -> frozenset[str]:
    given = value if isinstance(value, (list, tuple, set, frozenset)) else ()
    return frozenset(name for name in given if isinstance(name, str))


class AutoCast(Native):
    """`paddle.amp.auto_cast`."""

    label = "auto_cast"

    def init(self, run: Run, enable: Value = True, custom_white_list: Value = None,
             custom_black_list: Value = None, level: Value = "O1", dtype: Value = "float16",
             *_: Value, **__: Value) -> None:  # fmt: skip
        """Keep level, type and the script's own lists."""
        on = enable is not False and level in ("O1", "O2", "OD")
        self.state = Amp(
            level if on else "O0", half_name(dtype), _names(custom_white_list),
            _names(custom_black_list),
        )  # fmt: skip

    def enter(self, run: Run) -> Callable[[], None]:
        """Switch mixed precision on until left."""
        before, run.mode.amp = run.mode.amp, self.state

        def leave() -> None:
            run.mode.amp = before

        return leave


class GradScaler(Native):
    """`paddle.amp.GradScaler`."""

    label = "GradScaler"

    def init(self, run: Run, enable: Value = True, *_: Value, **__: Value) -> None:
        """Keep whether it is on: on the CPU it never is."""
        self.on = enable is not False and active(run)

    @exposed.method("scale")
    def do_scale(self, run: Run, loss: Value) -> Value:
        """Multiply the loss."""
        return ops.unary(run, "scale", loss) if self.on and isinstance(loss, Tensor) else loss

    @exposed.method("step")
    def do_step(self, run: Run, optimizer: Value) -> None:
        """Unscale in place and step."""
        if isinstance(optimizer, Optimizer):
            run.interp.call(run.interp.get_attr(optimizer, "step"), [], {})

    @exposed.method("minimize")
    def do_minimize(self, run: Run, optimizer: Value, *args: Value, **kwargs: Value) -> None:
        """Step."""
        run.interp.call(run.interp.get_attr(optimizer, "minimize"), list(args), kwargs)

    @exposed.method("update")
    def do_update(self, run: Run) -> None:
        """Change no sizes."""

    @exposed.method(
        "unscale_", "load_state_dict", "set_init_loss_scaling", "set_incr_every_n_steps",
    )  # fmt: skip
    def do_unscale_(self, run: Run, *_: Value) -> None:
        """Work in place."""

    @exposed.method("get_init_loss_scaling")
    @exposed.prop("_scale")
    def do_get_init_loss_scaling(self, run: Run) -> Value:
        """Give the scale."""
        return run.number("the scale of a loss")

    @exposed.method("is_enable")
    def do_is_enable(self, run: Run) -> Value:
        """Tell whether it is on."""
        return self.on

    @exposed.method("state_dict")
    def do_state_dict(self, run: Run) -> Value:
        """Give what would be saved."""
        return run.unknown("the saved state of a scaler")


def decorate(run: Run, models: Value, optimizers: Value = None, level: Value = "O1",
             dtype: Value = "float16", master_weight: Value = None, save_dtype: Value = None,
             master_grad: Value = False, excluded_layers: Value = None,
             *_: Value, **__: Value) -> Value:  # fmt: skip
    """`paddle.amp.decorate`: at O2 parameters become halves and optimizers keep masters."""
    if level == "O2" and active(run):
        kind = half_name(dtype)
        left = excluded_layers if isinstance(excluded_layers, (list, tuple)) else [excluded_layers]
        for model in models if isinstance(models, (list, tuple)) else (models,):
            if isinstance(model, Layer):
                halve(run, model, kind, [layer for layer in left if layer is not None])
        for optimizer in optimizers if isinstance(optimizers, (list, tuple)) else (optimizers,):
            if isinstance(optimizer, Optimizer):
                optimizer.master = master_weight is not False
                if master_grad is True:
                    run.mode.full_gradients.extend(optimizer.parameters())
    return models if optimizers is None else (models, optimizers)


def _in_half(model: Layer, dtype: str, left: list[Value]) -> Iterator[Layer]:
    """Yield the layers with parameters that become halves: norms keep theirs, BatchNorm always."""
    for _, layer in model.walk():
        full = layer.label.startswith(_ALWAYS_FULL) or (
            dtype == "float16" and layer.label.startswith(_FULL_AT_FLOAT16)
        )
        if not full and not any(
            layer is excluded or _is_kind(layer, excluded) for excluded in left
        ):
            yield layer


def _is_kind(layer: Layer, kind: Value) -> bool:
    return layer.cls is kind or (hasattr(kind, "type") and type(layer) is kind.type)


def halve(run: Run, model: Layer, dtype: str, left: list[Value]) -> None:
    """Cast the parameters and buffers of a model, each once."""
    seen: set[int] = set()
    for layer in _in_half(model, dtype, left):
        for attr in layer.attrs.values():
            is_new = isinstance(attr, Tensor) and id(attr) not in seen
            if is_new and (isinstance(attr, Parameter) or attr.node is None):
                seen.add(id(attr))
                if attr.dtype == "float32":
                    attr.dtype = dtype
                    attr.storage = run.storage(attr.nbytes, "parameters")


def mixed(run: Run) -> Amp:
    """Return the precision in which a run begins: what a variant asks for, or single."""
    level = run.setting.variant.amp
    return Amp(level) if level and active(run) else Amp()
