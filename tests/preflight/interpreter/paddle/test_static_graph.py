"""Static programs have no views: a reshape takes a block, and 1-D convolutions have two."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.preflight import Analysis

PROGRAM = """
import numpy as np
import paddle
paddle.enable_static()
main, start = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, start):
    x = paddle.static.data('x', [None, 256], 'float32')
    y = paddle.static.data('y', [None, 1], 'float32')
    h = x
{net}
    out = paddle.static.nn.fc(h, 1)
    loss = paddle.mean(paddle.nn.functional.square_error_cost(out, y))
    paddle.optimizer.Adam(1e-3).minimize(loss)
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(start)
for step in range(4):
    a = np.zeros((2048, 256), 'float32')
    b = np.zeros((2048, 1), 'float32')
    (v,) = exe.run(main, feed={{'x': a, 'y': b}}, fetch_list=[loss])
"""
NETS = {
    "rows": (15.27, """
    for _ in range(4):
        h = paddle.static.nn.fc(h, 256, activation='relu')
"""),
    "sequences": (136.37, """
    h = paddle.reshape(h, [-1, 8, 32])
    for _ in range(4):
        h = paddle.static.nn.fc(h, 256, num_flatten_dims=2, activation='relu')
    h = paddle.mean(h, axis=1)
"""),
    "pictures": (260.14, """
    h = paddle.reshape(h, [-1, 1, 16, 16])
    for i in range(3):
        conv = paddle.nn.Conv2D(h.shape[1], 16, 3, padding=1)
        h = paddle.nn.functional.relu(paddle.nn.BatchNorm2D(16)(conv(h)))
    h = paddle.flatten(h, 1)
"""),
    "signals": (228.11, """
    h = paddle.reshape(h, [-1, 1, 256])
    for i in range(3):
        h = paddle.nn.functional.relu(paddle.nn.Conv1D(h.shape[1], 16, 3, padding=1)(h))
    h = paddle.flatten(h, 1)
"""),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_a_program_needs_what_paddle_was_measured_to_need(
    scan: Callable[..., Analysis], name: str
) -> None:
    """Peaks in MiB of Paddle 3.3.1's CPU allocator, at 2048 samples."""
    measured, net = NETS[name]
    memory = scan(PROGRAM.format(net=net.strip("\n"))).estimate(backend="cpu").memory
    assert memory is not None
    assert memory.tensors_peak_mib == pytest.approx(measured, rel=0.001)
