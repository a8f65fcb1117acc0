"""Pictures on disk have no known size until a Resize or a crop sets one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconsole.preflight import Analysis

Scan = Callable[..., Analysis]
TEXT = """
import cv2
import numpy as np
import paddle
from paddle.vision import transforms as T
from PIL import Image

class Data(paddle.io.Dataset):
    def __getitem__(self, i):
        {sample}
        return img, i % 2
    def __len__(self):
        return 1000

net = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3), paddle.nn.Flatten(), paddle.nn.Linear({n}, 2))
opt = paddle.optimizer.SGD(parameters=net.parameters())
for x, y in paddle.io.DataLoader(Data(), batch_size=8):
    loss = paddle.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    opt.step()
    opt.clear_grad()
"""
SIZED = 8 * 22 * 22


@pytest.mark.parametrize(
    "sample",
    [
        "img = np.array(Image.open(str(i)).convert('RGB'))\n"
        "img = T.Compose([T.Resize((24, 24)), T.ToTensor()])(img)",
        "img = np.asarray(cv2.imread(str(i)), 'float32')\n"
        "img = T.ToTensor()(T.CenterCrop(24)(T.Resize(30)(img)))",
        "img = cv2.cvtColor(cv2.imread(str(i)), cv2.COLOR_BGR2RGB)\n"
        "img = T.Transpose()(T.RandomCrop(24)(img)).astype('float32')",
        "img = cv2.imread(str(i)).transpose([2, 0, 1])\n"
        "y, x = np.random.randint(0, img.shape[1] - 24), np.random.randint(0, img.shape[2] - 24)\n"
        "img = img[:, y:y + 24, x:x + 24].astype('float32')",
        "img = np.transpose(cv2.imread(str(i)), (2, 0, 1))[:, 4:28, 4:28].astype('float32')",
        "side = np.array([24, 24])\nimg = np.zeros((3, side[0], side[1]), 'float32')",
        "img = cv2.imread(str(i)).astype('float32')\n"
        "assert isinstance(img, np.ndarray)\n"
        "img = cv2.resize(img, (24, 24)).transpose(2, 0, 1)",
        "with open('/data/' + str(i), 'rb') as f:\n    img = f.read()\n"
        "if isinstance(img, np.ndarray):\n    img = img.copy()\n"
        "elif isinstance(img, bytes):\n"
        "    img = cv2.imdecode(np.frombuffer(img, dtype='uint8'), 1)\n"
        "assert img.shape[2] == 3\n"
        "img = cv2.resize(img[:, :, ::-1], (24, 24)).transpose((2, 0, 1)).astype('float32')",
        "img = paddle.vision.image_load(str(i)).convert('HSV')\n"
        "img = img.transform(img.size, Image.AFFINE, (1, 0.2, 0, 0, 1, 0)).convert('RGB')\n"
        "img = T.Compose([T.Resize((24, 24)), T.ToTensor()])(img)",
        "h, s, v = cv2.split(cv2.cvtColor(cv2.imread(str(i)), cv2.COLOR_BGR2HSV))\n"
        "img = cv2.merge((h, s, cv2.LUT(v, np.arange(256)))).astype('float32')\n"
        "img = cv2.resize(img, (24, 24)).transpose(2, 0, 1)",
        "img = np.asarray(Image.open(str(i)).convert('RGB'))\n"
        "img = cv2.resize(img, (24, 24)).transpose(2, 0, 1).astype('float32')",
    ],
)
def test_a_later_resize_or_crop_gives_the_size(scan: Scan, sample: str) -> None:
    text = TEXT.format(sample=sample.replace("\n", "\n        "), n=SIZED)
    known = TEXT.format(sample="img = np.zeros((3, 24, 24), 'float32')", n=SIZED)
    found, expected = scan(text).estimate(), scan(known).estimate()
    assert found.errors == ()
    assert found.memory is not None, found.unknowns
    assert expected.memory is not None
    assert found.memory.tensors_peak_mib == expected.memory.tensors_peak_mib


@pytest.mark.parametrize(
    "sample",
    [
        "img = np.asarray(cv2.imread(str(i)), 'float32')\n"
        "img = paddle.to_tensor(np.transpose(img, (2, 0, 1)), dtype='float32')",
        "img = np.transpose(cv2.imread(str(i)), (2, 0, 1)).astype('float32')",
        "img = np.array(np.load(str(i)), 'float32')\nimg = paddle.to_tensor(img, dtype='float32')",
        "img = T.ToTensor()(Image.open(str(i)))",
    ],
)
def test_what_is_not_known_has_no_rank(scan: Scan, sample: str) -> None:
    """Neither a fault of the convolution that takes it, nor a figure: the size is asked for."""
    found = scan(TEXT.format(sample=sample.replace("\n", "\n        "), n=SIZED)).estimate()
    assert found.errors == ()
    assert found.memory is None
    assert not any("dimensions" in one.reason for one in found.unknowns)
    assert "x" in [ask.name for ask in found.asks]


CROP = """
        def crop(im, side, label=None):
            height, width = im.shape[0], im.shape[1]
            if height == side and width == side:
                return (im, ) if label is None else (im, label)
            if max(side - height, 0) > 0 or max(side - width, 0) > 0:
                im = cv2.copyMakeBorder(im, 0, side - height, 0, side - width, 0)
                height, width = im.shape[0], im.shape[1]
            top, left = np.random.randint(height - side + 1), np.random.randint(width - side + 1)
            im = im[top:(side + top), left:(left + side), :]
            if label is None:
                return (im, )
            return (im, label[top:(side + top), left:(left + side)])

        def flip(im, label):
            if np.random.rand() < 0.5:
                return im[:, ::-1], label[:, ::-1]
            if np.random.rand() < 0.5:
                im, label = im[::-1], label[::-1]
            return im, label

        def scaled(im, label):
            size = int(round(np.random.uniform() * im.shape[1])), int(round(0.5 * im.shape[0]))
            return cv2.resize(im, size), cv2.resize(label, size)

        label = np.asarray(Image.open(str(i)))
        img, label = flip(*scaled(cv2.imread(str(i)).astype('float32'), label))
        img, label = flip(*crop(img, 24, label))
        img = np.transpose(img / 255, (2, 0, 1)).astype('float32')
"""


def test_a_crop_of_a_picture_that_is_scaled_and_flipped_by_chance(scan: Scan) -> None:
    """Neither what chance decides nor the size on disk changes the size of a crop."""
    found = scan(TEXT.format(sample=CROP.strip(), n=SIZED)).estimate()
    known = TEXT.format(sample="img = np.zeros((3, 24, 24), 'float32')", n=SIZED)
    expected = scan(known).estimate()
    assert found.errors == ()
    assert found.memory is not None, found.unknowns
    assert expected.memory is not None
    assert found.memory.tensors_peak_mib == expected.memory.tensors_peak_mib
    assert any(note.startswith("Assumed: pictures on disk are larger") for note in found.notes)


def test_chance_that_decides_the_size_leaves_it_open(scan: Scan) -> None:
    sample = (
        "img = np.zeros((3, 24, 24), 'float32')\nimg = img if cv2.imread(str(i))[0, 0, 0] else 1"
    )
    found = scan(TEXT.format(sample=sample.replace("\n", "\n        "), n=SIZED)).estimate()
    assert found.memory is None or "bound" in found.flags


def test_a_product_of_sides_is_another_number(scan: Scan) -> None:
    sample = (
        "img = cv2.imread(str(i))\n"
        "h, w = img.shape[:2]\n"
        "img = np.zeros((3, 24 + h * w - h, 24), 'float32')"
    )
    found = scan(TEXT.format(sample=sample.replace("\n", "\n        "), n=SIZED)).estimate()
    assert found.memory is None
