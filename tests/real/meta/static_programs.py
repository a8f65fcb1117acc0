"""Programs for the static graph, which the meta tier is held against Paddle's own allocator with.

Paddle runs programs by several threads, which free some tensors late by chance: of many runs the
smallest peak is what a program needs. `python static_programs.py real|meta` prints for each case
and batch size the peak of a run and what is held after it, in bytes.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.real.meta.memory_meter import Meter

CASES: dict[str, Callable[..., Any]] = {}
BATCHES = (7, 256)
STEPS = {"real": 30, "meta": 4}
FIRST = 2
"""Runs that are not counted: states are made, what is fetched is held for the first time."""


def case(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a case: `function(paddle)` writes programs and returns a function that runs them
    for a batch size, with an executor."""
    CASES[function.__name__] = function
    return function


@case
def saved_after_each_run(paddle: Any) -> Any:
    x = paddle.static.data("x", [-1, 64])
    hidden = paddle.static.nn.fc(x, 256, activation="relu")
    out = paddle.static.nn.fc(hidden, 10)
    step = trained(paddle, out, paddle.optimizer.Adam(0.001), ("x", "float32", 64))
    program, folder = paddle.static.default_main_program(), tempfile.mkdtemp()

    def run(executor: Any, batch: int) -> None:
        step(executor, batch)
        paddle.static.save(program, f"{folder}/model")

    return run


def floats(*shape: int) -> Any:
    return np.zeros(shape, "float32")


def labels(*shape: int) -> Any:
    return np.zeros(shape, "int64")


def trained(paddle: Any, out: Any, optimizer: Any, *names: Any) -> Any:
    """Return what runs the main program; `names` are inputs and their shapes after the batch."""
    target = paddle.static.data("target", [-1, 1], "int64")
    loss = paddle.nn.functional.cross_entropy(out, target).mean()
    optimizer.minimize(loss)
    return fed(loss, (*names, ("target", "int64", 1)))


def fed(fetched: Any, inputs: Any, program: Any = None) -> Any:
    """Return a function that runs a program once, and drops what it gives."""

    def run(executor: Any, batch: int) -> None:
        feed = {name: np.zeros((batch, *shape), kind) for name, kind, *shape in inputs}
        executor.run(program, feed=feed, fetch_list=[fetched])

    return run


@case
def perceptron(paddle: Any) -> Any:
    static, functional = paddle.static, paddle.nn.functional
    x = static.data("x", [-1, 64])
    hidden = x
    for _ in range(3):
        hidden = functional.relu(static.nn.fc(hidden, 128))
    sgd = paddle.optimizer.SGD(0.1)
    return trained(paddle, static.nn.fc(hidden, 10), sgd, ("x", "float32", 64))


@case
def adam_and_activations(paddle: Any) -> Any:
    static, functional = paddle.static, paddle.nn.functional
    hidden = static.data("x", [-1, 64])
    for name in ("tanh", "gelu", "silu", "sigmoid", "leaky_relu", "softmax", "hardswish", "elu"):
        hidden = getattr(functional, name)(static.nn.fc(hidden, 96))
    adam = paddle.optimizer.Adam(0.1)
    return trained(paddle, static.nn.fc(hidden, 10), adam, ("x", "float32", 64))


@case
def convolutions(paddle: Any) -> Any:
    nn, functional = paddle.nn, paddle.nn.functional
    x = paddle.static.data("x", [-1, 3, 16, 16])
    hidden = functional.relu(nn.BatchNorm2D(8)(nn.Conv2D(3, 8, 3)(x)))
    hidden = functional.max_pool2d(hidden, 2)
    hidden = nn.Linear(8 * 49, 10)(paddle.reshape(hidden, [-1, 8 * 49]))
    momentum = paddle.optimizer.Momentum(0.1, 0.9)
    return trained(paddle, hidden, momentum, ("x", "float32", 3, 16, 16))


@case
def residual(paddle: Any) -> Any:
    """Blocks with a shortcut: two branches read what was made."""
    nn, functional = paddle.nn, paddle.nn.functional
    hidden = nn.Conv2D(3, 8, 3, padding=1)(paddle.static.data("x", [-1, 3, 12, 12]))
    for _ in range(2):
        left = functional.relu(nn.BatchNorm2D(8)(nn.Conv2D(8, 8, 3, padding=1)(hidden)))
        hidden = functional.relu(hidden + nn.BatchNorm2D(8)(nn.Conv2D(8, 8, 3, padding=1)(left)))
    pooled = nn.Flatten()(nn.AdaptiveAvgPool2D(1)(hidden))
    momentum = paddle.optimizer.Momentum(0.1, 0.9, weight_decay=paddle.regularizer.L2Decay(1e-4))
    return trained(paddle, nn.Linear(8, 10)(pooled), momentum, ("x", "float32", 3, 12, 12))


@case
def embedding(paddle: Any) -> Any:
    nn, functional = paddle.nn, paddle.nn.functional
    x = paddle.static.data("x", [-1, 20], "int64")
    hidden = paddle.sum(nn.Embedding(1000, 32)(x), axis=1)
    hidden = functional.relu(nn.Linear(32, 64)(hidden))
    adam = paddle.optimizer.Adam(0.1)
    return trained(paddle, nn.Linear(64, 10)(hidden), adam, ("x", "int64", 20))


@case
def sparse_embedding(paddle: Any) -> Any:
    nn = paddle.nn
    x = paddle.static.data("x", [-1, 20], "int64")
    hidden = paddle.sum(nn.Embedding(1000, 32, sparse=True)(x), axis=1)
    sgd = paddle.optimizer.SGD(0.1)
    return trained(paddle, nn.Linear(32, 10)(hidden), sgd, ("x", "int64", 20))


@case
def recurrent(paddle: Any) -> Any:
    nn = paddle.nn
    x = paddle.static.data("x", [-1, 12, 16])
    hidden, _ = nn.LSTM(16, 24)(x)
    adam = paddle.optimizer.Adam(0.1)
    return trained(paddle, nn.Linear(24, 10)(hidden[:, -1]), adam, ("x", "float32", 12, 16))


@case
def attention(paddle: Any) -> Any:
    nn = paddle.nn
    x = paddle.static.data("x", [-1, 12, 32])
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1)
    hidden = layer(x).mean(axis=1)
    adam = paddle.optimizer.AdamW(0.1)
    return trained(paddle, nn.Linear(32, 10)(hidden), adam, ("x", "float32", 12, 32))


@case
def clipped_and_decayed(paddle: Any) -> Any:
    """All gradients are there until their norm is known."""
    nn, static = paddle.nn, paddle.static
    hidden = static.data("x", [-1, 64])
    for _ in range(3):
        hidden = nn.functional.relu(static.nn.fc(hidden, 128))
    clip = nn.ClipGradByGlobalNorm(1.0)
    adam = paddle.optimizer.AdamW(0.1, weight_decay=0.01, grad_clip=clip)
    return trained(paddle, static.nn.fc(hidden, 10), adam, ("x", "float32", 64))


@case
def dropped_and_joined(paddle: Any) -> Any:
    nn, static = paddle.nn, paddle.static
    x = static.data("x", [-1, 64])
    left = nn.functional.dropout(static.nn.fc(x, 64), 0.3)
    right = nn.LayerNorm(64)(static.nn.fc(x, 64))
    joined = paddle.concat([left, right, left * right], axis=1)
    first, second, _ = paddle.split(joined, 3, axis=1)
    hidden = paddle.transpose(paddle.reshape(first - second, [-1, 8, 8]), [0, 2, 1])
    hidden = paddle.reshape(hidden, [-1, 64])
    sgd = paddle.optimizer.SGD(0.1)
    return trained(paddle, static.nn.fc(hidden, 10), sgd, ("x", "float32", 64))


@case
def both_ways(paddle: Any) -> Any:
    nn = paddle.nn
    x = paddle.static.data("x", [-1, 12, 16])
    hidden, _ = nn.GRU(16, 24, direction="bidirect", num_layers=2)(x)
    adam = paddle.optimizer.Adam(0.1)
    return trained(paddle, nn.Linear(48, 10)(hidden[:, -1]), adam, ("x", "float32", 12, 16))


@case
def sizes_computed(paddle: Any) -> Any:
    """A program that works with the length of what it is fed."""
    static = paddle.static
    x = static.data("x", [-1, 6, 8])
    length = paddle.shape(x)[0]
    hidden = static.nn.fc(paddle.reshape(x, [length * 6, 8]), 16)
    hidden = paddle.reshape(hidden, [length, 6, 16])
    hidden = paddle.concat([paddle.zeros([length, 1, 16]), hidden], axis=1)
    places = paddle.arange(7, dtype="float32").unsqueeze(0).unsqueeze(-1)
    hidden = paddle.flatten(hidden * paddle.expand(places, [length, 7, 16]), 1)
    sgd = paddle.optimizer.SGD(0.1)
    return trained(paddle, static.nn.fc(hidden, 10), sgd, ("x", "float32", 6, 8))


@case
def scales_joined(paddle: Any) -> Any:
    """What was made first is read last."""
    nn, functional = paddle.nn, paddle.nn.functional
    x = paddle.static.data("x", [-1, 3, 32, 32])
    fine = functional.relu(nn.BatchNorm2D(8)(nn.Conv2D(3, 8, 3, padding=1)(x)))
    coarse = functional.relu(nn.Conv2D(8, 16, 3, padding=1)(functional.max_pool2d(fine, 2)))
    wide = functional.interpolate(coarse, scale_factor=2)
    out = nn.Conv2DTranspose(24, 2, 2, stride=2)(paddle.concat([fine, wide], axis=1))
    loss = paddle.mean(paddle.square(functional.sigmoid(out)))
    paddle.optimizer.AdamW(0.1, weight_decay=0.01).minimize(loss)
    return fed(loss, (("x", "float32", 3, 32, 32),))


@case
def masked_attention(paddle: Any) -> Any:
    static, functional = paddle.static, paddle.nn.functional
    x, lengths = static.data("x", [-1, 12, 16]), static.data("lengths", [-1], "int64")
    mask = functional.sequence_mask(lengths, maxlen=12, dtype="float32")
    hidden = static.nn.fc(x, 16, num_flatten_dims=2) * paddle.unsqueeze(mask, -1)
    weights = functional.softmax(paddle.matmul(hidden, hidden, transpose_y=True))
    loss = paddle.mean(paddle.sum(paddle.matmul(weights, hidden), 1))
    paddle.optimizer.Adam(0.1).minimize(loss)
    return fed(loss, (("x", "float32", 12, 16), ("lengths", "int64")))


@case
def several_optimizers(paddle: Any) -> Any:
    static, runs = paddle.static, []
    for name in ("Adagrad", "Lamb", "Adadelta", "Adamax"):
        main = static.Program()
        with static.program_guard(main, static.default_startup_program()):
            loss = paddle.mean(paddle.tanh(static.nn.fc(static.data("x", [-1, 64]), 64)))
            getattr(paddle.optimizer, name)(0.1).minimize(loss)
        runs.append(fed(loss, (("x", "float32", 64),), main))

    def run(executor: Any, batch: int) -> None:
        for one in runs:
            one(executor, batch)

    return run


@case
def gradients_asked_for(paddle: Any) -> Any:
    static = paddle.static
    x = static.data("x", [-1, 64])
    x.stop_gradient = False
    total = paddle.sum(paddle.tanh(static.nn.fc(x, 32)))
    return fed(static.gradients(total, x)[0], (("x", "float32", 64),))


@case
def parameters_fetched(paddle: Any) -> Any:
    """What lasts is fetched, and one result twice."""
    static = paddle.static
    layer = paddle.nn.Linear(64, 256)
    loss = paddle.mean(paddle.exp(layer(static.data("x", [-1, 64]))))
    paddle.optimizer.SGD(0.1).minimize(loss)

    def run(executor: Any, batch: int) -> None:
        executor.run(feed={"x": floats(batch, 64)}, fetch_list=[layer.weight, loss, loss])

    return run


@case
def evaluated(paddle: Any) -> Any:
    """Nothing is trained, what is fetched is large."""
    static = paddle.static
    hidden = static.data("x", [-1, 64])
    for _ in range(3):
        hidden = paddle.nn.functional.relu(static.nn.fc(hidden, 128))
    return fed(hidden, (("x", "float32", 64),))


@case
def cloned(paddle: Any) -> Any:
    """Every training run is followed by one of a clone, which is fed the same names."""
    static, functional = paddle.static, paddle.nn.functional
    hidden = functional.relu(static.nn.fc(static.data("x", [-1, 64]), 128))
    out = static.nn.fc(functional.dropout(hidden, 0.5), 10)
    target = static.data("target", [-1, 1], "int64")
    loss = functional.cross_entropy(out, target).mean()
    other = static.default_main_program().clone()
    again = other.global_block().ops[-1].results()[0]
    paddle.optimizer.Adam(0.1).minimize(loss)
    inputs = ("x", "float32", 64), ("target", "int64", 1)
    steps = fed(loss, inputs), fed(again, inputs, other)

    def run(executor: Any, batch: int) -> None:
        for one in steps:
            one(executor, batch)

    return run


@case
def two_programs(paddle: Any) -> Any:
    """Two networks under guards of their own, trained in turn."""
    static = paddle.static
    runs = []
    for width in (32, 96):
        main = static.Program()
        with static.program_guard(main, static.default_startup_program()):
            hidden = paddle.tanh(static.nn.fc(static.data("x", [-1, 64]), width))
            loss = paddle.mean(static.nn.fc(hidden, 1))
            paddle.optimizer.SGD(0.1).minimize(loss)
        runs.append(fed(loss, (("x", "float32", 64),), main))

    def run(executor: Any, batch: int) -> None:
        for one in runs:
            one(executor, batch)

    return run


@case
def kept_results(paddle: Any) -> Any:
    """A script holds on to what it fetched last."""
    static = paddle.static
    hidden = static.data("x", [-1, 64])
    out = paddle.exp(static.nn.fc(hidden, 256))
    loss = paddle.mean(out)
    paddle.optimizer.SGD(0.1).minimize(loss)
    kept: list[Any] = []

    def run(executor: Any, batch: int) -> None:
        kept[:] = executor.run(feed={"x": floats(batch, 64)}, fetch_list=[out, loss])

    return run


@case
def rates_that_change(paddle: Any) -> Any:
    static = paddle.static
    hidden = paddle.nn.functional.relu(static.nn.fc(static.data("x", [-1, 64]), 128))
    rate = paddle.optimizer.lr.StepDecay(0.1, 2)
    adam = paddle.optimizer.Adam(rate)
    step = trained(paddle, static.nn.fc(hidden, 10), adam, ("x", "float32", 64))

    def run(executor: Any, batch: int) -> None:
        step(executor, batch)
        rate.step()

    return run


def main() -> None:
    """Run every case and print its peaks and what is held after a run, by batch size."""
    way = sys.argv[1]
    meter = Meter(way)
    paddle = meter.paddle
    paddle.enable_static()
    static = paddle.static
    found: dict[str, list[int]] = {}
    for name in sys.argv[2:] or CASES:
        for batch in BATCHES:
            gc.collect()
            before = meter.held()
            with (
                static.scope_guard(static.Scope()),
                static.program_guard(static.Program(), static.Program()),
                paddle.utils.unique_name.guard(),
            ):
                run = CASES[name](paddle)
                executor = static.Executor(paddle.CPUPlace())
                executor.run(static.default_startup_program())
                peaks, rests = [], []
                for _ in range(STEPS[way]):
                    meter.reset()
                    run(executor, batch)
                    peaks.append(meter.peak() - before)
                    rests.append(meter.held() - before)
            found[f"{name} {batch}"] = [
                min(peaks[FIRST:]), Counter(rests[FIRST:]).most_common(1)[0][0]
            ]  # fmt: skip
            del run, executor
    print(json.dumps(found))


if __name__ == "__main__":
    main()
