"""Optimizers, mixed precision, gradient modes, and `paddle.Model`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpuconsole.preflight.scan import ops
from gpuconsole.preflight.scan.data import Loader
from gpuconsole.preflight.scan.engine import backward
from gpuconsole.preflight.scan.layers import Layer
from gpuconsole.preflight.scan.run import Amp, Run
from gpuconsole.preflight.scan.tensors import Parameter, Tensor
from gpuconsole.preflight.scan.values import Native, Unknown, Value, first_unknown
from gpuconsole.preflight.trace import Storage

STATES = {
    "SGD": 0, "Momentum": 1, "Adagrad": 1, "Adam": 2, "AdamW": 2, "Adamax": 2, "Lamb": 2,
    "Adadelta": 2, "RMSProp": 3, "NAdam": 2, "RAdam": 2, "Lars": 1,
}  # fmt: skip
"""State tensors of a parameter's size per optimizer, measured with Paddle 3.3.1."""
_BETAS = frozenset({"Adam", "AdamW", "Adamax", "Lamb", "NAdam", "RAdam"})
_DECAY_INSIDE = frozenset({"AdamW", "Lamb", "Momentum", "Lars"})
"""Optimizers whose own kernel applies `weight_decay`; the others make decayed gradients first."""


class Clip(Native):
    """`nn.ClipGradByNorm`, `ByValue`: clipped gradients are new."""

    label = "ClipGrad"
    inplace = False


class GlobalClip(Clip):
    """`nn.ClipGradByGlobalNorm`: gradients are scaled where they lie."""

    inplace = True


class Optimizer(Native):
    """Any optimizer: state tensors from the first step on."""

    label = "Optimizer"
    name = "SGD"

    def init(self, run: Run, *args: Value, **kwargs: Value) -> None:
        """Collect the parameters."""
        parameters = kwargs.get("parameters")
        if parameters is None:
            parameters = next((one for one in args if isinstance(one, (list, tuple))
                               and one and isinstance(one[0], (Tensor, dict))), None)  # fmt: skip
        unknown = first_unknown(parameters)
        if unknown is not None:
            run.block(unknown)
        self.given = list(parameters) if isinstance(parameters, (list, tuple)) else []
        self.clip = kwargs.get("grad_clip")
        self.decay = kwargs.get("weight_decay")
        self.master = kwargs.get("multi_precision") is True
        self.state: dict[int, list[Tensor]] = {}
        run.optimizers += 1

    def parameters(self) -> list[Parameter]:
        """Return the parameters of all groups."""
        found: list[Parameter] = []
        for one in self.given:
            group = one.get("params", []) if isinstance(one, dict) else [one]
            found.extend(p for p in group if isinstance(p, Parameter))
        return found

    def do_step(self, run: Run) -> None:
        """Update: make the state on the first step, and what the step needs for a moment."""
        ready = [one for one in self.parameters() if one.grad is not None]
        grads = [one.grad for one in ready if one.grad is not None]
        changed: list[Storage] = []
        if isinstance(self.clip, Clip) and not self.clip.inplace:
            changed += [run.storage(one.nbytes, "gradients") for one in grads]
        if self.decay and self.name not in _DECAY_INSIDE:
            for one in grads:
                scaled = run.storage(one.nbytes, "gradients")
                changed.append(run.storage(one.nbytes, "gradients"))
                del scaled
        for one in ready:
            if id(one) not in self.state:
                self.state[id(one)] = self._make(run, one)
        if self.name == "Lamb" and ready:
            run.scratch(max(one.nbytes for one in ready))
        del changed
        if ready:
            run.optimizer_steps += 1

    def _make(self, run: Run, one: Parameter) -> list[Tensor]:
        half = one.dtype in ("float16", "bfloat16") and self.master
        dtype = "float32" if half else one.dtype
        made = [run.tensor(one.shape, dtype, "optimizer") for _ in range(STATES[self.name])]
        if half:
            made.append(run.tensor(one.shape, "float32", "optimizer"))
        if self.name in _BETAS and run.on_cpu:
            # The powers of beta lie in host memory even when the model is on a card.
            made += [run.tensor((1,), "float32", "optimizer") for _ in range(2)]
        return made

    def do_minimize(self, run: Run, loss: Tensor, *_: Value, **__: Value) -> None:
        """Step (the loss has been run backward by the script)."""
        self.do_step(run)

    def do_clear_grad(self, run: Run, set_to_zero: Value = True) -> None:
        """Zero the gradients, which keeps their memory, or let them go."""
        if set_to_zero is False:
            for one in self.parameters():
                one.grad = None

    do_clear_gradients = do_clear_grad

    def do_get_lr(self, run: Run) -> Value:
        """Give the rate."""
        return run.unknown("the learning rate")

    def do_set_lr(self, run: Run, *_: Value, **__: Value) -> None:
        """Change nothing in size."""

    do_set_state_dict = do_set_lr_scheduler = do_set_lr

    def do_state_dict(self, run: Run) -> Value:
        """Give nothing to save."""
        return {}

    def get__learning_rate(self, run: Run) -> Value:
        """Give a scheduler."""
        return Scheduler()

    def get__parameter_list(self, run: Run) -> Value:
        """Give the parameters."""
        return self.parameters()


class Scheduler(Native):
    """Any learning-rate scheduler."""

    label = "scheduler"

    def do_step(self, run: Run, *_: Value, **__: Value) -> None:
        """Change no sizes."""

    do_set_state_dict = do_step

    def do_get_lr(self, run: Run) -> Value:
        """Give the rate."""
        return run.unknown("the learning rate")

    def do_state_dict(self, run: Run) -> Value:
        """Give nothing to save."""
        return {}


def optimizer_class(name: str) -> type[Optimizer]:
    """Return the class of an optimizer by its Paddle name."""
    return type(name, (Optimizer,), {"name": name, "label": name})


class NoGrad(Native):
    """`paddle.no_grad`, as a context, a decorator, or a decorator called first."""

    label = "no_grad"
    enabled = False

    def init(self, run: Run, *_: Value) -> None:
        """Take no notice of arguments."""

    def enter(self, run: Run) -> Callable[[], None]:
        """Switch gradients off until left."""
        before = run.grad_enabled
        run.grad_enabled = self.enabled

        def leave() -> None:
            run.grad_enabled = before

        return leave


class EnableGrad(NoGrad):
    """`paddle.enable_grad`."""

    enabled = True


class AutoCast(Native):
    """`paddle.amp.auto_cast`."""

    label = "auto_cast"

    def init(self, run: Run, enable: Value = True, custom_white_list: Value = None,
             custom_black_list: Value = None, level: Value = "O1", dtype: Value = "float16",
             *_: Value, **__: Value) -> None:  # fmt: skip
        """Keep level and type."""
        on = enable is not False and isinstance(level, str)
        self.state = Amp(level if on else "O0", dtype if isinstance(dtype, str) else "float16")

    def enter(self, run: Run) -> Callable[[], None]:
        """Switch mixed precision on until left."""
        before = run.amp
        run.amp = self.state

        def leave() -> None:
            run.amp = before

        return leave


class GradScaler(Native):
    """`paddle.amp.GradScaler`."""

    label = "GradScaler"

    def init(self, run: Run, enable: Value = True, *_: Value, **__: Value) -> None:
        """Keep whether it is on: on the CPU it never is."""
        self.on = enable is not False and not run.on_cpu

    def do_scale(self, run: Run, loss: Tensor) -> Value:
        """Multiply the loss."""
        return ops.unary(run, "scale", loss) if self.on else loss

    def do_step(self, run: Run, optimizer: Value) -> None:
        """Unscale in place and step."""
        if isinstance(optimizer, Optimizer):
            optimizer.do_step(run)

    def do_minimize(self, run: Run, optimizer: Value, *_: Value) -> None:
        """Step."""
        self.do_step(run, optimizer)

    def do_update(self, run: Run) -> None:
        """Change no sizes."""

    def do_unscale_(self, run: Run, *_: Value) -> None:
        """Work in place."""

    def do_state_dict(self, run: Run) -> Value:
        """Give nothing to save."""
        return {}


def decorate(run: Run, models: Value, optimizers: Value = None, level: Value = "O1",
             dtype: Value = "float16", *_: Value, **__: Value) -> Value:  # fmt: skip
    """`paddle.amp.decorate`: at O2 parameters become halves and optimizers keep masters."""
    if level == "O2" and not run.on_cpu:
        for model in models if isinstance(models, (list, tuple)) else (models,):
            for _name, layer in model.walk():
                if layer.label not in ("BatchNorm", "LayerNorm", "InstanceNorm"):
                    _halve(run, layer, dtype)
        for one in optimizers if isinstance(optimizers, (list, tuple)) else (optimizers,):
            if isinstance(one, Optimizer):
                one.master = True
    return models if optimizers is None else (models, optimizers)


def _halve(run: Run, layer: Layer, dtype: str) -> None:
    for one in layer.attrs.values():
        if isinstance(one, Parameter) and one.dtype == "float32" and one.trainable:
            one.dtype = dtype
            one.storage = run.storage(one.nbytes, "parameters")


def recompute(calls: Any, function: Value, *args: Value, **kwargs: Value) -> Value:
    """`recompute`: forward without a graph, and once more with one when backward comes by."""
    run: Run = calls.run
    kwargs.pop("use_reentrant", None)
    kwargs.pop("preserve_rng_state", None)
    before = run.grad_enabled
    run.grad_enabled = False
    out = calls.call(function, list(args), kwargs)
    run.grad_enabled = before
    tensors = [one for one in args if isinstance(one, Tensor)]
    if isinstance(out, Unknown) or not before:
        return out
    outputs = [one for one in (out if isinstance(out, (list, tuple)) else (out,))
               if isinstance(one, Tensor)]  # fmt: skip
    node = ops.attach(run, tensors, outputs, [one.storage for one in tensors], "new")
    if node is None:
        return out

    def replay(grads: Sequence[Any]) -> None:
        inputs = []
        for one in args:
            if isinstance(one, Tensor):
                copy = Tensor(one.shape, one.dtype, one.storage)
                copy.stop_gradient = one.stop_gradient
                inputs.append(copy)
            else:
                inputs.append(one)
        again = calls.call(function, inputs, dict(kwargs))
        for one in again if isinstance(again, (list, tuple)) else (again,):
            if isinstance(one, Tensor):
                backward(run, one)

    node.replay = replay
    return out


class Model(Native):
    """`paddle.Model`: prepare, fit, evaluate."""

    label = "paddle.Model"

    def init(self, run: Run, network: Value, *_: Value, **__: Value) -> None:
        """Keep the network."""
        self.network = network
        self.optimizer: Value = None
        self.loss: Value = None
        self.metrics: list[Value] = []
        self.amp = Amp()

    def do_prepare(self, run: Run, optimizer: Value = None, loss: Value = None,
                   metrics: Value = None, amp_configs: Value = None) -> None:  # fmt: skip
        """Keep optimizer, loss and metrics."""
        self.optimizer, self.loss = optimizer, loss
        self.metrics = list(metrics) if isinstance(metrics, (list, tuple)) else (
            [metrics] if metrics is not None else [])  # fmt: skip
        if isinstance(amp_configs, str):
            self.amp = Amp(amp_configs)
        elif isinstance(amp_configs, dict):
            self.amp = Amp(str(amp_configs.get("level", "O1")))

    def do_parameters(self, run: Run) -> Value:
        """Give the network's parameters."""
        return self.network.do_parameters(run)

    def do_summary(self, run: Run, *_: Value, **__: Value) -> Value:
        """Print a table."""
        return {}

    def do_save(self, run: Run, *_: Value, **__: Value) -> None:
        """Save nothing."""

    do_load = do_save

    def do_fit(self, run: Run, train_data: Value = None, eval_data: Value = None,
               batch_size: Value = 1, *_: Value, **options: Value) -> None:  # fmt: skip
        """Train on a data set or a loader."""
        if not isinstance(self.network, Layer):
            run.block(first_unknown(self.network) or run.unknown("the network"))
            return
        loader = self._loader(run, train_data, batch_size)
        self.network.do_train(run)
        # The loop of paddle.Model keeps the batch before the current one alive (measured).
        held: list[Value] = []
        for batch in loader.iterate(run.calls):
            parts = list(batch) if isinstance(batch, (list, tuple)) else [batch]
            self._step(run, parts)
            held = parts
        del held
        if eval_data is not None:
            self.do_evaluate(run, eval_data, batch_size)

    def _loader(self, run: Run, data: Value, batch_size: Value) -> Loader:
        if isinstance(data, Loader):
            return data
        loader = Loader()
        loader.init(run, data, batch_size=batch_size)
        return loader

    def _step(self, run: Run, parts: list[Value]) -> None:
        before, run.amp = run.amp, self.amp
        inputs = parts[: max(1, len(parts) - 1)]
        outputs = run.calls.call(self.network, inputs, {})
        many = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        loss = run.calls.call(self.loss, [*many, *parts[len(inputs) :]], {})
        run.amp = before
        if isinstance(loss, Tensor):
            run.backwards += 1
            backward(run, loss)
        elif isinstance(loss, Unknown):
            run.block(loss)
        if isinstance(self.optimizer, Optimizer):
            self.optimizer.do_step(run)
            self.optimizer.do_clear_grad(run)

    def do_evaluate(self, run: Run, eval_data: Value = None, batch_size: Value = 1, *_: Value,
                    **__: Value) -> Value:  # fmt: skip
        """Run without gradients."""
        loader = self._loader(run, eval_data, batch_size)
        leave = NoGrad().enter(run)
        try:
            for batch in loader.iterate(run.calls):
                parts = list(batch) if isinstance(batch, (list, tuple)) else [batch]
                outputs = run.calls.call(self.network, parts[: max(1, len(parts) - 1)], {})
                del outputs, parts
        finally:
            leave()
        return {}

    do_predict = do_evaluate
