"""Loops that train programs, which the meta tier is held against Paddle's own allocator with.

Paddle runs programs by several threads, which free some tensors late by chance: of many steps the
smallest peak is what a program needs. `python meta_programs.py real|meta` prints it for each case,
in bytes, and what is held after that step.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from typing import Any

from tests.real.meta.memory_meter import Meter

CASES: dict[str, Callable[..., Any]] = {}
STEPS = {"real": 60, "meta": 4}
FIRST = 2
"""Steps that are not counted: gradients and states are made."""


def case(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a case: `function(paddle)` returns a function that trains a step."""
    CASES[function.__name__] = function
    return function


def compiled(
    paddle: Any, net: Any, optimizer: Any, batch: Any, zero: bool = True, **options: bool
) -> Any:
    """Return a step of a network under `to_static`."""
    run = paddle.jit.to_static(net, **options)

    def step() -> None:
        run(batch()).mean().backward()
        optimizer.step()
        optimizer.clear_grad(zero)

    return step


@case
def wide_rows(paddle: Any) -> Any:
    """Large batches: what the program is given is held until its end."""
    nn = paddle.nn
    net = nn.Sequential(*[nn.Linear(16, 16) for _ in range(5)])
    sgd = paddle.optimizer.SGD(parameters=net.parameters())
    return compiled(paddle, net, sgd, lambda: paddle.rand([4096, 16]))


@case
def large_weights(paddle: Any) -> Any:
    """Small batches: the gradients of all parameters are there twice."""
    nn = paddle.nn
    net = nn.Sequential(*[nn.Linear(256, 256) for _ in range(5)])
    adam = paddle.optimizer.Adam(parameters=net.parameters())
    return compiled(paddle, net, adam, lambda: paddle.rand([8, 256]))


@case
def gradients_let_go(paddle: Any) -> Any:
    nn = paddle.nn
    net = nn.Sequential(*[nn.Linear(256, 256) for _ in range(5)])
    adam = paddle.optimizer.Adam(parameters=net.parameters())
    return compiled(paddle, net, adam, lambda: paddle.rand([8, 256]), zero=False)


@case
def behind_other_layers(paddle: Any) -> Any:
    """Only a part of the network is compiled."""
    nn = paddle.nn
    below, above = nn.Linear(128, 512), nn.Linear(512, 512)
    middle = nn.Sequential(*[m for _ in range(5) for m in (nn.Linear(512, 512), nn.Tanh())])
    run = paddle.jit.to_static(middle)
    sgd = paddle.optimizer.SGD(parameters=[*below.parameters(), *middle.parameters()])

    def step() -> None:
        above(run(below(paddle.rand([300, 128])))).mean().backward()
        sgd.step()
        sgd.clear_grad()

    return step


@case
def pictures(paddle: Any) -> Any:
    nn = paddle.nn
    net = nn.Sequential(
        nn.Conv2D(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2D(2), nn.Conv2D(6, 16, 5),
        nn.BatchNorm2D(16), nn.ReLU(), nn.MaxPool2D(2), nn.Flatten(), nn.Linear(400, 120),
        nn.Dropout(0.2), nn.Linear(120, 84), nn.Sigmoid(), nn.Linear(84, 10),
    )  # fmt: skip
    adam = paddle.optimizer.Adam(parameters=net.parameters())
    run = paddle.jit.to_static(net)

    def step() -> None:
        out = run(paddle.rand([64, 1, 28, 28]))
        nn.functional.cross_entropy(out, paddle.randint(0, 10, [64])).backward()
        adam.step()
        adam.clear_grad()

    return step


@case
def few_operators(paddle: Any) -> Any:
    """Fewer operators than Paddle compiles run as they are written: gradients are not there
    twice."""
    nn = paddle.nn
    net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256), nn.Linear(256, 8))
    adam = paddle.optimizer.Adam(parameters=net.parameters())
    return compiled(paddle, net, adam, lambda: paddle.rand([8, 256]))


@case
def few_operators_as_a_whole(paddle: Any) -> Any:
    nn = paddle.nn
    net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256), nn.Linear(256, 8))
    adam = paddle.optimizer.Adam(parameters=net.parameters())
    return compiled(paddle, net, adam, lambda: paddle.rand([8, 256]), full_graph=True)


@case
def cut_where_data_is_asked_for(paddle: Any) -> Any:
    """Where the Python needs a number, a program ends and another begins."""
    nn = paddle.nn
    first = nn.Sequential(*[nn.Linear(256, 256) for _ in range(3)])
    second = nn.Sequential(*[nn.Linear(256, 256) for _ in range(3)])

    class Network(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = first, second

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            if float(x.mean()) > 1e6:
                x = x / 2
            return self.second(x)

    net = Network()
    adam = paddle.optimizer.Adam(parameters=net.parameters())
    return compiled(paddle, net, adam, lambda: paddle.rand([8, 256]))


@case
def evaluated(paddle: Any) -> Any:
    """A network in evaluation keeps nothing for a backward pass, with no `no_grad` around it."""
    nn = paddle.nn
    net = nn.Sequential(*[nn.Linear(64, 64) for _ in range(6)])
    net.eval()
    run = paddle.jit.to_static(net)
    kept: list[Any] = []

    def step() -> None:
        kept[:] = [run(paddle.rand([2048, 64]))]

    return step


def main() -> None:
    """Run every case and print its peak above what was held before."""
    way = sys.argv[1]
    meter = Meter(way)
    paddle = meter.paddle
    found: dict[str, int] = {}
    for name in sys.argv[2:] or CASES:
        gc.collect()
        before, peaks = meter.held(), []
        step = CASES[name](paddle)
        for _ in range(STEPS[way]):
            meter.reset()
            step()
            peaks.append(meter.peak() - before)
        found[name] = min(peaks[FIRST:])
        del step
    print(json.dumps(found))


if __name__ == "__main__":
    main()
