"""Measures, inside a container with one device, what a Paddle process costs beside its tensors.

It waits after each phase until the console, which reads the driver's figures meanwhile,
puts a file beside it. Each phase is one line of JSON on standard output.
"""

import json
import os
import sys
import time
from types import ModuleType
from typing import Dict

MARK = "gpuconsole-probe "
PATIENCE_S = 120.0
SMALL_CHUNKS = 16
SMALL_BYTES = 2**20 + 2**18
"""A size of which the driver cannot put two into one page of 2 MiB."""


def main() -> int:
    """Go through the phases; 3 when the console does not answer."""
    paddle = __import__("paddle")
    device = str(paddle.device.get_device())
    tell("begin", {"paddle": str(paddle.__version__), "device": device})
    if not device.startswith("gpu"):
        tell("end", {})
        return 0
    tensors = [paddle.ones([16])]
    if not stand("tensor", figures(paddle)):
        return 3
    square = paddle.ones([1024, 1024])
    float(paddle.matmul(square, square).sum())
    if not stand("matmul", figures(paddle)):
        return 3
    workspace = convolve(paddle)
    if not stand("convolution", dict(figures(paddle), workspace=workspace)):
        return 3
    tensors += [paddle.ones([SMALL_BYTES // 4]) for _ in range(SMALL_CHUNKS)]
    float(tensors[-1].sum())
    if not stand("chunks", dict(figures(paddle), chunks=SMALL_CHUNKS)):
        return 3
    tell("end", {})
    return 0


def convolve(paddle: ModuleType) -> int:
    """Run a convolution forward and backward; return the bytes it took beside its tensors."""
    cuda = paddle.device.cuda
    layer = paddle.nn.Conv2D(64, 64, 3, padding=1)
    pictures = paddle.ones([8, 64, 56, 56])
    before = int(cuda.memory_allocated())
    taken = layer(pictures)
    loss = taken.mean()
    loss.backward()
    float(loss)
    # Alive at the worst moment: the result, its gradient, the gradients of weight and bias.
    size = 4 * int(taken.size)
    weights = 4 * int(layer.weight.size + layer.bias.size)
    return max(0, int(cuda.max_memory_allocated()) - before - 2 * size - weights)


def figures(paddle: ModuleType) -> Dict[str, object]:
    """Return what Paddle's allocator says, bytes."""
    cuda = paddle.device.cuda
    return {
        "allocated": int(cuda.memory_allocated()),
        "reserved": int(cuda.memory_reserved()),
    }


def tell(phase: str, facts: Dict[str, object]) -> None:
    """Say which phase is reached."""
    sys.stdout.write(MARK + json.dumps(dict(facts, phase=phase)) + "\n")
    sys.stdout.flush()


def stand(phase: str, facts: Dict[str, object]) -> bool:
    """Say it and wait for the console; whether it answered."""
    tell(phase, facts)
    answer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "go-" + phase)
    deadline = time.time() + PATIENCE_S
    while not os.path.exists(answer):
        if time.time() > deadline:
            return False
        time.sleep(0.05)
    return True


if __name__ == "__main__":
    sys.exit(main())
