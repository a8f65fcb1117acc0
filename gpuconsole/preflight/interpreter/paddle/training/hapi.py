"""`paddle.Model`, `paddle.summary`, `paddle.flops`: training that Paddle itself writes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpuconsole.preflight.interpreter.domain import exposed
from gpuconsole.preflight.interpreter.domain.values import (
    Function,
    Native,
    Unknown,
    Value,
    first_unknown,
)
from gpuconsole.preflight.interpreter.machine.run_state.run import SMALL, Run
from gpuconsole.preflight.interpreter.paddle.autograd.backward import backward
from gpuconsole.preflight.interpreter.paddle.autograd.grad_mode import NoGrad
from gpuconsole.preflight.interpreter.paddle.io import saving
from gpuconsole.preflight.interpreter.paddle.io.dataloader import Loader
from gpuconsole.preflight.interpreter.paddle.nn.layer import Layer
from gpuconsole.preflight.interpreter.paddle.tensor import creation
from gpuconsole.preflight.interpreter.paddle.tensor.tensor import Tensor
from gpuconsole.preflight.interpreter.paddle.training.amp import AutoCast, GradScaler, decorate
from gpuconsole.preflight.interpreter.paddle.training.metrics import Quiet
from gpuconsole.preflight.interpreter.paddle.training.optimizers import Optimizer

MAX_EPOCHS = 4
"""Epochs of a `fit` that are followed where the script's own callbacks keep something."""


class InputSpec(Native):
    """`paddle.static.InputSpec`: a shape and a type."""

    label = "InputSpec"

    def init(self, run: Run, shape: Value = (), dtype: Value = "float32", name: Value = None,
             *_: Value, **__: Value) -> None:  # fmt: skip
        """Keep shape and type."""
        self.attrs = {"shape": shape, "dtype": dtype, "name": name}


def _listed(value: Value) -> list[Value]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _flat(value: Value) -> list[Value]:
    """Return the tensors of a batch, nested lists and dictionaries opened, as Paddle does."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [inner for item in value for inner in _flat(item)]
    return [value]


def _copied(run: Run, value: Value) -> Value:
    """`paddle.to_tensor` of a batch's tensor: a copy."""
    if isinstance(value, Tensor):
        return run.tensor(value.shape, value.dtype, "inputs")
    return creation.to_tensor(run, value)


class Model(Native):
    """`paddle.Model`: prepare, fit, evaluate, predict, and their single batches."""

    label = "paddle.Model"

    def init(self, run: Run, network: Value, inputs: Value = None, labels: Value = None) -> None:
        """Keep the network; without `inputs` its forward says how many of a batch it takes."""
        self.network = network
        self.inputs = len(_listed(inputs)) or _arguments(network)
        self.optimizer: Value = None
        self.loss: Value = None
        self.metrics: list[Value] = []
        self.cast: AutoCast | None = None
        self.scaler: GradScaler | None = None

    @exposed.method("prepare")
    def do_prepare(self, run: Run, optimizer: Value = None, loss: Value = None,
                   metrics: Value = None, amp_configs: Value = None) -> None:  # fmt: skip
        """Keep optimizer, loss, metrics, and how precision is mixed."""
        self.optimizer, self.loss, self.metrics = optimizer, loss, _listed(metrics)
        options = {"level": amp_configs} if isinstance(amp_configs, str) else amp_configs
        if not isinstance(options, dict) or options.get("level", "O1") == "O0":
            return
        level = options.get("level", "O1")
        self.cast, self.scaler = AutoCast(), GradScaler()
        self.cast.init(run, True, options.get("custom_white_list"),
                       options.get("custom_black_list"), level)  # fmt: skip
        self.scaler.init(run)
        if level == "O2":
            decorate(run, self.network, optimizer, "O2")

    @exposed.method("parameters")
    def do_parameters(self, run: Run, *_: Value, **__: Value) -> Value:
        """Give the network's parameters."""
        return self.network.do_parameters(run)

    @exposed.prop("network")
    def get_network(self, run: Run) -> Value:
        """Give the network."""
        return self.network

    @exposed.method("summary")
    def do_summary(self, run: Run, input_size: Value = None, dtype: Value = None) -> Value:
        """Print a table, for which a forward is run where a size is given."""
        return summary(run, self.network, input_size, dtype) if input_size is not None else {}

    @exposed.method("save")
    def do_save(self, run: Run, path: Value = None, training: Value = True) -> None:
        """Save the network, then the optimizer; for inference the network is written elsewhere."""
        if training is False or not isinstance(self.network, Layer):
            return
        saving.save(run, self.network.do_state_dict(run))
        if isinstance(self.optimizer, Optimizer):
            saving.save(run, self.optimizer.do_state_dict(run))

    @exposed.method("load")
    def do_load(self, run: Run, *_: Value, **__: Value) -> None:
        """Load weights: no sizes change."""

    @exposed.method("fit")
    def do_fit(self, run: Run, train_data: Value = None, eval_data: Value = None,
               batch_size: Value = 1, epochs: Value = 1, eval_freq: Value = 1,
               log_freq: Value = 10, save_dir: Value = None, *_: Value, callbacks: Value = None,
               accumulate_grad_batches: Value = 1, **__: Value) -> None:  # fmt: skip
        """Train on a data set or a loader, save where a folder is named, then evaluate."""
        if run.program.drafting is not None:
            run.block(run.unknown("paddle.Model over a static program is not followed"))
            return
        if not isinstance(self.network, Layer):
            run.block(first_unknown(self.network) or run.unknown("the network"))
            return
        sizes = _listed(batch_size)
        every = accumulate_grad_batches if isinstance(accumulate_grad_batches, int) else 1
        own = _Callbacks(run, self, callbacks)
        loader = self._loader(run, train_data, sizes[0])
        own.run("on_train_begin", own.logs())
        for epoch in range(min(epochs, MAX_EPOCHS) if isinstance(epochs, int) else MAX_EPOCHS):
            repeats = int(epochs != 1)
            run.repeats += repeats
            own.run("on_epoch_begin", epoch, own.logs())
            self._epoch(run, loader, every, own)
            run.repeats -= repeats
            if _saves(callbacks, save_dir):
                self.do_save(run)
            own.run("on_epoch_end", epoch, own.logs())
            if eval_data is not None:
                self.do_evaluate(run, eval_data, sizes[-1])
                own.run("on_eval_end", own.logs())
            if not own.keep_more(last=epoch + 1 == MAX_EPOCHS and epochs != MAX_EPOCHS):
                break
        own.run("on_train_end", own.logs())

    def _epoch(self, run: Run, loader: Loader, every: int, own: _Callbacks) -> None:
        """Train on the batches of a loader; the optimizer steps after so many of them."""
        step = 0
        for data in loader.iterate(run.interp):
            parts = _flat(data)
            own.run("on_train_batch_begin", step, own.logs())
            step += 1  # noqa: SIM113 - enumerate's tuple would keep a batch
            self._train(run, parts[: self.inputs], parts[self.inputs :], step % every == 0)
            own.run("on_train_batch_end", step - 1, own.logs())

    def _loader(self, run: Run, data: Value, batch_size: Value) -> Loader:
        if isinstance(data, Loader):
            return data
        loader = Loader()
        loader.init(run, data, batch_size=batch_size)
        return loader

    @exposed.method("train_batch")
    def do_train_batch(self, run: Run, inputs: Value, labels: Value = None,
                       update: Value = True) -> Value:  # fmt: skip
        """Train on one batch."""
        self._train(run, _listed(inputs), _listed(labels), update is not False)
        run.close_hand_made_cycle()
        return [run.number("the loss")]

    def _train(self, run: Run, inputs: list[Value], labels: list[Value], update: bool) -> None:
        self.network.do_train(run)
        labels = [_copied(run, label) for label in labels]
        leave = self.cast.enter(run) if self.cast is not None else None
        outputs = _listed(run.interp.call(
            self.network, [_copied(run, tensor) for tensor in inputs], {}
        ))  # fmt: skip
        if leave is not None:
            leave()
        loss = self._total(run, [*outputs, *labels])
        if isinstance(loss, Tensor):
            if self.scaler is not None:
                loss = self.scaler.do_scale(run, loss)
            run.progress.backwards += 1
            backward(run, loss)
        if update and isinstance(self.optimizer, Optimizer):
            run.interp.call(run.interp.get_attr(self.optimizer, "step"), [], {})
            _clear(self.network)
        self._measure(run, outputs, labels)

    def _total(self, run: Run, parts: list[Value]) -> Value:
        losses_found = (
            _listed(run.interp.call(self.loss, parts, {})) if self.loss is not None else parts
        )
        losses = [result for result in losses_found if isinstance(result, Tensor)]
        unknown = first_unknown(losses_found)
        if unknown is not None:
            run.block(unknown)
        if not losses:
            return None
        total = losses[0]
        for loss in losses[1:]:
            total = run.interp.binary(ast.Add, total, loss)
        return total

    def _measure(self, run: Run, outputs: list[Value], labels: list[Value]) -> None:
        for metric in self.metrics:
            result = run.interp.call(
                run.interp.get_attr(metric, "compute"), [*outputs, *labels], {}
            )
            run.interp.call(run.interp.get_attr(metric, "update"), _listed(result), {})

    @exposed.method("evaluate")
    def do_evaluate(self, run: Run, eval_data: Value = None, batch_size: Value = 1, *_: Value,
                    **__: Value) -> Value:  # fmt: skip
        """Run over a data set without gradients, with loss and metrics."""
        self._walk(run, eval_data, batch_size, self.do_eval_batch)
        return run.unknown("what an evaluation measures")

    @exposed.method("predict")
    def do_predict(self, run: Run, test_data: Value = None, batch_size: Value = 1, *_: Value,
                   **__: Value) -> Value:  # fmt: skip
        """Run over a data set without gradients; the outputs become NumPy arrays."""
        self._walk(run, test_data, batch_size, lambda run, x, _: self.do_predict_batch(run, x))
        return run.unknown("what a model predicts")

    def _walk(self, run: Run, data: Value, batch_size: Value, each: Callable[..., Value]) -> None:
        for batch in self._loader(run, data, batch_size).iterate(run.interp):
            parts = _flat(batch)
            each(run, parts[: self.inputs], parts[self.inputs :])

    @exposed.method("eval_batch")
    def do_eval_batch(self, run: Run, inputs: Value, labels: Value = None) -> Value:
        """Evaluate one batch."""
        leave = NoGrad().enter(run)
        self.network.do_eval(run)
        labels = [_copied(run, label) for label in _listed(labels)]
        outputs = _listed(run.interp.call(
            self.network, [_copied(run, tensor) for tensor in _listed(inputs)], {}
        ))  # fmt: skip
        loss = self._total(run, [*outputs, *labels]) if self.loss is not None else None
        self._measure(run, outputs, labels)
        del loss
        leave()
        return [run.number("the loss")]

    @exposed.method("predict_batch")
    def do_predict_batch(self, run: Run, inputs: Value) -> Value:
        """Predict one batch."""
        leave = NoGrad().enter(run)
        self.network.do_eval(run)
        run.interp.call(self.network, [_copied(run, tensor) for tensor in _listed(inputs)], {})
        leave()
        return [run.unknown("predicted values")]


class _Callbacks:
    """The callbacks of a `fit` that the script has written itself."""

    def __init__(self, run: Run, model: Model, callbacks: Value) -> None:
        self._run = run
        self._own = [callback for callback in _listed(callbacks)
                     if isinstance(callback, Native) and callback.cls is not None]  # fmt: skip
        self._kept: int | None = None
        for callback in self._own:
            callback.attrs["model"] = model

    def logs(self) -> Value:
        """Return what they are handed of a training's figures."""
        return self._run.unknown("the figures of a training")

    def run(self, name: str, *args: Value) -> None:
        """Call them where they have a method of that name."""
        interp = self._run.interp
        for callback in self._own:
            method = callback.cls.find(name) if callback.cls is not None else None
            if isinstance(method, Function):
                interp.call(interp.bind(method, callback), [*args], {})

    def keep_more(self, *, last: bool) -> bool:
        """Whether more is kept than while steps were followed, or after the epoch before."""
        progress = self._run.progress
        held = self._run.tape.kept()
        before, self._kept = self._kept, held
        more = held - (before if before is not None else progress.held or 0)
        if last and before is not None and more > SMALL:
            progress.growth_by_epoch = more
        return bool(self._own) and more > SMALL


class Checkpoint(Quiet):
    """`paddle.callbacks.ModelCheckpoint`."""

    label = "ModelCheckpoint"

    def init(self, run: Run, save_freq: Value = 1, save_dir: Value = None) -> None:
        """Keep the folder."""
        self.attrs.update(save_freq=save_freq, save_dir=save_dir)


def _saves(callbacks: Value, save_dir: Value) -> bool:
    """Tell whether epochs of `fit` end with saving: checkpoints among the callbacks decide, else
    the folder that `fit` is given."""
    checkpoints = [callback for callback in _listed(callbacks) if isinstance(callback, Checkpoint)]
    folders = (
        [checkpoint.attrs["save_dir"] for checkpoint in checkpoints] if checkpoints else [save_dir]
    )
    return any(isinstance(folder, Unknown) or bool(folder) for folder in folders)


def _clear(network: Value) -> None:
    """`Layer.clear_gradients`: gradients are zeroed where they lie; rows go."""
    for _, parameter in network.parameters():
        parameter.clear_gradient(zero=True)


def _arguments(network: Value) -> int:
    """Return how many positional arguments the network's forward has."""
    cls = getattr(network, "cls", None)
    forward = cls.find("forward") if cls is not None else None
    if not isinstance(forward, Function):
        return 1
    return max(1, len([*forward.args.posonlyargs, *forward.args.args]) - 1)


@contextmanager
def aside(run: Run) -> Iterator[None]:
    """Run a forward that is no part of training: its batch size and operations do not count."""
    saved = (run.batch.seen, run.batch.source, run.batch.key, run.tape.flops, dict(run.tape.layers))
    run.batch.seen = -1
    try:
        yield
    finally:
        run.batch.seen, run.batch.source, run.batch.key, run.tape.flops, run.tape.layers = saved


def _made(run: Run, size: Value, dtype: Value) -> list[Value]:
    """Return inputs of the given shapes; a dimension that is open counts as one."""
    if isinstance(size, InputSpec):
        return _made(run, tuple(size.attrs["shape"]), size.attrs["dtype"])
    if (
        isinstance(size, (list, tuple))
        and size
        and not all(isinstance(extent, int) or extent is None for extent in size)
    ):
        types = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * len(size)
        return [tensor for shape_, kind in zip(size, types, strict=False)
                for tensor in _made(run, shape_, kind)]  # fmt: skip
    if isinstance(size, dict):
        return [tensor for part in size.values() for tensor in _made(run, part, dtype)]
    shape = (size,) if isinstance(size, int) else tuple(size)
    kind = dtype[0] if isinstance(dtype, (list, tuple)) and dtype else dtype
    extents = tuple(1 if extent in (None, -1) else extent for extent in shape)
    drawn = run.tensor(extents, "float32", "inputs")
    cast = run.tensor(extents, creation.dtype_of(run, kind), "inputs")
    del drawn
    return [cast]


def summary(run: Run, net: Value, input_size: Value = None, dtypes: Value = None,
            input: Value = None, *_: Value, **__: Value) -> Value:  # fmt: skip
    """`paddle.summary` and `paddle.flops`: a forward of their own, with a peak that counts."""
    unknown = first_unknown(net, input_size, input)
    if unknown is not None or not isinstance(net, Layer):
        unknown = unknown or run.unknown("the network of this summary")
        run.note_unknown(unknown)
        return unknown
    training = net.training
    leave = NoGrad().enter(run)
    net.do_eval(run)
    with aside(run):
        if input is not None:
            given, named = ([], input) if isinstance(input, dict) else (_listed(input), {})
            out = run.interp.call(net, given, named)
        else:
            out = run.interp.call(net, _made(run, input_size, dtypes), {})
    leave()
    if training:
        net.do_train(run)
    if isinstance(out, Unknown):
        run.note_unknown(out)
    count = sum(parameter.size for _, parameter in net.parameters())
    return {"total_params": count, "trainable_params": count}


def flops(run: Run, net: Value, input_size: Value = None, *_: Value, **__: Value) -> Value:
    """`paddle.flops`: a forward of its own, with an input that is drawn as it is."""
    plain = isinstance(input_size, (list, tuple)) and all(isinstance(n, int) for n in input_size)
    drawn = run.tensor(tuple(input_size), "", "inputs") if plain else None
    summary(run, net, input_size if drawn is None else None, input=drawn)
    return run.number("operations")
