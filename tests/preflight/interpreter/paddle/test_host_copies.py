"""What the CPU's allocator holds beside tensors: host copies, used batches, CTC's workspace."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.core.units import MIB
from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]

COPIES = """
import numpy as np
import paddle
kept = []
layer = paddle.nn.Linear(1024, 1024)
opt = paddle.optimizer.SGD(parameters=layer.parameters())
for step in range(4):
    y = layer(paddle.ones([256, 1024]))
    y.mean().backward()
    opt.step()
    opt.clear_grad()
    array = {array}
    del y
    array = {taken}
    kept = [array]
    big = paddle.zeros([4096, 1024])
    del big
"""
BATCH_MIB = 1.0
"""One batch of 256 x 1024 float32."""


def peak(scan: Scan, text: str, backend: str = "cpu") -> float:
    estimate = scan(text).estimate(backend=backend)
    assert estimate.memory is not None, estimate.unknowns
    return estimate.memory.tensors_peak_mib


def held(scan: Scan, array: str, taken: str, backend: str = "cpu") -> float:
    """Return the MiB that the array keeps when the largest tensor is made."""
    plain = peak(scan, COPIES.format(array="None", taken="None"), backend)
    return peak(scan, COPIES.format(array=array, taken=taken), backend) - plain


@pytest.mark.parametrize(
    "array", ["y.numpy()", "np.array(y)", "np.asarray(y)", "y.detach().numpy()"]
)
@pytest.mark.parametrize(
    "taken", ["array", "array[:8]", "array.reshape(-1)", "array.T", "array.transpose(1, 0)"]
)
def test_an_array_and_its_views_keep_the_copy(scan: Scan, array: str, taken: str) -> None:
    assert held(scan, array, taken) == pytest.approx(BATCH_MIB)


@pytest.mark.parametrize(
    "taken",
    ["array + 1", "array[0, 0]", "array.copy()", "array.sum(0)", "array[[0, 1]]", "array.tolist()"],
)
def test_what_is_computed_from_an_array_does_not(scan: Scan, taken: str) -> None:
    assert held(scan, "y.numpy()", taken) == pytest.approx(0.0)


def test_the_copy_of_a_view_is_one_of_all_it_looks_at(scan: Scan) -> None:
    assert held(scan, "y[:8].numpy()", "array") == pytest.approx(BATCH_MIB)


def test_a_device_holds_no_host_copies(scan: Scan) -> None:
    assert held(scan, "y.numpy()", "array", "gpu") == pytest.approx(0.0)


LOADER = """
import numpy as np
import paddle

class Samples(paddle.io.Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, i):
        x = np.zeros([1024], 'float32')
        return {sample}

layer = paddle.nn.Linear(1024, 4096)
opt = paddle.optimizer.SGD(parameters=layer.parameters())
for batch in paddle.io.DataLoader(Samples(), batch_size=256):
    x = {taken}
    layer(x).mean().backward()
    opt.step()
    opt.clear_grad()
"""


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_a_used_batch_of_bare_arrays_stays(scan: Scan, backend: str) -> None:
    bare = LOADER.format(sample="x", taken="batch")
    in_tuple = LOADER.format(sample="(x,)", taken="batch[0]")
    more = peak(scan, bare, backend) - peak(scan, in_tuple, backend)
    assert more == pytest.approx(BATCH_MIB)
    said = [note for note in scan(bare).estimate(backend="cpu").notes if "single tensors" in note]
    assert len(said) == 1
    assert not any("single tensors" in note for note in scan(in_tuple).estimate().notes)


CTC = """
import paddle
batch_size = 8
layer = paddle.nn.Linear(16, 128)
opt = paddle.optimizer.SGD(parameters=layer.parameters())
for _ in range(3):
    x = layer(paddle.ones([60, batch_size, 16]))
    labels = paddle.zeros([batch_size, {width}], 'int32')
    times = paddle.full([batch_size], 60, 'int64')
    lengths = paddle.full([batch_size], {width}, 'int64')
    paddle.nn.functional.ctc_loss(x, labels, times, lengths).backward()
    opt.step()
    opt.clear_grad()
"""


def test_ctc_works_in_a_buffer_as_wide_as_its_labels(scan: Scan) -> None:
    """Paddle 3.3.1 needs 20,640 bytes more for 25 labels than for 20, beside the labels' own."""
    five = peak(scan, CTC.format(width=25)) - peak(scan, CTC.format(width=20))
    assert five * MIB == pytest.approx(20_640 + 8 * 5 * 4, abs=1)


SAVING = """
import paddle
net = paddle.nn.Linear(1024, 1024, bias_attr=False)
opt = paddle.optimizer.Momentum(parameters=net.parameters())
for epoch in range(50):
    net(paddle.ones([2, 1024])).mean().backward()
    opt.step()
    {saved}
    opt.clear_grad(set_to_zero=False)
"""
NET_MIB = 4.0
"""The weight of 1024 x 1024 float32; its momentum takes as much."""


@pytest.mark.parametrize(
    ("saved", "copies"),
    [
        ("paddle.save(net.state_dict(), 'net.pdparams')", 1),
        ("paddle.save(opt.state_dict(), 'opt.pdopt')", 1),
        ("paddle.save([net.weight, net.weight], 'both.pd')", 1),
        ("paddle.save({'a': net.weight, 'b': net.weight}, 'both.pd')", 2),
        ("paddle.save({'n': net.state_dict(), 'o': opt.state_dict(), 'at': epoch}, 'all.pd')", 2),
        ("if epoch % 10 == 9: paddle.save(net.state_dict(), f'{epoch}.pdparams')", 1),
    ],
)
def test_what_is_saved_is_copied_at_once_on_a_cpu(scan: Scan, saved: str, copies: int) -> None:
    plain, text = SAVING.format(saved=""), SAVING.format(saved=saved)
    more = peak(scan, text) - peak(scan, plain)
    assert more == pytest.approx(copies * NET_MIB, abs=0.05)
    assert peak(scan, text, "gpu") == pytest.approx(peak(scan, plain, "gpu"))


FITTED = """
import numpy as np
import paddle

class Samples(paddle.io.Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        return np.zeros(1024, "float32"), np.zeros(1, "int64")

class Network(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = paddle.nn.Linear(1024, 1024, bias_attr=False)
    def forward(self, x):
        return self.first(x)

network = Network()
model = paddle.Model(network)
model.prepare(paddle.optimizer.Adam(parameters=network.parameters()), paddle.nn.CrossEntropyLoss())
model.fit(Samples(), batch_size=4, epochs=20{saved})
{after}
"""
FITTED_MIB = 4.0
"""Gradients are kept and zeroed; the step itself needs the bytes of a weight for a moment, what is
saved the two states of Adam; waiting batches are gone by then. Measured with Paddle 3.3.1: a layer
of 8 MiB takes 40.20 MiB without, 48.05
MiB with each of these."""


@pytest.mark.parametrize(
    ("saved", "after"),
    [
        (", save_dir='out'", ""),
        (", eval_data=None, save_dir='out', save_freq=5", ""),
        (", callbacks=[paddle.callbacks.ModelCheckpoint(5, 'out')]", ""),
        (", callbacks=paddle.callbacks.ModelCheckpoint(save_dir='out')", ""),
        ("", "model.save('out/model')"),
    ],
)
def test_a_model_that_is_fitted_copies_what_it_saves(scan: Scan, saved: str, after: str) -> None:
    plain = FITTED.format(saved="", after="")
    text = FITTED.format(saved=saved, after=after)
    assert peak(scan, text) - peak(scan, plain) == pytest.approx(FITTED_MIB, abs=0.2)
    assert peak(scan, text, "gpu") == pytest.approx(peak(scan, plain, "gpu"))


@pytest.mark.parametrize(
    ("saved", "after"),
    [
        (", callbacks=[paddle.callbacks.ModelCheckpoint()]", ""),
        (", save_dir='out', callbacks=[paddle.callbacks.ModelCheckpoint()]", ""),
        (", save_dir=None", ""),
        ("", "model.save('out/model', training=False)"),
    ],
)
def test_a_model_that_saves_nothing_to_train_on_copies_nothing(
    scan: Scan, saved: str, after: str
) -> None:
    """A checkpoint of the user's own takes the place of the one that a folder asks for."""
    plain = FITTED.format(saved="", after="")
    text = FITTED.format(saved=saved, after=after)
    assert peak(scan, text) == pytest.approx(peak(scan, plain))
