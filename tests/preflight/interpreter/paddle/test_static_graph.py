"""Static programs: no views, a scope that holds what is fed and fetched, decay that comes first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.core.estimate import Memory
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


WIDE = """
import numpy as np
import paddle
import paddle.nn.functional as F
paddle.enable_static()
main, start = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, start):
    x = paddle.static.data('x', [None, 4096], 'float32')
    y = paddle.static.data('y', [None, 1], 'float32')
{net}
    loss = paddle.mean(F.square_error_cost(out, y))
    paddle.optimizer.{optimizer}.minimize(loss)
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(start)
for step in range(8):
    a = np.zeros((256, 4096), 'float32')
    b = np.zeros((256, 1), 'float32')
    v = exe.run(main, feed={{'x': a, 'y': b}}, fetch_list=[{fetched}])
"""
HELD = {
    "input": (8.0166, "SGD(0.1)", "loss", """
    out = paddle.static.nn.fc(x, 1)
"""),
    "fetched": (20.0332, "SGD(0.1)", "loss, h", """
    h = x * 2.0
    out = paddle.static.nn.fc(h, 1)
"""),
    "pooled": (72.0324, "SGD(0.1)", "loss", """
    h = paddle.nn.Conv1D(1, 4, 3, padding=1)(paddle.reshape(x, [-1, 1, 4096]))
    h = F.max_pool1d(F.relu(h), 2)
    out = paddle.static.nn.fc(paddle.flatten(h, 1), 1)
"""),
    "recurrent": (47.5254, "SGD(0.1)", "loss", """
    h = paddle.nn.LSTM(512, 256)(paddle.reshape(x, [-1, 8, 512]))[0]
    out = paddle.static.nn.fc(h[:, -1], 1)
"""),
    "decay": (52.0128, "Adam(0.1, weight_decay=0.01)", "loss", """
    h = paddle.static.nn.fc(x, 512, activation='relu')
    out = paddle.static.nn.fc(h, 1)
"""),
    "table": (14.2825, "SGD(0.1)", "loss", """
    h = paddle.nn.Embedding(20000, 64, sparse=True)(paddle.cast(x[:, :8], 'int64'))
    out = paddle.static.nn.fc(paddle.sum(h, axis=1), 1)
"""),
}  # fmt: skip


@pytest.mark.parametrize("name", HELD)
def test_what_a_program_holds_beside_its_tensors_is_counted(
    scan: Callable[..., Analysis], name: str
) -> None:
    """What was fed and fetched before, weights of recurrent nets side by side, scaled parameters
    and whole gradients of tables: peaks in MiB of Paddle 3.3.1's CPU allocator, at 256 samples."""
    measured, optimizer, fetched, net = HELD[name]
    text = WIDE.format(net=net.strip("\n"), optimizer=optimizer, fetched=fetched)
    memory = scan(text).estimate(backend="cpu").memory
    assert memory is not None
    assert memory.tensors_peak_mib == pytest.approx(measured, rel=0.001)


def test_a_card_holds_no_copy_of_what_is_fetched(scan: Callable[..., Analysis]) -> None:
    """The host has it."""
    _, optimizer, fetched, net = HELD["fetched"]
    peaks = []
    for names in ("loss", fetched):
        text = WIDE.format(net=net.strip("\n"), optimizer=optimizer, fetched=names)
        memory = scan(text).estimate(backend="gpu").memory
        assert memory is not None
        peaks.append(memory.tensors_peak_mib)
    assert peaks[0] == pytest.approx(peaks[1], abs=0.01)


def test_a_sparse_table_of_an_older_program_has_a_gradient_of_its_rows(
    scan: Callable[..., Analysis],
) -> None:
    """`paddle.static.nn.embedding` runs in programs as before Paddle 3 alone."""
    _, optimizer, fetched, net = HELD["table"]
    older = net.replace("paddle.nn.Embedding(20000, 64, sparse=True)(", "table(").strip("\n")
    text = WIDE.format(net=older, optimizer=optimizer, fetched=fetched).replace(
        "paddle.enable_static()",
        "paddle.enable_static()\n"
        "def table(x): return paddle.static.nn.embedding(x, [20000, 64], is_sparse=True)",
    )
    memory = scan(text).estimate(backend="cpu").memory
    assert memory is not None
    assert memory.tensors_peak_mib < HELD["table"][0] - 1


FED = """
import numpy as np
import paddle
paddle.enable_static()
main, start = paddle.static.Program(), paddle.static.Program()
class Data(paddle.io.Dataset):
    def __getitem__(self, at):
        return np.zeros([256], 'float32'), np.zeros([1], 'int64')
    def __len__(self):
        return 20000
with paddle.static.program_guard(main, start):
    x = paddle.static.data('x', [None, 256], 'float32')
    y = paddle.static.data('y', [None, 1], 'int64')
    h = paddle.nn.functional.relu(paddle.static.nn.fc(x, 512))
    loss = paddle.nn.functional.cross_entropy(paddle.static.nn.fc(h, 10), y).mean()
    paddle.optimizer.SGD(0.1).minimize(loss)
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(start)
loader = paddle.io.DataLoader(Data(), batch_size=1000, drop_last=True, places=paddle.CPUPlace())
for one in loader:
    exe.run(main, feed={'x': one[0], 'y': one[1]}, fetch_list=[loss])
"""


def test_a_loader_has_made_one_batch_more_while_the_executor_holds_the_last(
    scan: Callable[..., Analysis],
) -> None:
    """What most steps took with Paddle 3.3.1 on a CPU; some took up to two batches more."""
    memory = scan(FED).estimate(backend="cpu").memory
    assert memory is not None
    assert memory.tensors_peak_mib * 2**20 == pytest.approx(11_927_348, abs=64)


NAMED = """
import numpy as np
import paddle
import paddle.nn.functional as F
paddle.enable_static()
x = paddle.static.data('x', [{rows}, 64], 'float32', lod_level=0)
y = paddle.static.data('y', [{rows}, 1], 'int64')
two = F.softmax(paddle.static.nn.fc(paddle.static.nn.fc(x, 256, activation='relu'), 2))
area, *counts = paddle.static.auc(two, y, num_thresholds=2**12, slide_steps=20)
margin = paddle.subtract(paddle.full([48, 1], 1.0, 'float32'), two[:, :1])
paddle.optimizer.Adam(1e-3).minimize(paddle.mean(margin))
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(paddle.static.default_startup_program())
for step in range(4):
    feed = {{'x': np.zeros((48, 64), 'float32'), 'y': np.zeros((48, 1), 'int64')}}
    exe.run(feed=feed, fetch_list=[area])
"""


def test_a_program_that_names_its_batch_size_is_not_wrong_for_another(
    scan: Callable[..., Analysis],
) -> None:
    """It is written down before anything is fed: how many samples there are is only supposed."""
    found = scan(NAMED.format(rows="None")).estimate(backend="cpu")
    assert found.errors == ()
    assert found.memory is not None
    exact = scan(NAMED.format(rows="48")).estimate(backend="cpu").memory
    assert exact is not None
    assert found.memory.tensors_peak_mib == exact.tensors_peak_mib
    wrong = NAMED.format(rows="None").replace("(48, 64)", "(47, 64)")
    assert scan(wrong).estimate(backend="cpu").errors == ()


SAVED = """
import numpy as np
import paddle
paddle.enable_static()
x = paddle.static.data('x', [None, 1024], 'float32')
loss = paddle.mean(paddle.static.nn.fc(x, 1024))
paddle.optimizer.Adam(1e-3).minimize(loss)
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(paddle.static.default_startup_program())
for step in range(3):
    exe.run(feed={'x': np.zeros((2, 1024), 'float32')}, fetch_list=[loss])
    paddle.static.save(paddle.static.default_main_program(), 'model')
"""


def test_saving_a_program_copies_parameters_and_states(scan: Callable[..., Analysis]) -> None:
    """24.03 MiB of Paddle 3.3.1's CPU allocator with NumPy 2; without saving 16.04."""
    memory = scan(SAVED).estimate(backend="cpu").memory
    assert memory is not None
    assert memory.tensors_peak_mib == pytest.approx(24.03, rel=0.001)
    on_card = scan(SAVED).estimate(backend="gpu").memory
    assert on_card is not None
    assert on_card.tensors_peak_mib < 17


FED_BY_A_LOADER = """
import numpy as np
import paddle
paddle.enable_static()
main, start = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, start):
    x = paddle.static.data('x', [None, {width}], 'float32')
    y = paddle.static.data('y', [None, 1], 'float32')
    h = paddle.static.nn.fc({taken}, 256, activation='relu')
    loss = paddle.mean(paddle.square(paddle.static.nn.fc(h, 1) - y))
    paddle.optimizer.Adam(1e-3).minimize(loss)

class Rows(paddle.io.Dataset):
    def __getitem__(self, i):
        return np.zeros((256,), 'float32'), np.zeros((1,), 'float32')
    def __len__(self):
        return 10000

exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(start)
for batch in paddle.io.DataLoader(Rows(), batch_size=512, return_list=True):
    (v,) = exe.run(main, feed={feed}, fetch_list=[loss])
"""
FEEDS = {
    "named": "{'x': batch[0], 'y': batch[1]}",
    "by the names of the inputs": "dict(zip([each.name for each in (x, y)], batch))",
}


def fed(
    scan: Callable[..., Analysis], feed: str, width: str = "256", taken: str = "x"
) -> Memory | None:
    """Return the memory at the loader's own batch size."""
    return scan(FED_BY_A_LOADER.format(feed=feed, width=width, taken=taken)).estimate().memory


def test_a_program_is_fed_with_as_many_samples_as_its_loader_gives(
    scan: Callable[..., Analysis],
) -> None:
    named = fed(scan, FEEDS["named"])
    assert named is not None
    assert named.tensors_peak_mib > 512 * 256 * 4 / 2**20
    assert fed(scan, FEEDS["by the names of the inputs"]) == named


def test_where_no_input_is_fed_by_a_known_name_the_loader_tells_or_nothing_does(
    scan: Callable[..., Analysis],
) -> None:
    named, unfed = fed(scan, FEEDS["named"]), fed(scan, "{'other': batch[0]}")
    assert named is not None
    assert unfed is not None
    # 2 samples, with which it was drafted, would take a hundredth.
    assert unfed.tensors_peak_mib == pytest.approx(named.tensors_peak_mib, rel=0.35)
    # Another extent that is open has no size from the loader.
    assert fed(scan, "{'other': batch[0]}", "None", "x[:, :1] * 2") is None
    loop = "for batch in paddle.io.DataLoader(Rows(), batch_size=512, return_list=True)"
    text = FED_BY_A_LOADER.format(feed="{'other': 1}", width="256", taken="x")
    found = scan(text.replace(loop, "for batch in range(4)")).estimate()
    assert found.memory is None
    assert any("how many samples" in one.reason for one in found.unknowns)
