"""What transforms make of what `ToTensor` gave: its channels stand first, as of all tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]
TEXT = """
import paddle
from paddle.vision import transforms as T

data = paddle.vision.datasets.MNIST(mode="train", transform=T.Compose([{transforms}]))
net = paddle.nn.Sequential(paddle.nn.Conv2D({channels}, 8, 3), paddle.nn.Flatten(),
                           paddle.nn.Linear(8 * {side} * {side}, 10))
opt = paddle.optimizer.SGD(parameters=net.parameters())
for x, y in paddle.io.DataLoader(data, batch_size=8):
    loss = paddle.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""


@pytest.mark.parametrize(
    ("transforms", "channels", "side"),
    [
        ("T.ToTensor(), T.Resize((32, 32))", 1, 30),
        ("T.ToTensor(), T.Pad(2)", 1, 30),
        ("T.ToTensor(), T.Normalize([0.5], [0.5]), T.Resize(32)", 1, 30),
        ("T.ToTensor(), T.RandomHorizontalFlip(), T.CenterCrop(20)", 1, 18),
        ("T.ToTensor(), T.Grayscale(3)", 3, 26),
    ],
)
def test_a_transform_behind_to_tensor_changes_the_last_two_axes(
    scan: Scan, transforms: str, channels: int, side: int
) -> None:
    text = TEXT.format(transforms=transforms, channels=channels, side=side)
    found = scan(text).estimate()
    assert found.errors == ()
    assert found.memory is not None, found.unknowns


@pytest.mark.parametrize("backend", ["pil", "cv2"])
def test_normalizing_a_grey_picture_puts_its_channel_first(scan: Scan, backend: str) -> None:
    transforms = "T.Resize([32, 32]), T.Normalize([127.5], [127.5], data_format='CHW')"
    text = TEXT.format(transforms=transforms, channels=1, side=30)
    found = scan(text.replace("MNIST(", f"MNIST(backend={backend!r}, ")).estimate()
    assert found.errors == ()
    assert found.memory is not None, found.unknowns
